"""A run in at most ten lines: a summary, and what is abnormal."""

from __future__ import annotations

from harness import semconv
from harness.plain import one_line
from harness.trace.describe import duration, steps_of, tokens
from harness.trace.findings import findings
from harness.trace.spans import Trace, TraceSpan

MAX_LINES = 10


def explain(trace: Trace) -> list[str]:
    """Lines for people: a summary, then what is abnormal, the worst first."""
    root = trace.root
    found = findings(trace)
    if not found:
        return [f"{one_line(_summary(root))}; nothing abnormal"]
    lines = [one_line(each) for each in (_summary(root), *map(str, found))]
    if len(lines) > MAX_LINES:
        more = len(lines) - MAX_LINES + 1
        lines = [*lines[: MAX_LINES - 1], f"… and {more} more; see `agentrig trace show`"]
    return lines


def _summary(run: TraceSpan) -> str:
    a = run.attributes
    reason = a.get(semconv.STOP_REASON, "not ended")
    said = [steps_of(a), duration(run.milliseconds)]
    said += tokens(a, "harness.total_")
    return f"{run.name}: {reason}, {', '.join(said)}"
