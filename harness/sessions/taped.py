"""Gears that record onto a tape, and gears that answer from one.

They sit where a tool is run, behind look-up, coercion and validation and before cleaning and
capping: a replay exercises all of these and only does not run the tool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from threading import Event, Lock
from typing import Any

from agent_core.budget import Spent, counting, current_budget
from agent_core.gears import LongTerm, Retriever, ToolExecutor, ToolRunner
from agent_core.messages import Chunk, Hit, JsonObject, JsonValue, ToolFailure
from agent_core.tools.definition import FunctionDefinition
from harness.redact import redactor
from harness.sessions.clocks import RecordingClock, ReplayClock
from harness.sessions.errors import SessionError
from harness.sessions.format import Failure, TapedCall, TapedHit, TapedSearch
from harness.sessions.tape import Tape, call_key, call_tape, search_key, search_tape

inside_call: ContextVar[int | None] = ContextVar("agentrig_inside_call", default=None)
"""Number of the taped call or search that runs in this context: its requests belong to it."""


def exchange_runner(
    executor: ToolExecutor, make: Callable[[ToolRunner], ToolRunner]
) -> ToolExecutor:
    """The same executor with another runner.

    Raises:
        SessionError: it does not have one that could be exchanged.
    """
    if not (hasattr(executor, "runner") and hasattr(executor, "replace")):
        raise SessionError(
            f"{type(executor).__name__} has no `runner` to record at: tools cannot be taped"
        )
    return executor.replace(runner=make(executor.runner))  # type: ignore[no-any-return]


class TapedRunner:
    """Answers tool calls from the tape. A call that is not on it fails as an exception would."""

    def __init__(self, tape: Tape[TapedCall], clock: ReplayClock) -> None:
        self._tape = tape
        self._clock = clock

    def run(
        self,
        tool: FunctionDefinition,
        arguments: JsonObject,
        *,
        timeout: float,
        cancel: Event | None = None,
    ) -> JsonValue | ToolFailure:
        """Give the recorded value or failure."""
        key = call_key(tool.name, arguments)
        call = self._tape.take(key, tool.name)
        if call is None:
            message = f"this call is not in the recording: {redactor.text(key):.300}"
            return ToolFailure("exception", "NotRecorded", message)
        self._clock.advance_to(call.at)
        return played(call)


class RecordingRunner:
    """Runs tools and keeps what they give.

    Args:
        earlier: the calls of an interrupted recording; each is given again instead of run.
    """

    def __init__(
        self,
        runner: ToolRunner,
        clock: RecordingClock,
        *,
        earlier: Sequence[TapedCall] = (),
        on_call: Callable[[TapedCall], None] = lambda _call: None,
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._earlier = call_tape(earlier)
        self._on_call = on_call
        self._lock = Lock()
        self._calls: dict[int, TapedCall] = {}
        self._begun = 0

    @property
    def calls(self) -> list[TapedCall]:
        """What was recorded, in the order in which the calls began."""
        with self._lock:
            return [self._calls[number] for number in sorted(self._calls)]

    def run(
        self,
        tool: FunctionDefinition,
        arguments: JsonObject,
        *,
        timeout: float,
        cancel: Event | None = None,
    ) -> JsonValue | ToolFailure:
        """Run the tool."""
        with self._lock:
            number, self._begun = self._begun, self._begun + 1
        again = self._earlier.take_exact(call_key(tool.name, arguments))
        if again is not None:
            self._keep(number, again)
            return played(again)
        began = self._clock.elapsed()
        token = inside_call.set(number)
        try:
            with counting() as spent:
                value = self._runner.run(tool, arguments, timeout=timeout, cancel=cancel)
        finally:
            inside_call.reset(token)
        ended = self._clock.elapsed()
        call = _taped(tool.name, arguments, value).model_copy(
            update={"at": ended, "seconds": round(ended - began, 3), **asdict(spent)}
        )
        self._on_call(call)
        self._keep(number, call)
        return value

    def _keep(self, number: int, call: TapedCall) -> None:
        with self._lock:
            self._calls[number] = call


class TapedRetriever:
    """Answers searches from the tape; one that is not on it finds nothing."""

    def __init__(self, name: str, tape: Tape[TapedSearch], clock: ReplayClock) -> None:
        self.name = name
        self._tape = tape
        self._clock = clock

    def retrieve(self, query: str, top_k: int = 5) -> Sequence[Hit]:
        """Give the recorded hits."""
        search = self._tape.take(search_key(query, top_k), "search")
        if search is None:
            return []
        self._clock.advance_to(search.at)
        return [_hit(each) for each in search.hits]


class RecordingRetriever:
    """Searches, and keeps what was found."""

    def __init__(
        self,
        retriever: Retriever,
        clock: RecordingClock,
        *,
        earlier: Sequence[TapedSearch] = (),
        on_search: Callable[[TapedSearch], None] = lambda _search: None,
    ) -> None:
        self.name = retriever.name
        self._retriever = retriever
        self._clock = clock
        self._earlier = search_tape(earlier)
        self._on_search = on_search
        self.searches: list[TapedSearch] = []

    def retrieve(self, query: str, top_k: int = 5) -> Sequence[Hit]:
        """Search."""
        again = self._earlier.take_exact(search_key(query, top_k))
        if again is not None:
            self.searches.append(again)
            return [_hit(each) for each in again.hits]
        token = inside_call.set(len(self.searches))
        try:
            hits = list(self._retriever.retrieve(query, top_k))
        finally:
            inside_call.reset(token)
        search = TapedSearch(
            query=redactor.text(query),
            top_k=top_k,
            hits=[_taped_hit(each) for each in hits],
            at=self._clock.elapsed(),
        )
        self._on_search(search)
        self.searches.append(search)
        return hits


class TapedLongTerm(TapedRetriever):
    """Recalls from the tape, and keeps nothing: a replay leaves no trace in anybody's memory."""

    def keep_conversation(self, question: str, answer: str) -> None:
        """Do nothing."""


