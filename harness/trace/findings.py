"""What is abnormal in a run, from its spans alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Literal

from harness import semconv
from harness.trace.describe import duration, listed, window_share
from harness.trace.spans import Trace, TraceSpan

SLOW_STEP_FACTOR = 4.0
"""A step is slow when it takes this many times the median of the others, and a second more."""
COLD_START_MS = 1_000.0
FULL_WINDOW = 0.9

Severity = Literal["error", "warning", "note"]
# What ends a call from outside says nothing of the model; the end of the run tells of it.
_ABORTED = {"KeyboardInterrupt", "SystemExit", "GeneratorExit"}
_LAST_STEPS = 5
_LIMITS = {
    "max_steps": "max_steps",
    "time_limit": "time_limit",
    "token_limit": "token_limit",
    "repeated_action": "stop_repeat",
    "format_errors": "max_format_errors",
    "empty_replies": "max_empty_replies",
}
"""The field of `agent_core.limits.Limits` behind a stop reason."""
_CUT_OFF = {"max_steps", "time_limit", "token_limit"}  # whatever it was doing
_ORDER = {"error": 0, "warning": 1, "note": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One abnormal thing.

    Attributes:
        question: which of the questions a trace has to answer this is about.
        step: the step it happened in, or None for the run.
    """

    severity: Severity
    question: str
    step: int | None
    text: str

    def __str__(self) -> str:
        where = f"step {self.step}: " if self.step is not None else ""
        return f"{self.severity}: {where}{self.text}"


def findings(trace: Trace) -> list[Finding]:
    """Everything abnormal, the worst first, then in order of steps."""
    found: list[Finding] = []
    for span in trace.spans():
        if span.kind == "invoke_agent":
            prefix = "" if span is trace.root else f"{span.name.split(' ', 1)[-1]}: "
            found += [
                Finding(each.severity, each.question, each.step, prefix + each.text)
                for each in _run_findings(span)
            ]
    if not trace.complete:
        found.append(
            Finding(
                "warning", "lost", None, "spans are missing: the run was cut short or lost some"
            )
        )
    unknown = len(trace.spans()) + 1
    return sorted(found, key=lambda f: (_ORDER[f.severity], unknown if f.step is None else f.step))


def _run_findings(run: TraceSpan) -> Iterator[Finding]:
    yield from _stop(run)
    steps = [(s.attributes.get(semconv.STEP_INDEX), s) for s in run.find("harness.step")]
    for index, step in steps:
        for check in _STEP_CHECKS:
            yield from check(index, step)
    for span in (each for each in run.children if each.kind != "harness.step"):
        yield from _retrieval(None, span)
    yield from _chunks(run)
    yield from _slow(steps)
    yield from _lost(run)
    yield from _changed(run)


def _stop(run: TraceSpan) -> Iterator[Finding]:
    reason = run.attributes.get(semconv.STOP_REASON)
    if reason == "final_answer":
        return
    step = run.attributes.get(semconv.FAILED_STEP)
    if step is None:  # an exception has marked the step it passed through; others end the last
        steps = run.find("harness.step")
        last = [each for each in steps if each.failed] or steps
        step = last[-1].attributes.get(semconv.STEP_INDEX) if last else None
    text = f"the run ended with {reason or 'no stop reason'}"
    why = run.attributes.get(semconv.ERROR_MESSAGE) or run.error.partition(": ")[2] or run.error
    text += f" ({why})" if why and reason not in {why, why.partition(" ")[0]} else ""
    text += "".join(_at_the_limit(run, str(reason)))
    yield Finding("error" if run.failed else "warning", "stop", step, text)


def _at_the_limit(run: TraceSpan, reason: str) -> Iterator[str]:
    """The limit that a run came to, how far it had come, and what its last steps did."""
    name = _LIMITS.get(reason)
    if name is None:
        return
    try:
        limit = json.loads(run.attributes["harness.limits"])[name]
    except (KeyError, TypeError, ValueError):  # not a trace of ours
        return
    yield f": Limits.{name} is {limit:g}" if isinstance(limit, int | float) else ""
    if reason == "token_limit":
        counts = [run.attributes.get(f"harness.total_{each}put_tokens") for each in ("in", "out")]
        yield f", {sum(each or 0 for each in counts)} were used"
    if reason == "time_limit":
        yield f", {run.milliseconds / 1000:.3g} s went by"
    did = [_deed(step) for step in run.find("harness.step")[-_LAST_STEPS:]]
    if did and reason in _CUT_OFF:  # the others are told step by step
        yield f"; the last {'steps' if len(did) > 1 else 'step'}: {', '.join(did)}"


