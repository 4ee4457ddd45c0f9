"""A recorded body with another reply in it: in the shape of its API, a stream cut anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from random import Random
from typing import Any

from agent_core.messages import JsonObject, Reply, ToolCall
from harness.sessions.exchange import Response, json_body
from harness.sessions.format import Api

_LONGEST_PIECE = 24  # characters of text in one record of a stream


@dataclass(frozen=True, slots=True)
class Body:
    """A response and the sizes of the chunks in which it is to arrive."""

    response: Response
    sizes: tuple[int, ...] = ()

    def chunks(self) -> list[bytes]:
        """The body in these chunks."""
        ends = accumulate(self.sizes, initial=0)
        return [self.response.body[start:end] for start, end in pairwise(ends)]


def with_reply(recorded: Response, reply: Reply, api: Api, rng: Random) -> Body:
    """The recorded response with this reply instead of its own.

    Whether it is a stream is seen in what was recorded. A stream's text comes in pieces of
    random length, and its chunks are cut at random places: inside records, inside characters.
    """
    pieces = _pieces(reply.text, rng)
    whole = json_body(recorded.body)
    records = [whole] if isinstance(whole, dict) else _records(recorded.body)
    streamed = len(records) > 1 or recorded.body.lstrip().startswith(b"data:")
    if api == "openai":
        body = _events(records, reply, pieces) if streamed else _dumped(_completion(records, reply))
    elif streamed:
        body = b"".join(_dumped(each) + b"\n" for each in _lines(records, reply, pieces))
    else:
        body = _dumped(_ollama(records[-1] if records else {}, reply, reply.text))
    response = Response(recorded.status, recorded.reason, recorded.headers, body)
    return Body(response, _cuts(len(body), rng) if streamed else ())


def said(text: str, api: Api) -> Body:
    """A response of status 200 with just a text, as the API writes it."""
    headers = {"Content-Type": ["application/json"]}
    return with_reply(Response(200, "OK", headers), Reply(text, finish_reason="stop"), api,
                      Random(0))  # noqa: S311 - nothing is cut  # fmt: skip


def _records(body: bytes) -> list[JsonObject]:
    """The records of a stream, NDJSON or server-sent events."""
    values = [json_body(line.strip().removeprefix(b"data:")) for line in body.split(b"\n")
              if not line.strip().endswith(b"[DONE]")]  # fmt: skip
    return [each for each in values if isinstance(each, dict)]


def _ollama(record: JsonObject, reply: Reply, text: str, *, done: bool = True) -> JsonObject:
    """A record of Ollama's; only the last one carries calls, thinking and the end."""
    kept = {key: record[key] for key in record if key not in {"message", "done_reason"}}
    message: JsonObject = {"role": "assistant", "content": text}
    if done and reply.thinking:
        message["thinking"] = reply.thinking
    if done and reply.tool_calls:
        message["tool_calls"] = [_call(each) for each in reply.tool_calls]
    out = {**kept, "message": message, "done": done}
    if done and reply.finish_reason is not None:
        out["done_reason"] = reply.finish_reason
    return out


def _lines(records: Sequence[JsonObject], reply: Reply, pieces: Sequence[str]) -> list[JsonObject]:
    """Ollama sends calls and thinking before the record that is the last one."""
    first, last = records[0], records[-1]
    if reply.thinking or reply.tool_calls:
        calls = _ollama(first, reply, "")
        calls.pop("done_reason", None)
        calls["done"] = False
        head = [calls]
    else:
        head = []
    text = [_ollama(first, reply, piece, done=False) for piece in pieces]
    bare = Reply("", finish_reason=reply.finish_reason)
    return [*head, *text, _ollama(last, bare, "")]


def _call(call: ToolCall) -> JsonObject:
    head: JsonObject = {"id": call.id} if call.id else {}
    return {**head, "function": {"name": call.name, "arguments": call.arguments}}


def _completion(records: Sequence[JsonObject], reply: Reply) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": reply.text}
    if reply.thinking:
        message["reasoning"] = reply.thinking
    if reply.tool_calls:
        message["tool_calls"] = _openai_calls(reply.tool_calls)
    choice = {"index": 0, "message": message, "finish_reason": reply.finish_reason}
    return {**(records[-1] if records else {"object": "chat.completion"}), "choices": [choice]}


def _events(records: Sequence[JsonObject], reply: Reply, pieces: Sequence[str]) -> bytes:
    head = {key: value for key, value in records[0].items() if key not in {"choices", "usage"}}
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    if reply.thinking:
        deltas.append({"reasoning": reply.thinking})
    deltas += [{"content": piece} for piece in pieces]
    deltas += [{"tool_calls": [each]} for each in _openai_calls(reply.tool_calls)]
    chunks: list[Any] = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    end = {"index": 0, "delta": {}, "finish_reason": reply.finish_reason}
    chunks.append({**head, "choices": [end]})
    chunks += [each for each in records if each.get("usage") and not each.get("choices")]
    lines = [b"data: " + _dumped(each) + b"\n\n" for each in chunks]
    return b"".join([*lines, b"data: [DONE]\n\n"])


def _openai_calls(calls: Sequence[ToolCall]) -> list[JsonObject]:
    return [
        {
            "index": number,
            "id": call.id or f"call_fault_{number}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": call.arguments
                if isinstance(call.arguments, str)
                else json.dumps(call.arguments, ensure_ascii=False),
            },
        }
        for number, call in enumerate(calls)
    ]


def _pieces(text: str, rng: Random) -> list[str]:
    pieces: list[str] = []
    start = 0
    while start < len(text):
        end = start + rng.randint(1, _LONGEST_PIECE)
        pieces.append(text[start:end])
        start = end
    return pieces


def _cuts(length: int, rng: Random) -> tuple[int, ...]:
    """Sizes of chunks that make up this many bytes."""
    sizes: list[int] = []
    left = length
    while left > 0:
        sizes.append(min(left, rng.randint(1, 400)))
        left -= sizes[-1]
    return tuple(sizes)


def _dumped(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False)
    return text.encode(errors="surrogatepass")
