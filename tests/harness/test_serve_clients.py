"""Stock clients and cassettes of others: recorded by the proxy, served as a stream and whole."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.faults import FaultServer, Received, Response
from harness.sessions.cassette import load_session
from harness.sessions.lint import lint_session
from harness.sessions.proxy import RecordingProxy
from harness.sessions.replay import replay
from harness.sessions.serve import serve
from tests.harness.serve_support import CALL, ask, cassette, interaction, ndjson, record, sse

CLIENTS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "clients" / "bodies.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
NAMES = list(dict.fromkeys(each["client"] for each in CLIENTS))


def answer(received: Received) -> Response:
    """A server like Ollama: a call if there are tools, an answer after their result."""
    if received.path not in {"/api/chat", "/v1/chat/completions"}:
        return Response(404, {"error": "not found"})
    body = received.json()
    wants_call = bool(body.get("tools")) and body["messages"][-1]["role"] != "tool"
    if received.path == "/api/chat":
        more: Any = {"tool_calls": [CALL]} if wants_call else {}
        if body.get("stream", True):
            text = [] if wants_call else [record(each, done=False) for each in ("北", "京", "晴")]
            lines = ndjson(*text, record(**more)).encode().splitlines(keepends=True)
            return Response(chunks=lines, headers={"Content-Type": "application/x-ndjson"})
        return Response(body=record("" if wants_call else "北京晴", **more))
    function = {"name": "get_weather", "arguments": '{"city": "北京"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    said: Any = {"role": "assistant", "content": "北京晴"} | (
        {"content": "", "tool_calls": [call]} if wants_call else {}
    )
    reason = "tool_calls" if wants_call else "stop"
    head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    if body.get("stream"):
        ended = {"index": 0, "delta": {}, "finish_reason": reason}
        chunks = [{**head, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
                  {**head, "choices": [ended]}]  # fmt: skip
        return Response(body=sse(*chunks), headers={"Content-Type": "text/event-stream"})
    choice = {"index": 0, "message": said, "finish_reason": reason}
    return Response(body={**head, "choices": [choice]})


def send(url: str, sent: Any, **changes: Any) -> requests.Response:
    with requests.Session() as http:
        http.trust_env = False
        headers = {"Accept-Encoding": sent["accept_encoding"]}
        body = sent["body"] | changes
        return http.post(f"{url}{sent['path']}", json=body, headers=headers, timeout=30)


@pytest.mark.parametrize("client", NAMES)
def test_a_stock_client_is_recorded_and_served(tmp_path: Path, client: str) -> None:
    """Equal bodies live and served, in its order; what it did not ask is refused."""
    sent = [each for each in CLIENTS if each["client"] == client]
    with FaultServer(answer) as upstream, RecordingProxy(upstream.url, tmp_path, "x") as proxy:
        live = [send(proxy.url, each) for each in sent]
    with serve([tmp_path / "x.yaml"]) as server:
        again = [send(server.url, each) for each in sent]
        assert server.verdict().in_words() == []
        other = send(server.url, sent[0], messages=[{"role": "user", "content": "上海呢？"}])
    assert {each.status_code for each in live} == {200}
    assert [each.content for each in again] == [each.content for each in live]
    kinds = [[each.headers["Content-Type"] for each in got] for got in (again, live)]
    assert kinds[0] == kinds[1]
    assert other.status_code == 409
    assert "question" in other.text


def said(got: requests.Response) -> tuple[str, list[Any]]:
    """Text and calls of a reply, streamed or not, of either API."""
    assert got.status_code == 200, got.text
    lines = got.content.decode().replace("data: [DONE]", "").split("\n")
    lines = [line.removeprefix("data: ") for line in lines if line and not line.startswith(":")]
    records = [json.loads(line) for line in lines if line]
    choices = [choice for each in records for choice in each.get("choices", ())]
    parts = [each.get("delta") or each.get("message") for each in choices] or [
        each.get("message", {"content": each.get("response", "")}) for each in records
    ]
    calls = [call["function"] for each in parts for call in (each or {}).get("tool_calls") or ()]
    return "".join((each or {}).get("content") or "" for each in parts), calls


@pytest.mark.parametrize("sent", CLIENTS, ids=lambda each: each["client"])
def test_streamed_or_not_it_says_the_same(tmp_path: Path, sent: Any) -> None:
    """Recorded one way and asked the other way, text and calls are those of the recording."""
    way = sent["body"].get("stream", sent["path"] == "/api/chat")
    with FaultServer(answer) as upstream, RecordingProxy(upstream.url, tmp_path, "x") as proxy:
        live = send(proxy.url, sent)
    with serve([tmp_path / "x.yaml"], repeat=True) as server:
        same, other = send(server.url, sent), send(server.url, sent, stream=not way)
    assert same.content == live.content
    assert other.content != live.content
    assert said(other) == said(live)


EMPTY: dict[str, Any] = {
    "format": "",
    "options": {},
    "keep_alive": None,
    "think": None,
    "images": [],
}
PLAIN_TOOL = {"type": "function", "function": {
    "name": "now", "parameters": {"type": "object", "properties": {"city": {}}}}}  # fmt: skip
TOOL_OF_OTHERS = {"type": "function", "function": {
    "name": "now", "description": "", "strict": None,
    "parameters": {"type": "object", "properties": {"city": {}}, "required": []}}}  # fmt: skip
ASKED = {"role": "assistant", "tool_calls": [CALL]}
ASKED_OF_OTHERS = {
    "role": "assistant", "content": None, "refusal": None, "annotations": [],
    "tool_calls": [{"id": "", "index": None, **CALL}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (EMPTY, True),
        ({"options": {"stop": [], "top_k": None}}, True),
        ({"tools": [TOOL_OF_OTHERS]}, True),
        ({"messages": [ASKED_OF_OTHERS]}, True),
        ({"think": False}, False),
        ({"options": {"top_k": 0}}, False),
        ({"tools": [{**PLAIN_TOOL, "function": {"name": "now"}}]}, False),
        ({"tools": [{"type": "function", "function": {
            "name": "now", "parameters": {"type": "object", "properties": {}}}}]}, False),
        ({"messages": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "get_weather", "arguments": {"city": "北京", "day": ""}}}]}]},
         False),
    ],
)  # fmt: skip
def test_empty_defaults_say_nothing(tmp_path: Path, change: Any, same: bool) -> None:
    """What one client leaves out and another sends empty is one request; all else says something."""
    body = {"model": "m", "messages": [ASKED], "tools": [PLAIN_TOOL], "stream": False}
    with serve([cassette(tmp_path / "c.yaml", interaction(body, json.dumps(record("x"))))]) as it:
        assert ask(it, body | change).status_code == (200 if same else 409)


THOUGHT: dict[str, Any] = {"thinking": "The user wants…\n1. **call** it", "tool_calls": [
    {"id": "call_gs", "function": {"index": 0, "name": "now", "arguments": {"city": "Paris"}}}]}  # fmt: skip
STREAM = ndjson(record(done=False, thinking="hm "), record("1\n", done=False),
                record("2", done=False), record())  # fmt: skip
CHAT = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
V1 = "/v1/chat/completions"
COMPLETION: dict[str, Any] = {"id": "c", "object": "chat.completion", "model": "m", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]}  # fmt: skip
EVENTS = ": keep-alive\n\n" + sse(
    {**COMPLETION, "choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": None}]},
    {**COMPLETION, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
)


def changed(made: Any, **parts: Any) -> Any:
    return {side: {**made[side], **parts.get(side, {})} for side in made}


# kind: the interaction, what is said, how many calls
KINDS: dict[str, tuple[Any, str, int]] = {
    "wiped headers, thinking and a call": (
        changed(interaction({**CHAT, "stream": False}, json.dumps(record(**THOUGHT))),
                response={"headers": {}}), "", 1),
    "wiped headers, a stream": (
        changed(interaction({**CHAT, "stream": True}, STREAM), response={"headers": {}}),
        "1\n2", 0),
    "spaced JSON, empty defaults, another host": (
        interaction({}, STREAM, text=json.dumps({**CHAT, "stream": True, **EMPTY}),
                    host="http://localhost:11434"), "1\n2", 0),
    "content types with a charset, transfer headers": (
        interaction({**CHAT, "stream": False}, json.dumps(record("ok")), headers={
            "Content-Type": ["application/json; charset=utf-8"], "Content-Length": ["830"],
            "Transfer-Encoding": ["chunked"], "Date": ["Mon, 16 Sep 2024 02:41:57 GMT"]}),
        "ok", 0),
    "gzip": (
        changed(interaction({**CHAT, "stream": False}, ""),
                response={"headers": {"Content-Encoding": ["gzip"]},
                          "body": {"string": gzip.compress(json.dumps(record("ok")).encode())}}),
        "ok", 0),
    "parsed_body": (
        changed(interaction({}, "", path=V1),
                request={"body": None, "parsed_body": CHAT},
                response={"body": None, "parsed_body": COMPLETION}), "ok", 0),
    "events": (
        changed(interaction({**CHAT, "stream": True}, EVENTS, path=V1), response={"headers": {}}),
        "ok", 0),
    "a generation": (
        interaction({"model": "m", "prompt": "Hi", "stream": False, "context": []},
                    json.dumps({"model": "m", "response": "ok then", "done": True,
                                "context": [1, 2]}), path="/api/generate"), "ok then", 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", [True, False])
def test_cassettes_of_others_are_served(tmp_path: Path, kind: str, way: bool) -> None:
    """Made up after those of other projects: they replay, lint, and are served either way."""
    made, text, calls = KINDS[kind]
    path = cassette(tmp_path / "c.yaml", made)
    exchange = load_session(path).exchanges[0]
    body = json.loads(exchange.request.body)
    where = exchange.request.url.partition("//")[2].partition("/")[2]
    with serve([path]) as server:
        got = ask(server, {**body, "stream": way}, f"/{where}")
        assert server.verdict().ok
    expected = {False: "application/json", True: "event-stream" if "v1" in where else "ndjson"}
    assert expected[way] in got.headers["Content-Type"]
    reply = said(got)
    assert (reply[0], len(reply[1])) == (text, calls)
    assert replay(path).ok
    assert not [each for each in lint_session(load_session(path), path) if each.level == "error"]


def test_what_does_not_stream_is_served_as_it_is(tmp_path: Path) -> None:
    """Embeddings, and an error that asks for nothing to be converted."""
    embedding = interaction({"model": "m", "prompt": "Hi"}, '{"embedding":[0.5,-1e-3]}',
                            path="/api/embeddings")  # fmt: skip
    missing = interaction(
        {**CHAT, "stream": False}, '{"error":"model \'m\' not found"}', status=404
    )
    with serve([cassette(tmp_path / "c.yaml", embedding, missing)]) as server:
        vector = ask(server, {"model": "m", "prompt": "Hi"}, "/api/embeddings")
        error = ask(server, {**CHAT, "stream": True})
    assert vector.text == '{"embedding":[0.5,-1e-3]}'
    assert (error.status_code, error.json()) == (404, {"error": "model 'm' not found"})
