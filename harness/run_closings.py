"""How a run and its steps have ended, and why, in words without content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_core import events
from agent_core.errors import AgentError, ModelError
from agent_core.limits import StopReason
from agent_core.messages import Actions, FinalAnswer, FormatError, ParsedReply, RunResult, Step
from harness import semconv
from harness.content import attribute, digest, name
from harness.plain import counted
from harness.run_state import Attributes, RunState

_NO_FAILURE = {StopReason.FINAL_ANSWER, StopReason.CANCELLED}


@dataclass(slots=True)
class Closing:
    """How a span ends.

    Attributes:
        error: `error.type` and a description without content, or None for a good end.
        record: the dotted name of the log record.
        level: its level.
    """

    attributes: Attributes
    record: str
    error: tuple[str, str] | None = None
    level: str = "info"


def run_closing(event: events.RunEnded, run: RunState) -> Closing:
    """Stop reason, totals, and for a failure the step and the cause."""
    result = event.result
    reason = result.stop_reason
    attributes: Attributes = {semconv.STOP_REASON: reason.value, **totals_of(run)}
    attributes["harness.steps"] = len(result.steps)
    put(attributes, "harness.total_input_tokens", result.usage.prompt_tokens)
    put(attributes, "harness.total_output_tokens", result.usage.completion_tokens)
    if result.usage.estimated:
        attributes["harness.usage.estimated"] = True
    if result.answer is not None:
        attributes["harness.answer.chars"] = len(result.answer)
        attributes["harness.answer.sha256"] = digest(result.answer)
        run.put_text(attributes, "harness.answer", result.answer)
    if reason in _NO_FAILURE:
        return Closing(attributes, "run.end")
    step = run.failed_step or (result.steps[-1].index if result.steps else None)
    put(attributes, semconv.FAILED_STEP, step)
    kind, why = _why(result, run)
    if result.error is not None:
        run.put_text(attributes, semconv.ERROR_MESSAGE, str(result.error))
    where = f" in step {step}" if step is not None else ""
    return Closing(attributes, "run.end", (kind, f"{reason.value}{where}{why}"), "error")


def _why(result: RunResult, run: RunState) -> tuple[str, str]:
    """`error.type` of a run, and the cause in a few words without content."""
    reason = result.stop_reason
    if result.error is not None:
        kind, line = describe_error(result.error)
        return kind if reason is StopReason.MODEL_ERROR else reason.value, f": {line}"
    if reason is StopReason.FORMAT_ERRORS:
        codes = [_format_error(step) for step in result.steps]
        return reason.value, ": " + ", ".join(code for code in codes[-3:] if code)
    if reason is StopReason.REPEATED_ACTION:
        last = result.steps[-1].parsed.decision
        actions = last.actions if isinstance(last, Actions) else ()
        tools = sorted({each.name for each in actions if each.name in run.tools})
        return reason.value, f": {', '.join(map(name, tools))}"
    return reason.value, ""


def _format_error(step: Step) -> str | None:
    decision = step.parsed.decision
    if isinstance(decision, FormatError):
        return decision.code
    return "unlabelled" if isinstance(decision, FinalAnswer) else None


def totals_of(run: RunState) -> Attributes:
    """What was counted over the run."""
    return {
        key if key.startswith("harness.") else f"harness.total_{key}": number
        for key, number in run.totals.items()
    }


def step_closing(event: events.StepEnded, run: RunState) -> Closing:
    """Decision, tokens, fingerprints and repetitions, notes."""
    step = event.step
    attributes: Attributes = {
        "harness.step.decision": decision_of(step.parsed),
        "harness.step.actions": len(event.fingerprints),
        "harness.step.seconds": step.seconds,
    }
    put(attributes, "harness.step.input_tokens", step.reply.usage.prompt_tokens)
    put(attributes, "harness.step.output_tokens", step.reply.usage.completion_tokens)
    if step.reply.usage.estimated:
        attributes["harness.usage.estimated"] = True
    if event.fingerprints:
        attributes[semconv.FINGERPRINTS] = [name(each) for each in event.fingerprints]
        attributes[semconv.FINGERPRINT] = name(event.fingerprints[0])
    repeats = [each for each in event.repeat_of if each is not None]
    if repeats:
        attributes[semconv.REPEAT_OF_STEP] = repeats[0]
        run.count("repeated_actions", len(repeats))
    for note in step.notes:
        attributes[f"harness.note.{note.kind}"] = name(note.text)
        run.count(f"harness.notes.{note.kind}")
    for kind in {each.error.kind for each in step.observations if each.error}:
        attributes[f"harness.observation.{kind}"] = 1
    odd = bool(repeats) or any(each.error for each in step.observations)
    return Closing(attributes, "step.end", level="warning" if odd else "info")


def decision_of(parsed: ParsedReply) -> str:
    """One of `actions`, `final_answer`, `unlabelled_answer`, `format_error`."""
    decision = parsed.decision
    if isinstance(decision, Actions):
        return "actions"
    if isinstance(decision, FormatError):
        return "format_error"
    return "final_answer" if decision.labelled else "unlabelled_answer"


def describe_error(error: BaseException) -> tuple[str, str]:
    """`error.type` and one line. The message of an exception is content: it may quote anything."""
    kind = type(error)
    known = issubclass(kind, AgentError) or kind.__module__ == "builtins"
    label = name(kind.__qualname__ if known else f"{kind.__module__}.{kind.__qualname__}")
    parts = [label]
    if isinstance(error, ModelError):
        if error.status is not None:
            parts.append(f"HTTP {error.status}")
        if error.attempts > 1:
            parts.append(f"after {counted(error.attempts, 'attempt')}")
    return label, " ".join(parts)


def put(attributes: Attributes, key: str, value: Any) -> None:
    """Write what is known."""
    if value is not None:
        attributes[key] = attribute(value)
