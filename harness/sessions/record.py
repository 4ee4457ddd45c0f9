"""Record a session: run an agent against a live model and keep everything in one file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from agent_core.agent import Agent
from agent_core.clock import SystemClock
from agent_core.events import Observer
from agent_core.gears import Clock, ToolRunner
from agent_core.messages import JsonObject, Message, RunResult, ToolCall
from harness.plain import counted
from harness.redact import redactor
from harness.sessions.cassette import load_session, render_session, session_block
from harness.sessions.clocks import RecordingClock, seeded
from harness.sessions.errors import SessionError, SessionExists
from harness.sessions.format import (
    AgentSource,
    Clocks,
    ModelSource,
    Provenance,
    Session,
    SessionFile,
    ToolDefinition,
    Turn,
)
from harness.sessions.journal import Earlier, Journal
from harness.sessions.player import Player
from harness.sessions.recorder import Recorder, recording_session
from harness.sessions.sources import (
    Factory,
    build_agent,
    build_model,
    public,
    resolved,
    server_facts,
)
from harness.sessions.storage import write_atomically
from harness.sessions.taped import (
    RecordingLongTerm,
    RecordingRetriever,
    RecordingRunner,
    exchange_runner,
)
from harness.sessions.trajectory import golden_turn

Mode = Literal["new", "rewrite", "resume"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to record."""

    agent: AgentSource
    model: ModelSource
    turns: tuple[Turn, ...]
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished recording."""

    path: Path
    file: SessionFile
    results: tuple[RunResult, ...]

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "path": str(self.path),
            "requests": len(self.file.takes),
            "stop_reasons": [str(result.stop_reason) for result in self.results],
            "answers": [result.answer for result in self.results],
        }


def plan_of(session: Session) -> Plan:
    """What a session was recorded from, to record it again."""
    return Plan(session.agent, session.model, tuple(session.turns), session.seed)


def record(
    plan: Plan | None,
    factory: Factory,
    path: Path,
    *,
    mode: Mode = "new",
    clock: Clock | None = None,
    observers: Sequence[Observer] = (),
) -> Recorded:
    """Record a session.

    The file appears whole at the end. Until then a journal beside it holds what has happened,
    and stays there when the recording is interrupted.

    Args:
        plan: what to record; None with `resume` takes it from the journal.
        factory: builds the agent.
        mode: `new` refuses to replace anything, `rewrite` replaces the session, `resume` goes
            on from the journal of an interrupted recording.
        clock: the machine's unless given.

    Raises:
        SessionExists: mode `new` and there is a session or a journal.
        SessionBusy: someone else is recording it.
        SessionError: nothing to resume.
    """
    if mode == "new" and path.exists():
        raise SessionExists(f"{path} exists; record it again with --rewrite, or choose a name")
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(path)
    try:
        earlier = _take_up(journal, mode, path)
        plan = _plan(plan, earlier)
        recording = _Recording(plan, journal, earlier, clock or SystemClock())
        results = recording.run(factory, observers)
        file = recording.file(results)
        write_atomically(path, render_session(file))
    except BaseException:
        _leave(journal)
        raise
    journal.discard()
    return Recorded(path, file, tuple(results))


def rewrite(
    path: Path,
    factory: Factory,
    *,
    model: ModelSource | None = None,
    clock: Clock | None = None,
) -> Recorded:
    """Record a session again from what it says of itself; the old one stays until it is done.

    Args:
        model: another way to reach the model than the session's own.

    Raises:
        SessionError: it is a stock cassette, which does not say what agent made it.
    """
    session = load_session(path).session
    if session is None:
        raise SessionError(f"{path} is a cassette without a session block: nothing to run again")
    plan = plan_of(session)
    if model is not None:
        plan = Plan(plan.agent, model, plan.turns, plan.seed)
    return record(plan, factory, path, mode="rewrite", clock=clock)


class _Recording:
    """The recording gears of one session."""

    def __init__(self, plan: Plan, journal: Journal, earlier: Earlier | None, clock: Clock) -> None:
        self.plan = plan
        self.journal = journal
        self.earlier = earlier or Earlier()
        self.model_source = resolved(plan.model)
        self.clock = RecordingClock(
            clock,
            earlier=self.earlier.readings,
            offset=self.earlier.seconds,
            on_reading=lambda reading: journal.append({"now": reading}),
        )
        self.recorder = Recorder(
            self.clock,
            earlier=Player(self.earlier.file(), skip_within=False) if self.earlier.takes else None,
            on_take=journal.take,
            on_rewind=lambda number: journal.append({"rewind": number}),
        )
        self.http = recording_session(self.recorder)
        self.provenance = self._provenance(clock)
        self.tools: list[ToolDefinition] = []
        self.runner: RecordingRunner | None = None
        self.searchers: list[RecordingRetriever] = []

    def run(self, factory: Factory, observers: Sequence[Observer]) -> list[RunResult]:
        """Ask every question."""
        agent = self._agent(factory)
        agent = agent.replace(observers=(*agent.observers, *observers))
        if not self.earlier.header:
            self.journal.append({"session": self._header()})
        results: list[RunResult] = []
        with self.http, seeded(self.plan.seed):
            for turn in self.plan.turns:
                history = results[-1].messages if results else history_of(turn)
                results.append(agent.run(turn.question, history))
        if any(result.steps for result in results) and not self.recorder.results()[0]:
            raise SessionError(
                f"the agent sent nothing through the model it was given: does "
                f"{self.plan.agent.factory} use its `model`?"
            )
        return results

    def file(self, results: Sequence[RunResult]) -> SessionFile:
        """Everything as a session file."""
        takes, exchanges = self.recorder.results()
        session = Session(
            **self._header(),
            clock=Clocks(now=self.clock.readings),
            tools=self.tools,
            tape=self.runner.calls if self.runner else [],
            searches=sorted(
                (one for each in self.searchers for one in each.searches), key=lambda one: one.at
            ),
            takes=takes,
            trajectory=[golden_turn(result) for result in results],
        )
        return SessionFile(session, exchanges)

    def _agent(self, factory: Factory) -> Agent:
        model = build_model(self.model_source, session=self.http, clock=self.clock)
        agent = build_agent(factory, self.plan.agent, model, self.clock, self.http)
        self.tools = tool_definitions(agent)
        changes: dict[str, object] = {
            "executor": exchange_runner(agent.executor, self._recording_runner)
        }
        searching: JsonObject = {
            "earlier": self.earlier.searches,
            "on_search": lambda one: self.journal.append({"search": one.model_dump(mode="json")}),
        }
        if agent.catalogue is not None:  # in the order in which a run asks them
            tools = RecordingRetriever(agent.catalogue.retriever, self.clock, **searching)
            changes["catalogue"] = agent.catalogue.with_retriever(tools)
            self.searchers.append(tools)
        if agent.retriever is not None:
            passages = RecordingRetriever(agent.retriever, self.clock, **searching)
            changes["retriever"] = passages
            self.searchers.append(passages)
        if agent.longterm is not None:
            memories = RecordingLongTerm(agent.longterm, self.clock, **searching)
            changes["longterm"] = memories
            self.searchers.append(memories)
        return agent.replace(clock=self.clock, **changes)

    def _recording_runner(self, runner: ToolRunner) -> RecordingRunner:
        self.runner = RecordingRunner(
            runner,
            self.clock,
            earlier=self.earlier.calls,
            on_call=lambda call: self.journal.append({"call": call.model_dump(mode="json")}),
        )
        return self.runner

    def _header(self) -> JsonObject:
        header = Session(
            agent=self.plan.agent.model_copy(
                update={"parameters": redactor.value(self.plan.agent.parameters)}
            ),
            model=public(self.model_source),
            turns=[Turn(**redactor.value(turn.model_dump())) for turn in self.plan.turns],
            provenance=self.provenance,
            seed=self.plan.seed,
        )
        return session_block(header)

    def _provenance(self, clock: Clock) -> Provenance:
        if self.earlier.header:
            return Provenance(**self.earlier.header.get("provenance", {}))
        facts = server_facts(self.model_source)
        return facts.model_copy(
            update={
                "recorded_at": clock.now().isoformat(timespec="seconds"),
                "agentrig": version("agentrig"),
            }
        )


def tool_definitions(agent: Agent) -> list[ToolDefinition]:
    """The tools of an agent as the model is told of them."""
    return [
        ToolDefinition(
            name=each.name, description=each.description, parameters=redactor.value(each.parameters)
        )
        for each in agent.executor.definitions.values()
    ]


def history_of(turn: Turn) -> list[Message]:
    """The messages that a session began with."""
    return [
        Message(
            each.role,
            each.content,
            tuple(ToolCall(call.id, call.name, call.arguments) for call in each.tool_calls),
            each.tool_call_id,
            each.name,
        )
        for each in turn.history
    ]


def _take_up(journal: Journal, mode: Mode, path: Path) -> Earlier | None:
    if mode == "rewrite":
        journal.restart()
        return None
    earlier = journal.earlier()
    if mode == "resume" and (earlier is None or not earlier.header):
        raise SessionError(f"no interrupted recording of {path.name!r}: nothing to resume")
    if mode == "new" and earlier is not None and earlier.has_work:
        raise SessionExists(
            f"an interrupted recording of {path.name!r} is there "
            f"({counted(len(earlier.takes), 'request')}); "
            "go on with --resume, or start again with --rewrite"
        )
    if mode == "new":
        journal.restart()
    return earlier if mode == "resume" else None


def _plan(plan: Plan | None, earlier: Earlier | None) -> Plan:
    """A resumed recording stays what it was."""
    if earlier is None:
        if plan is None:
            raise SessionError("nothing to record: expected a plan, or mode 'resume'")
        return plan
    known = plan_of(Session(**earlier.header))
    if plan is not None and plan.agent.factory != known.agent.factory:
        raise SessionError(
            f"the interrupted recording is of {known.agent.factory!r}, not {plan.agent.factory!r}"
        )
    return known


def _leave(journal: Journal) -> None:
    """Keep the journal if there is anything in it that cost something."""
    try:
        earlier = journal.earlier()
    except (SessionError, OSError):  # damaged: not ours to throw away
        journal.close()
        return
    if earlier is None or not earlier.has_work:
        journal.discard()
    else:
        journal.close()
