"""Ollama's own API, `/api/chat`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import requests

from agent_core.errors import ConfigError
from agent_core.gears import Clock, OnText
from agent_core.messages import JsonObject, JsonValue, Message, Reply, Timings, ToolCall, Usage
from agent_core.models.address import ollama_address
from agent_core.models.base import HttpChat, TextBuffer
from agent_core.models.failures import error_inside, excerpt
from agent_core.models.incoming import Incoming
from agent_core.models.policy import RetryPolicy, Timeouts
from agent_core.models.streams import lines
from agent_core.models.wire import (
    NotJson,
    arguments_object,
    as_count,
    clean_text,
    decode_json,
    decode_sequence,
    read_calls,
    with_ids,
)

_NANOSECONDS = 1e9


class OllamaChat(HttpChat):
    """A model on an Ollama server.

    Args:
        name: the model, e.g. "qwen2.5-coder:1.5b".
        base_url: where the server is; None reads `OLLAMA_HOST`, else http://127.0.0.1:11434.
        session: a `requests.Session` to use, e.g. one that records.
        stream: whether the server sends the text as it grows.
        options: Ollama's options, e.g. {"temperature": 0, "seed": 1, "num_predict": 256}.
        num_ctx: the context window in tokens. It is always sent: without it the server takes
            its own default and cuts longer prompts without a word.
        keep_alive: how long the model stays loaded, e.g. "10m" or seconds.
        think: True, False or an effort such as "low"; None leaves it to the model.
        api_key: for servers behind a gateway, sent as a bearer token.
    """

    provider = "ollama"

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        session: requests.Session | None = None,
        stream: bool = False,
        options: Mapping[str, JsonValue] | None = None,
        num_ctx: int = 8192,
        keep_alive: str | float | None = None,
        think: bool | str | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        clock: Clock | None = None,
        api_key: str | None = None,
    ) -> None:
        self._sampling = {"num_ctx": num_ctx, **(options or {})}
        window = as_count(self._sampling["num_ctx"])
        if not window:
            raise ConfigError(f"num_ctx must be a positive number of tokens, got "
                              f"{self._sampling['num_ctx']!r}")  # fmt: skip
        self._extras = {"think": think, "keep_alive": keep_alive}
        super().__init__(
            name, ollama_address(base_url), "/api/chat", api_key=api_key, session=session,
            stream=stream, context_window=window, timeouts=timeouts, retry=retry, clock=clock,
        )  # fmt: skip

    def _payload(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonObject],
        stop: Sequence[str],
        format: JsonValue,
    ) -> JsonObject:
        options = dict(self._sampling)
        if stop:
            own = options.get("stop") or []
            options["stop"] = [*([own] if isinstance(own, str) else own), *stop]
        payload: JsonObject = {
            "model": self.name,
            "messages": [_outgoing(message) for message in messages],
            "stream": self._stream,
            "options": options,
        }
        if tools:
            payload["tools"] = list(tools)
        if format is not None:
            payload["format"] = format
        payload.update({key: value for key, value in self._extras.items() if value is not None})
        return payload

    def _options(self, payload: JsonObject) -> Mapping[str, JsonValue]:
        extras = {key: payload[key] for key in ("format", *self._extras) if key in payload}
        options: JsonObject = payload["options"]
        return {**options, **extras}

    def _reader(
        self, messages: Sequence[Message], on_text: OnText | None
    ) -> Callable[[Incoming], Reply]:
        buffer = TextBuffer(on_text, self._clock)

        def read(incoming: Incoming) -> Reply:
            return _read(incoming, buffer, messages, stream=self._stream)

        return read


def _outgoing(message: Message) -> JsonObject:
    """A message as Ollama takes it: arguments are objects, results name their tool."""
    out: JsonObject = {"role": message.role, "content": message.content}
    if message.tool_calls:
        out["tool_calls"] = [
            ({"id": call.id} if call.id else {})
            | {"function": {"name": call.name, "arguments": arguments_object(call.arguments)}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        if message.name:
            out["tool_name"] = message.name
        if message.tool_call_id:
            out["tool_call_id"] = message.tool_call_id
    return out


def _read(
    incoming: Incoming, buffer: TextBuffer, messages: Sequence[Message], *, stream: bool
) -> Reply:
    """Put the records of a response together, up to the one that says it is the last."""
    thinking: list[str] = []
    calls: list[ToolCall] = []
    reported: dict[str, ToolCall] = {}
    answered = cut = False
    for record in _records(incoming, stream=stream):
        if record.get("error"):
            raise error_inside(record, incoming.target)
        message = record.get("message")
        if isinstance(message, dict):
            answered = True
            thinking.append(incoming.as_text(message.get("thinking"), "message.thinking"))
            calls += _new_calls(message, reported)
            cut = buffer.add(incoming.as_text(message.get("content"), "message.content")) and stream
        if cut or record.get("done") or record.get("done_reason"):
            break
    else:
        raise incoming.cut("ended")
    if not answered:
        raise incoming.bad(f"no message, only {excerpt(repr(record))}")
    if stream and not cut:
        incoming.finish()
    return _reply(record, buffer, "".join(thinking), with_ids(calls, messages), cut=cut)


def _records(incoming: Incoming, *, stream: bool) -> Iterator[JsonObject]:
    """The JSON objects of a response, one a line; without streaming, the body may be just one.

    Neither server nor proxy need respect `stream`: what counts is what arrives.
    """
    if not stream:
        body = incoming.whole()
        with suppress(NotJson):
            yield {"done": True, **incoming.as_object(decode_json(body))}
            return
        if not body.strip():
            raise incoming.not_json(body)
        found = lines([body])
    else:
        found = lines(incoming.pieces())
    for line in found:
        if not line.strip():
            continue
        try:
            records = [decode_json(line)]
        except NotJson:
            records = _last_resort(line, b"\n".join(found), incoming, stream=stream)
        yield from map(incoming.as_object, records)


def _last_resort(line: bytes, rest: bytes, incoming: Incoming, *, stream: bool) -> list[JsonValue]:
    """A line that is no JSON: an object over several lines, several on one, or no JSON at all."""
    with suppress(NotJson):
        first, *more = decode_sequence(line + b"\n" + rest)
        return [first, *more] if more else [{"done": True, **incoming.as_object(first)}]
    if stream and not rest and line.lstrip().startswith(b"{"):
        raise incoming.cut("ended inside a record,")
    raise incoming.not_json(line + b"\n" + rest)


def _new_calls(message: JsonObject, reported: dict[str, ToolCall]) -> Iterator[ToolCall]:
    """The calls of a record, without those that have been reported before, id and all."""
    for call in read_calls(message.get("tool_calls")):
        first = call if call.id is None else reported.setdefault(call.id, call)
        if first is call or first != call:  # another call may come with an id that is taken
            yield call


def _reply(
    last: JsonObject,
    buffer: TextBuffer,
    thinking: str,
    calls: tuple[ToolCall, ...],
    *,
    cut: bool,
) -> Reply:
    reason, model = last.get("done_reason"), last.get("model")
    return Reply(
        text=buffer.text(),
        tool_calls=calls,
        thinking=clean_text(thinking) or None,
        usage=Usage(as_count(last.get("prompt_eval_count")), as_count(last.get("eval_count"))),
        finish_reason=reason if isinstance(reason, str) and reason else None,
        model=model if isinstance(model, str) else None,
        timings=Timings(
            total=_seconds(last.get("total_duration")),
            load=_seconds(last.get("load_duration")),
            prompt_eval=_seconds(last.get("prompt_eval_duration")),
            eval=_seconds(last.get("eval_duration")),
            first_chunk=buffer.first_chunk,
        ),
        cut_by_client=cut,
    )


def _seconds(nanoseconds: JsonValue) -> float | None:
    count = as_count(nanoseconds)
    return None if count is None else count / _NANOSECONDS
