"""One trial: a recorded session is run again, and at one step one thing goes wrong."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from types import FrameType

import requests

from agent_core.agent import Agent
from agent_core.gears import Clock
from agent_core.messages import Message, RunResult
from harness.faults.bodies import with_reply
from harness.faults.course import Course, Endless, Stage, served
from harness.faults.fault import Fault
from harness.faults.recording import RecordedStep, Recording
from harness.faults.replica import Replica
from harness.faults.replies import FaultyReply, Speaker, misspoken
from harness.faults.tools import FaultRunner, orders_for
from harness.faults.transport import Trouble, failed, seconds_of
from harness.faults.verdicts import Evidence, Judgement, judge, violation
from harness.faults.watch import Steps, Telemetry
from harness.fuzz.values import value_for
from harness.sessions.clocks import seeded
from harness.sessions.plan import history_of
from harness.sessions.tape import call_key

HANG_SECONDS = 20.0
"""Real time after which a run counts as hanging. None waits: clocks are injected."""

Answer = Callable[[RecordedStep, requests.PreparedRequest], requests.Response]


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried: a fault at a turn and a step, both from 0."""

    turn: int
    step: int
    fault: Fault

    @property
    def place(self) -> str:
        """Where, for people."""
        turn = f"turn {self.turn + 1} " if self.turn else ""
        return f"{turn}step {self.step + 1}"


class Rehearsal:
    """A recorded session on which faults are tried, one after the other."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._replica = Replica(recording)
        self._with_content, self._bare = Telemetry(content=True), Telemetry(content=False)

    def attempt(self, trial: Trial, seed: int) -> Judgement:
        """Run the session with the fault and judge. The same seed gives the same trial."""
        recording = self.recording
        where = f"{seed}/{recording.name}/{trial.turn}/{trial.step}/{trial.fault.code}"
        rng = Random(where)  # noqa: S311 - reproducible, not secret
        step = recording.turns[trial.turn].steps[trial.step]
        faulty = _faulty_reply(recording, step, trial, rng)
        if not _applies(trial, step, faulty):
            return Judgement("not applicable")
        clock = self._replica.clock
        course = Course(recording, (trial.turn, trial.step), lasting=trial.fault.lasting)
        stage = Stage(recording, course, clock, _answer(recording, trial, faulty, clock, rng))
        runner = _runner(recording, trial, step, course, rng)
        steps = Steps(course, stage)
        telemetry = self._bare if trial.fault.group == "reply" else self._with_content
        telemetry.clear()
        agent = self._replica.agent(stage, runner, [course, steps, telemetry.observer])
        try:
            with _alarm(HANG_SECONDS):
                results = _converse(agent, recording, course)
        except Endless as endless:
            return violation("hang", str(endless))
        except (Exception, SystemExit) as error:  # what leaves a run is what is looked for
            return violation("crash", f"{type(error).__name__}: {error}")
        return judge(Evidence(recording, course, stage, steps, telemetry, runner, faulty, results))

    def close(self) -> None:
        """Close what is open."""
        self._replica.close()


def _converse(agent: Agent, recording: Recording, course: Course) -> list[RunResult]:
    """Ask every question, up to a turn that ends in another way than it was recorded."""
    results: list[RunResult] = []
    with seeded(recording.session.seed):
        for number, turn in enumerate(recording.session.turns):
            course.begin(number)
            history: Sequence[Message] = results[-1].messages if results else history_of(turn)
            results.append(agent.run(turn.question, history))
            if results[-1].answer != recording.turns[number].result.answer:
                break
    return results


def _faulty_reply(
    recording: Recording, step: RecordedStep, trial: Trial, rng: Random
) -> FaultyReply | None:
    if trial.fault.group != "reply":
        return None
    speaker = Speaker(
        recording.protocol, recording.language, recording.schemas, recording.session.model.stream
    )
    return misspoken(trial.fault.code, step, speaker, rng)


def _applies(trial: Trial, step: RecordedStep, faulty: FaultyReply | None) -> bool:
    if trial.fault.group == "reply":
        return faulty is not None
    if trial.fault.group == "tool":
        return any(each.arguments is not None for each in step.step.observations)
    return True


def _answer(
    recording: Recording,
    trial: Trial,
    faulty: FaultyReply | None,
    clock: Clock,
    rng: Random,
) -> Answer | None:
    """What the fault answers in the place of the recorded reply."""
    api = recording.session.model.api
    if trial.fault.group == "tool":
        return None

    def answer(step: RecordedStep, request: requests.PreparedRequest) -> requests.Response:
        recorded = recording.response(step)
        if faulty is not None:
            return served(with_reply(recorded, faulty.reply, api, rng), request)
        clock.sleep(seconds_of(trial.fault.code))
        return failed(trial.fault.code, Trouble(request, recorded, api))

    return answer


def _runner(
    recording: Recording, trial: Trial, step: RecordedStep, course: Course, rng: Random
) -> FaultRunner:
    if trial.fault.group != "tool":
        return FaultRunner(recording.session.tape, None, "", course.due)
    call = next(
        call_key(each.tool, each.arguments)
        for each in step.step.observations
        if each.arguments is not None
    )
    name = rng.choice(sorted(recording.schemas))
    arguments = value_for(rng, recording.schemas[name], language=recording.language, plain=True)
    orders = orders_for(name, arguments, recording.language)
    return FaultRunner(recording.session.tape, trial.fault.code, call, course.due, orders)


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `Endless` in what takes longer, where the system has timers and this thread may.

    A machine that stood still in between, which rings once when it wakes up, is no such thing: it
    takes two rings.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    rings = count(1)

    def ring(_number: int, _frame: FrameType | None) -> None:
        if next(rings) > 1:
            raise Endless(f"it was still running after {seconds:.0f} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds / 2, seconds / 2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
