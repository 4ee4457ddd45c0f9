"""How the network cuts a stream changes nothing about what is read from it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import IO, Any, cast

import requests
from hypothesis import given, settings
from hypothesis import strategies as st
from urllib3 import HTTPResponse

from agent_core.messages import Message, Reply
from agent_core.models import OllamaChat, OpenAIChat
from agent_core.models.streams import events, lines
from agent_core.models.wire import clean_text, decode_json, encode_json


class Cut:
    """A body that gives its bytes in the pieces it was cut into."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self.closed = False

    def read(self, _: int | None = None) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    read1 = read

    def close(self) -> None:
        self.closed = True


class Transport(requests.adapters.BaseAdapter):
    """A transport of `requests` that answers from memory."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    def send(self, request: requests.PreparedRequest, **_: object) -> requests.Response:  # type: ignore[override]
        response = requests.Response()
        response.status_code = 200
        body = cast("IO[Any]", Cut(self._pieces))
        response.raw = HTTPResponse(body, status=200, preload_content=False)
        return response

    def close(self) -> None:
        """Nothing is open."""


def reply(model_class: type[OllamaChat | OpenAIChat], pieces: list[bytes]) -> tuple[Reply, str]:
    """What a client makes of a stream, and what its listener heard."""
    heard: list[str] = []

    def on_text(piece: str) -> bool:
        heard.append(piece)
        return False

    with requests.Session() as session:
        session.mount("http://", Transport(pieces))
        model = model_class("m", base_url="http://h/v1", session=session, stream=True)
        found = model.chat([Message("user", "hi")], on_text=on_text)
    return found, "".join(heard)


def cut(body: bytes, places: list[int]) -> list[bytes]:
    """A body in pieces, cut at the given places."""
    ends = sorted({place % (len(body) + 1) for place in places} | {0, len(body)})
    return [body[start:end] for start, end in pairwise(ends)]


texts = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=8)
places = st.lists(st.integers(min_value=0, max_value=2000), max_size=30)
line_ends = st.sampled_from(["\n", "\r\n"])


def as_json(value: object, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only)


@settings(deadline=None, max_examples=50)
@given(texts, places, line_ends, st.booleans())
def test_an_ollama_stream_reads_the_same_however_it_is_cut(
    parts: list[str], at: list[int], end: str, escaped: bool
) -> None:
    """Inside a character, an escape, a token or a line end."""
    records: list[dict[str, object]] = [{"message": {"content": part}} for part in parts]
    function = {"name": "天气", "arguments": {"城市": "".join(parts)}}
    records.append({"message": {"content": "", "tool_calls": [{"function": function}]}})
    records.append({"message": {"content": ""}, "done": True, "done_reason": "stop"})
    body = "".join(as_json(each, escaped) + end for each in records).encode()
    found, heard = reply(OllamaChat, cut(body, at))
    assert found.text == heard == "".join(parts)
    assert [(call.name, call.arguments) for call in found.tool_calls] == [
        (function["name"], function["arguments"])
    ]
    assert found.finish_reason == "stop"


@settings(deadline=None, max_examples=50)
@given(texts, places, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_an_event_stream_reads_the_same_however_it_is_cut(
    parts: list[str], at: list[int], end: str, escaped: bool
) -> None:
    """The fragments of a call's arguments too."""
    deltas: list[dict[str, object]] = [{"content": part} for part in parts]
    arguments = list(json.dumps({"a": parts}, ensure_ascii=escaped))
    deltas += [
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": part}}]}
        for part in arguments[:1]
    ]
    deltas += [
        {"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in arguments[1:]
    ]
    chunks: list[dict[str, object]] = [{"choices": [{"delta": each}]} for each in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    data = [as_json(each, escaped) for each in chunks] + ["[DONE]"]
    body = "".join(f": x{end}data: {each}{end}{end}" for each in data).encode()
    found, heard = reply(OpenAIChat, cut(body, at))
    assert found.text == heard == "".join(parts)
    assert [json.loads(call.arguments) for call in found.tool_calls] == [{"a": parts}]


@settings(deadline=None)
@given(st.binary(max_size=60), places)
def test_lines_and_events_do_not_depend_on_the_cuts(body: bytes, at: list[int]) -> None:
    """However the bytes arrive, and whatever they are, the same lines and events are read."""
    assert list(lines(cut(body, at))) == list(lines([body]))
    assert b"\n".join(lines([body])) == body.removesuffix(b"\n")
    assert list(events(cut(body, at))) == list(events([body]))


def test_events_by_the_standard() -> None:
    """The examples of the standard: joined lines, comments, one space taken, empty data."""
    stream = b": test stream\n\ndata: first event\nid: 1\n\ndata:second\ndata:  third\n\ndata\n\n"
    assert list(events([stream])) == [b"first event", b"second\n third", b""]


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_any_text_can_be_sent_and_comes_back_clean(text: str) -> None:
    """Pairs of surrogates are joined, lone ones replaced, everything else kept."""
    back = decode_json(encode_json({"t": text}))["t"]
    assert back == clean_text(text)
    assert back.encode("utf-8").decode("utf-8") == back
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert back == text
