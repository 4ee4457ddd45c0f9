"""A run as a stream of typed events, while it goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from agent_core.acting import with_ids
from agent_core.answer_text import AnswerText
from agent_core.budget import Budget, current_budget
from agent_core.events import Ended, ModelCallStarted, ParseEnded, Started, StepEnded, StepStarted
from agent_core.events import ToolEnded as ToolEndedEvent
from agent_core.gears import ChatModel, OnText
from agent_core.messages import (
    Action,
    Actions,
    FinalAnswer,
    JsonObject,
    JsonValue,
    Message,
    Observation,
    ParsedReply,
    Reply,
    RunResult,
)

if TYPE_CHECKING:
    from agent_core.agent import Agent


@dataclass(frozen=True, slots=True)
class Thought:
    """What the model thought before it decided, whole."""

    text: str


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of the answer as it grows.

    `replaces` is True when `text` stands for all pieces before: what looked like an answer was
    something else, or the finished text reads differently.
    """

    text: str
    replaces: bool = False


StreamEvent: TypeAlias = Thought | Action | Observation | AnswerPiece | RunResult


def stream_run(
    agent: Agent, question: str, history: Sequence[Message], cancel: Event
) -> Iterator[StreamEvent]:
    """Run an agent in a thread and hand out what happens; see `Agent.stream`."""
    queue: SimpleQueue[StreamEvent | BaseException] = SimpleQueue()
    watch = _Watch(agent, queue.put)
    watched = agent.replace(
        model=_Overheard(agent.model, watch.piece), observers=(*agent.observers, watch)
    )

    def work() -> None:
        try:
            queue.put(watched.run(question, history, cancel=cancel))
        except BaseException as error:  # raised again where the caller is
            queue.put(error)

    thread = Thread(target=copy_context().run, args=(work,), name="agent-stream", daemon=True)
    thread.start()
    over = False
    try:
        while not over:
            event = queue.get()
            over = isinstance(event, RunResult | BaseException)
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        if not over:  # the caller has stopped listening
            cancel.set()


class _Overheard:
    """A model whose text is also told to someone else as it arrives."""

    def __init__(self, model: ChatModel, tell: Callable[[str], None]) -> None:
        self._model = model
        self._tell = tell
        self.name = model.name
        self.provider = model.provider
        self.context_window = model.context_window

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[JsonObject] = (),
        stop: Sequence[str] = (),
        format: JsonValue = None,
        on_text: OnText | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Ask the model; tell of its text only where the loop reads it too."""

        def both(piece: str) -> bool:
            assert on_text is not None
            self._tell(piece)
            return on_text(piece)

        return self._model.chat(
            messages,
            tools=tools,
            stop=stop,
            format=format,
            on_text=both if on_text else None,
            timeout=timeout,
        )


class _Watch:
    """An observer that turns what happens in the outermost run into stream events."""

    def __init__(self, agent: Agent, put: Callable[[StreamEvent], None]) -> None:
        self._agent = agent
        self._put = put
        self._budget: Budget | None = None  # tells our run from those inside its tools
        self._index = 0
        self._answer = AnswerText(agent.protocol)
        self._seen: list[Observation] = []
        self._answered = False  # what follows an answer (its form as data) is not for the screen

    def piece(self, piece: str) -> None:
        """Text of the model has arrived."""
        first = not self._answer.begun
        text = self._answer.feed(piece)
        if text and first and self._answer.thought:
            self._put(Thought(self._answer.thought))
        if text:
            self._put(AnswerPiece(text))

    def started(self, event: Started) -> None:
        """Notice steps and model calls."""
        if isinstance(event, StepStarted):
            self._budget = self._budget or current_budget()
            if self._is_ours():
                self._index, self._seen = event.index, []
        elif isinstance(event, ModelCallStarted) and self._is_ours():
            self._answer.restart()

    def ended(self, token: Any, event: Ended) -> None:
        """Tell of decisions and observations."""
        if not self._is_ours():
            return
        if isinstance(event, ParseEnded):
            self._decided(event.parsed)
        elif isinstance(event, ToolEndedEvent):
            self._observed(event.observation)
        elif isinstance(event, StepEnded):
            for each in event.step.observations:  # those that were not run have no tool event
                if all(each is not seen for seen in self._seen):
                    self._observed(each)

    def _is_ours(self) -> bool:
        return self._budget is not None and current_budget() is self._budget

    def _observed(self, observation: Observation) -> None:
        self._seen.append(observation)
        self._put(observation)

    def _decided(self, parsed: ParsedReply) -> None:
        if self._answered:
            return
        decision, said = parsed.decision, self._answer.emitted
        answers = isinstance(decision, FinalAnswer) and (
            decision.labelled or self._agent.protocol == "native"
        )
        self._answered = answers
        final = decision.text if answers and isinstance(decision, FinalAnswer) else ""
        if said and not final.startswith(said):
            self._put(AnswerPiece(final, replaces=True))
            said = final
        if parsed.thought and not (said and parsed.thought == self._answer.thought):
            self._put(Thought(parsed.thought))
        if final[len(said) :]:
            self._put(AnswerPiece(final[len(said) :]))
        if isinstance(decision, Actions):
            for action in with_ids(decision.actions, self._index):
                self._put(action)
