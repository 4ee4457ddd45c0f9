"""Secrets never reach a session file, however they arrive, and matching does not suffer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import requests

from agent_core.clock import SystemClock
from harness.sessions.cassette import render_session
from harness.sessions.clocks import RecordingClock
from harness.sessions.exchange import Request, raw_key
from harness.sessions.format import SessionFile
from harness.sessions.player import Player
from harness.sessions.recorder import Recorder, recording_session
from harness.sessions.replay import replay
from harness.sessions.scrubbing import recut, scrub_body, scrub_headers, scrub_request, scrub_url
from tests.harness.sessions_support import (
    ANSWER,
    chunk,
    ollama_line,
    ollama_reply,
    record_scripted,
    response,
    serving,
    stream_head,
)

SECRET = "sk-test-ABCDEFGHIJKLMNOPQRSTUVWX"


def recorded(send: object, *scripts: list[bytes | str | float]) -> str:
    """The text of a file with what was recorded while `send` used a session."""
    recorder = Recorder(RecordingClock(SystemClock()))
    with serving(*scripts) as server, recording_session(recorder) as http:
        send(http, server.url)  # type: ignore[operator]
    takes, exchanges = recorder.results()
    return render_session(SessionFile(None, exchanges, tuple(takes)))


def test_headers_of_both_sides_are_masked() -> None:
    """Authorization and cookies go out whole and are kept masked (kevin1024/vcrpy#961)."""

    def send(http: requests.Session, url: str) -> None:
        headers = {"Authorization": "Bearer SECRET-TOKEN-123", "Cookie": "sid=SECRET-TOKEN-123"}
        http.post(f"{url}/x", data=b"{}", headers=headers)

    text = recorded(send, [response(200, b"{}", Set_Cookie="sid=SECRET-TOKEN-123")])
    assert "SECRET-TOKEN-123" not in text
    assert "Authorization" in text


def test_what_is_masked_in_the_file_is_sent_as_it_is() -> None:
    """The server gets the real header and the real body."""
    seen = {}

    def send(http: requests.Session, url: str) -> None:
        seen["answer"] = http.post(
            url, data=json.dumps({"key": SECRET}), headers={"X-Api-Key": SECRET}
        ).text

    with serving([response(200, json.dumps({"said": SECRET}).encode())]) as server:
        recorder = Recorder(RecordingClock(SystemClock()))
        with recording_session(recorder) as http:
            send(http, server.url)
        assert server.requests[0].decode().count(SECRET) == 2
    assert SECRET in seen["answer"]
    _, exchanges = recorder.results()
    assert SECRET not in render_session(SessionFile(None, exchanges))


def test_a_secret_in_a_compressed_request_is_found() -> None:
    """A gzip body is read before it is scrubbed (kevin1024/vcrpy#132)."""

    def send(http: requests.Session, url: str) -> None:
        body = gzip.compress(json.dumps({"api_key": SECRET}).encode())
        http.post(url, data=body, headers={"Content-Encoding": "gzip"})

    text = recorded(send, [response(200, b"{}")])
    assert SECRET not in text
    assert "api_key" in text


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_secret_spelled_out_over_a_stream_is_found(size: int) -> None:
    """No line holds it whole; the pieces before and after it stay where they were."""
    said = f"Your key is {SECRET}, keep it."
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    body = b"".join(ollama_line(piece) for piece in pieces) + ollama_line("", done=True)
    clean = scrub_body(body)
    lines = [json.loads(line)["message"]["content"] for line in clean.splitlines()]
    assert len(lines) == len(pieces) + 1
    whole = "".join(lines)
    assert whole.startswith("Your key is ")
    assert whole.endswith(", keep it.")
    assert SECRET[8:20] not in whole
    before = len("Your key is ") // size
    assert lines[:before] == pieces[:before]


def test_a_secret_in_server_sent_events_is_found() -> None:
    """The same for `/v1`, calls' arguments included, and the events stay events."""

    def event(text: str) -> bytes:
        call = {"index": 0, "function": {"arguments": text}}
        value = {"choices": [{"delta": {"tool_calls": [call]}}]}
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    body = (
        event('{"q": "') + event(SECRET[:9]) + event(SECRET[9:]) + event('"}') + b"data: [DONE]\n\n"
    )
    clean = scrub_body(body).decode()
    assert SECRET[9:] not in clean
    assert clean.count("data: ") == 5
    assert clean.endswith("data: [DONE]\n\n")


def test_a_body_without_secrets_stays_byte_for_byte() -> None:
    """Spacing, escapes and line ends are part of the recording."""
    for body in (b'{ "a" :  "\\u4e2d" }', b"{}\r\n{}\r\n", b"\xff\x00", "中文 text".encode(), b""):
        assert scrub_body(body) == body


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"password": "correct horse battery"}).encode(),
        json.dumps([{"deep": {"note": f"use {SECRET}"}}]).encode(),
        json.dumps({"arguments": json.dumps({"api_key": "shortish"})}).encode(),
        f"key={SECRET}&x=1".encode(),
        b"\xff" + SECRET.encode(),
        ('{"m": "' + SECRET.replace("-", "\\u002d") + '"}').encode(),
    ],
)
def test_secrets_are_found_in_every_kind_of_body(body: bytes) -> None:
    """By name and by shape, nested, encoded twice, in forms and in bytes."""
    clean = scrub_body(body)
    assert b"***" in clean
    for secret in (b"correct horse battery", SECRET.encode(), SECRET[8:].encode(), b"shortish"):
        assert secret not in clean
    assert scrub_body(clean) == clean


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://user:pa55word@h:1/x", "http://h:1/x"),
        (f"https://h/x?key={SECRET}&n=1", "https://h/x?key=***&n=1"),
        ("https://h/x?api_key=abc", "https://h/x?api_key=***"),
        ("https://h/x?n=1", "https://h/x?n=1"),
    ],
)
def test_addresses_lose_their_credentials(url: str, clean: str) -> None:
    """User, password and secret query parameters do not stay."""
    assert scrub_url(url) == clean


