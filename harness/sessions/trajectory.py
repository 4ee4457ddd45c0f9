"""The golden trajectory: what each step decided and did, and the first step that differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from threading import Event
from typing import Any

from agent_core.events import Ended, ParseEnded, ParseStarted, RunEnded, RunStarted, Started
from agent_core.messages import (
    Actions,
    FinalAnswer,
    JsonObject,
    Observation,
    ParsedReply,
    RunResult,
    Step,
    Usage,
)
from harness.plain import counted
from harness.redact import redactor
from harness.sessions.exchange import canonical_json, same_json
from harness.sessions.format import GoldenAction, GoldenStep, GoldenTurn

_NOT_RUN = {("invalid_arguments", "InvalidArguments"), ("exception", "NotRecorded")}
_SHOWN = 100  # characters of an answer or of arguments in a sentence


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where a run went another way.

    Attributes:
        turn, step: from 1; the step is None for what concerns the turn as a whole.
        what: `decision`, `observation`, `steps`, `stop_reason`, `answer`, `data`, `turns` or
            `tokens`.
        recorded, now: in words.
    """

    turn: int
    step: int | None
    what: str
    recorded: str
    now: str

    @property
    def parts(self) -> bool:
        """Whether the runs go different ways from here on: another decision, or an end."""
        return self.what in {"decision", "steps"}

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "turn": self.turn,
            "step": self.step,
            "what": self.what,
            "recorded": self.recorded,
            "now": self.now,
        }

    def __str__(self) -> str:
        place = f"step {self.step}" if self.step is not None else "the end"
        turn = f" of turn {self.turn}" if self.turn > 1 else ""
        return f"{place}{turn}: recorded {self.recorded}, now {self.now}"


def golden_turn(result: RunResult) -> GoldenTurn:
    """What has to be repeated of a run, scrubbed."""
    return GoldenTurn(
        steps=[golden_step(step) for step in result.steps],
        stop_reason=str(result.stop_reason),
        answer=None if result.answer is None else redactor.text(result.answer),
        data=redactor.value(result.data),
        error=None if result.error is None else type(result.error).__name__,
    )


def is_open(result: RunResult) -> bool:
    """Whether nothing of a run is hidden in its golden turn: a digest is of the text itself."""
    seen = [each.text for step in result.steps for each in step.observations]
    asked = [
        each.arguments
        for step in result.steps
        if isinstance(step.parsed.decision, Actions)
        for each in step.parsed.decision.actions
    ]
    said = [result.answer, *seen, *asked]
    return bool(redactor.value(said) == said)


def golden_step(step: Step) -> GoldenStep:
    """What has to be repeated of a step."""
    bare = golden_decision(step.parsed)
    observations: Sequence[Observation | None] = [
        *step.observations,
        *[None] * (len(bare.actions) - len(step.observations)),
    ]
    actions = [
        action if seen is None
        else action.model_copy(update={"observation": digest(seen.text), "ok": seen.ok})
        for action, seen in zip(bare.actions, observations, strict=False)
    ]  # fmt: skip
    return GoldenStep(decision=bare.decision, actions=actions)


def golden_decision(parsed: ParsedReply) -> GoldenStep:
    """A decision, before anything is done about it."""
    decision = parsed.decision
    if isinstance(decision, Actions):
        actions = [
            GoldenAction(tool=redactor.text(each.name), arguments=redactor.value(each.arguments))
            for each in decision.actions
        ]
        return GoldenStep(decision="actions", actions=actions)
    if isinstance(decision, FinalAnswer):
        return GoldenStep(decision="final_answer" if decision.labelled else "unlabelled_answer")
    return GoldenStep(decision=f"format_error:{decision.code}")


def digest(text: str) -> str:
    """Identifies a text, scrubbed first."""
    return sha256(redactor.text(text).encode(errors="replace")).hexdigest()[:16]


def divergences(recorded: Sequence[GoldenTurn], now: Sequence[GoldenTurn]) -> Iterator[Divergence]:
    """Compare turn by turn, step by step, up to where decisions part; nothing if none is recorded.

    What follows a decision that differs would only be its consequences.
    """
    for number, (old, new) in enumerate(zip(recorded, now, strict=False), start=1):
        for found in _compare_turn(number, old, new):
            yield found
            if found.parts:
                return
    if recorded and len(recorded) != len(now):
        last = min(len(recorded), len(now)) + 1
        yield Divergence(
            last, None, "turns", counted(len(recorded), "turn"), counted(len(now), "turn")
        )


def miscounts(results: Sequence[RunResult]) -> Iterator[Divergence]:
    """Runs that say less tokens than the recorded replies of their steps add up to.

    More are no error: a summary that a model wrote is counted too, and is no step.
    """
    for number, result in enumerate(results, start=1):
        steps, run = sum((step.reply.usage for step in result.steps), Usage()), result.usage
        less = [
            name
            for name in ("prompt_tokens", "completion_tokens")
            if (getattr(run, name) or 0) < (getattr(steps, name) or 0)
        ]
        if less:
            was, now = (f"{each.prompt_tokens}→{each.completion_tokens}" for each in (steps, run))
            yield Divergence(number, None, "tokens", f"{was} tokens in all steps", f"{now} tokens")


