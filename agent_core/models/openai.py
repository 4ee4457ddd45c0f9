"""The OpenAI chat API, `/chat/completions`, as many servers speak it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import requests

from agent_core.errors import ConfigError, ModelTimeout, StreamCut
from agent_core.gears import Clock, OnText
from agent_core.messages import JsonObject, JsonValue, Message, Reply, Timings, Usage
from agent_core.models.address import parse_address
from agent_core.models.base import HttpChat, TextBuffer
from agent_core.models.deltas import CallDeltas
from agent_core.models.failures import error_inside, message_of
from agent_core.models.incoming import Incoming
from agent_core.models.policy import RetryPolicy, Timeouts
from agent_core.models.streams import events
from agent_core.models.wire import (
    NotJson,
    arguments_text,
    as_count,
    clean_text,
    decode_json,
    with_ids,
)

_DONE = b"[DONE]"
_BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte order mark and white space
_NOT_EVENTS = {b"{", b"[", b"<", b""}
_NOT_SAMPLING = frozenset({"model", "messages", "tools", "stream", "stream_options"})


class OpenAIChat(HttpChat):
    """A model behind an OpenAI-compatible API.

    Args:
        name: the model.
        base_url: what stands before `/chat/completions`, e.g. "http://127.0.0.1:11434/v1".
        api_key: the key; None reads `OPENAI_API_KEY`, and without one no key is sent.
        session: a `requests.Session` to use, e.g. one that records.
        stream: whether the server sends the text as it grows.
        temperature, max_tokens, seed: sampling, sent when given.
        options: more fields of the request, e.g. {"top_p": 0.9}.
        context_window: tokens that prompt and answer may take together, if known.
    """

    provider = "openai"

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        session: requests.Session | None = None,
        stream: bool = False,
        temperature: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        options: Mapping[str, JsonValue] | None = None,
        context_window: int | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        if not base_url.strip():
            raise ConfigError("base_url is empty; expected e.g. 'https://api.openai.com/v1'")
        address = parse_address(base_url, what="base_url")
        sampling = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
        self._sampling = {key: value for key, value in sampling.items() if value is not None}
        self._sampling |= options or {}
        key = os.environ.get("OPENAI_API_KEY") if api_key is None else api_key
        super().__init__(
            name, address, "/chat/completions", api_key=key, session=session, stream=stream,
            context_window=context_window, timeouts=timeouts, retry=retry, clock=clock,
        )  # fmt: skip

    def _payload(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonObject],
        stop: Sequence[str],
        format: JsonValue,
    ) -> JsonObject:
        payload: JsonObject = {
            "model": self.name,
            "messages": outgoing(messages),
            "stream": self._stream,
            **self._sampling,
        }
        if self._stream:
            payload["stream_options"] = {"include_usage": True}
        if tools:
            payload["tools"] = list(tools)
        if stop:
            own = payload.get("stop") or []
            payload["stop"] = [*([own] if isinstance(own, str) else own), *stop]
        if format is not None:
            payload["response_format"] = _response_format(format)
        return payload

    def _options(self, payload: JsonObject) -> Mapping[str, JsonValue]:
        return {key: value for key, value in payload.items() if key not in _NOT_SAMPLING}

    def _reader(
        self, messages: Sequence[Message], on_text: OnText | None
    ) -> Callable[[Incoming], Reply]:
        buffer = TextBuffer(on_text, self._clock)

        def read(incoming: Incoming) -> Reply:
            return _Reading(incoming, buffer, messages, stream=self._stream).reply()

        return read


def _response_format(format: JsonValue) -> JsonValue:
    if format == "json":
        return {"type": "json_object"}
    if isinstance(format, dict) and format.get("type") not in {"json_object", "json_schema"}:
        return {"type": "json_schema", "json_schema": {"name": "answer", "schema": format}}
    return format


def outgoing(messages: Sequence[Message]) -> list[JsonObject]:
    """Messages as the API takes them: arguments are text, every call and result has its id.

    A history from elsewhere may lack ids; results then belong to the open calls in order.
    """
    made_up = 0
    open_ids: list[str] = []
    out: list[JsonObject] = []
    for message in messages:
        entry: JsonObject = {"role": message.role, "content": message.content}
        if message.tool_calls:
            open_ids = []
            for call in message.tool_calls:
                made_up += call.id is None
                open_ids.append(call.id or f"call_made_up_{made_up}")
            entry["tool_calls"] = [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": arguments_text(call.arguments)},
                }
                for call_id, call in zip(open_ids, message.tool_calls, strict=True)
            ]
        if message.role == "tool":
            answers = message.tool_call_id or (open_ids[0] if open_ids else "call_unknown")
            open_ids = [each for each in open_ids if each != answers]
            entry["tool_call_id"] = answers
        elif message.name:
            entry["name"] = message.name
        out.append(entry)
    return out


def _separated(data: bytes) -> Sequence[bytes]:
    """One event, or several that no blank line keeps apart."""
    parts = data.split(b"\n")
    return parts if all(each[:1] == b"{" or each.strip() == _DONE for each in parts) else [data]


class _Reading:
    """Puts a response together, whether it comes whole or in deltas."""

    def __init__(
        self, incoming: Incoming, buffer: TextBuffer, messages: Sequence[Message], *, stream: bool
    ) -> None:
        self.incoming = incoming
        self.buffer = buffer
        self.messages = messages
        self.stream = stream
        self.thinking: list[str] = []
        self.calls = CallDeltas()
        self.usage = Usage()
        self.finish_reason: str | None = None
        self.model: str | None = None
        self.answered = False

    def reply(self) -> Reply:
        """Read to the end, or until the listener wants no more."""
        ended = cut = False
        try:
            for data in self._data():
                ended = data.strip() == _DONE or self._is_over(data)
                cut = not ended and self._take(data) and self.stream
                if ended or cut:
                    break
        except (StreamCut, ModelTimeout):
            if self.finish_reason is None:  # else all that matters has arrived
                raise
        if not cut:
            self._check(ended)
        if ended and self.stream:
            self.incoming.finish()
        return Reply(
            text=self.buffer.text(),
            tool_calls=with_ids(self.calls.calls(), self.messages),
            thinking=clean_text("".join(self.thinking)) or None,
            usage=self.usage,
            finish_reason=self.finish_reason,
            model=self.model,
            timings=Timings(first_chunk=self.buffer.first_chunk),
            cut_by_client=cut,
        )

    def _data(self) -> Iterator[bytes]:
        """What the server sends: events, or one JSON text; it need not respect `stream`."""
        pieces = iter(self.incoming.pieces() if self.stream else [self.incoming.whole()])
        head = b""
        for piece in pieces:
            head = piece.lstrip(_BLANK)
            if head:
                break
        if head[:1] in _NOT_EVENTS:
            yield b"".join([head, *pieces])
            yield _DONE
            return
        nothing = True
        for data in events(chain([head], pieces)):
            if data.strip():  # empty ones only keep the stream alive
                nothing = False
                yield from _separated(data)
        if nothing:
            raise self.incoming.not_json(head)

    def _is_over(self, data: bytes) -> bool:
        """Whether it is but a garbled end, `"[DONE]"` say, behind the finish reason."""
        return self.finish_reason is not None and not data.lstrip().startswith(b"{")

    def _take(self, data: bytes) -> bool:
        """Take one chunk, or a whole response; true when the listener wants no more."""
        try:
            chunk = self.incoming.as_object(decode_json(data))
        except NotJson:
            if self.stream and data.lstrip()[:1] == b"{":
                raise self.incoming.cut("sent half an event, or ended") from None
            raise self.incoming.not_json(data) from None
        if chunk.get("error") or ("choices" not in chunk and message_of(chunk)):
            raise error_inside(chunk, self.incoming.target)
        usage = chunk.get("usage")
        if isinstance(usage, dict) and usage:
            self.usage = Usage(
                as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
            )
        model = chunk.get("model")
        self.model = model if isinstance(model, str) and model else self.model
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict) and not choice.get("index"):  # of several the first
                return self._take_choice(choice)
        return False

    def _take_choice(self, choice: JsonObject) -> bool:
        reason = choice.get("finish_reason")
        if choice.get("error") or reason == "error":
            raise error_inside(choice, self.incoming.target)
        self.finish_reason = reason if isinstance(reason, str) and reason else self.finish_reason
        delta, message = choice.get("delta"), choice.get("message")
        said = delta if isinstance(delta, dict) else message
        if not isinstance(said, dict) or (said is message and self.answered):
            return False  # the last: a stream that ends with the whole message once more
        self.answered = True
        for key in ("reasoning_content", "reasoning"):
            if said.get(key):
                self.thinking.append(self.incoming.as_text(said[key], key))
                break
        legacy = said.get("function_call")
        calls = said.get("tool_calls") or ([{"index": 0, "function": legacy}] if legacy else None)
        self.calls.add(calls, whole=said is message)
        return self.buffer.add(
            self.incoming.as_text(said.get("content") or said.get("refusal"), "content")
        )

    def _check(self, ended: bool) -> None:
        """Whether what has been read is an answer, and all of it."""
        if not ended and self.finish_reason is None:
            raise self.incoming.cut("ended")
        if not self.answered:
            raise self.incoming.bad("no message: choices is empty or missing, or holds none")
