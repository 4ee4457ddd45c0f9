"""Replies whole and streamed say the same, and nothing that a server sends is fatal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.sessions.conversion import is_stream, records_of, reply_of, route_of, stream, whole
from harness.sessions.cursor import Cursor
from harness.sessions.exchange import Exchange, Request, Response, canonical_key
from harness.sessions.format import Api, SessionFile
from harness.sessions.forms import same_form
from harness.sessions.lint import lint_session
from harness.sessions.refusals import refusal_of
from tests.harness.serve_support import QUESTION, record

ROUTES: dict[Api, str] = {"ollama": "/api/chat", "openai": "/v1/chat/completions"}
KINDS: dict[Api, str] = {"ollama": "application/x-ndjson", "openai": "text/event-stream"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
CALLS = st.lists(
    st.builds(
        lambda name, arguments: {"name": name, "arguments": arguments},
        st.text(min_size=1, max_size=8),
        st.dictionaries(st.text(max_size=4), st.text(max_size=4) | st.integers(), max_size=2),
    ),
    max_size=2,
)


def request(api: Api, body: Any) -> Request:
    return Request("POST", f"http://localhost{ROUTES[api]}", {}, json.dumps(body).encode())


def streamed(api: Api, body: bytes) -> Response:
    return Response(200, "OK", {"Content-Type": [KINDS[api]]}, body)


@settings(max_examples=60, deadline=None)
@given(text=st.text(), thinking=st.text(min_size=1), calls=CALLS, api=st.sampled_from(list(ROUTES)))
def test_a_reply_says_the_same_either_way(
    text: str, thinking: str, calls: list[Any], api: Api
) -> None:
    """Cut into a stream and put together again, it is the reply it was."""
    said: dict[str, Any] = {"role": "assistant", "content": text}
    if api == "ollama":
        listed = [{"function": call} for call in calls]
        value = record() | {"message": said | {"thinking": thinking}}
    else:
        dumped = [{**call, "arguments": json.dumps(call["arguments"])} for call in calls]
        listed = [{"id": f"call_{n}", "function": call} for n, call in enumerate(dumped)]
        said |= {"reasoning": thinking}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        value = {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 3}}
    message = value["message"] if api == "ollama" else said
    message |= {"tool_calls": listed} if listed else {}
    asked = request(api, {})
    before = reply_of(asked, Response(200, "OK", {}, json.dumps(value).encode()))
    after = reply_of(asked, streamed(api, b"".join(stream(api, value))))
    assert before is not None
    assert before == after


@settings(max_examples=80, deadline=None)
@given(data=st.data(), api=st.sampled_from(list(ROUTES)))
def test_nothing_that_is_sent_is_fatal(data: st.DataObject, api: Api) -> None:
    """Whatever stands where in a request or a reply, it is read, linted and compared."""
    said = {"role": "assistant", "content": data.draw(ANYTHING), "tool_calls": data.draw(ANYTHING)}
    choice = {"index": data.draw(ANYTHING), "message": said, "delta": said}
    value = data.draw(
        st.sampled_from([
            {"message": said, "done": True, "eval_count": data.draw(ANYTHING)},
            {"choices": [choice, data.draw(ANYTHING)], "usage": data.draw(ANYTHING)},
            {"choices": data.draw(ANYTHING), "message": data.draw(ANYTHING)},
        ])
    )
    body = {"model": "m", "messages": [QUESTION, data.draw(ANYTHING)], "tools": data.draw(ANYTHING)}
    line = json.dumps(value).encode()
    line = b"data: " + line + b"\n\n" if api == "openai" else line + b"\n"
    response = streamed(api, line * 2)
    exchange = Exchange(request(api, body), response)
    records = records_of(api, response)
    if records is not None:
        assert is_stream(api, response)
        assert stream(api, whole(api, records))
    file = SessionFile(None, (exchange, exchange))
    assert {each.rule for each in lint_session(file, Path("x.yaml"))} >= {"unknown-origin"}
    assert refusal_of(same_form(request(api, {"messages": []})), [Cursor("x", file)]).words


@pytest.mark.parametrize(
    ("recorded", "sent", "same"),
    [
        ({"stop": ["END", "STOP"]}, {"stop": ["STOP", "END"]}, False),
        ({"seed": 7}, {"seed": "7"}, False),
        ({"seed": 7}, {"seed": 7.0, "tools": []}, True),
        ({"options": {"seed": 7}}, {"options": {"seed": 7, "top_k": None}, "stream": False}, True),
        ({"options": {"seed": 7}}, {"options": {"seed": 7, "top_k": 0}}, False),
        ({"think": False}, {}, False),
        ({"format": "json"}, {"format": ""}, False),
    ],
)
def test_what_makes_two_requests_the_same(recorded: Any, sent: Any, same: bool) -> None:
    """Spelling does not; order in lists, types and every value that says something do."""
    keys = [canonical_key(same_form(request("ollama", body))) for body in (recorded, sent)]
    assert (keys[0] == keys[1]) is same


def test_what_stands_before_the_route_does_not_count() -> None:
    """Gateways put a path of their own before it."""
    assert route_of("https://gate.test/team/api/v1/chat/completions") == "/v1/chat/completions"
    assert route_of("http://localhost:11434/api/chat?x=1") == "/api/chat"
    assert route_of("http://localhost:11434") == "/"
