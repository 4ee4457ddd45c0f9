"""What goes to an OpenAI-compatible server, and what comes back however the server puts it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_core.errors import BadRequest, BadResponse, ModelError, StreamCut, StreamError
from agent_core.gears import ChatModel
from agent_core.messages import Message, Reply, ToolCall, Usage
from agent_core.models import OpenAIChat, Timeouts
from harness.faults import FaultServer, Response

ASK = [Message("user", "hi")]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}


def whole(message: object, finish_reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A whole response with one choice."""
    return {"choices": [{"message": message, "finish_reason": finish_reason}], **more}


def chunk(delta: object = None, finish_reason: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


def fragment(arguments: object = None, *, name: object = None, **more: Any) -> dict[str, Any]:
    """A part of a tool call."""
    function = {"name": name, "arguments": arguments}
    return {"function": {k: v for k, v in function.items() if v is not None}, **more}


def deltas(*fragments: dict[str, Any]) -> bytes:
    """A stream with these fragments of calls, one a chunk."""
    said = b"".join(chunk({"tool_calls": [each]}) for each in fragments)
    return said + chunk(finish_reason="tool_calls") + DONE


STOP = chunk(finish_reason="stop")
DONE = b"data: [DONE]\n\n"
OK = Response(body=whole({"role": "assistant", "content": "ok"}))


def ask(response: Response, *, stream: bool = True, **chat: Any) -> Reply:
    """The reply to one question."""
    with FaultServer([response]) as server:
        model = OpenAIChat(
            "m", base_url=f"{server.url}/v1", api_key="", stream=stream,
            timeouts=Timeouts(read=chat.pop("read", 30.0)),
        )  # fmt: skip
        try:
            return model.chat(chat.pop("messages", ASK), **chat)
        finally:
            model.close()


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


STREAM = (
    chunk({"role": "assistant", "content": ""}, model="q")
    + chunk({"content": "北"})
    + chunk({"content": "京🙂"})
    + chunk({"reasoning": "想"})
    + STOP
)
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}\n\n'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        STREAM + USAGE + DONE,
        STREAM + USAGE,
        (STREAM + USAGE + DONE).rstrip(b"\n"),
        (STREAM + USAGE + DONE).replace(b"\n\n", b"\n"),
        (STREAM + USAGE + DONE).replace(b"\n", b"\r\n"),
        (STREAM + USAGE + DONE).replace(b"\n", b"\r"),
        (STREAM + USAGE + DONE).replace(b"data: ", b"data:"),
        (STREAM + USAGE + DONE).replace(b"data: ", b": ping\n\nid: 1\nevent: m\nretry: 9\ndata: "),
        (STREAM + USAGE + DONE).replace(b', "finish_reason"', b',\ndata: "finish_reason"'),
        b"\xef\xbb\xbf" + STREAM + USAGE + DONE,
        b"\n\n" + STREAM + USAGE + DONE + DONE,
        STREAM + USAGE + DONE + b"data: garbage\n\n",
        b": OPENROUTER PROCESSING\n\n" * 50 + STREAM + USAGE + DONE,
        b"data:\n\n" + STREAM.replace(b"data: ", b"data: \n\ndata: ") + USAGE + DONE,
        STREAM + USAGE + b'data: "[DONE]"\n\n',
        STREAM + USAGE + b"data: [done]\n\n",
        STREAM + USAGE + b"data: [DO",
        STREAM + USAGE + b'data: {"choices": [], "usage": {}}\n\n' + DONE,
        STREAM.replace(b'"choices": [', b'"choices": [{"index": 1, "delta": {"content": "b"}}, ')
        + USAGE + DONE,
        STREAM + b'data: {"choices": [{"message": {"content": "again"}}]}\n\n' + USAGE + DONE,
    ],
)  # fmt: skip
def test_event_streams_are_read_by_the_standard(body: bytes, stream: bool) -> None:
    """Comments, other fields, any line end, several data lines, no space, no `[DONE]`."""
    reply = ask(Response(body=body), stream=stream)
    assert (reply.text, reply.thinking, reply.finish_reason) == ("北京🙂", "想", "stop")
    assert (reply.usage, reply.model) == (Usage(7, 3), "q")


def test_a_server_that_does_not_stream_when_asked_is_understood() -> None:
    """A whole JSON body is a reply, over many lines too."""
    body = json.dumps(whole({"content": "ok"}), indent=2).encode()
    assert ask(Response(chunks=[b"  ", b"\n", body[:1], body[1:]])).text == "ok"


def test_done_without_a_reason_is_an_end() -> None:
    """The server says that it is over."""
    reply = ask(Response(body=chunk({"content": "a"}) + DONE))
    assert (reply.text, reply.finish_reason) == ("a", None)


@pytest.mark.parametrize(
    "response",
    [
        Response(chunks=[chunk({"content": "a"}) + STOP, b": "], pause=30.0),
        Response(chunks=[chunk({"content": "a"}) + STOP, b": "], cut_after=200, reset=True),
        Response(body=chunk({"content": "a"}) + STOP + b'data: {"choi', framing="close"),
    ],
)
def test_what_breaks_after_the_finish_reason_costs_nothing(response: Response) -> None:
    """Text and reason have arrived; only the usage may be missing."""
    assert ask(response, read=0.2).text == "a"


@pytest.mark.parametrize(
    "response",
    [
        Response(body=chunk({"content": "Hel"})),
        Response(body=chunk({"content": "Hel"}) + b'data: {"choices": [{"delta": {"cont'),
        Response(body=chunk({"content": "Hel"}) + STOP + DONE, cut_after=80),
        Response(chunks=[chunk({"content": "Hel"}), STOP], cut_after=80, reset=True),
    ],
)
def test_a_stream_without_its_end_is_no_answer(response: Response) -> None:
    """Half an answer is refused."""
    with pytest.raises(StreamCut, match="before the server announced its end"):
        ask(response)


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