def _deed(step: TraceSpan) -> str:
    """What a step did, in a word: the tools it called, or what its reply was."""
    tools = [str(each.attributes.get(semconv.TOOL_NAME, "a tool")) for each in step.children
             if each.kind == "execute_tool"]  # fmt: skip
    wrong = [each.attributes.get(semconv.PARSE_ERROR) for each in step.find("harness.parse")]
    decision = step.attributes.get("harness.step.decision", "no reply")
    return " + ".join(tools) or str(next(filter(None, wrong), decision))


def _calls(index: int | None, step: TraceSpan) -> Iterator[Finding]:
    for chat in step.find("chat"):
        a = chat.attributes
        if chat.failed and a.get(semconv.ERROR_TYPE) not in _ABORTED:
            yield Finding("error", "stop", index, f"the model call failed: {chat.error}")
        if a.get("harness.finish_reason") == "length":
            yield Finding("warning", "tokens", index, "the reply was cut by length")
        if a.get("harness.ollama.load_ms", 0) >= COLD_START_MS:
            text = f"cold start: the model took {duration(a['harness.ollama.load_ms'])} to load"
            yield Finding("note", "tokens", index, text)
        share = window_share(a)
        if share is not None and share >= FULL_WINDOW:
            text = f"the prompt fills {share:.0%} of the context window"
            yield Finding("warning", "tokens", index, text)
        retries = [s for s in chat.children if semconv.RETRY_REASON in s.attributes]
        if retries:
            reasons = [str(s.attributes[semconv.RETRY_REASON]) for s in retries]
            many = "attempts were" if len(retries) > 1 else "attempt was"
            text = f"{len(retries)} {many} retried: {listed(reasons)}"
            yield Finding("warning", "retries", index, text)


def _parses(index: int | None, step: TraceSpan) -> Iterator[Finding]:
    for parse in step.find("harness.parse"):
        a = parse.attributes
        if parse.failed or a.get(semconv.PARSE_OUTCOME) == "failed":
            code = a.get(semconv.PARSE_ERROR) or parse.error
            why = a.get(semconv.ERROR_MESSAGE)
            text = f"the reply could not be used: {code}" + (f" ({why})" if why else "")
            yield Finding("warning", "repairs", index, text)
        if a.get(semconv.PARSE_DECISION) == "unlabelled_answer":
            yield Finding("note", "repairs", index, "the reply was prose without a label")
        if a.get(semconv.PARSE_REPAIRS):
            text = f"the reply was repaired: {listed(a[semconv.PARSE_REPAIRS])}"
            yield Finding("note", "repairs", index, text)
        if a.get(semconv.PARSE_IGNORED):
            text = f"parts of the reply were ignored: {listed(a[semconv.PARSE_IGNORED])}"
            yield Finding("note", "repairs", index, text)


def _tools(index: int | None, step: TraceSpan) -> Iterator[Finding]:
    for tool in step.find("execute_tool"):
        a, name = tool.attributes, tool.attributes.get(semconv.TOOL_NAME, "a tool")
        if tool.failed:
            why = a.get(semconv.ERROR_MESSAGE) or tool.error
            if _timed_out(tool):
                seconds = f"{a.get('harness.tool.seconds', 0):.3g} s"
                why += f"; given up after {seconds}" if seconds != "0 s" else ""
            yield Finding("warning", "tools", index, f"{name} failed ({why})")
        if a.get(semconv.COERCIONS):
            text = f"arguments of {name} were coerced: {listed(a[semconv.COERCIONS])}"
            yield Finding("note", "coercions", index, text)
        if a.get("harness.observation.truncated_from"):
            text = (
                f"the result of {name} was cut from {a['harness.observation.truncated_from']} chars"
            )
            yield Finding("note", "lost", index, text)


def _timed_out(tool: TraceSpan) -> bool:
    return tool.attributes.get("harness.tool.failure") == "timeout"


def _retrieval(index: int | None, step: TraceSpan) -> Iterator[Finding]:
    for search in step.find("retrieval"):
        name = search.name.removeprefix("retrieval ")
        if search.failed:
            yield Finding(
                "error", "retrieval", index, f"the search in {name} failed: {search.error}"
            )
        elif not search.attributes.get(semconv.CHUNK_IDS):
            yield Finding("warning", "retrieval", index, f"the search in {name} found nothing")
    for rerank in step.find("harness.rerank"):
        if rerank.attributes.get("harness.rerank.in_time") is False:
            text = "the reranker was too slow; the first order was kept"
            yield Finding("note", "retrieval", index, text)


