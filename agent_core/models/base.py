"""What the HTTP clients share: the call around the request, and the text as it grows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import requests

from agent_core.clock import SystemClock
from agent_core.events import ModelCallEnded, ModelCallStarted, scope
from agent_core.gears import Clock, OnText
from agent_core.messages import JsonObject, JsonValue, Message, Reply
from agent_core.models.address import Address
from agent_core.models.failures import Target
from agent_core.models.http import HttpClient, authorization
from agent_core.models.incoming import Incoming
from agent_core.models.policy import RetryPolicy, Timeouts
from agent_core.models.wire import clean_text


class TextBuffer:
    """Collects the pieces of a text, passes them on, and knows when to stop.

    Half a surrogate pair waits for its other half, so that every piece can be printed.
    """

    def __init__(self, on_text: OnText | None, clock: Clock) -> None:
        self._on_text = on_text
        self._clock = clock
        self._began = clock.monotonic()
        self._parts: list[str] = []
        self._held = ""
        self.first_chunk: float | None = None

    def add(self, piece: str) -> bool:
        """Take a piece; true when the listener wants no more."""
        if not piece:
            return False
        if self.first_chunk is None:
            self.first_chunk = self._clock.monotonic() - self._began
        self._parts.append(piece)
        piece = self._held + piece
        self._held = piece[-1] if "\ud800" <= piece[-1] <= "\udbff" else ""
        piece = piece[: len(piece) - len(self._held)]
        return bool(piece and self._on_text and self._on_text(clean_text(piece)))

    def text(self) -> str:
        """Everything so far."""
        return clean_text("".join(self._parts))


class HttpChat(ABC):
    """A chat model behind HTTP."""

    provider: str

    def __init__(
        self,
        name: str,
        address: Address,
        path: str,
        *,
        api_key: str | None,
        session: requests.Session | None,
        stream: bool,
        context_window: int | None,
        timeouts: Timeouts,
        retry: RetryPolicy,
        clock: Clock | None,
    ) -> None:
        self.name = name
        self.context_window = context_window
        self._target = Target(address.join(path), name, ollama=self.provider == "ollama")
        self._clock = clock or SystemClock()
        self._stream = stream
        self._http = HttpClient(
            session=session,
            timeouts=timeouts,
            retry=retry,
            clock=self._clock,
            authorization=authorization(api_key, address.userinfo),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, url={self._target.url!r})"

    @property
    def session(self) -> requests.Session:
        """What its requests go through."""
        return self._http.session

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
        """Ask the model.

        Args:
            messages: the conversation.
            tools: the API's tool definitions.
            stop: strings at which the server stops generating.
            format: "json", a JSON Schema, or None.
            on_text: gets the text as it arrives; returning True stops reading.
            timeout: seconds for everything, retries included.

        Raises:
            ModelError: the model could not be asked, or its answer could not be used.
        """
        payload = self._payload(messages, tools, stop, format)
        event = ModelCallStarted(
            model=self.name,
            provider=self.provider,
            url=self._target.url,
            messages=messages,
            tools=tools,
            options=self._options(payload),
            stream=self._stream,
            context_window=self.context_window,
        )
        with scope(event) as call:
            reply, attempts = self._http.post(
                self._target, payload, self._reader(messages, on_text), timeout=timeout
            )
            call.end(ModelCallEnded(reply, attempts))
        return reply

    def with_name(self, name: str) -> Self:
        """The same client of the same server for another model; connections are shared."""
        changed = copy(self)
        changed.name = name
        changed._target = replace(self._target, model=name)
        return changed

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @abstractmethod
    def _payload(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonObject],
        stop: Sequence[str],
        format: JsonValue,
    ) -> JsonObject:
        """The body of the request."""

    @abstractmethod
    def _options(self, payload: JsonObject) -> Mapping[str, JsonValue]:
        """The sampling options in a body, for observers."""

    @abstractmethod
    def _reader(
        self, messages: Sequence[Message], on_text: OnText | None
    ) -> Callable[[Incoming], Reply]:
        """Turns a response into a reply."""
