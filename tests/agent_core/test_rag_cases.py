"""Cases after public bug reports, from a file that says where each comes from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_core.messages import Chunk
from agent_core.rag import DenseRetriever, LexicalRetriever, chunk_text
from tests.agent_core.rag_helpers import LetterEmbedder

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(
        json.loads,
        (Path(__file__).parent.parent / "data/rag/cases.jsonl")
        .read_text(encoding="utf-8")
        .splitlines(),
    )
}
REFUSED = ["rag-06", "rag-07"]
CHUNKED = [n for n, case in CASES.items() if "chunk_size" in case["input"] and n not in REFUSED]


def document(given: dict[str, Any]) -> str:
    """The text of a case, however it is written down."""
    if "document_build" in given:
        return "".join(piece * count for piece, count in given["document_build"])
    if "document_json_escaped" in given:
        text: str = json.loads(f'"{given["document_json_escaped"]}"')
        return text
    return str(given["document"])


def pieces(name: str) -> tuple[str, list[Chunk]]:
    """The text of a case and its chunks."""
    given = CASES[name]["input"]
    text = document(given)
    options = {"chunk_size": given["chunk_size"], "overlap": given.get("overlap", 0)}
    return text, chunk_text(text, **options)


@pytest.mark.parametrize("name", CHUNKED)
def test_chunking_ends_soon_within_the_limit_and_encodes(name: str) -> None:
    """Whatever else a case expects; the overlaps that cannot work have a test of their own."""
    began = time.monotonic()
    _, chunks = pieces(name)
    assert time.monotonic() - began < 2 * 10  # with slack for a busy machine
    for chunk in chunks:
        assert len(chunk.text) <= CASES[name]["input"]["chunk_size"]
        chunk.text.encode("utf-8")


@pytest.mark.parametrize("name", ["rag-01", "rag-03"])
def test_chinese_is_cut_after_its_sentences(name: str) -> None:
    """Without a blank to go by, and not where a unit is longer than a chunk."""
    text, chunks = pieces(name)
    assert "".join(chunk.text for chunk in chunks) == text
    wanted = CASES[name]["expect"].get("share_of_chunks_ending_at")
    if wanted:
        ending = sum(chunk.text[-1] in wanted["chars"] for chunk in chunks)
        assert ending / len(chunks) >= wanted["at_least"]


def test_cuts_fall_after_semicolons_and_stops() -> None:
    """A text that has them is cut nowhere else."""
    _, chunks = pieces("rag-04")
    marks = CASES["rag-04"]["expect"]["cuts_preferably_after"]
    assert all(chunk.text[-1] in marks for chunk in chunks[:-1])


def test_no_chunk_begins_with_a_closing_mark() -> None:
    """They stay with their sentence."""
    _, chunks = pieces("rag-05")
    assert not any(chunk.text[0] in "。！？；，、”……" for chunk in chunks)


@pytest.mark.parametrize("name", REFUSED)
def test_an_overlap_that_is_no_smaller_than_a_chunk_is_refused(name: str) -> None:
    """Instead of never ending."""
    with pytest.raises(ValueError, match="overlap"):
        pieces(name)


def test_a_long_fence_is_balanced_in_every_chunk() -> None:
    """And no row of it is cut."""
    text, chunks = pieces("rag-13")
    rows = [line for line in text.splitlines() if line.startswith("row")]
    assert [sum(f"{row}\n" in chunk.text for chunk in chunks) for row in rows] == [1] * len(rows)
    assert all(chunk.text.count("```") % 2 == 0 for chunk in chunks)


@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"])
def test_paragraphs_end_at_any_kind_of_blank_line(newline: str) -> None:
    """The line ends CR LF, LF and CR all count."""
    given = CASES["rag-17"]["input"]
    text = given["document"].replace("\r\n", newline)
    chunks = chunk_text(text, chunk_size=given["chunk_size"])
    assert len(chunks) == CASES["rag-17"]["expect"]["chunks"]


def test_blank_documents_are_never_returned() -> None:
    """No retriever finds a document without text."""
    given = CASES["rag-21"]["input"]
    chunks = [Chunk(str(n), text, "s", 0, 1) for n, text in enumerate(given["documents"])]
    for retriever in (LexicalRetriever(chunks), DenseRetriever(LetterEmbedder(), chunks)):
        texts = [hit.chunk.text for hit in retriever.retrieve(given["query"], given["k"])]
        assert not set(texts) & set(CASES["rag-21"]["expect"]["never_returned"])


def test_damaged_unicode_is_replaced() -> None:
    """What is not damaged is kept."""
    _, chunks = pieces("rag-25")
    text = "".join(chunk.text for chunk in chunks)
    assert all(part in text for part in CASES["rag-25"]["expect"]["kept"])


def test_a_document_added_twice_is_found_once() -> None:
    """No retriever gives the same document twice."""
    given = CASES["rag-27"]["input"]
    for retriever in (LexicalRetriever(), DenseRetriever(LetterEmbedder())):
        for _ in range(2):
            retriever.add(
                chunk_text(given["add_twice"]["text"], source=given["add_twice"]["source"])
            )
        assert len(retriever.retrieve(given["query"], given["k"])) == 1


def test_nothing_depends_on_the_hashing_of_a_process() -> None:
    """Terms, scores and order are the same after each start."""
    code = (
        "from agent_core.messages import Chunk; from agent_core.rag import LexicalRetriever;"
        f"texts = {CASES['rag-30']['input']['texts']!r} + ['ferry ferry', '杭州 ferry'];"
        "r = LexicalRetriever(Chunk(str(n), t, 's', 0, 1) for n, t in enumerate(texts));"
        "print([(h.chunk.id, h.score) for q in texts for h in r.retrieve(q, 9)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, timeout=60,
            env={**os.environ, **process},
        ).stdout
        for process in CASES["rag-30"]["input"]["processes"]
    }  # fmt: skip
    assert len(outputs) == 1
