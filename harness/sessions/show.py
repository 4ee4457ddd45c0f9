"""Runs and verdicts on a terminal, or as plain lines where there is none."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper

from rich.console import Console
from rich.text import Text

from agent_core.events import Ended, RunEnded, RunStarted, Started, StepEnded
from agent_core.messages import (
    Action,
    Actions,
    FinalAnswer,
    FormatError,
    JsonObject,
    Observation,
    RunResult,
    Step,
)
from harness.output import safe_line, safe_text
from harness.plain import counted
from harness.redact import redactor
from harness.sessions.drift import Cause, Severity
from harness.sessions.exchange import canonical_json
from harness.sessions.session_report import Report, summary

_COLOURS: Mapping[Severity, str] = {
    "ignorable": "dim", "volatile": "cyan", "warn": "yellow", "fail": "red",
}  # fmt: skip
_VERDICTS = {
    "ok": ("ok    ", "green"),
    "accepted": ("ACCEPT", "cyan"),
    "failed": ("FAILED", "bold red"),
    "not_judged": ("skip  ", "yellow"),
}
_LONG = 600  # characters of one item that are shown
_LOSSES = {"context_truncated", "output_cut", "output_swallowed", "tool_abandoned"}
_NAMES = {
    "en": ("Question", "Step", "Thought", "Action", "Observation", "Format error",
           "Reply", "Answer", "Data", "Stop reason"),
    "zh": ("问题", "步骤", "思考", "行动", "观察", "格式错误", "回复", "回答", "数据", "停止原因"),
}  # fmt: skip


def console(*, stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup in it counts, and no character is fatal."""
    stream = sys.stderr if stderr else sys.stdout
    if isinstance(stream, TextIOWrapper):
        with suppress(ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, soft_wrap=True)


class RunPrinter:
    """An observer that prints runs as they happen: the question, each step, the end."""

    def __init__(self, language: str = "en") -> None:
        self._language = language
        self._out = console()

    def started(self, event: Started) -> None:
        """Print the question."""
        if isinstance(event, RunStarted):
            _item(self._out, _NAMES[self._language][0], event.question, "bold", indent="")

    def ended(self, token: object, event: Ended) -> None:
        """Print a step, and how the run ended."""
        if isinstance(event, StepEnded):
            show_step(self._out, event.step, self._language)
        elif isinstance(event, RunEnded):
            show_end(self._out, event.result, self._language)


def show_step(out: Console, step: Step, language: str = "en") -> None:
    """Print a step: what was thought, done and seen."""
    _, name, thought, action, observation, error, reply, *_ = _NAMES[language]
    out.print(Text(f"{name} {step.index}", style="bold"))
    if step.parsed.thought:
        _item(out, thought, step.parsed.thought, "italic")
    decision = step.parsed.decision
    if isinstance(decision, FormatError):
        _item(out, error, f"{decision.code}: {decision.message}", "red")
    if isinstance(decision, FinalAnswer) and not decision.labelled:
        _item(out, reply, decision.text, "yellow")
    if isinstance(decision, Actions):
        for asked in decision.actions:
            _item(out, action, call_text(asked), "cyan")
    for seen in step.observations:
        _item(out, observation, seen.text, "" if seen.ok else "red")
    for note in step.notes:
        if note.kind in _LOSSES:
            _item(out, note.kind, note.text, "yellow")


def show_end(out: Console, result: RunResult, language: str = "en") -> None:
    """Print how a run ended."""
    *_, answer, data, stop = _NAMES[language]
    if result.answer is not None:
        _item(out, answer, result.answer, "bold green", indent="")
    if result.data is not None:
        text = json.dumps(result.data, ensure_ascii=False, indent=2)
        _item(out, data, text, "green", indent="")
    reason = str(result.stop_reason)
    if result.error is not None:
        reason += f" ({type(result.error).__name__}: {result.error})"
    _item(out, stop, reason, "", indent="")


def show_report(out: Console, report: Report) -> None:
    """Print the verdict on one session, and why where it is not as it was."""
    said, style = _VERDICTS[report.verdict]
    steps = counted(report.drift.total, "step")
    out.print(
        Text(said, style=style), f"{safe_line(report.name)}  ({steps}, {report.seconds:.2f} s)"
    )
    for line in report.in_words():
        out.print(Text(f"    {safe_line(line)}"))
    if report.note:
        out.print(Text(f"    {report.note}", style="dim"))
    if report.accepted:
        words = f"written to {safe_text(str(report.path))}; the model was not asked again"
        out.print(Text(f"    accepted: {', '.join(map(safe_line, report.accepted))}; {words}"))
        return
    for cause in report.drift.causes:
        _show_cause(out, cause)


def show_summary(out: Console, reports: Sequence[Report], errors: int) -> None:
    """Print the count of all verdicts."""
    words = summary([report.verdict for report in reports], errors)
    seconds = sum(report.seconds for report in reports)
    out.print(Text(f"{words} in {seconds:.2f} s", style="bold"))


def run_as_json(result: RunResult) -> JsonObject:
    """A run for `--json`."""
    return {
        "answer": result.answer,
        "data": result.data,
        "stop_reason": str(result.stop_reason),
        "error": None if result.error is None else redactor.text(str(result.error)),
        "steps": [_step_as_json(step) for step in result.steps],
        "usage": {
            "prompt_tokens": result.usage.prompt_tokens,
            "completion_tokens": result.usage.completion_tokens,
            "estimated": result.usage.estimated,
        },
        "seconds": round(result.seconds, 3),
    }


def call_text(action: Action) -> str:
    """An action as a call."""
    return f"{action.name}({canonical_json(action.arguments)})"


def _step_as_json(step: Step) -> JsonObject:
    decision = step.parsed.decision
    actions = decision.actions if isinstance(decision, Actions) else ()
    return {
        "index": step.index,
        "thought": step.parsed.thought,
        "actions": [{"tool": each.name, "arguments": each.arguments} for each in actions],
        "observations": [_observation_as_json(each) for each in step.observations],
        "answer": decision.text if isinstance(decision, FinalAnswer) else None,
        "format_error": decision.code if isinstance(decision, FormatError) else None,
        "notes": [each.text for each in step.notes],
    }


def _observation_as_json(observation: Observation) -> JsonObject:
    return {"tool": observation.tool, "ok": observation.ok, "text": observation.text}


def _show_cause(out: Console, cause: Cause) -> None:
    colour = _COLOURS[cause.severity]
    if cause.severity == "ignorable" or (cause.before is None and cause.after is None):
        return
    out.print(Text(f"    {cause.severity}: {safe_line(cause.part)}", style=colour))
    for sign, text, style in (("-", cause.before, "red"), ("+", cause.after, "green")):
        for line in _short(text or "").splitlines():
            out.print(Text(f"      {sign} {line}", style=style))
    if cause.mask is not None:
        words = f"only this differs; it would be hidden by {safe_text(cause.mask)}"
        out.print(Text(f"      {words}", style="dim"))


def _item(out: Console, name: str, text: str, style: str, *, indent: str = "  ") -> None:
    lines = _short(text).splitlines() or [""]
    out.print(Text(f"{indent}{name}: ", style="dim"), Text(lines[0], style=style), sep="")
    for line in lines[1:]:
        out.print(Text(f"{indent}    {line}", style=style))


def _short(text: str) -> str:
    text = safe_text(text)
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG} more characters)"