def not_run(results: Sequence[RunResult]) -> list[Observation]:
    """Observations of calls that today's schema refuses, or reads as none that is on the tape."""
    seen = [each for result in results for step in result.steps for each in step.observations]
    return [
        each for each in seen
        if each.error and (each.error.kind, each.error.type) in _NOT_RUN
    ]  # fmt: skip


def first_divergence(
    recorded: Sequence[GoldenTurn], now: Sequence[GoldenTurn]
) -> Divergence | None:
    """The first place where two runs are not the same, or None."""
    return next(divergences(recorded, now), None)


def same_decision(old: GoldenStep, new: GoldenStep) -> bool:
    """Whether two steps decided the same: key order and `1.0` for `1` do not count."""
    return (
        old.decision == new.decision
        and len(old.actions) == len(new.actions)
        and all(
            was.tool == now.tool and same_json(was.arguments, now.arguments)
            for was, now in zip(old.actions, new.actions, strict=True)
        )
    )


def _compare_turn(turn: int, old: GoldenTurn, new: GoldenTurn) -> Iterator[Divergence]:
    for index, (before, after) in enumerate(zip(old.steps, new.steps, strict=False), start=1):
        if not same_decision(before, after):
            yield Divergence(turn, index, "decision", in_words(before), in_words(after))
            return
        yield from _compare_observations(turn, index, before, after)
    both = min(len(old.steps), len(new.steps))
    if len(old.steps) != len(new.steps):
        was, now = (
            in_words(each.steps[both]) if len(each.steps) > both else _ending(each)
            for each in (old, new)
        )
        yield Divergence(turn, both + 1, "steps", was, now)
    elif (old.stop_reason, old.error) != (new.stop_reason, new.error):
        yield Divergence(turn, None, "stop_reason", _ending(old), _ending(new))
    elif old.answer != new.answer:
        yield Divergence(turn, None, "answer", _short(old.answer), _short(new.answer))
    elif old.data is not None and not same_json(old.data, new.data):
        was, now = (f"the data {canonical_json(each.data):.{_SHOWN}}" for each in (old, new))
        yield Divergence(turn, None, "data", was, now)


def _compare_observations(
    turn: int, step: int, old: GoldenStep, new: GoldenStep
) -> Iterator[Divergence]:
    for was, now in zip(old.actions, new.actions, strict=True):
        if (was.observation, was.ok) != (now.observation, now.ok):
            what = f"an observation of {was.tool!r}"
            changed = "another one" if now.observation else "none"
            yield Divergence(turn, step, "observation", what, changed)


def _calls(step: GoldenStep) -> list[tuple[str, str]]:
    return [(each.tool, canonical_json(each.arguments)) for each in step.actions]


def in_words(step: GoldenStep) -> str:
    """A decision in a few words."""
    if step.decision == "actions":
        return " and ".join(f"{tool}({arguments:.{_SHOWN}})" for tool, arguments in _calls(step))
    return {
        "final_answer": "the final answer",
        "unlabelled_answer": "an answer without a label",
    }.get(step.decision, step.decision.replace("format_error:", "a format error: "))


def _ending(turn: GoldenTurn) -> str:
    error = f" ({turn.error})" if turn.error else ""
    return f"the run ends with {turn.stop_reason}{error}"


def _short(answer: str | None) -> str:
    return "no answer" if answer is None else f"the answer {answer[:_SHOWN]!r}"


class StepWatch:
    """An observer that stops a replay where its decisions leave the recording.

    What follows would only be the consequences: the replies on the tape answer other questions.

    Args:
        cancel: set at the first decision that differs.
    """

    def __init__(self, recorded: Sequence[GoldenTurn], cancel: Event) -> None:
        self._recorded = [list(turn.steps) for turn in recorded]
        self._cancel = cancel
        self._turn = -1
        self._step = self._depth = 0

    def started(self, event: Started) -> Any:
        """Count runs and steps; those of an agent inside a tool are not ours."""
        if isinstance(event, RunStarted):
            if self._depth == 0:
                self._turn, self._step = self._turn + 1, 0
            self._depth += 1
        elif isinstance(event, ParseStarted) and self._depth == 1:
            self._step += 1
        return self._depth

    def ended(self, token: Any, event: Ended) -> None:
        """Compare each decision as it is made."""
        if isinstance(event, ParseEnded) and token == 1 and self._turn < len(self._recorded):
            steps = self._recorded[self._turn]
            fits = self._step <= len(steps) and same_decision(
                steps[self._step - 1], golden_decision(event.parsed)
            )
            if not fits:
                self._cancel.set()
        elif isinstance(event, RunEnded):
            self._depth -= 1