ONE = [("f", '{"a": 1}')]
TWO = [("f", '{"a": 1}'), ("g", '{"b": 2}')]


@pytest.mark.parametrize(
    ("stream", "calls"),
    [
        # as the API says
        (deltas(fragment("", name="f", index=0, id="x"), fragment('{"a"', index=0),
                fragment(": 1}", index=0)), ONE),
        # two calls, their fragments mixed
        (deltas(fragment("", name="f", index=0, id="x"), fragment("", name="g", index=1, id="y"),
                fragment('{"b": ', index=1), fragment('{"a": 1}', index=0),
                fragment("2}", index=1)), TWO),
        # an id in every fragment, a new one each time
        (deltas(fragment('{"a"', name="f", index=0, id="x"), fragment(": 1}", index=0, id="y")),
         ONE),
        # the name in every fragment
        (deltas(fragment('{"a"', name="f", index=0, id="x"),
                fragment(": 1}", name="f", index=0, id="x")), ONE),
        # every call has the index 0
        (deltas(fragment('{"a": 1}', name="f", index=0, id="x"),
                fragment('{"b": 2}', name="g", index=0, id="y")), TWO),
        # every call has the index 0, and the first one no arguments
        (deltas(fragment("", name="f", index=0, id="x"),
                fragment('{"b": 2}', name="g", index=0, id="y")), [("f", {}), TWO[1]]),
        # no index, ids only
        (deltas(fragment('{"a"', name="f", id="x"), fragment('{"b"', name="g", id="y"),
                fragment(": 1}", id="x"), fragment(": 2}", id="y")), TWO),
        # neither index nor id
        (deltas(fragment('{"a": 1}', name="f"), fragment('{"b"', name="g"), fragment(": 2}")), TWO),
        # both in one chunk, neither index nor id
        (chunk({"tool_calls": [fragment('{"a": 1}', name="f"), fragment('{"b": 2}', name="g")]})
         + STOP + DONE, TWO),
        # no name at all
        (deltas(fragment('{"a": 1}', index=0)), [("", '{"a": 1}')]),
        # arguments as an object, and none
        (deltas(fragment({"a": 1}, name="f", index=0), fragment(name="g", index=1)),
         [("f", {"a": 1}), ("g", {})]),
        # indexes that are none
        (deltas(fragment('{"a": 1}', name="f", index="0"), fragment('{"b": 2}', name="g",
                index=None)), TWO),
        # a stream of whole messages
        (b"data: " + json.dumps(whole({"tool_calls": [fragment('{"a": 1}', name="f", index=0),
         fragment('{"b": 2}', name="g", index=0)]})).encode() + b"\n\n" + DONE, TWO),
        (deltas({"index": 0, "function": None, "id": None}), [("", {})]),
        # every call has the index 0 and none an id, a name comes again
        (deltas(fragment('{"a": 1}', name="f", index=0), fragment('{"b"', name="g", index=0),
                fragment(": 2}", name="g", index=0)), TWO),
        # indices as text or floats, mixed, the second call first
        (deltas(fragment("", name="g", index="1", id="y"), fragment("", name="f", index=0.0,
                id="x"), fragment('{"b": 2}', index=1), fragment('{"a": 1}', index="0")), TWO),
        # a gap, the second call first
        (deltas(fragment('{"b": 2}', name="g", index=7, id="y"),
                fragment('{"a": 1}', name="f", index=3, id="x")), TWO),
        # the whole call once more at the end
        (deltas(fragment('{"a"', name="f", index=0, id="x"), fragment(": 1}", index=0),
                fragment('{"a": 1}', name="f", index=0, id="x")), ONE),
        # the form before `tool_calls`
        (chunk({"function_call": {"name": "f", "arguments": ""}})
         + chunk({"function_call": {"arguments": '{"a": 1}'}}) + STOP + DONE, ONE),
        # arguments under the name that the schema has
        (deltas({"index": 0, "function": {"name": "f", "parameters": {"a": 1}}}),
         [("f", {"a": 1})]),
    ],
)  # fmt: skip
def test_fragments_of_calls_are_put_together(stream: bytes, calls: list[tuple[str, Any]]) -> None:
    """By index, id, name or order, whatever the server gives; every call gets an id."""
    reply = ask(Response(body=stream))
    assert [(each.name, each.arguments) for each in reply.tool_calls] == calls
    assert len({each.id for each in reply.tool_calls} - {None}) == len(calls)


def test_two_calls_with_one_id_get_two() -> None:
    """Otherwise one of them could not be answered."""
    calls = [fragment("{}", name="f", id="x"), fragment("{}", name="g", id="x")]
    reply = ask(Response(body=whole({"tool_calls": calls})), stream=False)
    assert [each.name for each in reply.tool_calls] == ["f", "g"]
    assert len({each.id for each in reply.tool_calls}) == 2


def test_reading_stops_when_it_is_told_to() -> None:
    """The rest of the stream is not waited for."""
    chunks = [chunk({"content": "a"}), chunk({"content": "b"}), STOP]
    reply = ask(Response(chunks=chunks, pause=0.2), on_text=lambda piece: piece == "a")
    assert (reply.text, reply.cut_by_client, reply.finish_reason) == ("a", True, None)


def test_a_wrong_path_is_told_from_a_missing_model() -> None:
    """Forgetting `/v1` is the usual reason."""
    with FaultServer([Response(404, "404 page not found")]) as server:
        model = OpenAIChat("m", base_url=server.url, api_key="")
        with pytest.raises(BadRequest, match=r"/v1"):
            model.chat(ASK)
        model.close()
