"""The last good run of an agent: to link a new run to it, and to say what has changed since."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from opentelemetry.trace import SpanContext, TraceFlags

from harness import semconv
from harness.trace.spans import TraceFileError, TraceSpan, read_traces, trace_files

SEARCHED_FILES = 5

_COMPARED = {
    "model": semconv.REQUEST_MODEL,
    "system": "harness.system.sha256",
    "tools": "harness.tools.sha256",
    "config": "harness.config.sha256",
    "question": "harness.question.sha256",
}


def last_good_runs(directory: Path) -> Callable[[str], TraceSpan | None]:
    """A function from the name of an agent to its last run that ended with an answer.

    It reads the newest trace files of the directory, once, when it is first asked.
    """

    @cache
    def newest() -> dict[str, TraceSpan]:
        good: dict[str, TraceSpan] = {}
        for path in trace_files(directory)[-SEARCHED_FILES:]:
            with suppress(TraceFileError):
                for trace in read_traces(path):
                    run = trace.root
                    if run.attributes.get(semconv.STOP_REASON) == "final_answer":
                        good[str(run.attributes.get(semconv.AGENT_NAME))] = run
        return good

    return lambda agent: newest().get(agent)


def context_of(run: TraceSpan) -> SpanContext:
    """The identity of a run that was read from a file, for a link."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(run.trace_id, 16), int(run.span_id, 16), True, flags)


def changes_since(run: TraceSpan, attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes that name what differs from a good run, by digest."""
    changed = [
        what for what, key in _COMPARED.items() if run.attributes.get(key) != attributes.get(key)
    ]
    return {
        "harness.last_good.run_id": str(run.attributes.get(semconv.RUN_ID)),
        "harness.last_good.changed": changed,
        **{f"harness.changed.{what}": 1 for what in changed},
    }
