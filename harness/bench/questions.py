"""Questions about a user's documents, each with the span of a source that answers it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_core.errors import ConfigError
from agent_core.rag.documents import Document


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the span of a source that answers it, in code points."""

    query: str
    source: str
    start: int
    end: int


def load_questions(path: Path, documents: Sequence[Document]) -> list[Question]:
    """Read `{query, source, answer}` or `{query, source, start, end}` a line.

    An answer is a passage of its document; line breaks and spaces in it are all the same.

    Raises:
        ConfigError: a line is something else, a span lies outside its document, or an answer
            does not stand there exactly once.
    """
    texts = {document.source: document.text for document in documents}
    questions = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if line.strip():
            try:
                questions.append(_question(line, texts))
            except ConfigError as error:
                raise ConfigError(f"{path}, line {number}: {error}") from None
    if not questions:
        raise ConfigError(f"{path} holds no questions")
    return questions


def _question(line: str, texts: Mapping[str, str]) -> Question:
    try:
        entry = json.loads(line)
        query, source = entry["query"], entry["source"]
        text = texts[source]
        if "answer" in entry:
            start, end = _place(entry["answer"], source, text)
        else:
            start, end = entry["start"], entry["end"]
        fits = 0 <= start < end <= len(text)
    except ConfigError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError):
        fits = False
    if not fits:
        raise ConfigError(
            "expected query, a source of the corpus, and answer (a passage of that document) or "
            f"start and end (a span inside it), got {line[:120]!r}"
        )
    return Question(query, source, start, end)


def _place(answer: str, source: str, text: str) -> tuple[int, int]:
    """Where a passage stands in a document."""
    words = map(re.escape, answer.split())
    pattern = r"\s+".join(words)
    places = [found.span() for found in re.finditer(pattern, text)] if pattern else []
    if len(places) != 1:
        often = "not" if not places else f"{len(places)} times"
        raise ConfigError(
            f"the answer {answer[:80]!r} stands {often} in {source!r}; expected once: "
            "quote it as it is, with as much around it as it takes, or give start and end"
        )
    return places[0]
