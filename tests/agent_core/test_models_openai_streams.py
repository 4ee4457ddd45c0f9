"""The client of `/v1/chat/completions`: what a stream of events means, and calls in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_core.errors import StreamCut
from agent_core.messages import Usage
from harness.faults import Response
from tests.agent_core.openai_support import DONE, STOP, ask, chunk, deltas, fragment, whole

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


def test_reading_stops_when_it_is_told_to() -> None:
    """The rest of the stream is not waited for."""
    chunks = [chunk({"content": "a"}), chunk({"content": "b"}), STOP]
    reply = ask(Response(chunks=chunks, pause=0.2), on_text=lambda piece: piece == "a")
    assert (reply.text, reply.cut_by_client, reply.finish_reason) == ("a", True, None)
