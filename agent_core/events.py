"""What happens in a run, told to one neutral kind of observer.

Gears open a `scope` around what they do; the observer that `watching` has set for the current
context is told of its start and its end. Without an observer a scope costs next to nothing.
An observer that raises is dropped and reported by a warning; the run goes on.

The observer travels in a context variable, so that an HTTP attempt deep inside a client and a
retrieval inside a tool's thread reach it without being handed it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, Self

from agent_core.messages import (
    Action,
    Hit,
    JsonObject,
    JsonValue,
    Language,
    Message,
    Observation,
    ParsedReply,
    Reply,
    RunResult,
    Step,
)
from agent_core.messages import Protocol as ReplyProtocol


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins. `tools` maps names to their JSON Schemas."""

    agent: str
    question: str
    model: str
    protocol: ReplyProtocol
    language: Language
    tools: Mapping[str, JsonValue]
    system: str
    limits: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class RunEnded:
    """A run is over; `result` holds every step."""

    result: RunResult


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A round of the loop begins; the first has index 1."""

    index: int


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A round of the loop is over. `fingerprints` are those of its actions, in order;
    `repeat_of` names, for each, the first step with the same one, or None."""

    step: Step
    fingerprints: tuple[str, ...] = ()
    repeat_of: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelCallStarted:
    """The model is asked. `options` are the sampling options as they are sent."""

    model: str
    provider: str
    url: str
    messages: Sequence[Message]
    tools: Sequence[JsonObject]
    options: Mapping[str, JsonValue]
    stream: bool
    context_window: int | None = None


@dataclass(frozen=True, slots=True)
class ModelCallEnded:
    """The model has answered, after this many HTTP attempts."""

    reply: Reply
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """One HTTP request goes out; the first has number 1."""

    number: int
    method: str
    url: str
    body_bytes: int
    body_sha256: str


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """One HTTP request is over. `retry_reason` says why another follows `wait` seconds later."""

    status: int | None
    response_bytes: int | None = None
    error: str | None = None
    retry_reason: str | None = None
    wait: float | None = None


@dataclass(frozen=True, slots=True)
class ParseStarted:
    """A reply goes to the parser."""

    reply: Reply
    protocol: ReplyProtocol


@dataclass(frozen=True, slots=True)
class ParseEnded:
    """The parser has decided."""

    parsed: ParsedReply


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """An action goes to the executor. `fingerprint` identifies tool and canonical arguments."""

    action: Action
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """The executor has an observation. `raw` is the tool's JSON-safe value before cleaning."""

    observation: Observation
    raw: JsonValue = None


@dataclass(frozen=True, slots=True)
class RetrievalStarted:
    """A search begins."""

    source: str
    query: str
    top_k: int


@dataclass(frozen=True, slots=True)
class RetrievalEnded:
    """A search has its hits, best first. `index_version` changes when the index does."""

    hits: Sequence[Hit]
    index_version: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingStarted:
    """Texts go to an embedder."""

    model: str
    texts: int
    characters: int


@dataclass(frozen=True, slots=True)
class EmbeddingEnded:
    """Vectors are there. `cached` of the texts did not have to be embedded again."""

    dimension: int
    cached: int = 0
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RerankStarted:
    """Hits go to a reranker."""

    model: str
    candidates: int


@dataclass(frozen=True, slots=True)
class RerankEnded:
    """The new order. `in_time` is False when the first-stage order was kept."""

    hits: Sequence[Hit]
    in_time: bool = True


@dataclass(frozen=True, slots=True)
class MemoryStarted:
    """Memory works: `operation` is `trim`, `summarise`, `recall`, `remember` or `forget`."""

    operation: str


@dataclass(frozen=True, slots=True)
class MemoryEnded:
    """Memory is done; `items` messages or memories were touched, `characters` left the prompt."""

    items: int
    characters: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The scope ended by an exception (`KeyboardInterrupt` and the like included)."""

    error: BaseException


Started = (
    RunStarted | StepStarted | ModelCallStarted | AttemptStarted | ParseStarted | ToolStarted
    | RetrievalStarted | EmbeddingStarted | RerankStarted | MemoryStarted
)  # fmt: skip
Ended = (
    RunEnded | StepEnded | ModelCallEnded | AttemptEnded | ParseEnded | ToolEnded
    | RetrievalEnded | EmbeddingEnded | RerankEnded | MemoryEnded | Failed
)  # fmt: skip


class Observer(Protocol):
    """What watches a run. `started` may return anything; `ended` gets it back."""

    def started(self, event: Started) -> Any: ...

    def ended(self, token: Any, event: Ended) -> None: ...


_observers: ContextVar[tuple[_Watched, ...]] = ContextVar("agent_core_observers", default=())


class _Watched:
    """An observer and whether it still works."""

    __slots__ = ("broken", "observer")

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.broken = False

    def started(self, event: Started) -> Any:
        try:
            return None if self.broken else self.observer.started(event)
        except Exception as error:
            self._drop(error)

    def ended(self, token: Any, event: Ended) -> None:
        try:
            if not self.broken:
                self.observer.ended(token, event)
        except Exception as error:
            self._drop(error)

    def _drop(self, error: Exception) -> None:
        self.broken = True
        name = type(self.observer).__name__
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # a warning turned into an error would end the run
            warnings.warn(
                f"observer {name} raised {type(error).__name__} and is not told anything more",
                RuntimeWarning,
                stacklevel=2,
            )


@contextmanager
def watching(*observers: Observer) -> Iterator[None]:
    """Add observers for what runs inside the `with` block, in this context.

    One that watches already (an agent inside a tool may share it) is not told everything twice.
    """
    present = _observers.get()
    new = [each for each in observers if all(each is not old.observer for old in present)]
    token = _observers.set((*present, *map(_Watched, new)))
    try:
        yield
    finally:
        with suppress(ValueError):  # a generator that is closed in another context
            _observers.reset(token)


class scope:  # noqa: N801 - used like a function: `with scope(StepStarted(1)) as step:`
    """Tell the observers that something begins and, when the block is left, how it ended.

    A block left by an exception ends with `Failed`, unless `end` was called before.
    """

    __slots__ = ("_ending", "_event", "_tokens")

    def __init__(self, event: Started) -> None:
        self._event = event
        self._ending: Ended | None = None
        self._tokens: list[tuple[_Watched, Any]] = []

    def end(self, event: Ended) -> None:
        """Say how what was begun has ended."""
        self._ending = event

    def __enter__(self) -> Self:
        try:
            for watched in _observers.get():
                self._tokens.append((watched, watched.started(self._event)))
        except BaseException as interrupt:  # Ctrl-C inside an observer: end what has begun
            self._close(Failed(interrupt))
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._tokens:
            return
        ending = self._ending
        if ending is None:
            ending = Failed(error if error is not None else RuntimeError("scope was never ended"))
        self._close(ending)

    def _close(self, ending: Ended) -> None:
        while self._tokens:
            watched, token = self._tokens.pop()
            try:
                watched.ended(token, ending)
            except BaseException as interrupt:  # the observers before this one still hear of it
                self._close(Failed(interrupt))
                raise


def watched() -> bool:
    """Whether anyone watches: lets a gear skip work that only an observer would use."""
    return bool(_observers.get())
