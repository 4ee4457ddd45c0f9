"""Serve and requests that no client should send: each is answered, and the next one, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.sessions.serve import serve
from tests.harness.serve_support import (
    ANSWER,
    ASKED,
    CALL,
    FIRST,
    QUESTION,
    SEEN,
    ask,
    cassette,
    interaction,
    record,
    tool_turn,
)

ROUTES = ("/api/chat", "/v1/chat/completions", "/api/generate", "/api/show", "/api/embed", "/x")
BODIES = (
    b"",
    b"{",
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"messages": 1}',
    b'{"messages": [1, "a", null, []]}',
    b'{"messages": [{"role": 1, "content": {}}]}',
    b'{"messages": [{"content": [{"type": "text"}]}], "tools": {"a": 1}, "options": [1]}',
    b'{"messages": [{"tool_calls": [1, {"function": 1}]}]}',
    b'{"model": {"a": 1}, "messages": {}}',
    b'{"model": ["m"]}',
    b'{"model": 7, "stream": "yes", "stream_options": 1}',
    b'{"a": ' * 3000,
    b'{"messages": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"messages": [{"content": "\\ud800"}]}',
    b'{"n": NaN, "m": 1e999, "k": ' + b"9" * 6000 + b"}",
)


@pytest.mark.parametrize("route", ROUTES)
def test_whatever_comes_is_refused_by_a_status(tmp_path: Path, route: str) -> None:
    """With a reason in the API's form; and the conversation goes on as if nothing had been."""
    path = tool_turn(tmp_path / "tour.yaml")
    with serve([path]) as server, requests.Session() as http:
        http.trust_env = False
        for body in BODIES:
            reply = http.post(f"{server.url}{route}", data=body, timeout=20)
            assert reply.status_code in {400, 404, 409}, body
            assert reply.json()["error"]
        for messages in ([QUESTION], [QUESTION, ASKED, SEEN]):
            end = ask(server, {"model": "m", "messages": messages, "stream": False})
        assert end.json()["message"]["content"] == ANSWER


@pytest.mark.parametrize("route", ["/api/chat", "/api/generate"])
def test_only_times_and_ids_may_differ(tmp_path: Path, route: str) -> None:
    """Wherever they stand in a text; one more word makes it another request."""

    def body(run: str, call: str, more: str = "") -> dict[str, Any]:
        text = f"run\n{run}\n{call} at 2026-08-07T06:08:00Z{more}"
        said = {"messages": [{"role": "user", "content": text}]} if "chat" in route else {}
        return {"model": "m", "stream": False, **(said or {"prompt": text})}

    one, two = (f"{each}-1111-4222-8333-444455556666" for each in ("0a0b0c0d", "9f9e9d9c"))
    recorded = interaction(body(one, "call_abcdef12"), json.dumps(record(ANSWER)), path=route)
    with serve([cassette(tmp_path / "x.yaml", recorded)], repeat=True) as server:
        assert ask(server, body(two, "call_zyxwvu98"), route).status_code == 200
        assert ask(server, body(two, "call_zyxwvu98", " again"), route).status_code == 409


DEFAULTS = [
    ("/api/generate", {"raw": False}),
    ("/api/generate", {"logprobs": False, "top_logprobs": 0, "context": None, "images": []}),
    ("/api/generate", {"keep_alive": "5m", "truncate": True, "shift": True}),
    ("/api/chat", {"logprobs": False}),
    ("/api/chat", {"top_logprobs": 0, "keep_alive": -1, "truncate": True}),
    ("/v1/chat/completions", {"n": 1, "logprobs": False, "presence_penalty": 0.0}),
    ("/v1/chat/completions", {"tool_choice": "auto", "parallel_tool_calls": True}),
    ("/v1/chat/completions", {"response_format": {"type": "text"}, "store": False}),
]
OTHERS = [
    ("/api/generate", {"raw": True}, "option `raw`"),
    ("/api/generate", {"raw": 0}, "option `raw`"),
    ("/api/generate", {"prompt": "Why is the sea blue?"}, "prompt"),
    ("/api/generate", {"model": "n"}, "model"),
    ("/api/generate", {"system": "Be brief."}, "system text"),
    ("/api/generate", {"options": {"seed": 1}}, "option `seed`"),
    ("/api/generate", {"format": "json"}, "option `format`"),
    ("/api/generate", {"suffix": "."}, "option `suffix`"),
    ("/api/generate", {"images": ["aGk="]}, "prompt"),
    ("/api/embed", {"input": ["a", "c"]}, "input"),
    ("/api/embed", {"model": "n"}, "model"),
    ("/api/embed", {"truncate": False}, "option `truncate`"),
    ("/api/embeddings", {"prompt": "c"}, "prompt"),
    ("/api/chat", {"logprobs": True}, "option `logprobs`"),
    ("/api/chat", {"think": False}, "option `think`"),
    ("/v1/chat/completions", {"n": 2}, "option `n`"),
    ("/v1/chat/completions", {"raw": False}, "option `raw`"),
    ("/v1/completions", {"prompt": "Why is the sea blue?"}, "prompt"),
]  # fmt: skip


