"""A model's reply as one record or as many: a recorded stream given whole, and the reverse.

Ollama streams lines of JSON, the OpenAI API server-sent events. What a client asks for need not
be what was recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from agent_core.messages import JsonObject, JsonValue, Reply, ToolCall, Usage
from agent_core.models.deltas import CallDeltas
from agent_core.models.streams import events
from agent_core.models.wire import as_count, as_text, clean_text, read_calls
from harness.sessions.exchange import Request, Response, header, json_body
from harness.sessions.format import Api

_GENERATING: dict[str, Api] = {
    "/api/chat": "ollama",
    "/api/generate": "ollama",
    "/v1/chat/completions": "openai",
}
_PREFIX = re.compile(r".*(?=/(?:api|v1)/)")
_EVENT_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b":")  # the last begins a comment
_WORD = re.compile(r"\S+\s*|\s+")
_NANOSECONDS = 1e9
_DONE = b"data: [DONE]\n\n"


def route_of(url: str) -> str:
    """The path of an address without what stands before `/api/…` or `/v1/…`."""
    return _PREFIX.sub("", urlsplit(url).path, count=1) or "/"


def api_of(url: str) -> Api | None:
    """Which API generates at this address; None where nothing is generated that could stream."""
    return _GENERATING.get(route_of(url))


def wants_stream(api: Api, body: JsonValue) -> bool:
    """Whether a request asks for a stream: Ollama streams unless told not to."""
    asked = body.get("stream") if isinstance(body, dict) else None
    return asked is True if api == "openai" else asked is not False


def is_stream(api: Api, response: Response) -> bool:
    """Whether a response came as a stream."""
    kind = ",".join(header(response.headers, "content-type"))
    if api == "openai":
        return "event-stream" in kind or response.body.lstrip().startswith(_EVENT_FIELDS)
    return "ndjson" in kind or json_body(response.body) is None


def records_of(api: Api, response: Response) -> list[JsonObject] | None:
    """The JSON objects of a response; None where something else came, an error among them."""
    if response.status != 200:
        return None
    if not is_stream(api, response):
        texts = [response.body]
    elif api == "openai":
        texts = [each for each in events([response.body]) if each.strip() != b"[DONE]"]
    else:
        texts = [each for each in response.body.split(b"\n") if each.strip()]
    records = [json_body(each) for each in texts]
    if len(records) > 1 and records[-1] is None:  # the client stopped reading inside a line
        records.pop()
    if not records or any(not isinstance(each, dict) or each.get("error") for each in records):
        return None
    return records


def pieces_of(api: Api, body: bytes) -> list[bytes]:
    """The lines or events of a recorded stream, byte for byte."""
    pieces = _EVENT_END.split(body) if api == "openai" else body.splitlines(keepends=True)
    return [piece for piece in pieces if piece]


def whole(api: Api, records: Sequence[JsonObject]) -> JsonObject:
    """The records of a stream as the one record of a reply that was not streamed."""
    return _whole_openai(records) if api == "openai" else _whole_ollama(records)


def stream(api: Api, record: JsonObject, *, usage: bool = True) -> list[bytes]:
    """A reply that was not streamed, as the pieces of a stream.

    Args:
        usage: `/v1` ends with a chunk of token counts only for those who ask for it.
    """
    if api == "ollama":
        return [_dumped(each) + b"\n" for each in _ollama_lines(record)]
    chunks = [b"data: " + _dumped(each) + b"\n\n" for each in _openai_chunks(record, usage)]
    return [*chunks, _DONE]


def reply_of(request: Request, response: Response) -> Reply | None:
    """What a model replied in an exchange; None where it did not, or in a form nobody reads."""
    api = api_of(request.url)
    records = None if api is None else records_of(api, response)
    if api is None or records is None:
        return None
    record = whole(api, records) if is_stream(api, response) else records[0]
    return _reply_openai(record) if api == "openai" else _reply_ollama(record)


def server_seconds(request: Request, response: Response) -> float | None:
    """How long the server says it took; None where it does not say."""
    api = api_of(request.url)
    records = None if api is None else records_of(api, response)
    count = as_count(records[-1].get("total_duration")) if records else None
    return None if count is None else count / _NANOSECONDS


def _whole_ollama(records: Sequence[JsonObject]) -> JsonObject:
    record: JsonObject = {**records[-1], "done": True}
    said = [each["message"] for each in records if isinstance(each.get("message"), dict)]
    if not said:
        record["response"] = _joined(records, "response")
        return record | ({"thinking": text} if (text := _joined(records, "thinking")) else {})
    message: JsonObject = {"role": said[0].get("role", "assistant")}
    message["content"] = _joined(said, "content")
    if thinking := _joined(said, "thinking"):
        message["thinking"] = thinking
    if calls := [call for each in said for call in _dicts(each.get("tool_calls"))]:
        message["tool_calls"] = calls
    return record | {"message": message}


def _ollama_lines(record: JsonObject) -> Iterator[JsonObject]:
    base: JsonObject = {key: record[key] for key in ("model", "created_at") if key in record}
    message = record.get("message")
    if isinstance(message, dict):
        role = {"role": message.get("role", "assistant")}
        for word in _words(message.get("thinking")):
            part = {**role, "content": "", "thinking": word}
            yield {**base, "message": part, "done": False}
        for word in _words(message.get("content")):
            yield {**base, "message": {**role, "content": word}, "done": False}
        if message.get("tool_calls"):
            part = {**role, "content": "", "tool_calls": message["tool_calls"]}
            yield {**base, "message": part, "done": False}
        yield {**record, "message": {**role, "content": ""}}
    else:
        for field in ("thinking", "response"):
            for word in _words(record.get(field)):
                yield {**base, "response": "", field: word, "done": False}
        rest = {key: value for key, value in record.items() if key != "thinking"}
        yield {**rest, "response": ""}


def _whole_openai(records: Sequence[JsonObject]) -> JsonObject:
    record = {key: value for key, value in records[0].items() if key != "choices"}
    record["object"] = "chat.completion"
    choices: dict[int, list[JsonObject]] = {}
    for each in records:
        for choice in _dicts(each.get("choices")):
            index = choice.get("index")
            choices.setdefault(index if isinstance(index, int) else 0, []).append(choice)
    record["choices"] = [_choice(index, parts) for index, parts in sorted(choices.items())]
    counted = [each["usage"] for each in records if each.get("usage")]
    return record | ({"usage": counted[-1]} if counted else {})


def _choice(index: int, parts: Sequence[JsonObject]) -> JsonObject:
    deltas = [each["delta"] for each in parts if isinstance(each.get("delta"), dict)]
    message: JsonObject = {"role": "assistant", "content": _joined(deltas, "content")}
    for field in ("reasoning", "reasoning_content"):
        if text := _joined(deltas, field):
            message[field] = text
    calls = CallDeltas()
    for delta in deltas:
        calls.add(delta.get("tool_calls"), whole=False)
    if found := calls.calls():
        message["tool_calls"] = [_openai_call(place, call) for place, call in enumerate(found)]
    reasons = [each["finish_reason"] for each in parts if each.get("finish_reason")]
    return {"index": index, "message": message, "finish_reason": reasons[-1] if reasons else None}


def _openai_call(index: int, call: ToolCall) -> JsonObject:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "index": index, "type": "function", "function": function}


def _openai_chunks(record: JsonObject, usage: bool) -> Iterator[JsonObject]:
    base = {key: value for key, value in record.items() if key not in {"choices", "usage"}}
    base["object"] = "chat.completion.chunk"
    for choice in _dicts(record.get("choices")):
        index, message = choice.get("index", 0), choice.get("message")
        message = message if isinstance(message, dict) else {}
        role = {"role": message.get("role", "assistant")}
        for field in ("reasoning", "reasoning_content", "content"):
            for word in _words(message.get(field)):
                yield {**base, "choices": [_delta(index, {**role, field: word})]}
        if listed := _dicts(message.get("tool_calls")):
            calls = [{"index": n, **call} for n, call in enumerate(listed)]
            yield {**base, "choices": [_delta(index, {**role, "tool_calls": calls})]}
        yield {**base, "choices": [_delta(index, {}, choice.get("finish_reason"))]}
    if usage and record.get("usage"):
        yield {**base, "choices": [], "usage": record["usage"]}


def _delta(index: int, delta: JsonObject, reason: str | None = None) -> JsonObject:
    return {"index": index, "delta": delta, "finish_reason": reason}


def _reply_ollama(record: JsonObject) -> Reply:
    message = record.get("message")
    said = message if isinstance(message, dict) else {"content": record.get("response")}
    counts = as_count(record.get("prompt_eval_count")), as_count(record.get("eval_count"))
    return _reply(said, counts, record.get("done_reason"), record.get("model"))


def _reply_openai(record: JsonObject) -> Reply | None:
    choices = record.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        return None
    usage = record.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    counts = as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens"))
    return _reply(first["message"], counts, first.get("finish_reason"), record.get("model"))


def _reply(
    said: JsonObject, counts: tuple[int | None, int | None], reason: JsonValue, model: JsonValue
) -> Reply:
    return Reply(
        text=clean_text(as_text(said.get("content")) or ""),
        tool_calls=tuple(read_calls(said.get("tool_calls"))),
        thinking=clean_text(as_text(said.get("thinking") or said.get("reasoning")) or "") or None,
        usage=Usage(*counts),
        finish_reason=reason if isinstance(reason, str) and reason else None,
        model=model if isinstance(model, str) else None,
    )


def _dicts(value: JsonValue) -> list[JsonObject]:
    """The objects of a list; servers send anything, and a recording may be anybody's."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _joined(parts: Sequence[JsonObject], field: str) -> str:
    return "".join(as_text(each.get(field)) or "" for each in parts)


def _words(text: JsonValue) -> list[str]:
    """A text in pieces of a word, spaces and all."""
    return _WORD.findall(text) if isinstance(text, str) else []


def _dumped(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
