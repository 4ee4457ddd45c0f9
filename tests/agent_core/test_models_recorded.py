"""Everything a real Ollama server said goes through the clients and comes out right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import vcr

from agent_core.errors import BadRequest, ModelError, ModelNotFound
from agent_core.messages import Message, Reply, ToolCall
from agent_core.models import OllamaChat, OpenAIChat
from harness.faults import FaultServer, Response

DATA = Path(__file__).parent.parent / "data" / "ollama_api"

Exchange = dict[str, Any]


def load(name: str) -> dict[str, Exchange]:
    """Recorded exchanges by name."""
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    return {each["name"]: each for each in map(json.loads, lines)}


EXCHANGES = load("exchanges.jsonl")
CONVERSATIONS = load("conversations.jsonl")

ERRORS: dict[str, tuple[type[ModelError], int, str]] = {
    "chat_bad_format_500": (BadRequest, 500, 'invalid format: "\\"yaml\\""'),
    "chat_bad_json_400": (BadRequest, 400, "unexpected EOF"),
    "chat_bad_option_500": (BadRequest, 500, 'option "temperature" must be of type float32'),
    "chat_missing_model_404": (ModelNotFound, 404, "ollama pull no-such-model:1b"),
    "chat_missing_model_stream_404": (ModelNotFound, 404, "ollama pull no-such-model:1b"),
    "chat_no_model_400": (BadRequest, 400, "model is required"),
    "chat_thinking_not_supported_400": (BadRequest, 400, "does not support thinking"),
    "chat_tools_not_supported_400": (BadRequest, 400, "does not support tools"),
    "embed_missing_404": (ModelNotFound, 404, "ollama pull no-such-model:1b"),
    "show_missing_404": (ModelNotFound, 404, "ollama pull no-such-model:1b"),
    "unknown_path_404": (BadRequest, 404, "Nothing answers at this path"),
    "wrong_method_405": (BadRequest, 405, "Nothing answers at this path"),
    "v1_chat_bad_json_400": (BadRequest, 400, "unexpected EOF"),
    "v1_chat_missing_model_404": (ModelNotFound, 404, "ollama pull no-such-model:1b"),
}


def served(exchange: Exchange) -> Response:
    """The recorded response; a stream goes out in small chunks, as it came."""
    body = exchange["body"].encode()
    headers = {"Content-Type": exchange["content_type"]}
    if not streams(exchange):
        return Response(exchange["status"], body, headers=headers)
    chunks = [line + b"\n" for line in body.split(b"\n") if line]
    if exchange["path"].startswith("/v1"):
        chunks = [chunk + b"\n" for chunk in chunks]
    return Response(exchange["status"], headers=headers, chunks=chunks)


def streams(exchange: Exchange) -> bool:
    """Whether the server was asked for a stream; on its own route that is the default."""
    request = exchange["request"]
    asked = request.get("stream") if isinstance(request, dict) else None
    return exchange["path"] == "/api/chat" and asked is None if asked is None else bool(asked)


def ask(exchange: Exchange, messages: list[Message]) -> tuple[Reply, Any]:
    """Send messages to a server that gives the recorded response; the reply and the request."""
    with FaultServer([served(exchange)]) as server:
        model: OllamaChat | OpenAIChat
        if exchange["path"].startswith("/v1"):
            base_url = f"{server.url}/v1"
            model = OpenAIChat("no-such-model:1b", base_url=base_url, stream=streams(exchange))
        else:
            model = OllamaChat("no-such-model:1b", base_url=server.url, stream=streams(exchange))
        try:
            return model.chat(messages), server.requests[0].json()
        finally:
            model.close()
            assert len(server.requests) == 1, "nothing recorded is worth a second request"


@pytest.mark.parametrize("name", ERRORS)
def test_each_recorded_error_becomes_its_type(name: str) -> None:
    """Status and words decide the type; the message says what to do."""
    kind, status, words = ERRORS[name]
    with pytest.raises(ModelError) as caught:
        ask(EXCHANGES[name], [Message("user", "hi")])
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert words in str(caught.value)


def expected(exchange: Exchange) -> dict[str, Any]:
    """What the body says, put together by the plainest means."""
    body: str = exchange["body"]
    if exchange["path"].startswith("/v1"):
        texts = [line.removeprefix("data: ") for line in body.splitlines() if line]
        chunks = [json.loads(text) for text in texts if text != "[DONE]"]
        said = [
            (each.get("delta") or each.get("message"), each["finish_reason"])
            for chunk in chunks
            for each in chunk["choices"]
        ]
        usage = chunks[-1].get("usage") or {}
        return {
            "text": "".join(message["content"] for message, _ in said),
            "calls": [call for message, _ in said for call in message.get("tool_calls", [])],
            "finish_reason": said[-1][1],
            "usage": (usage.get("prompt_tokens"), usage.get("completion_tokens")),
            "total": None,
        }
    records = [json.loads(line) for line in body.splitlines() if line]
    last = records[-1]
    return {
        "text": "".join(each["message"]["content"] for each in records),
        "calls": [call for each in records for call in each["message"].get("tool_calls", [])],
        "finish_reason": last["done_reason"],
        "usage": (last.get("prompt_eval_count"), last.get("eval_count")),
        "total": last["total_duration"] / 1e9 if "total_duration" in last else None,
    }


def check(exchange: Exchange, reply: Reply) -> None:
    """A reply holds what the body says, nothing less and nothing else."""
    wanted = expected(exchange)
    calls = tuple(
        ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"])
        for each in wanted["calls"]
    )
    assert reply.text == wanted["text"]
    assert reply.tool_calls == calls
    assert reply.finish_reason == wanted["finish_reason"]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == wanted["usage"]
    assert reply.timings.total == wanted["total"]
    assert reply.model is not None
    assert not reply.cut_by_client


@pytest.mark.parametrize("name", sorted(EXCHANGES.keys() - ERRORS.keys()))
def test_each_recorded_success_becomes_its_reply(name: str) -> None:
    """Text, calls, finish reason, usage and timings are those of the body."""
    reply, _ = ask(EXCHANGES[name], [Message("user", "hi")])
    check(EXCHANGES[name], reply)


def test_stock_vcrpy_can_stand_in_for_the_server(tmp_path: Path) -> None:
    """Its connections take the place of the client's own: nothing gets past it."""
    exchange = EXCHANGES["chat_tools"]
    cassette = {
        "version": 1,
        "interactions": [
            {
                "request": {"method": "POST", "uri": "http://127.0.0.1:9/api/chat", "body": "",
                            "headers": {}},
                "response": {"status": {"code": 200, "message": "OK"}, "headers": {},
                             "body": {"string": exchange["body"]}},
            }
        ],
    }  # fmt: skip
    path = tmp_path / "cassette.yaml"
    path.write_text(json.dumps(cassette), encoding="utf-8")
    with vcr.use_cassette(str(path), record_mode="none", match_on=["method", "path"]):
        model = OllamaChat("m", base_url="http://127.0.0.1:9")
        check(exchange, model.chat([Message("user", "hi")], timeout=20.0))
        model.close()


def as_messages(recorded: list[dict[str, Any]]) -> list[Message]:
    """The vocabulary's form of recorded messages."""
    return [
        Message(
            each["role"],
            each["content"],
            tuple(
                ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
                for call in each.get("tool_calls", [])
            ),
            name=each.get("tool_name"),
        )
        for each in recorded
    ]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations_go_out_and_come_in_as_recorded(name: str) -> None:
    """Our messages are those the server took, and its replies are understood."""
    exchange = CONVERSATIONS[name]
    reply, request = ask(exchange, as_messages(exchange["request"]["messages"]))
    check(exchange, reply)
    recorded = exchange["request"]["messages"]
    for message in recorded:
        for call in message.get("tool_calls", []):
            call["function"].pop("index", None)
    assert request["messages"] == recorded
