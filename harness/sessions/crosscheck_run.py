"""Cross-check of a run: its steps, decisions and tool calls, as its spans and as it took them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from harness import semconv
from harness.content import digest
from harness.content import name as short
from harness.plain import counted, to_json
from harness.sessions.format import GoldenAction, GoldenStep, GoldenTurn
from harness.trace.spans import TraceSpan

_DECISION = "harness.step.decision"
_REFUSED = ("harness.observation.repeated", "harness.observation.cancelled")
_TEXTS = (
    ("harness.question", "harness.question.sha256"),
    ("harness.answer", "harness.answer.sha256"),
    (semconv.TOOL_ARGUMENTS, "harness.arguments.sha256"),
    (semconv.TOOL_RESULT, "harness.observation.sha256"),
)
"""Texts that stand on a span beside their digest."""

_MARKS = ("***", "…[+", '{"omitted":')
"""What stands in a text for what was hidden (`harness.redact`) or cut (`harness.content`)."""


def run_lies(turn: GoldenTurn, run: TraceSpan) -> Iterator[str]:
    """What the spans of a run say otherwise than the turn that it took."""
    yield from _compare(run.name, "stop reason", turn.stop_reason, run, semconv.STOP_REASON)
    if turn.answer is not None:
        yield from _compare(run.name, "answer", digest(turn.answer), run, "harness.answer.sha256")
    spans = _in_order(each for each in run.children if each.kind == "harness.step")
    indexes = [each.attributes.get(semconv.STEP_INDEX) for each in spans]
    if indexes != list(range(1, len(spans) + 1)):
        yield f"{run.name}: its steps are {indexes} in the order of time"
    taken = [each for each in spans if _DECISION in each.attributes]
    if len(taken) != len(turn.steps):
        yield f"{run.name} took {counted(len(turn.steps), 'step')} and has spans of {len(taken)}"
    for step, span in zip(turn.steps, taken, strict=False):
        yield from _step(step, span, parallel=run.attributes.get("harness.protocol") == "native")
    for each in run.walk():
        yield from _outside(each)
    for each in (run, *run.find("execute_tool")):
        yield from _texts(each)


def uncut(span: TraceSpan, key: str) -> str | None:
    """A text of a span, unless something of it was cut or hidden."""
    text = span.attributes.get(key)
    if not isinstance(text, str) or any(mark in text for mark in _MARKS):
        return None
    return text


def _step(step: GoldenStep, span: TraceSpan, *, parallel: bool) -> Iterator[str]:
    where = f"step {span.attributes.get(semconv.STEP_INDEX)}"
    decision = step.decision.partition(":")[0]
    yield from _compare(where, "decision", decision, span, _DECISION)
    parses = [each for each in span.children if each.kind == "harness.parse"]
    if not parses:
        yield f"{where} has no parse span"
    tools = _in_order(each for each in span.children if each.kind == "execute_tool")
    ran = _ran(step, span, tools)
    if len(ran) != len(tools):
        yield f"{where}: {counted(len(ran), 'tool call')}, and {len(tools)} execute_tool spans"
        return
    if parallel:  # in any order
        ran.sort(key=_recorded)
        tools.sort(key=_claimed)
    for action, tool in zip(ran, tools, strict=True):
        what = ("tool", "arguments", "observation", "success")
        for part, was, said in zip(what, _recorded(action), _claimed(tool), strict=True):
            if was != said:
                yield f"{where}: {part} of {action.tool} is {was!r}, the span says {said!r}"


def _ran(step: GoldenStep, span: TraceSpan, tools: Sequence[TraceSpan]) -> list[GoldenAction]:
    """The actions that were run: not those that the step refused, as it says itself."""
    actions = [each for each in step.actions if each.observation is not None]
    if not any(key in span.attributes for key in _REFUSED):
        return actions
    known = list(map(_claimed, tools))
    return [each for each in actions if each.ok or _recorded(each) in known]


def _recorded(action: GoldenAction) -> tuple[str, ...]:
    arguments = digest(to_json(action.arguments))
    return short(action.tool), arguments, f"sha256:{action.observation}", str(action.ok)


def _claimed(tool: TraceSpan) -> tuple[str, ...]:
    said = tool.attributes
    seen = str(said.get("harness.observation.sha256"))[: len("sha256:") + 16]
    arguments = str(said.get("harness.arguments.sha256"))
    return str(said.get(semconv.TOOL_NAME)), arguments, seen, str(said.get("harness.tool.ok"))


def _outside(span: TraceSpan) -> Iterator[str]:
    for child in span.children:
        if not span.start <= child.start <= child.end <= span.end:
            yield f"{child.name} does not lie within the time of {span.name}"


def _texts(span: TraceSpan) -> Iterator[str]:
    for key, of in _TEXTS:
        text, claimed = uncut(span, key), span.attributes.get(of)
        if text is not None and claimed is not None and digest(text) != claimed:
            yield f"{span.name}: {key} is another text than the span has the digest of"


def _in_order(spans: Any) -> list[TraceSpan]:
    return sorted(spans, key=lambda each: each.start)


def _compare(where: str, what: str, was: Any, span: TraceSpan, key: str) -> Iterator[str]:
    said = span.attributes.get(key)
    if was != said:
        yield f"{where}: {what} is {was!r}, the span says {said!r}"
