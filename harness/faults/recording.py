"""A recording taken apart: for each step the reply, what it decided, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any
from urllib.parse import urlsplit

import requests

from agent_core.agent import Agent
from agent_core.events import Ended, RunEnded, RunStarted, Started, StepEnded
from agent_core.gears import Clock, ToolRunner
from agent_core.messages import JsonObject, Language, Message, Protocol, RunResult, Step
from harness.faults.bodies import Body, with_reply
from harness.sessions.clocks import ReplayClock, seeded
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Request, Response
from harness.sessions.format import GoldenStep, Session, SessionFile
from harness.sessions.plan import history_of
from harness.sessions.player import Player, replay_session
from harness.sessions.sources import (
    Factory,
    build_agent,
    build_model,
    see_that_it_asks_through,
)
from harness.sessions.tape import call_tape, search_tape
from harness.sessions.taped import TapedRetriever, TapedRunner, exchange_runner
from harness.sessions.trajectory import first_divergence, golden_step, golden_turn


class NotSwept(SessionError):
    """A session that cannot be swept; the message says why."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step of a recording.

    Attributes:
        take: number of the take that holds the reply.
        step: the step as the agent makes it today, which is as it was recorded.
        golden: what it decided and what came of it, in comparable form.
    """

    take: int
    step: Step
    golden: GoldenStep


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One turn: its steps, the takes that failed after them, and how it ended."""

    steps: tuple[RecordedStep, ...]
    ending: tuple[int, ...]
    result: RunResult


class Recording:
    """A session, replayed once so that each reply is known with what it decided.

    Raises:
        NotSwept: it is a stock cassette, or does not replay as it was recorded.
    """

    def __init__(self, name: str, file: SessionFile, factory: Factory) -> None:
        if file.session is None:
            raise NotSwept("a cassette without a session block does not say what agent made it")
        self.name = name
        self.file = file
        self.session: Session = file.session
        self.factory = factory
        self._player = Player(file, clock=ReplayClock(file.session.clock.now))
        watch = _Takes(self._player)
        runner = TapedRunner(call_tape(file.session.tape), self._player.clock)
        clock = self._player.clock
        agent = self.build(replay_session(self._player), clock)
        agent = self.staged(agent, clock, runner, [watch])
        self.language: Language = agent.language
        self.protocol: Protocol = agent.protocol
        self.schemas: Mapping[str, JsonObject] = {
            name: each.parameters for name, each in agent.executor.definitions.items()
        }
        limit = agent.limits.observation_chars
        self.observation_chars: int = getattr(agent.executor, "max_chars", limit)
        results = converse(agent, self.session)
        self._check(results)
        self._bodies: dict[int, Body] = {}
        self.turns = tuple(map(_turn, results, watch.turns))

    def build(self, http: requests.Session, clock: Clock, *, userinfo: str = "") -> Agent:
        """The session's agent, with its model behind `http`.

        Args:
            userinfo: credentials put into the address of the model.
        """
        source = self.session.model
        if userinfo and source.base_url:
            url = source.base_url.replace("://", f"://{userinfo}@", 1)
            source = source.model_copy(update={"base_url": url})
        model = build_model(source, session=http, clock=clock)
        with seeded(self.session.seed):
            agent = build_agent(self.factory, self.session.agent, model, clock, http)
        see_that_it_asks_through(http, agent)
        return agent

    def staged(
        self, agent: Agent, clock: Clock, runner: ToolRunner, observers: Sequence[Any]
    ) -> Agent:
        """The agent with a runner instead of its tools, and its searches from the tape."""
        changes: dict[str, Any] = {
            "executor": exchange_runner(agent.executor, lambda _live: runner),
            "observers": (*agent.observers, *observers),
        }
        if agent.retriever is not None:
            tape = search_tape(self.session.searches)
            name = agent.retriever.name
            changes["retriever"] = TapedRetriever(name, tape, ReplayClock())
        return agent.replace(clock=clock, **changes)

    def response(self, step: RecordedStep) -> Response:
        """What arrived for a step."""
        response = self._player.response(step.take)
        assert response is not None  # it made a reply
        return response

    def seconds(self, step: RecordedStep) -> float:
        """How long the reply of a step took."""
        return self.file.takes[step.take].seconds

    def body(self, step: RecordedStep) -> Body:
        """The reply of a step as it is served. A long stream says the same in fewer pieces."""
        if step.take not in self._bodies:
            recorded, reply = self.response(step), step.step.reply
            fresh = self.session.model.stream and not reply.cut_by_client
            self._bodies[step.take] = (
                with_reply(recorded, reply, self.session.model.api, Random(0))  # noqa: S311
                if fresh
                else Body(recorded, tuple(self.file.takes[step.take].sizes))
            )
        return self._bodies[step.take]

    def player(self) -> Player:
        """A player of the whole session, from its beginning."""
        return Player(self.file)

    def asks(self, request: Request) -> bool:
        """Whether a request asks the model of the session, and not an embedder, say."""
        return urlsplit(request.url).path in self._paths

    @cached_property
    def _paths(self) -> frozenset[str]:
        takes = [step.take for turn in self.turns for step in turn.steps]
        takes += [take for turn in self.turns for take in turn.ending]
        return frozenset(urlsplit(self._player.request(take).url).path for take in takes)

    def _check(self, results: Sequence[RunResult]) -> None:
        golden = [golden_turn(result) for result in results]
        divergence = first_divergence(self.session.trajectory, golden)
        if divergence is not None:
            raise NotSwept(
                f"it does not replay as recorded ({divergence}); see `agentrig replay`, and "
                "record it again or mend the agent"
            )


def converse(agent: Agent, session: Session) -> list[RunResult]:
    """Ask every question of a session."""
    results: list[RunResult] = []
    with seeded(session.seed):
        for turn in session.turns:
            history: Sequence[Message] = results[-1].messages if results else history_of(turn)
            results.append(agent.run(turn.question, history))
    return results


class _Takes:
    """An observer that notes which take each step of a turn was answered by."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._depth = 0
        self.turns: list[tuple[list[int], list[int]]] = []

    def started(self, event: Started) -> None:
        """A run is a turn."""
        if isinstance(event, RunStarted):
            self._depth += 1
            if self._depth == 1:
                self._begin = len(self._player.served)
                self.turns.append(([], []))

    def ended(self, token: Any, event: Ended) -> None:
        """Note the take of a reply, and at the end those that followed the last one."""
        if isinstance(event, StepEnded) and self._depth == 1:
            self.turns[-1][0].append(self._last())
            self._begin = len(self._player.served)
        elif isinstance(event, RunEnded):
            self._depth -= 1
            if self._depth == 0:
                rest = self._player.served[self._begin :]
                self.turns[-1][1].extend(each.number for each in rest if each.number is not None)

    def _last(self) -> int:
        number = self._player.served[-1].number
        if number is None:
            raise NotSwept("it asks for more replies than were recorded; see `agentrig replay`")
        return number


def _turn(result: RunResult, takes: tuple[list[int], list[int]]) -> RecordedTurn:
    steps = [
        RecordedStep(take, step, golden_step(step))
        for take, step in zip(takes[0], result.steps, strict=True)
    ]
    return RecordedTurn(tuple(steps), tuple(takes[1]), result)