def plain_request(route: str) -> dict[str, Any]:
    """The least that a request of this kind says."""
    if "chat" in route:
        return dict(FIRST)
    said = {"input": ["a", "b"]} if route == "/api/embed" else {"prompt": "Why is the sky blue?"}
    return {"model": "m", "stream": False, **said}


def served_alone(folder: Path, route: str, body: dict[str, Any]) -> Path:
    """A cassette of one request."""
    return cassette(folder / "one.yaml", interaction(body, json.dumps(record(ANSWER)), path=route))


@pytest.mark.parametrize(("route", "more"), DEFAULTS)
def test_what_the_server_takes_for_granted_may_be_said(
    tmp_path: Path, route: str, more: dict[str, Any]
) -> None:
    """By the client, or by the one that was recorded."""
    body = plain_request(route)
    with serve([served_alone(tmp_path, route, body)]) as server:
        assert ask(server, {**body, **more}, route).status_code == 200
    with serve([served_alone(tmp_path, route, {**body, **more})]) as server:
        assert ask(server, body, route).status_code == 200


@pytest.mark.parametrize(("route", "change", "part"), OTHERS)
def test_what_differs_is_named_wherever_a_model_is_asked(
    tmp_path: Path, route: str, change: dict[str, Any], part: str
) -> None:
    """Chats, completions and embeddings alike: the part, and nothing else."""
    body = plain_request(route)
    with serve([served_alone(tmp_path, route, body)]) as server:
        refused = ask(server, {**body, **change}, route)
        assert refused.status_code == 409
        assert [each["part"] for each in refused.json()["drift"]["causes"]] == [part]
        assert ask(server, body, route).status_code == 200


def with_ids(call: str | None, result: str | None = None, **seen: Any) -> dict[str, Any]:
    """The second request of a native conversation; some clients drop ids of calls."""
    asked = {**ASKED, "tool_calls": [{**CALL, **({"id": call} if call else {})}]}
    result_ = {**SEEN, **({"tool_call_id": result} if result else {}), **seen}
    return {"model": "m", "messages": [QUESTION, asked, result_], "stream": False}


def native(path: Path, api: str) -> Path:
    """A conversation whose call has an id."""
    second = with_ids("example_1", "example_1")
    replies = json.dumps(record(tool_calls=[CALL])), json.dumps(record(ANSWER))
    pairs = zip((FIRST, second), replies, strict=True)
    return cassette(path, *(interaction(body, reply, path=api) for body, reply in pairs))


@pytest.mark.parametrize("repeat", [True, False])
def test_ids_of_calls_may_be_left_out(tmp_path: Path, repeat: bool) -> None:
    """On Ollama's route; what a client gives has to be what it got, and all else is compared."""
    with serve([native(tmp_path / "tour.yaml", "/api/chat")], repeat=repeat) as server:
        ask(server, FIRST)
        other = ask(server, with_ids("example_2", "example_2"))
        rain = ask(server, with_ids(None, content="rain"))
        assert (other.status_code, rain.status_code) == (409, 409)
        assert [each["part"] for each in rain.json()["drift"]["causes"]] == ["observation"]
        assert ask(server, with_ids(None)).json()["message"]["content"] == ANSWER
        assert ask(server, with_ids(None)).status_code == (200 if repeat else 409)


def test_where_ids_of_calls_are_needed_they_count(tmp_path: Path) -> None:
    """A server of the OpenAI API refuses a call without one."""
    api = "/v1/chat/completions"
    with serve([native(tmp_path / "tour.yaml", api)]) as server:
        assert ask(server, with_ids(None), api).status_code == 409
        assert ask(server, with_ids("example_1", "example_1"), api).status_code == 200
