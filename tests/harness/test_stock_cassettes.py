"""Cassettes of other projects' test suites: every kind loads, lints and replays as it is.

The texts are made up here; the shapes are those that such suites record from Ollama.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.sessions.cassette import load_session
from harness.sessions.conversion import reply_of
from harness.sessions.lint import lint
from harness.sessions.replay import replay
from tests.harness.serve_support import cassette, interaction

USER = {"role": "user", "content": "How high is the lighthouse?"}
CALL = {"function": {"index": 0, "name": "height_of", "arguments": {"what": "lighthouse"}}}
SCHEMA = {"type": "object", "required": ["what"], "properties": {"what": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "height_of", "parameters": SCHEMA}}
CHAT = "http://127.0.0.1:11434/api/chat"
V1 = "http://localhost:11434/v1/chat/completions"
COUNTS = {"prompt_eval_count": 20, "eval_count": 9, "total_duration": 9, "eval_duration": 5}


def line(*, done: bool = False, **message: Any) -> dict[str, Any]:
    """An object of `/api/chat`."""
    ending = {"done_reason": "stop", **COUNTS} if done else {}
    said = {"role": "assistant", "content": "", **message}
    moment = "2026-08-07T06:08:14.947137Z"
    return {"model": "m:latest", "created_at": moment, "message": said, "done": done, **ending}


def ndjson(*lines: dict[str, Any]) -> str:
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)


def sse(*deltas: dict[str, Any], finish: str = "stop") -> str:
    choices = [{"index": 0, "delta": each, "finish_reason": None} for each in deltas]
    last = {"index": 0, "delta": {}, "finish_reason": finish}
    events = [{"object": "chat.completion.chunk", "choices": [each]} for each in [*choices, last]]
    return "".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n"


def asked(**more: Any) -> dict[str, Any]:
    return {"model": "m:latest", "stream": False, "messages": [USER], "tools": [], **more}


KINDS: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "a chat with thinking": (
        CHAT, asked(options={"temperature": 0, "seed": 42}), 200,
        json.dumps(line(done=True, content="41 m.", thinking="1. **Analyse**\n✅ Say it.")),
    ),
    "a stream with thinking and counts": (
        CHAT, asked(stream=True, format="", options={}, keep_alive=None), 200,
        ndjson(line(thinking="Let me"), line(thinking=" see"), line(content="41"),
               line(content=" m."), line(done=True)),
    ),
    "a native call": (
        CHAT, asked(tools=[TOOL]), 200, json.dumps(line(done=True, tool_calls=[CALL])),
    ),
    "a stream with a native call": (
        CHAT, asked(stream=True, tools=[TOOL]), 200,
        ndjson(line(thinking="I ask."), line(tool_calls=[CALL]), line(done=True)),
    ),
    "a turn after a tool": (
        CHAT,
        asked(messages=[USER, {"role": "assistant", "content": "", "tool_calls": [CALL]},
                        {"role": "tool", "content": "41"}], tools=[TOOL]),
        200, json.dumps(line(done=True, content="41 m.")),
    ),
    "a model that is not there": (
        CHAT, asked(), 404, '{"error":"model \'m:latest\' not found"}',
    ),
    "embeddings": (
        "http://127.0.0.1:11434/api/embed", {"model": "e", "input": ["灯塔"], "truncate": True}, 200,
        '{"model":"e","embeddings":[[0.25,-0.5]],"total_duration":1,"prompt_eval_count":2}',
    ),
    "a completion": (
        "http://127.0.0.1:11434/api/generate",
        {"model": "m", "prompt": "Say 41", "stream": False, "options": {}, "context": []}, 200,
        '{"model":"m","response":"41","done":true,"context":[1,2],"eval_count":2}',
    ),
    "a chat of /v1": (
        V1, asked(), 200,
        json.dumps({"object": "chat.completion", "usage": {"prompt_tokens": 9, "completion_tokens": 2},
                    "choices": [{"index": 0, "finish_reason": "stop",
                                 "message": {"role": "assistant", "content": "41 m."}}]}),
    ),
    "server-sent events of /v1": (
        V1, asked(stream=True, stream_options={"include_usage": True}), 200,
        sse({"role": "assistant", "content": ""}, {"content": "灯塔"}, {"content": " 41 m."}),
    ),
    "a call in pieces of /v1": (
        V1, asked(stream=True, tools=[TOOL]), 200,
        sse({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                             "function": {"name": "height_of", "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": '{"what": "light'}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": 'house"}'}}]},
            finish="tool_calls"),
    ),
}  # fmt: skip


def write(path: Path, name: str) -> Path:
    """A cassette of one exchange, as stock vcrpy writes it."""
    url, body, status, reply = KINDS[name]
    host, route = url.split("/", 3)[:3], url.split("/", 3)[3]
    how: dict[str, Any] = {"host": "/".join(host), "path": f"/{route}", "headers": {}}
    return cassette(path, interaction(body, reply, status=status, **how))


@pytest.fixture(params=KINDS)
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Each kind in turn."""
    return write(tmp_path / "stock.yaml", request.param)


def test_it_replays(stock: Path) -> None:
    """Its own request gets its own reply, byte for byte."""
    report = replay(stock)
    assert report.in_words() == []
    assert report.drift.total == 1


def test_it_lints_clean(stock: Path) -> None:
    """All that is said is that nobody knows where it comes from."""
    assert [each.rule for each in lint([stock])] == ["unknown-origin"]


@pytest.mark.parametrize("name", [each for each in KINDS if "call" in each])
def test_its_calls_are_read(name: str, tmp_path: Path) -> None:
    """However a call is spelled out, it is one call with its arguments."""
    path = write(tmp_path / "stock.yaml", name)
    (exchange,) = load_session(path).exchanges
    said = reply_of(exchange.request, exchange.response)
    assert said is not None
    (call,) = said.tool_calls
    arguments = call.arguments
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert (call.name, given) == ("height_of", {"what": "lighthouse"})
