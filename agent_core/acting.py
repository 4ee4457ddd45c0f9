"""Acting on a reply: its actions are judged, run, and every one of them is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING

from agent_core.limits import StopReason
from agent_core.messages import (
    Action,
    Observation,
    StepNote,
    ToolFailure,
    ToolFailureKind,
)
from agent_core.parallel import chains_of, run_parallel
from agent_core.prompts import TEXTS
from agent_core.tools import identify

if TYPE_CHECKING:
    from agent_core.loop import Run


class Round:
    """The actions of one reply.

    Attributes:
        actions: each with its id.
        keys: what identifies each of them; empty until they are asked for by `act`.
        observations: one for each action, in their order; empty until `act` is left.
    """

    def __init__(self, run: Run, asked: Sequence[Action], index: int) -> None:
        self._run = run
        self._index = index
        self._texts = TEXTS[run.agent.language]
        self._outcomes: list[Observation | None] = [None] * len(asked)
        self.actions = with_ids(asked, index)
        self.keys: tuple[str, ...] = ()
        self.observations: tuple[Observation, ...] = ()

    def act(self) -> StopReason | None:
        """Run the actions; say so if a repetition ends the run.

        Whatever ends it, Ctrl-C too, every action has its observation.
        """
        try:
            self.keys = tuple(
                identify(each, self._run.definitions.get(each.name)) for each in self.actions
            )
            reason = self._judge()
            self._execute()
        finally:
            self.observations = tuple(
                seen or self._not_run(action, "cancelled", self._texts.cancelled)
                for seen, action in zip(self._outcomes, self.actions, strict=True)
            )
        return reason

    @property
    def repeats(self) -> tuple[int | None, ...]:
        """For each action the earlier step that asked for the same, or None."""
        firsts = [self._run.guard.first_step(key) for key in self.keys]
        return tuple(first if first != self._index else None for first in firsts)

    @property
    def notes(self) -> list[StepNote]:
        """What a reader must know: tools that were left behind."""
        return [
            StepNote("tool_abandoned", f"tool {each.tool!r} is past its time and was left behind")
            for each in self.observations
            if each.error is not None and each.error.kind == "timeout"
        ]

    def _judge(self) -> StopReason | None:
        """Refuse what was repeated too often."""
        reason = None
        guard = self._run.guard
        for number, (action, key) in enumerate(zip(self.actions, self.keys, strict=True)):
            verdict = guard.judge(key, self._index)
            definition = self._run.definitions.get(action.name)
            if verdict == "run" or (definition and definition.repeatable):
                continue
            text = self._texts.repeated.format(times=guard.times(key))
            self._outcomes[number] = self._not_run(action, "repeated", text)
            if verdict == "stop":
                reason = StopReason.REPEATED_ACTION
        return reason

    def _execute(self) -> None:
        """Run what was not refused; parallel native calls at the same time.

        Identical calls wait for one another, so that a replay gives each its own result.
        """
        run, outcomes = self._run, self._outcomes
        waiting = [number for number, seen in enumerate(outcomes) if seen is None]

        def call(number: int, cancel: Event) -> Observation:
            action = self.actions[number]
            if cancel.is_set():
                return self._not_run(action, "cancelled", self._texts.cancelled)
            left = run.budget.seconds_left()
            return run.agent.executor.execute(action, timeout=left, cancel=cancel)

        if run.agent.protocol == "native" and len(waiting) > 1:
            run_parallel(chains_of(waiting, self.keys), call, outcomes, cancel=run.cancel)
        else:
            for number in waiting:
                outcomes[number] = call(number, run.cancel)

    def _not_run(self, action: Action, kind: ToolFailureKind, text: str) -> Observation:
        failure = ToolFailure(kind, kind, text)
        return Observation(action.id, action.name, text, ok=False, error=failure)


def with_ids(actions: Sequence[Action], index: int) -> list[Action]:
    """The actions of a step, each with an id of its own: what it came with, or its place."""
    taken: set[str] = set()
    given = []
    for number, each in enumerate(actions, start=1):
        if not each.id or each.id in taken:
            each = replace(each, id=f"call_{index}_{number}")  # noqa: PLW2901
        taken.add(each.id or "")
        given.append(each)
    return given
