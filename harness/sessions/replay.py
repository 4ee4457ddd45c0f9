"""Replay a session: the same agent, the recorded replies, and a verdict on what changed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Literal

import requests

from agent_core.agent import Agent
from agent_core.errors import ConfigError
from agent_core.events import Observer
from agent_core.messages import RunResult
from harness.plain import counted
from harness.sessions.borders import Borders
from harness.sessions.cassette import load_session
from harness.sessions.clocks import ReplayClock, seeded
from harness.sessions.drift import drift_of
from harness.sessions.errors import SessionFormatError
from harness.sessions.format import GoldenTurn, Session, SessionFile
from harness.sessions.plan import history_of
from harness.sessions.player import Player, replay_session
from harness.sessions.session_report import Report
from harness.sessions.sources import (
    Factory,
    allowed_factory,
    build_agent,
    build_model,
    named_factory,
    see_that_it_asks_through,
    tool_definitions,
)
from harness.sessions.tape import call_tape, search_tape
from harness.sessions.taped import TapedLongTerm, TapedRetriever, TapedRunner, exchange_runner
from harness.sessions.trajectory import (
    StepWatch,
    divergences,
    golden_turn,
    is_open,
    miscounts,
    not_run,
)

if TYPE_CHECKING:
    from harness.trace.spans import Trace

ReplayMode = Literal["strict", "lenient"]
ToolMode = Literal["taped", "live"]
FailOn = Literal["warn", "fail"]

_NOT_JUDGED = (
    "not judged: a proxy recorded it, and what agent it was is not known; point the agent at "
    "`serve_session` in a test (pytest), or at `agentrig serve --once`"
)


def replay(
    session: str | Path | SessionFile,
    *,
    factory: Factory | str | None = None,
    allow: Sequence[str] = (),
    mode: ReplayMode = "strict",
    tools: ToolMode = "taped",
    borders: Borders | None = None,
    pace: float = 0.0,
    fail_on: FailOn = "warn",
    observers: Sequence[Observer] = (),
    traces: Callable[[], Sequence[Trace]] | None = None,
    name: str | None = None,
) -> Report:
    """Replay one session offline and compare.

    A file that does not say what agent made it is replayed by sending its own requests again.
    That tells of a stock cassette whether it can be played, and nothing of an agent that a proxy
    has recorded: such a file is not judged.

    Args:
        factory: builds the agent; a function, or `module:function` that the caller trusts.
            None takes the one the session names, if its module is allowed.
        allow: modules whose factories the session may name (`harness.demo` always is).
        mode: `strict` stops where decisions diverge and fails for drift; `lenient` goes on and
            never fails for it.
        tools: `taped` answers tool calls from the recording, `live` runs them.
        borders: where streams are cut into chunks; as they came unless given.
        pace: 1.0 as slowly as it was recorded, 0.0 without waiting.
        fail_on: the least severity of drift that fails.
        traces: gives what the observers have written of this replay, to be held against the
            recording: a trace that says something else fails.

    Raises:
        SessionFormatError: no session.
        FactoryRefused: the agent cannot be built, or may not be.
        ConfigError: a pace outside 0…1.
    """
    if not 0 <= pace <= 1:
        raise ConfigError(f"pace must be from 0 (at once) to 1 (as recorded), got {pace!r}")
    file = session if isinstance(session, SessionFile) else load_session(session)
    path = None if isinstance(session, SessionFile) else Path(session)
    name = name or ("session" if path is None else path.stem)
    began = time.perf_counter()
    if file.session is None:
        report = _replay_cassette(file, name, borders)
        if file.traffic is not None:
            report = dataclasses.replace(report, judged=False, note=_NOT_JUDGED)
    else:
        turns, golden = len(file.session.turns), len(file.session.trajectory)
        if golden < turns:
            raise SessionFormatError(
                f"{name}: expected a golden trajectory for each of {turns} turns, got {golden}: "
                "there is nothing to compare with; record it again"
            )
        chosen = named_factory(factory) if isinstance(factory, str) else factory
        chosen = chosen or allowed_factory(file.session.agent.factory, allow)
        run = _Replay(
            file, file.session, mode=mode, live_tools=tools == "live", borders=borders, pace=pace
        )
        report = run.report(chosen, name, fail_on=fail_on, observers=observers)
        written = traces() if traces is not None else ()
        if written:  # a sampler may have left it out
            from harness.sessions.crosscheck import cross_check  # noqa: PLC0415 - for traces only

            told = map(golden_turn, report.results if all(map(is_open, report.results)) else ())
            report = with_lies(report, cross_check(file, written, report.served, tuple(told)))
    return dataclasses.replace(report, path=path, seconds=time.perf_counter() - began)


def with_lies(report: Report, lies: Sequence[str]) -> Report:
    """The report, failed if a trace says otherwise than its recording."""
    return dataclasses.replace(report, lies=tuple(lies), ok=report.ok and not lies)


class _Replay:
    """The replay gears of one session."""

    def __init__(
        self,
        file: SessionFile,
        session: Session,
        *,
        mode: ReplayMode,
        live_tools: bool,
        borders: Borders | None,
        pace: float,
    ) -> None:
        self.session = session
        self.mode = mode
        self.live_tools = live_tools
        self.clock = ReplayClock(session.clock.now, pace=pace)
        self.player = Player(file, clock=self.clock, skip_within=not live_tools, borders=borders)
        self.calls = call_tape(session.tape)
        self.searches = search_tape(session.searches)
        self.cancel = Event()

    def report(
        self, factory: Factory, name: str, *, fail_on: FailOn, observers: Sequence[Observer]
    ) -> Report:
        """Run every turn and judge."""
        agent = self._agent(factory, observers)
        results, golden = self._run(agent)
        ways = (*divergences(self.session.trajectory, golden), *miscounts(results))
        tools = tool_definitions(agent)
        drift = drift_of(
            self.player,
            recorded_tools=self.session.tools,
            tools=tools,
            refused=() if self.live_tools else not_run(results),
            diverged=any(each.parts for each in ways),
        )
        changed_calls = (*self.calls.changed, *self.searches.changed)
        unused = [] if self.live_tools else [*self.calls.unused, *self.searches.unused]
        changed = drift.reaches(fail_on) or ways or changed_calls or unused
        return Report(
            name=name,
            ok=self.mode == "lenient" or not changed,
            drift=drift,
            divergences=ways,
            changed_calls=changed_calls,
            unused_calls=tuple(unused),
            results=tuple(results),
            served=tuple(each.number for each in self.player.served),
            asked=tuple(map(self.player.asked, self.player.served)),
            tools=tuple(tools),
        )

    def _agent(self, factory: Factory, observers: Sequence[Observer]) -> Agent:
        session = replay_session(self.player)
        model = build_model(self.session.model, session=session, clock=self.clock)
        with seeded(self.session.seed):
            agent = build_agent(factory, self.session.agent, model, self.clock, session)
        see_that_it_asks_through(session, agent)
        watch = [StepWatch(self.session.trajectory, self.cancel)] if self.mode == "strict" else []
        changes: dict[str, object] = {"observers": (*agent.observers, *watch, *observers)}
        if not self.live_tools:
            changes["executor"] = exchange_runner(
                agent.executor, lambda _live: TapedRunner(self.calls, self.clock)
            )
            if agent.retriever is not None:
                name = agent.retriever.name
                changes["retriever"] = TapedRetriever(name, self.searches, self.clock)
            if agent.longterm is not None:
                name = agent.longterm.name
                changes["longterm"] = TapedLongTerm(name, self.searches, self.clock)
            if agent.catalogue is not None:
                name = agent.catalogue.retriever.name
                taped = TapedRetriever(name, self.searches, self.clock)
                changes["catalogue"] = agent.catalogue.with_retriever(taped)
        return agent.replace(clock=self.clock, **changes)

    def _run(self, agent: Agent) -> tuple[list[RunResult], list[GoldenTurn]]:
        results: list[RunResult] = []
        golden: list[GoldenTurn] = []
        with seeded(self.session.seed):
            for turn in self.session.turns:
                if self.mode == "strict" and self._went_another_way(golden):
                    break
                history = results[-1].messages if results else history_of(turn)
                results.append(agent.run(turn.question, history, cancel=self.cancel))
                golden.append(golden_turn(results[-1]))
        return results, golden

    def _went_another_way(self, golden: list[GoldenTurn]) -> bool:
        ways = divergences(self.session.trajectory[: len(golden)], golden)
        return self.cancel.is_set() or any(each.parts for each in ways)


def _replay_cassette(file: SessionFile, name: str, borders: Borders | None) -> Report:
    """Send a cassette's own requests; each has to get its own reply."""
    player = Player(SessionFile(None, file.exchanges), borders=borders)
    with replay_session(player) as http:
        for exchange in file.exchanges:
            sent = exchange.request
            headers = {key: ", ".join(values) for key, values in sent.headers.items()}
            request = requests.Request(sent.method, sent.url, headers=headers, data=sent.body)
            http.send(request.prepare(), allow_redirects=False)
    drift = drift_of(player)
    note = (
        f"no agent ran; what was checked: its own {counted(drift.total, 'request')}, sent again, "
        "for the recorded replies"
    )
    return Report(name=name, ok=not drift.reaches("warn"), drift=drift, note=note)
