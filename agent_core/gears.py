"""The protocols that every gear of an agent meets, so that each can be swapped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Event
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from agent_core.errors import ConfigError
from agent_core.messages import (
    Action,
    Hit,
    JsonObject,
    JsonValue,
    Message,
    Observation,
    ParsedReply,
    Reply,
    ToolFailure,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_core.tools.definition import FunctionDefinition

ToolSchemas = Mapping[str, JsonObject]
"""Tool names with the JSON Schema of their arguments."""

OnText = Callable[[str], bool]
"""Called with each piece of text as it arrives; returning True stops reading."""


@runtime_checkable
class ChatModel(Protocol):
    """A model behind an API.

    `chat` raises `ModelError` and nothing else for what the server or the network does.
    `timeout` is what is left of the run, in seconds: retries and reading end within it.
    `context_window` is what one prompt and its answer may hold, in tokens, if known.
    """

    name: str
    provider: str
    context_window: int | None

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[JsonObject] = (),
        stop: Sequence[str] = (),
        format: JsonValue = None,
        on_text: OnText | None = None,
        timeout: float | None = None,
    ) -> Reply: ...


class ReplyParser(Protocol):
    """Turns a reply into a decision. It never raises; a bad reply is a `FormatError`."""

    def parse(self, reply: Reply, tools: ToolSchemas) -> ParsedReply: ...


class ToolExecutor(Protocol):
    """Looks up, coerces, validates, runs, cleans and caps. It never raises `Exception`."""

    @property
    def definitions(self) -> Mapping[str, FunctionDefinition]: ...

    def execute(
        self, action: Action, *, timeout: float | None = None, cancel: Event | None = None
    ) -> Observation: ...


class ToolRunner(Protocol):
    """Runs one tool with valid arguments. The seam at which a tape answers instead.

    Returns a JSON-safe value or a failure, before cleaning and capping.
    """

    def run(
        self,
        tool: FunctionDefinition,
        arguments: JsonObject,
        *,
        timeout: float,
        cancel: Event | None = None,
    ) -> JsonValue | ToolFailure: ...


class Retriever(Protocol):
    """Finds passages. `name` says where they come from."""

    name: str

    def retrieve(self, query: str, top_k: int = 5) -> Sequence[Hit]: ...


class LongTerm(Retriever, Protocol):
    """Remembers from run to run; what it retrieves for a question is put into the prompt.

    `keep_conversation` raises `RetrievalError` and nothing else for what the store does.
    """

    def keep_conversation(self, question: str, answer: str) -> None: ...


class Embedder(Protocol):
    """Texts to vectors: float32, one row a text, in the order of the texts."""

    @property
    def name(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int | None: ...

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]: ...

    def embed_query(self, text: str) -> NDArray[np.float32]: ...


class Reranker(Protocol):
    """Puts hits into a better order."""

    name: str

    def rerank(self, query: str, hits: Sequence[Hit]) -> Sequence[Hit]: ...


class Memory(Protocol):
    """Decides which part of the history the model sees.

    `view` gets the whole history, system prompt first, and the index of the message that
    holds the current task; it returns what is sent. `budget` is the number of tokens the
    prompt may take (by `agent_core.context.estimate_tokens`), if known.
    """

    def view(
        self, messages: Sequence[Message], *, task: int, budget: int | None = None
    ) -> list[Message]: ...


@runtime_checkable
class SavedMemory(Memory, Protocol):
    """A memory with a state beyond the history, which a resumed run takes along."""

    def saved(self, task: str) -> JsonValue: ...

    def restore(self, saved: JsonValue) -> None: ...


class Clock(Protocol):
    """Wall time for tools, monotonic time for limits, and waiting."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


REQUIRED = {
    "model": "chat",
    "parser": "parse",
    "executor": "execute",
    "retriever": "retrieve",
    "memory": "view",
    "longterm": "keep_conversation",
    "clock": "monotonic",
}
"""Each gear of an agent, with the method that it cannot do without."""

_OPTIONAL = {"retriever", "longterm"}


def check_gear(gear: str, given: object) -> None:
    """See that something can be this gear.

    Raises:
        ConfigError: it cannot: another kind of object, or a class in place of an object.
    """
    if given is None and gear in _OPTIONAL:
        return
    if isinstance(given, type):
        raise ConfigError(f"{gear} must be an object, got the class {given.__name__} itself")
    method = REQUIRED[gear]
    if not callable(getattr(given, method, None)):
        raise ConfigError(f"{gear} must have a method {method!r}, got a {type(given).__name__}")
