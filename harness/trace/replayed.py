"""Traces of sessions: a session file is replayed offline, with its texts, and watched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import semconv
from harness.sessions.replay import replay
from harness.trace.diff import pairs
from harness.trace.memory import MemoryTraces
from harness.trace.spans import Trace, TraceFileError, TraceSpan

_QUESTION = "harness.question.sha256"
_DIGESTS = (
    "harness.reply.sha256", "harness.observation.sha256", "harness.arguments.sha256",
    "harness.query.sha256", _QUESTION,
)  # fmt: skip


def replayed(path: Path, *, allow: Sequence[str] = ()) -> list[Trace]:
    """The traces of a session's turns, with all texts.

    Raises:
        TraceFileError: the replay made no spans.
    """
    memory = MemoryTraces(replayed=True)
    replay(path, allow=allow, observers=[memory.observer])
    found = memory.traces()
    if not found:
        raise TraceFileError(f"replaying {str(path)!r} ran no agent, so there is no trace")
    return found


def add_texts(trace: Trace, session: Path, *, allow: Sequence[str] = ()) -> int:
    """Put the texts of a session on the spans of a run of it that have none.

    A text is taken only where its digest is the one on the span. Returns how many were.

    Raises:
        TraceFileError: the session does not hold this run's question.
    """
    question = trace.root.attributes.get(_QUESTION)
    for each in replayed(session, allow=allow):
        if each.root.attributes.get(_QUESTION) == question:
            return _copy(each.root, trace.root)
    raise TraceFileError(f"{str(session)!r} is not the session of this run: another question")


def _copy(source: TraceSpan, target: TraceSpan) -> int:
    same = all(
        source.attributes.get(key) == target.attributes.get(key)
        for key in _DIGESTS
        if key in source.attributes and key in target.attributes
    )
    copied = 0
    if same:
        for key in semconv.CONTENT & source.attributes.keys() - target.attributes.keys():
            target.attributes[key] = source.attributes[key]
            copied += 1
    return copied + sum(
        _copy(old, new) for old, new in pairs(source.children, target.children) if old and new
    )
