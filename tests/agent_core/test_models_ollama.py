"""What goes to Ollama's own API, and what comes back however the server puts it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agent_core.errors import BadResponse, ContextOverflow, ModelError, StreamCut, StreamError
from agent_core.events import Ended, ModelCallEnded, ModelCallStarted, Started, watching
from agent_core.gears import ChatModel, OnText
from agent_core.messages import Message, Reply, Timings, ToolCall, Usage
from agent_core.models import OllamaChat
from harness.faults import FaultServer, Response

ASK = [Message("user", "hi")]
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
DONE = {"message": {"role": "assistant", "content": "ok"}, "done": True}


def record(content: str | None = "", *, done: bool = False, **more: Any) -> bytes:
    """One line of a stream; `calls` and `thinking` go into its message."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    for name in ("calls", "thinking"):
        if name in more:
            message["tool_calls" if name == "calls" else name] = more.pop(name)
    return json.dumps({"message": message, "done": done, **more}).encode() + b"\n"


def call(city: object, **more: Any) -> dict[str, Any]:
    """A tool call as Ollama writes it."""
    return {"function": {"name": "get_weather", "arguments": {"city": city}}, **more}


def keep(pieces: list[str], *, until: int | None = None) -> OnText:
    """A listener that collects what it hears, and has enough after so many pieces."""

    def on_text(piece: str) -> bool:
        pieces.append(piece)
        return len(pieces) == until

    return on_text


LAST = record(done=True, done_reason="stop")


def ask(response: Response, *, stream: bool = True, **chat: Any) -> Reply:
    """The reply to one question."""
    with FaultServer([response]) as server:
        model = OllamaChat("m", base_url=server.url, stream=stream)
        try:
            return model.chat(chat.pop("messages", ASK), **chat)
        finally:
            model.close()


def sent(messages: list[Message], settings: dict[str, Any], **chat: Any) -> dict[str, Any]:
    """The body of a request."""
    with FaultServer([Response(body=DONE)]) as server:
        model = OllamaChat("m", base_url=server.url, **settings)
        model.chat(messages, **chat)
        model.close()
        body: dict[str, Any] = server.requests[0].json()
        return body


def test_it_is_a_chat_model() -> None:
    """Name, provider and window are where the loop looks for them."""
    model: ChatModel = OllamaChat("qwen2.5-coder:1.5b", num_ctx=4096)
    assert isinstance(model, ChatModel)
    assert (model.name, model.provider, model.context_window) == (
        "qwen2.5-coder:1.5b", "ollama", 4096
    )  # fmt: skip
    assert OllamaChat("m", options={"num_ctx": 2048}).context_window == 2048


def test_a_plain_request_says_the_context_window_and_nothing_needless() -> None:
    """What was not asked for is not sent; `num_ctx` always is."""
    assert sent(ASK, {}) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": False,
        "options": {"num_ctx": 8192},
    }


def test_every_setting_reaches_the_request() -> None:
    """Options, tools, format, stop strings, thinking and the time to stay loaded."""
    settings = {
        "stream": True, "options": {"temperature": 0, "seed": 1, "stop": "END"}, "num_ctx": 1024,
        "keep_alive": "10m", "think": False,
    }  # fmt: skip
    body = sent(ASK, settings, tools=[TOOL], stop=("\nObservation:",), format={"type": "object"})
    assert body["options"] == {
        "num_ctx": 1024, "temperature": 0, "seed": 1, "stop": ["END", "\nObservation:"]
    }  # fmt: skip
    assert body["tools"] == [TOOL]
    assert body["format"] == {"type": "object"}
    assert (body["stream"], body["think"], body["keep_alive"]) == (True, False, "10m")