def _loops(index: int | None, step: TraceSpan) -> Iterator[Finding]:
    a = step.attributes
    first = a.get(semconv.REPEAT_OF_STEP)
    if first is not None:
        refused = "; it was not run" if a.get("harness.observation.repeated") else ""
        yield Finding("warning", "loop", index, f"the action repeats that of step {first}{refused}")
    timed_out = any(map(_timed_out, step.find("execute_tool")))
    for key, question, severity in _NOTES:
        if key == "tool_abandoned" and timed_out:  # the tool's own finding has said it
            continue
        if a.get(f"harness.note.{key}"):
            yield Finding(severity, question, index, str(a[f"harness.note.{key}"]))


def _chunks(run: TraceSpan) -> Iterator[Finding]:
    """Chunks that were found and did not reach a prompt, or only in part."""
    reached: set[str] = set()
    cut: set[str] = set()
    for chat in run.find("chat"):
        reached.update(chat.attributes.get(semconv.PROMPT_CHUNK_IDS) or [])
        cut.update(chat.attributes.get(semconv.CUT_CHUNK_IDS) or [])
    steps = {id(s): step.attributes.get(semconv.STEP_INDEX)
             for step in run.find("harness.step") for s in step.walk()}  # fmt: skip
    for search in run.find("retrieval"):
        found = [str(each) for each in search.attributes.get(semconv.CHUNK_IDS) or []]
        step = steps.get(id(search))
        missing = [each for each in found if each not in reached | cut]
        halves = [each for each in found if each in cut - reached]
        if missing:
            text = f"retrieved but not in any prompt: {listed(missing)}"
            yield Finding("warning", "retrieval", step, text)
        if halves:
            yield Finding("warning", "retrieval", step, f"cut in the prompt: {listed(halves)}")


def _slow(steps: list[tuple[int | None, TraceSpan]]) -> Iterator[Finding]:
    for index, step in steps:
        others = [each.milliseconds for _, each in steps if each is not step]
        if not others:
            return
        usual = median(others)
        if step.milliseconds > max(SLOW_STEP_FACTOR * usual, usual + 1_000):
            text = f"took {duration(step.milliseconds)}, the other steps {duration(usual)}"
            yield Finding("note", "tokens", index, text)


def _lost(run: TraceSpan) -> Iterator[Finding]:
    cut = run.attributes.get(semconv.TRUNCATED_ATTRIBUTES)
    if cut:
        yield Finding("note", "lost", None, f"{cut} attributes of this trace were cut")
    dropped = sum(span.dropped_attributes for span in run.walk())
    if dropped:
        yield Finding("warning", "lost", None, f"{dropped} attributes of this trace were dropped")
    calls = run.find("chat")
    total = sum(chat.attributes.get(semconv.INPUT_TOKENS, 0) for chat in calls)
    said = run.attributes.get("harness.total_input_tokens")
    unknown = [chat for chat in calls if semconv.INPUT_TOKENS not in chat.attributes]
    if said is not None and not unknown and total != said:
        text = f"the calls add up to {total} input tokens, the run says {said}"
        yield Finding("warning", "totals", None, text)
    if unknown and len(unknown) < len(calls):
        text = f"{len(unknown)} of {len(calls)} calls gave no token counts: the sum is an estimate"
        yield Finding("note", "totals", None, text)


def _changed(run: TraceSpan) -> Iterator[Finding]:
    changed = run.attributes.get("harness.last_good.changed") or []
    changed = [what for what in changed if what != "question"]  # another question is no news
    if changed:
        yield Finding(
            "note", "changed", None, f"changed since the last good run: {listed(changed)}"
        )


_NOTES: tuple[tuple[str, str, Severity], ...] = (
    ("context_truncated", "seen", "warning"),
    ("output_swallowed", "lost", "warning"),
    ("tool_abandoned", "tools", "warning"),
    ("history_trimmed", "seen", "note"),
)
_STEP_CHECKS: tuple[Callable[[int | None, TraceSpan], Iterator[Finding]], ...] = (
    _calls, _parses, _tools, _retrieval, _loops,
)  # fmt: skip
