"""Qdrant behind the same protocol, in its local mode."""

from __future__ import annotations

import pytest

from agent_core.errors import ConfigError, RetrievalError
from agent_core.rag import DenseRetriever
from agent_core.rag.qdrant import QdrantRetriever
from tests.agent_core.rag_helpers import LetterEmbedder, chunk

DOCS = [
    chunk("a", "aaab", lang="en"),
    chunk("b", "bbba", lang="en"),
    chunk("城", "城城", lang="zh", headings=["指南"]),
    chunk("blank", " \n"),
]


def test_it_finds_what_the_index_in_memory_finds() -> None:
    """The same chunks, whole, in the same order, with the same scores."""
    qdrant = QdrantRetriever(LetterEmbedder(), "docs")
    assert qdrant.add(DOCS) == ["a", "b", "城"]
    ours = DenseRetriever(LetterEmbedder(), DOCS)
    for query in ("aab", "bb", "城aab"):
        expected, got = ours.retrieve(query, 3), qdrant.retrieve(query, 3)
        assert [hit.chunk for hit in got] == [hit.chunk for hit in expected]
        assert [h.score for h in got] == pytest.approx([h.score for h in expected], abs=1e-5)
    assert qdrant.retrieve("  ") == []


def test_adding_replaces_and_deleting_removes() -> None:
    """By the chunk's own id."""
    qdrant = QdrantRetriever(LetterEmbedder(), "docs")
    qdrant.add(DOCS)
    qdrant.add([chunk("a", "zzz")])
    assert len(qdrant) == 3
    assert qdrant.retrieve("zz", 1)[0].chunk.text == "zzz"
    qdrant.delete(["a", "unknown"])
    assert len(qdrant) == 2


def test_filters_take_metadata_and_sources() -> None:
    """One value or any of several."""
    qdrant = QdrantRetriever(LetterEmbedder(), "docs")
    qdrant.add(DOCS)
    assert [hit.chunk.id for hit in qdrant.retrieve("a", 9, where={"lang": "zh"})] == ["城"]
    found = qdrant.retrieve("a", 9, where={"lang": ["en", "zh"], "source": "b.md"})
    assert [hit.chunk.id for hit in found] == ["b"]


def test_a_collection_of_another_model_is_refused() -> None:
    """Of another size or another name."""
    from qdrant_client import QdrantClient  # slow: not by every process that collects this file

    client = QdrantClient(":memory:")
    QdrantRetriever(LetterEmbedder(), "docs", client=client).add(DOCS)
    QdrantRetriever(LetterEmbedder(), "docs", client=client)
    for embedder in (LetterEmbedder("other"), LetterEmbedder(dimension=8)):
        with pytest.raises(RetrievalError, match="another collection"):
            QdrantRetriever(embedder, "docs", client=client)
    with pytest.raises(ConfigError, match="not both"):
        QdrantRetriever(LetterEmbedder(), "docs", client=client, url="http://127.0.0.1:1")