def test_calls_go_out_as_objects_and_results_name_their_tool() -> None:
    """Text arguments are decoded; what cannot be is shown to the model as it was."""
    messages = [
        Message("user", "天气？"),
        Message("assistant", "", (
            ToolCall("call_1", "get_weather", {"city": "北京"}),
            ToolCall(None, "get_weather", '{"city": "Oslo"}'),
            ToolCall("call_3", "get_weather", '{"city": '),
            ToolCall("call_4", "get_weather", "[1]"),
            ToolCall("call_5", "get_weather", '{"n": NaN}'),
            ToolCall("call_6", "get_weather", '{"n": 1e999}'),
        )),
        Message("tool", "晴", tool_call_id="call_1", name="get_weather"),
    ]  # fmt: skip
    body = sent(messages, {})
    calls = body["messages"][1]["tool_calls"]
    assert [each["function"]["arguments"] for each in calls] == [
        {"city": "北京"}, {"city": "Oslo"}, {"raw": '{"city": '}, {"raw": "[1]"},
        {"raw": '{"n": NaN}'}, {"raw": '{"n": 1e999}'},
    ]  # fmt: skip
    assert [each.get("id") for each in calls] == [
        "call_1", None, "call_3", "call_4", "call_5", "call_6"
    ]  # fmt: skip
    assert body["messages"][2] == {
        "role": "tool", "content": "晴", "tool_name": "get_weather", "tool_call_id": "call_1"
    }  # fmt: skip


def test_bodies_are_utf8_and_any_text_can_be_sent() -> None:
    """Chinese stays Chinese; half a surrogate pair does not end the run."""
    text = "北京 \ud83d\ude00 \ud800 \x00"
    with FaultServer([Response(body=DONE)]) as server:
        model = OllamaChat("m", base_url=server.url)
        model.chat([Message("user", text)])
        model.close()
    assert "北京 😀 \ufffd".encode() in server.requests[0].body
    assert server.requests[0].json()["messages"][0]["content"] == "北京 😀 \ufffd \x00"


def test_a_whole_reply_has_all_its_parts() -> None:
    """Text, thinking, calls, usage, reason and seconds."""
    body = {
        "model": "qwen", "done": True, "done_reason": "stop",
        "message": {"role": "assistant", "content": "晴", "thinking": "想", "tool_calls": [
            call("Oslo", id="call_a")]},
        "total_duration": 5_000_000_000, "load_duration": 1_000_000_000,
        "prompt_eval_count": 7, "prompt_eval_duration": 2_000_000_000,
        "eval_count": 3, "eval_duration": 500_000_000,
    }  # fmt: skip
    reply = ask(Response(body=body), stream=False)
    assert reply == Reply(
        "晴", (ToolCall("call_a", "get_weather", {"city": "Oslo"}),), "想", Usage(7, 3), "stop",
        "qwen", Timings(5.0, 1.0, 2.0, 0.5, reply.timings.first_chunk),
    )  # fmt: skip
    assert reply.timings.first_chunk is not None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pieces", [1, 7, 10_000])
def test_streams_and_whole_bodies_are_told_apart_by_what_arrives(stream: bool, pieces: int) -> None:
    """A server may stream unasked, or not when asked, or break lines where it likes."""
    lines = record("北") + record("京🙂") + record(thinking="想") + LAST
    whole = json.dumps(json.loads(record("北京🙂", done=True)), indent=2).encode()
    ends = [lines.replace(b"\n", each) for each in (b"\r\n\r\n", b"", b" ")]
    for body in (lines, lines.rstrip(b"\n"), whole, *ends):
        chunks = [body[at : at + pieces] for at in range(0, len(body), pieces)]
        assert ask(Response(chunks=chunks), stream=stream).text == "北京🙂"


@pytest.mark.parametrize("stream", [False, True])
def test_calls_are_collected_from_every_record(stream: bool) -> None:
    """The last record is often empty; two calls without ids are two calls with new ids."""
    body = record(calls=[call("Oslo")]) + record(calls=[call("Rome")]) + LAST
    reply = ask(Response(body=body), stream=stream)
    assert [each.arguments["city"] for each in reply.tool_calls] == ["Oslo", "Rome"]
    assert len({each.id for each in reply.tool_calls} | {None}) == 3


def test_a_call_repeated_with_its_id_is_one_call() -> None:
    """Some servers repeat everything in the last record."""
    again = [call("Oslo", id="call_a")]
    body = record(calls=again) + record(calls=again, done=True)
    assert len(ask(Response(body=body)).tool_calls) == 1


