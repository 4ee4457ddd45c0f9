"""The recording gears of one session: everything that answers the agent is kept."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from agent_core.agent import Agent
from agent_core.events import Observer
from agent_core.gears import Clock, ToolRunner
from agent_core.messages import JsonObject, RunResult
from harness.sessions.cassette import session_block
from harness.sessions.clocks import RecordingClock, seeded
from harness.sessions.errors import SessionError
from harness.sessions.format import Clocks, Provenance, Session, SessionFile, ToolDefinition
from harness.sessions.journal import Earlier, Journal
from harness.sessions.plan import Plan, history_of, public_plan
from harness.sessions.player import Player
from harness.sessions.recorder import Recorder, recording_session
from harness.sessions.servers import Servers
from harness.sessions.sources import (
    Factory,
    build_agent,
    build_model,
    resolved,
    server_facts,
    tool_definitions,
)
from harness.sessions.taped import (
    RecordingLongTerm,
    RecordingRetriever,
    RecordingRunner,
    exchange_runner,
)
from harness.sessions.trajectory import golden_turn


class Recording:
    """The recording gears of one session."""

    def __init__(
        self,
        plan: Plan,
        journal: Journal,
        earlier: Earlier | None,
        clock: Clock,
        servers: Servers | None,
    ) -> None:
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
            servers=servers,
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
        if self.recorder.refused is not None:  # an agent can do without a gear that fails
            raise self.recorder.refused
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
        with seeded(self.plan.seed):
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
        plan = public_plan(self.plan)
        header = Session(
            agent=plan.agent,
            model=plan.model,
            turns=list(plan.turns),
            provenance=self.provenance,
            seed=plan.seed,
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
