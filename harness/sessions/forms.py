"""A client's request in one form: without what clients spell differently and means the same.

Both sides are brought to it, scrubbed, before they are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from agent_core.messages import JsonObject, JsonValue
from harness.sessions.conversion import route_of
from harness.sessions.exchange import Request, canonical_json, json_body, same_json
from harness.sessions.scrubbing import scrub_request
from harness.sessions.volatile import hidden

FACTS = frozenset({"/", "/api/tags", "/api/show", "/api/version", "/api/ps", "/v1/models"})
"""Addresses of what a server says of itself: no part of a conversation, asked at any time."""

_HOW_NOT_WHAT = frozenset({"stream", "stream_options", "keep_alive"})
_DEFAULTS: Mapping[str, JsonObject] = {  # of the server, whatever the model
    "/api/": {
        "logprobs": False, "raw": False, "shift": True, "top_logprobs": 0, "truncate": True,
    },
    "/v1/": {
        "frequency_penalty": 0, "logprobs": False, "n": 1, "parallel_tool_calls": True,
        "presence_penalty": 0, "response_format": {"type": "text"}, "store": False,
        "tool_choice": "auto", "top_logprobs": 0,
    },
}  # fmt: skip
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_NO_WORD: tuple[Any, ...] = (("description", ""), ("required", []))
_CALL_IDS = (b'"tool_calls"', b'"tool_call_id"')


def same_form(request: Request) -> Request:
    """A request without what clients spell differently: host, headers, defaults, stream."""
    clean = scrub_request(request)
    query = urlsplit(clean.url).query
    url = f"http://localhost{route_of(clean.url)}" + (f"?{query}" if query else "")
    value = json_body(clean.body)
    body = (
        clean.body.strip()
        if value is None
        else canonical_json(_plain(value, route_of(clean.url))).encode(errors="replace")
    )
    return Request(clean.method, url, {}, body)


def without_call_ids(form: Request) -> Request | None:
    """A request without the ids of its calls; None where it has none.

    On Ollama's route they are optional, and some clients drop them: the results then belong to
    the calls by their order. Ids that a client gives have to be those that it got.
    """
    if form.url != "http://localhost/api/chat" or not any(map(form.body.count, _CALL_IDS)):
        return None
    messages = [_unnamed(each) for each in messages_of(form)]
    return None if messages == messages_of(form) else with_messages(form, messages)


def outline(form: Request) -> tuple[str, list[tuple[str, str]]]:
    """Where a request goes and what is said in it, without times, ids and the like."""
    messages = [each for each in messages_of(form) if isinstance(each, dict)]
    if not messages:
        return form.url, [("", hidden(form.body.decode(errors="replace")))]
    return form.url, [
        (str(each.get("role")), hidden(str(each.get("content")))) for each in messages
    ]


def is_fact(request: Request) -> bool:
    """Whether a request asks what the server is, not what it thinks."""
    return route_of(request.url) in FACTS


def messages_of(form: Request) -> list[JsonObject]:
    """What is said in a request; empty where it is no chat."""
    body = json_body(form.body)
    messages = body.get("messages") if isinstance(body, dict) else None
    return messages if isinstance(messages, list) else []


def counted_in(messages: Sequence[JsonObject]) -> Counter[str]:
    """How often each message stands in a list, whatever the order."""
    return Counter(map(canonical_json, messages))


def with_messages(form: Request, messages: Sequence[JsonObject]) -> Request:
    """A chat request with other messages."""
    body = json_body(form.body)
    assert isinstance(body, dict)  # it has had messages
    body = canonical_json({**body, "messages": [*messages]}).encode(errors="replace")
    return replace(form, body=body)


def _plain(body: JsonValue, route: str) -> JsonValue:
    """A body without the server's defaults, and without empty ones in any part of it."""
    if not isinstance(body, dict):
        return body
    known = next((each for api, each in _DEFAULTS.items() if route.startswith(api)), {})
    plain = {
        key: each for key, each in body.items()
        if key not in _HOW_NOT_WHAT and not (key in known and same_json(each, known[key]))
    }  # fmt: skip
    if isinstance(plain.get("messages"), list):
        plain["messages"] = [_message(each) for each in plain["messages"]]
    if isinstance(plain.get("options"), dict):
        plain["options"] = _filled(plain["options"])
    if isinstance(plain.get("tools"), list):
        plain["tools"] = [_tool(each) for each in plain["tools"]]
    return _filled(plain)


def _message(message: JsonValue) -> JsonValue:
    """A message; what a call is given is left as it is."""
    if isinstance(message, dict) and isinstance(message.get("tool_calls"), list):
        message = message | {"tool_calls": [_call(each) for each in message["tool_calls"]]}
    return _filled(message)


def _call(call: JsonValue) -> JsonValue:
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        call = call | {"function": _filled(call["function"], but="arguments")}
    return _filled(call)


def _tool(tool: JsonValue) -> JsonValue:
    """A tool without what says nothing of it; a parameter without a schema says something."""
    if isinstance(tool, list):
        return [_tool(each) for each in tool]
    if not isinstance(tool, dict):
        return tool
    return {
        key: _tool(each)
        for key, each in tool.items()
        if each is not None and (key, each) not in _NO_WORD
    }


def _filled(value: JsonValue, *, but: str = "") -> JsonValue:
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key == but or each not in _EMPTY}


def _unnamed(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    plain = {key: each for key, each in message.items() if key != "tool_call_id"}
    if isinstance(calls := plain.get("tool_calls"), list):
        plain["tool_calls"] = [
            {key: each for key, each in call.items() if key != "id"}
            if isinstance(call, dict) else call
            for call in calls
        ]  # fmt: skip
    return plain