def test_made_up_ids_are_new_to_the_conversation_and_the_same_every_time() -> None:
    """So each result finds its call, and a replayed run asks the same again."""
    history = [
        *ASK,
        Message("assistant", "", (ToolCall("call_2", "get_weather", {}),)),
        Message("tool", "x", tool_call_id="call_2"),
    ]
    body = record(calls=[call("Oslo"), call("Rome", id="call_2"), call("Bern", id="x")], done=True)
    replies = [ask(Response(body=body), messages=history) for _ in range(2)]
    ids = [each.id for each in replies[0].tool_calls]
    assert len({*ids, "call_2"}) == 4
    assert ids[2] == "x"
    assert replies[0].tool_calls == replies[1].tool_calls


def test_what_follows_the_end_is_ignored() -> None:
    """`done` twice, with the text once more, changes nothing."""
    body = record("a") + LAST + record("a", done=True) + b"garbage"
    assert ask(Response(body=body)).text == "a"


@pytest.mark.parametrize("pause", [0.0, 30.0])
def test_a_server_that_forgets_to_close_the_stream_is_not_waited_for(pause: float) -> None:
    """The reply is there when `done` is."""
    response = Response(chunks=[record("a") + LAST, b"\n"], pause=pause)
    began = time.monotonic()
    assert ask(response).text == "a"
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("cut", [
    Response(body=record("Hel")),
    Response(body=record("Hel") + b'{"message": {"content": "lo'),
    Response(body=record("Hel") + LAST, cut_after=90),
    Response(chunks=[record("Hel"), LAST], cut_after=90),
    Response(chunks=[record("Hel"), LAST], cut_after=90, reset=True),
    Response(body=b"\n"),
])  # fmt: skip
def test_a_stream_without_its_end_is_no_answer(cut: Response) -> None:
    """Half an answer looks like a whole one: it is refused, and not asked for again."""
    with FaultServer([cut]) as server:
        model = OllamaChat("m", base_url=server.url, stream=True)
        with pytest.raises(StreamCut, match="before the server announced its end") as caught:
            model.chat(ASK)
        model.close()
    assert caught.value.attempts == 1
    assert "Hel" not in str(caught.value)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (record("Hel") + b'{"error": "llama runner process has terminated"}\n', StreamError),
        (b'{"error": {"message": "out of memory", "code": 500}}', StreamError),
        (b'{"error": true, "message": "went wrong"}', StreamError),
        (record("Hel") + b'{"error": "context length exceeded"}\n', ContextOverflow),
        (record("Hel") + b"<html>502 Bad Gateway</html>\n", BadResponse),
        (record("Hel") + b"panic: runtime error\n", BadResponse),
        (record("Hel") + b"[1]\n" + LAST, BadResponse),
        (b"<html>Log in</html>", BadResponse),
        (record(done=True).replace(b'"assistant"', b"1").replace(b'""', b"17"), BadResponse),
    ],
)
def test_errors_inside_a_200_response_have_their_type(
    body: bytes, kind: type[ModelError], stream: bool
) -> None:
    """An error line, a proxy's page, a crash: each is told as what it is."""
    with pytest.raises(ModelError) as caught:
        ask(Response(body=body), stream=stream)
    assert type(caught.value) is kind
    assert caught.value.status == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("calls", "read"),
    [
        (None, ()),
        ([], ()),
        ({}, ()),
        (call("Oslo"), (("get_weather", {"city": "Oslo"}),)),
        ([{"name": "f", "arguments": {"a": 1}}], (("f", {"a": 1}),)),
        ([{"function": {"name": "f"}}], (("f", {}),)),
        ([{"function": {"name": "f", "arguments": ""}}], (("f", {}),)),
        ([{"function": {"name": "f", "arguments": '{"a": '}}], (("f", '{"a": '),)),
        ([{"function": {"name": "f", "arguments": [1]}}], (("f", [1]),)),
        ([{"function": {"name": None, "arguments": {}}}], (("", {}),)),
        ([{"function": {"name": 7}}], (("", {}),)),
        ([{"function": None, "id": 5}], (("", {}),)),
        (["get_weather"], (("", "get_weather"),)),
        ("get_weather", (("", "get_weather"),)),
        ([None], (("", None),)),
    ],
)
def test_damaged_calls_reach_the_parser(calls: Any, read: tuple[Any, ...], stream: bool) -> None:
    """The client neither crashes nor guesses: the parser tells the model what is wrong."""
    reply = ask(Response(body=record(calls=calls, done=True)), stream=stream)
    assert tuple((each.name, each.arguments) for each in reply.tool_calls) == read
    assert all(isinstance(each.id, str) for each in reply.tool_calls)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({}, Usage(None, None)),
        ({"prompt_eval_count": None, "eval_count": None}, Usage(None, None)),
        ({"prompt_eval_count": "12", "eval_count": 3.0}, Usage(12, 3)),
        ({"prompt_eval_count": -1, "eval_count": "many"}, Usage(None, None)),
        ({"prompt_eval_count": True, "eval_count": [1]}, Usage(None, None)),
        ({"prompt_eval_count": 0, "eval_count": 0}, Usage(0, 0)),
    ],
)
def test_counts_that_are_missing_or_wrong_are_unknown(counts: Any, usage: Usage) -> None:
    """Unknown is None, never 0."""
    assert ask(Response(body=record("a", done=True, **counts))).usage == usage