def test_ordinary_headers_stay() -> None:
    """Only what carries credentials by its name is masked whole."""
    headers = {"Content-Type": ["application/json"], "X-Auth-Token": ["t"], "ETag": ["abc"]}
    assert scrub_headers(headers) == {**headers, "X-Auth-Token": ["***"]}


def test_a_request_with_a_secret_still_finds_its_reply() -> None:
    """Both sides are scrubbed before they are compared."""
    sent = Request("POST", "http://h/", {}, json.dumps({"note": f"use {SECRET}"}).encode())
    clean = scrub_request(sent)
    assert raw_key(clean) != raw_key(sent)
    assert raw_key(scrub_request(clean)) == raw_key(clean)


def test_a_whole_session_with_secrets_replays(tmp_path: Path) -> None:
    """Question, reply, tool value and answer hold a key: the file does not, and nothing drifts."""
    path = tmp_path / "s.yaml"
    call = json.dumps({"name": "search_knowledge", "parameters": {"query": SECRET}})
    done = record_scripted(
        path,
        ollama_reply(f"Thought: {SECRET}\nAction: {call}"),
        ollama_reply(f"Thought: ok\nFinal Answer: it is {SECRET}"),
        questions=[f"What is {SECRET}?"],
    )
    assert done.results[0].answer == f"it is {SECRET}"
    assert SECRET[8:] not in path.read_text(encoding="utf-8")
    report = replay(path)
    assert report.in_words() == []
    assert report.ok


def test_chunks_of_a_scrubbed_stream_are_cut_at_the_same_places() -> None:
    """A chunk border outside the secret stays between the same characters."""
    before = b'{"a":"x"}\n{"key":"' + SECRET.encode() + b'"}\n{"b":"y"}\n'
    after = b'{"a":"x"}\n{"key":"***"}\n{"b":"y"}\n'
    sizes = [4, 6, 20, len(before) - 40, 10]
    cuts = recut(before, after, sizes)
    assert sum(cuts) == len(after)
    assert cuts[:2] == [4, 6]
    assert after[-cuts[-1] :] == before[-10:]


def test_chunk_sizes_fit_the_recorded_stream() -> None:
    """The sizes in the take add up to the body that was kept."""
    recorder = Recorder(RecordingClock(SystemClock()))
    lines = [
        ollama_line("sk-test-ABCDEF"),
        ollama_line("GHIJKLMNOPQRSTUVWX"),
        ollama_line("", done=True),
    ]
    script = [stream_head(), *(chunk(line) for line in lines), chunk(b"")]
    with serving(script) as server, recording_session(recorder) as http:
        reply = http.post(server.url, data=b"{}", stream=True)
        assert b"".join(reply.iter_content(None)) == b"".join(lines)
    (take,), (exchange,) = recorder.results()
    assert sum(take.sizes) == len(exchange.response.body)
    assert len(take.sizes) == len(take.times)
    assert b"GHIJKLMNOP" not in exchange.response.body


def test_the_answer_of_a_plain_session_is_not_touched(tmp_path: Path) -> None:
    """What only looks a little like a secret stays as it is."""
    done = record_scripted(tmp_path / "s.yaml", ollama_reply(ANSWER))
    assert done.file.exchanges[0].response.body.decode().count("It is fine 😀") == 1
    assert Player(done.file).takes[0].closed is False