class RecordingLongTerm(RecordingRetriever):
    """Recalls from long-term memory and keeps what was found, and lets it keep conversations."""

    def __init__(
        self,
        longterm: LongTerm,
        clock: RecordingClock,
        *,
        earlier: Sequence[TapedSearch] = (),
        on_search: Callable[[TapedSearch], None] = lambda _search: None,
    ) -> None:
        super().__init__(longterm, clock, earlier=earlier, on_search=on_search)
        self._longterm = longterm

    def keep_conversation(self, question: str, answer: str) -> None:
        """Pass it on."""
        self._longterm.keep_conversation(question, answer)


def played(call: TapedCall) -> JsonValue | ToolFailure:
    """What a recorded call gives; the run that it belongs to pays for the agents inside it."""
    budget = current_budget()
    if budget is not None:
        budget.charge(Spent(call.steps, call.tokens))
    if call.failure is None:
        return call.value
    return ToolFailure(call.failure.kind, call.failure.type, call.failure.message)


def _taped(tool: str, arguments: JsonObject, value: Any) -> TapedCall:
    failure = None
    if isinstance(value, ToolFailure):
        failure = Failure(**asdict(value))
        failure = failure.model_copy(update={"message": redactor.text(failure.message)})
        value = None
    return TapedCall(
        tool=tool,
        arguments=redactor.value(arguments),
        value=redactor.value(value),
        failure=failure,
    )


def _taped_hit(hit: Hit) -> TapedHit:
    chunk = hit.chunk
    return TapedHit(
        id=chunk.id,
        text=redactor.text(chunk.text),
        source=chunk.source,
        start=chunk.start,
        end=chunk.end,
        score=hit.score,
        metadata=redactor.value(dict(chunk.metadata)),
    )


def _hit(hit: TapedHit) -> Hit:
    chunk = Chunk(hit.id, hit.text, hit.source, hit.start, hit.end, hit.metadata)
    return Hit(chunk, hit.score)