def test_an_empty_reply_is_a_reply() -> None:
    """Whether it may be the answer is for the loop to say."""
    reply = ask(Response(body=record(None, thinking="I should call", done=True)), stream=False)
    assert (reply.text, reply.thinking, reply.tool_calls) == ("", "I should call", ())


def test_text_arrives_piece_by_piece_and_reading_can_stop() -> None:
    """What has been read is the reply; the server is not heard to the end."""
    pieces: list[str] = []
    endless = Response(chunks=[record("a"), record("b"), record("c")], pause=0.2)
    reply = ask(endless, on_text=keep(pieces, until=2))
    assert pieces == ["a", "b"]
    assert reply.text == "ab"
    assert (reply.cut_by_client, reply.finish_reason, reply.usage) == (True, None, Usage())


def test_without_streaming_the_text_comes_in_one_piece() -> None:
    """There is nothing left to stop."""
    pieces: list[str] = []
    reply = ask(Response(body=DONE), stream=False, on_text=keep(pieces, until=1))
    assert (pieces, reply.text, reply.cut_by_client) == (["ok"], "ok", False)


def test_halves_of_a_character_are_joined_before_anyone_sees_them() -> None:
    """A server may escape an emoji as two halves in two records."""
    halves = b'{"message": {"content": "a\\ud83d"}}\n{"message": {"content": "\\ude00b"}}\n'
    pieces: list[str] = []
    reply = ask(Response(body=halves + LAST), on_text=keep(pieces))
    assert reply.text == "a😀b"
    assert pieces == ["a", "😀b"]
    lone = ask(Response(body=b'{"message": {"content": "a\\ud83d"}}\n' + LAST))
    assert lone.text == "a\ufffd"


def test_a_call_is_one_event_with_what_was_sent_and_what_came() -> None:
    """Options as they are sent, the address without secrets, the reply."""
    seen: list[Started | Ended] = []

    class Watcher:
        def started(self, event: Started) -> bool:
            seen.append(event)
            return isinstance(event, ModelCallStarted)

        def ended(self, token: bool, event: Ended) -> None:
            seen.append(event)

    with FaultServer([Response(503), Response(body=DONE)]) as server, watching(Watcher()):
        model = OllamaChat("m", base_url=server.url, options={"seed": 1}, think=True)
        reply = model.chat(ASK, tools=[TOOL], stop=["x"])
        model.close()
    assert seen[0] == ModelCallStarted(
        "m", "ollama", f"{server.url}/api/chat", ASK, [TOOL],
        {"num_ctx": 8192, "seed": 1, "stop": ["x"], "think": True}, False, 8192,
    )  # fmt: skip
    assert seen[-1] == ModelCallEnded(reply, 2)
