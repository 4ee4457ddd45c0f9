"""Vector search beside a bare dot product, lexical search, chunking (peers: retrieval_search)."""

from __future__ import annotations

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agent_core.messages import Chunk
from agent_core.rag import LexicalRetriever, VectorIndex, chunk_text
from benchmarks.chunkers import probe
from benchmarks.retrieval_search import TOP, clustered


@pytest.mark.parametrize("rows", [1_200, 10_000])
@pytest.mark.parametrize("way", ["bare dot", "exact", "signs first"])
def test_vector_search(benchmark: BenchmarkFixture, rows: int, way: str) -> None:
    """Five of so many, ids and texts included."""
    vectors, queries = clustered(rows, 1)
    chunks = [Chunk(str(n), f"text {n}", "s", 0, 6) for n in range(rows)]
    if way == "bare dot":
        benchmark(lambda: [chunks[n] for n in np.argsort(-(vectors @ queries[0]))[:TOP]])
        return
    index = VectorIndex("bench", prefilter=way == "signs first")
    index.add(chunks, vectors)
    assert len(benchmark(index.search, queries[0], TOP)) == TOP


def test_lexical_search(benchmark: BenchmarkFixture) -> None:
    """A mixed question over 1,200 chunks."""
    retriever = LexicalRetriever(
        Chunk(str(n), f"第{n}座灯塔建于一九零三年, item E{n} of the harbour", "s", 0, 1)
        for n in range(1_200)
    )
    assert benchmark(retriever.retrieve, "灯塔 E77 in the harbour?")[0].chunk.id == "77"


def test_chunking(benchmark: BenchmarkFixture) -> None:
    """A document with prose in two languages, a table and code."""
    text = probe() * 10
    benchmark.extra_info["megabytes"] = len(text.encode()) / 1e6
    benchmark(chunk_text, text)
