"""Where a run stands in the recording, and what answers its next request.

After a fault the recording goes on where it fits: a step that did what the recorded one did
(same tools, canonical arguments and observations) moves on to the next reply; one that did
nothing, because its reply was refused or its tool failed, is asked for the same reply again.
Where neither holds, the rest of the recording answers other questions, and a scripted reply
ends the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import requests
from requests.adapters import BaseAdapter

from agent_core.events import Ended, Started, StepEnded
from agent_core.gears import Clock
from agent_core.messages import Step
from harness.faults.bodies import Body, said
from harness.faults.recording import RecordedStep, Recording
from harness.sessions.exchange import Request, request_of
from harness.sessions.format import GoldenAction, Take
from harness.sessions.player import ReplayAdapter
from harness.sessions.responses import build_response
from harness.sessions.trajectory import golden_step, same_decision

MOST_REQUESTS = 60
"""A run that sends more does not end."""

Source = Literal["recorded", "fault", "ending", "scripted"]

_TAIL = {
    "en": ("Thought: the recording ends here.\nFinal Answer: ", "I stop here."),
    "zh": ("思考：录音到此为止。\n最终答案：", "到此为止。"),
}


class Endless(BaseException):
    """A run does not end. Not an `Exception`: no gear may take it for a failure of its own."""


@dataclass(frozen=True, slots=True)
class Line:
    """What answers a request: where it comes from, and number of a step or a take."""

    source: Source
    number: int = 0


class Course:
    """Follows a run through the recording.

    Args:
        at: turn and step that the fault is done to, from 0.
        lasting: the fault stays.

    Attributes:
        line: what has answered the last request.
        struck: the fault has been done.
        scripted: the recording has been left.
    """

    def __init__(self, recording: Recording, at: tuple[int, int], *, lasting: bool = False) -> None:
        self._recording = recording
        self._at = at
        self._lasting = lasting
        self.struck = False
        self.scripted = False
        self.turn = self.step = 0
        self._ending = 0
        self.line = Line("recorded")

    def begin(self, turn: int) -> None:
        """A turn begins."""
        self.turn, self.step, self._ending = turn, 0, 0

    def due(self) -> bool:
        """Whether the fault strikes now; without one that lasts, it does so once."""
        strikes = (self.turn, self.step) == self._at and (self._lasting or not self.struck)
        self.struck = self.struck or strikes
        return strikes

    def next(self, *, fault_answers: bool) -> Line:
        """What answers the next request.

        Args:
            fault_answers: the fault is one of replies or of HTTP.
        """
        self.line = self._next(fault_answers)
        return self.line

    def started(self, event: Started) -> None:
        """Nothing is known yet."""

    def ended(self, token: Any, event: Ended) -> None:
        """Compare a step with the recorded one."""
        if isinstance(event, StepEnded):
            self._follow(event.step)

    def _next(self, fault_answers: bool) -> Line:
        turn = self._recording.turns[self.turn]
        if self.scripted:
            return Line("scripted")
        if self.step < len(turn.steps):
            strikes = fault_answers and self.due()
            return Line("fault" if strikes else "recorded", self.step)
        if self._ending < len(turn.ending):
            self._ending += 1
            return Line("ending", turn.ending[self._ending - 1])
        self.scripted = True
        return Line("scripted")

    def _follow(self, step: Step) -> None:
        steps = self._recording.turns[self.turn].steps
        if self.scripted or self.step >= len(steps):
            return
        recorded, now = steps[self.step].golden, golden_step(step)
        if same_decision(recorded, now) and recorded.actions == now.actions:
            self.step += 1
        elif _done(now.actions) and _done(now.actions) == _done(recorded.actions):
            self.step += 1  # and something besides that failed
        elif _done(now.actions) or (self.turn, self.step) != self._at or not self.struck:
            self.scripted = True


class Stage(BaseAdapter):
    """A transport that answers from the recording, with the fault in its place.

    Only requests to the model count; an embedder's are answered as in a replay.

    Args:
        answer: what the fault answers instead of the recorded reply, or None for one of tools.
            It may raise what `requests` raises.

    Attributes:
        requests: every request to the model.
        early: seconds by which a refused request came again before the time that its
            `Retry-After` had named. What else is asked meanwhile, the next question or another
            model, is no retry.
    """

    def __init__(
        self,
        recording: Recording,
        course: Course,
        clock: Clock,
        answer: Callable[[RecordedStep, requests.PreparedRequest], requests.Response] | None,
    ) -> None:
        super().__init__()
        self._recording = recording
        self._course = course
        self._clock = clock
        self._answer = answer
        self._not_before: dict[tuple[int, str, bytes], float] = {}
        self.requests: list[Request] = []
        self.early = 0.0

    def send(
        self, request: requests.PreparedRequest, *_args: Any, **_kwargs: Any
    ) -> requests.Response:
        """Answer from the recording, by the fault, or by the script."""
        asked = request_of(request)
        if not self._recording.asks(asked):
            return self._others.send(request)
        self.requests.append(asked)
        if len(self.requests) > MOST_REQUESTS:
            raise Endless(f"it sent more than {MOST_REQUESTS} requests")
        call = (self._course.turn, asked.url, asked.body)
        due = self._not_before.get(call, -math.inf)
        self.early = max(self.early, due - self._clock.monotonic())
        line = self._course.next(fault_answers=self._answer is not None)
        if line.source == "scripted":
            return served(self._tail(), request)
        if line.source == "ending":
            return self._others.player.respond(line.number, request)
        step = self._recording.turns[self._course.turn].steps[line.number]
        if line.source == "fault":
            assert self._answer is not None
            response = self._answer(step, request)
            wait = float(response.headers.get("Retry-After", -math.inf))
            self._not_before[call] = self._clock.monotonic() + wait
            return response
        self._clock.sleep(self._recording.seconds(step))
        return served(self._recording.body(step), request)

    @cached_property
    def _others(self) -> ReplayAdapter:
        return ReplayAdapter(self._recording.player())

    def _tail(self) -> Body:
        head, text = _TAIL[self._recording.language]
        native = self._recording.protocol == "native"
        return said(text if native else head + text, self._recording.session.model.api)

    def close(self) -> None:
        """Nothing is open."""


def served(body: Body, request: requests.PreparedRequest) -> requests.Response:
    """A body as a response of `requests`."""
    return build_response(request, body.response, take=Take(exchange=0, sizes=list(body.sizes)))


def _done(actions: Iterable[GoldenAction]) -> list[GoldenAction]:
    return [each for each in actions if each.ok and each.observation is not None]
