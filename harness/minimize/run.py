"""What the agent does in a session today."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_core.errors import ConfigError
from agent_core.messages import Actions, JsonObject, Step
from harness.redact import redactor
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Request
from harness.sessions.format import GoldenTurn, SessionFile
from harness.sessions.replay import replay
from harness.sessions.sources import Factory
from harness.sessions.trajectory import golden_decision, golden_turn


@dataclass(frozen=True, slots=True)
class Reading:
    """How a reply was read: its decision and notations, and what was mended or cut off."""

    made: tuple[str, ...]
    mended: frozenset[str]


@dataclass(frozen=True, slots=True)
class Run:
    """What the agent does in a session today.

    Attributes:
        asked: by take, what it sent in its place.
        golden: what came of it, as a trajectory.
        readings: how each reply was read.
        calls: tools that ran, with the arguments they got.
        as_taped: each call was on the tape.
        changed: keys of taped calls and searches that gave the result of others, and of those.
        unasked: keys of taped calls and searches that it did not make.
    """

    asked: dict[int, Request] = field(default_factory=dict)
    golden: tuple[GoldenTurn, ...] = ()
    readings: tuple[Reading, ...] = ()
    calls: tuple[tuple[str, JsonObject], ...] = ()
    as_taped: bool = False
    changed: dict[str, str] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()

    def reads_as(self, other: Run) -> bool:
        """Whether each reply is read as it was: a text that has to be mended is another case."""
        return len(self.readings) == len(other.readings) and all(
            now.made == was.made and now.mended <= was.mended
            for now, was in zip(self.readings, other.readings, strict=True)
        )


def run_of(file: SessionFile, factory: Factory) -> Run:
    """Run the agent to the end, wherever it goes; whatever it raises is judged by others."""
    try:
        report = replay(file, factory=factory, mode="lenient")
    except (SessionError, ConfigError):
        raise
    except Exception:  # the agent's own: what it sent until then is not known
        return Run()
    served = zip(report.served, report.asked, strict=True)
    asked = {number: request for number, request in served if number is not None}
    steps = [step for result in report.results for step in result.steps]
    return Run(
        asked=asked,
        golden=tuple(map(golden_turn, report.results)),
        readings=tuple(map(_reading, steps)),
        calls=tuple(
            (seen.tool, redactor.value(seen.arguments))
            for step in steps for seen in step.observations if seen.arguments is not None
        ),
        as_taped=not report.changed_calls,
        changed={was: now for was, now in report.changed_calls if was is not None},
        unasked=report.unused_calls,
    )  # fmt: skip


def _reading(step: Step) -> Reading:
    parsed = step.parsed
    actions = parsed.decision.actions if isinstance(parsed.decision, Actions) else ()
    made = (golden_decision(parsed).decision, *(each.notation for each in actions))
    return Reading(
        made,
        frozenset([
            *(each.kind for each in parsed.repairs),
            *(each.kind for each in parsed.ignored),
        ]),
    )
