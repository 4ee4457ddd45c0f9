"""`agentrig bench retrieval`: honest figures from a user's own documents and questions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from agent_core.errors import ConfigError
from agent_core.messages import Chunk, Hit
from agent_core.rag.documents import load_documents
from harness.bench.questions import Question, load_questions
from harness.bench.retrieval import score
from harness.bench.setups import chunk_with
from harness.cli import main

TEXT = "# 渡轮\n\n渡轮早上六点开。\n\n# Rent\n\nRent is due on the first. Call ERR-4012.\n"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Two documents and questions about one of them."""
    (tmp_path / "docs/sub").mkdir(parents=True)
    (tmp_path / "docs/a.md").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "docs/sub/b.txt").write_text("Something else entirely.", encoding="utf-8")
    (tmp_path / "docs/picture.png").write_bytes(b"\xff\xd8")
    return tmp_path / "docs"


def questions(path: Path, *pairs: tuple[str, str]) -> Path:
    """Write questions with the spans of their answers in the first document."""
    lines = [
        {"query": query, "source": "a.md", "start": TEXT.index(answer),
         "end": TEXT.index(answer) + len(answer)}
        for query, answer in pairs
    ]  # fmt: skip
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


def run(*arguments: object) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["bench", "retrieval", *map(str, arguments)])


def test_a_perfect_retriever_scores_one(corpus: Path, tmp_path: Path) -> None:
    """Offsets count code points after the byte order mark; the report is JSON and a picture."""
    asked = questions(
        tmp_path / "q.jsonl", ("渡轮几点开？", "渡轮早上六点开。"), ("what is ERR-4012", "ERR-4012")
    )
    plot = tmp_path / "p.svg"
    done = run("--corpus", corpus, "--queries", asked, "--json", "--plot", plot)
    assert done.exit_code == 0, done.output
    result: dict[str, Any] = json.loads(done.stdout)["results"][0]
    assert (result["retriever"], result["questions"], result["chunks"]) == ("bm25", 2, 3)
    assert result["recall_at_1"] == result["recall_at_budget"] == result["mrr"] == 1.0
    assert result["embed_ms"] is None
    assert 0 < result["search_ms"][0] <= result["search_ms"][1]
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def asked_with(path: Path, answer: object) -> Path:
    """A question with the passage that answers it."""
    entry = {"query": "rent due", "source": "a.md", "answer": answer}
    path.write_text(json.dumps(entry), encoding="utf-8")
    return path


def test_an_answer_may_be_quoted(corpus: Path, tmp_path: Path) -> None:
    """Its place is found, however the lines of the quotation are broken."""
    quoted = asked_with(tmp_path / "q.jsonl", "due\n  on the first.")
    done = run("--corpus", corpus, "--queries", quoted, "--json")
    assert json.loads(done.stdout)["results"][0]["recall_at_1"] == 1.0
    (question,) = load_questions(quoted, load_documents(corpus))
    assert TEXT[question.start : question.end] == "due on the first."


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("due on Friday", "stands not in 'a.md'; expected once"),
        ("Rent", "stands 2 times in 'a.md'"),
        (" ", "expected once"),
        (5, "or start and end (a span inside it)"),
    ],
)
def test_a_passage_that_does_not_stand_there_once_is_an_error(
    corpus: Path, tmp_path: Path, answer: object, message: str
) -> None:
    """With the line and what to do."""
    done = run("--corpus", corpus, "--queries", asked_with(tmp_path / "q.jsonl", answer))
    assert done.exit_code == 2
    said = " ".join(done.output.split())
    assert "q.jsonl, line 1: " in said
    assert message in said


def test_the_table_compares_chunkers(corpus: Path, tmp_path: Path) -> None:
    """One row each, nothing cut off."""
    asked = questions(tmp_path / "q.jsonl", ("rent due", "Rent is due on the first."))
    done = run(
        "--corpus", corpus, "--queries", asked, "--chunker", "structure:50", "--chunker", "fixed:20"
    )
    assert done.exit_code == 0, done.output
    assert "structure:50" in done.output
    assert "fixed:20" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--chunker", "magic:3"), "expected a chunker"),
        (("--retriever", "openai:m"), "--base-url"),
        (("--tune", "q.jsonl"), "split it"),
    ],
)
def test_mistakes_are_explained(
    corpus: Path, tmp_path: Path, arguments: tuple[str, str], message: str
) -> None:
    """With exit code 2, and never a weight learned on the set that is scored."""
    asked = questions(tmp_path / "q.jsonl", ("rent", "Rent is due"))
    option, value = arguments
    value = str(asked) if value == "q.jsonl" else value
    done = run("--corpus", corpus, "--queries", asked, option, value)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_words_alone_have_nothing_to_be_weighed_against(corpus: Path, tmp_path: Path) -> None:
    """To ask for a weight without vectors is a mistake, not a silence."""
    asked = questions(tmp_path / "q.jsonl", ("rent", "Rent is due"))
    labels = questions(tmp_path / "l.jsonl", ("when is rent due", "Rent is due"))
    done = run("--corpus", corpus, "--queries", asked, "--tune", labels)
    assert done.exit_code == 2
    assert "add a --retriever" in " ".join(done.output.split())


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"query": "x", "source": "a.md", "start": 0, "end": 999}',
             '{"query": "x", "source": "gone.md", "start": 0, "end": 1}',
             '{"query": "x", "source": "a.md", "start": 3, "end": 3}'],
)  # fmt: skip
def test_questions_must_point_into_the_corpus(corpus: Path, tmp_path: Path, line: str) -> None:
    """The error names the line."""
    (tmp_path / "q.jsonl").write_text(line, encoding="utf-8")
    done = run("--corpus", corpus, "--queries", tmp_path / "q.jsonl")
    assert done.exit_code == 2
    assert "line 1" in done.output


def test_a_server_that_is_not_there_has_its_own_exit_code(corpus: Path, tmp_path: Path) -> None:
    """The code is 3, as for every command that finds no server."""
    asked = questions(tmp_path / "q.jsonl", ("rent", "Rent is due"))
    done = run(
        "--corpus", corpus, "--queries", asked, "--retriever", "ollama:m", "--base-url",
        "http://127.0.0.1:9",
    )  # fmt: skip
    assert done.exit_code == 3


def hit(start: int, end: int, source: str = "a") -> Hit:
    """A hit over this span."""
    return Hit(Chunk(f"{source}{start}", "x" * (end - start), source, start, end), 1.0)


def test_recall_is_of_characters_and_the_budget_cuts() -> None:
    """Overlap counts once; a chunk that goes over the budget counts as far as it fits."""
    question = Question("q", "a", 100, 200)
    assert score(question, [hit(50, 150), hit(120, 160), hit(150, 300)], 10_000) == (0.5, 1, 1, 1)
    assert score(question, [hit(0, 40), hit(100, 200)], 90) == (0, 1, 0.5, 0.5)
    assert score(question, [hit(100, 200, "b")], 500) == (0, 0, 0, 0)


def test_fixed_chunks_cover_everything() -> None:
    """They are what others are compared with."""
    from agent_core.rag.documents import Document

    chunks = chunk_with("fixed:10+3", [Document("a", "0123456789" * 5)])
    assert [chunk.start for chunk in chunks[:3]] == [0, 7, 14]
    assert chunks[-1].end == 50
    with pytest.raises(ConfigError):
        chunk_with("fixed:5+5", [Document("a", "text")])
