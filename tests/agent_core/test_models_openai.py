"""The client of `/v1/chat/completions`: what is sent, and what a whole reply means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_core.errors import BadRequest, BadResponse, ModelError, StreamError
from agent_core.gears import ChatModel
from agent_core.messages import Message, Reply, ToolCall, Usage
from agent_core.models import OpenAIChat
from harness.faults import FaultServer, Response
from tests.agent_core.openai_support import ASK, DONE, OK, ask, chunk, fragment, whole

TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def sent(messages: list[Message], settings: dict[str, Any], **chat: Any) -> dict[str, Any]:
    """The body of a request."""
    with FaultServer([OK]) as server:
        model = OpenAIChat("m", base_url=f"{server.url}/v1/", api_key="", **settings)
        model.chat(messages, **chat)
        model.close()
        assert server.requests[0].path == "/v1/chat/completions"
        body: dict[str, Any] = server.requests[0].json()
        return body


def test_it_is_a_chat_model() -> None:
    """Name, provider and window are where the loop looks for them."""
    model: ChatModel = OpenAIChat("m", base_url="http://127.0.0.1:1/v1", context_window=4096)
    assert isinstance(model, ChatModel)
    assert (model.name, model.provider, model.context_window) == ("m", "openai", 4096)


def test_a_plain_request_holds_nothing_needless() -> None:
    """What was not asked for is not sent."""
    assert sent(ASK, {}) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
    }


def test_every_setting_reaches_the_request() -> None:
    """Sampling, further options, tools, stop strings, usage in the stream."""
    settings = {
        "stream": True, "temperature": 0.0, "max_tokens": 64, "seed": 7, "options": {"top_p": 0.5},
    }  # fmt: skip
    body = sent(ASK, settings, tools=[TOOL], stop=("\nObservation:",))
    del body["messages"]
    assert body == {
        "model": "m", "stream": True, "stream_options": {"include_usage": True},
        "temperature": 0.0, "max_tokens": 64, "seed": 7, "top_p": 0.5,
        "tools": [TOOL], "stop": ["\nObservation:"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("format_", "response_format"),
    [
        ("json", {"type": "json_object"}),
        ({"type": "json_object"}, {"type": "json_object"}),
        (
            {"type": "object", "properties": {}},
            {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {}}},
            },
        ),
    ],
)
def test_the_format_becomes_a_response_format(format_: Any, response_format: Any) -> None:
    """The same argument as for Ollama."""
    assert sent(ASK, {}, format=format_)["response_format"] == response_format


def test_calls_go_out_as_text_and_every_call_is_answered_by_its_id() -> None:
    """A history from elsewhere may lack ids; text that is an object stays byte for byte."""
    messages = [
        Message("assistant", "", (
            ToolCall(None, "f", {"城市": "北京"}),
            ToolCall("call_b", "f", '{"a":  1}'),
            ToolCall(None, "f", '{"a": '),
        )),
        Message("tool", "1", name="f"),
        Message("tool", "2", tool_call_id="call_b", name="f"),
        Message("tool", "3", name="f"),
    ]  # fmt: skip
    named = Message("user", "hi", name="ann")
    *body, last = sent([*messages, named], {})["messages"]
    assert last == {"role": "user", "content": "hi", "name": "ann"}
    calls = body[0]["tool_calls"]
    assert [each["function"]["arguments"] for each in calls] == [
        '{"城市": "北京"}', '{"a":  1}', '{"raw": "{\\"a\\": "}'
    ]  # fmt: skip
    assert {each["type"] for each in calls} == {"function"}
    assert [each["tool_call_id"] for each in body[1:]] == [each["id"] for each in calls]
    assert len({each["id"] for each in calls}) == 3
    assert all("name" not in each for each in body[1:])


def test_a_whole_reply_has_all_its_parts() -> None:
    """Text, thinking, calls, usage and reason."""
    message = {
        "content": "晴", "reasoning_content": "想",
        "tool_calls": [fragment('{"city": "Oslo"}', name="get_weather", id="c1")],
    }  # fmt: skip
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    reply = ask(Response(body=whole(message, "tool_calls", model="q", usage=usage)), stream=False)
    calls = (ToolCall("c1", "get_weather", '{"city": "Oslo"}'),)
    assert reply == Reply(
        "晴", calls, "想", Usage(7, 3), "tool_calls", "q", timings=reply.timings
    )  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        (
            chunk({"content": "a"}) + b'data: {"error": {"message": "died"}}\n\n',
            StreamError,
            "died",
        ),
        (b'event: error\ndata: {"error": "overloaded"}\n\n', StreamError, "overloaded"),
        (b'{"error": {"code": 429, "message": "slow down"}}', StreamError, "slow down"),
        (b'event: error\ndata: {"message": "overloaded"}\n\n', StreamError, "overloaded"),
        (b'{"object": "error", "message": "too busy", "code": 503}', StreamError, "too busy"),
        (b'{"detail": [{"msg": "field required"}]}', StreamError, "field required"),
        (
            chunk({"content": "a"}) + chunk({}, finish_reason="error") + DONE,
            StreamError,
            "finish_reason",
        ),
        (
            b'data: {"choices": [{"delta": {}, "error": {"message": "upstream died"}}]}\n\n',
            StreamError,
            "upstream died",
        ),
        (b'{"id": "x", "choices": []}', BadResponse, "choices is empty"),
        (b'{"id": "x"}', BadResponse, "choices is empty or missing"),
        (b'{"choices": [null]}', BadResponse, "choices"),
        (b'{"choices": {"0": 1}}', BadResponse, "choices"),
        (b'{"choices": [{"finish_reason": "stop"}]}', BadResponse, "holds none"),
        (b"[]", BadResponse, "expected a JSON object"),
        (b"<html>Log in</html>", BadResponse, "HTML"),
        (b"<!DOCTYPE html>\n\n<p>x", BadResponse, "HTML"),
        (b"", BadResponse, "empty body"),
        (b"\n \n", BadResponse, "empty body"),
        (b"Internal error\n", BadResponse, "Internal error"),
        (b"data: oops\n\n", BadResponse, "oops"),
        (DONE, BadResponse, "choices"),
        (json.dumps(whole({"content": 7})).encode(), BadResponse, "expected text or null"),
    ],
)
def test_answers_that_are_none_have_their_type(
    body: bytes, kind: type[ModelError], words: str, stream: bool
) -> None:
    """Each is told as what it is, and asked once."""
    with pytest.raises(ModelError) as caught:
        ask(Response(body=body), stream=stream)
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert caught.value.attempts == 1


def test_text_may_be_null_a_list_of_parts_or_a_refusal() -> None:
    """Servers write all of these."""
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, "b"]
    for message, text in (
        ({"content": None}, ""),
        ({}, ""),
        ({"content": parts}, "ab"),
        ({"content": None, "refusal": "I will not."}, "I will not."),
        ({"content": "Hi", "tool_calls": None}, "Hi"),
    ):
        reply = ask(Response(body=whole(message, usage=None)), stream=False)
        assert (reply.text, reply.tool_calls, reply.usage) == (text, (), Usage())


def test_two_calls_with_one_id_get_two() -> None:
    """Otherwise one of them could not be answered."""
    calls = [fragment("{}", name="f", id="x"), fragment("{}", name="g", id="x")]
    reply = ask(Response(body=whole({"tool_calls": calls})), stream=False)
    assert [each.name for each in reply.tool_calls] == ["f", "g"]
    assert len({each.id for each in reply.tool_calls}) == 2


def test_a_wrong_path_is_told_from_a_missing_model() -> None:
    """Forgetting `/v1` is the usual reason."""
    with FaultServer([Response(404, "404 page not found")]) as server:
        model = OpenAIChat("m", base_url=server.url, api_key="")
        with pytest.raises(BadRequest, match=r"/v1"):
            model.chat(ASK)
        model.close()
