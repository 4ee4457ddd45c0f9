"""Recording passes everything through as it comes; errors are takes and come back as errors."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from agent_core.clock import SystemClock
from agent_core.errors import ModelError
from agent_core.limits import StopReason
from agent_core.messages import Message
from agent_core.models import OllamaChat, RetryPolicy, Timeouts
from harness.sessions.cassette import parse_session, render_session
from harness.sessions.clocks import RecordingClock, ReplayClock
from harness.sessions.format import SessionFile
from harness.sessions.player import Player, replay_session
from harness.sessions.recorder import Recorder, recording_session
from harness.sessions.replay import replay
from tests.harness.sessions_support import (
    ANSWER,
    FAR_FUTURE,
    Action,
    chunk,
    ollama_line,
    ollama_reply,
    ollama_stream,
    record_scripted,
    response,
    serving,
    stream_head,
)


def recorder_file(recorder: Recorder) -> SessionFile:
    """What was recorded, through the text of a file."""
    takes, exchanges = recorder.results()
    # Takes belong to a block; here they are carried beside a plain cassette.
    file = parse_session(render_session(SessionFile(None, exchanges)))
    return SessionFile(None, file.exchanges, tuple(takes))


def test_chunks_are_handed_on_as_they_arrive() -> None:
    """The client has the first line while the server still holds back the second."""
    first, second = ollama_line("a"), ollama_line("", done=True)
    script: list[Action] = [stream_head(), chunk(first), "wait", chunk(second), chunk(b"")]
    recorder = Recorder(RecordingClock(SystemClock()))
    with serving(script) as server, recording_session(recorder) as http:
        reply = http.post(server.url, data=b"{}", stream=True, timeout=FAR_FUTURE)
        pieces = reply.iter_content(None)
        assert next(pieces) == first
        server.go_on.set()
        assert b"".join(pieces) == second
    (take,), (exchange,) = recorder.results()
    assert exchange.response.body == first + second
    assert take.sizes == [len(first), len(second)]
    assert take.times == sorted(take.times)


def test_a_replayed_stream_has_the_recorded_chunks() -> None:
    """Borders stay where they were, inside a character too, and time moves on with them."""
    body = ollama_line("中文") + ollama_line("", done=True)
    middle = body.index("中".encode()) + 1
    script: list[Action] = [stream_head(), chunk(body[:middle]), chunk(body[middle:]), chunk(b"")]
    recorder = Recorder(RecordingClock(SystemClock()))
    with serving(script) as server, recording_session(recorder) as http:
        url = server.url
        list(http.post(url, data=b"{}", stream=True).iter_content(None))
    file = recorder_file(recorder)
    clock = ReplayClock()
    with replay_session(Player(file, clock=clock)) as http:
        pieces = list(http.post(url, data=b"{}", stream=True).iter_content(None))
    assert pieces == [body[:middle], body[middle:]]
    assert clock.monotonic() == pytest.approx(file.takes[0].at + file.takes[0].seconds)


@pytest.mark.parametrize("how", ["content", "read", "read1", "iter_lines", "stream 7"])
def test_every_way_of_reading_is_recorded_and_replayed(how: str) -> None:
    """The body is whole whatever the client reads it with."""
    body = ollama_line("你好") + ollama_line("", done=True)

    def read(http: requests.Session, url: str) -> bytes:
        answer = http.post(url, data=b"{}", stream=how != "content")
        if how == "content":
            return answer.content
        if how == "read":
            return bytes(answer.raw.read())
        if how == "read1":
            return b"".join(iter(lambda: answer.raw.read1(65_536), b""))
        if how == "iter_lines":
            return b"".join(line + b"\n" for line in answer.iter_lines())
        return b"".join(answer.iter_content(7))

    recorder = Recorder(RecordingClock(SystemClock()))
    with serving([response(200, body)]) as server, recording_session(recorder) as http:
        url = server.url
        assert read(http, url) == body
    file = recorder_file(recorder)
    assert file.exchanges[0].response.body == body
    with replay_session(Player(file)) as http:
        assert read(http, url) == body


@pytest.mark.parametrize(
    ("encode", "named"),
    [
        (gzip.compress, "gzip"),
        (gzip.compress, "x-gzip"),
        (zlib.compress, "deflate"),
        (lambda body: zlib.compress(body)[2:-4], "deflate"),
        (lambda body: gzip.compress(gzip.compress(body)), "gzip, gzip"),
    ],
    ids=["gzip", "x-gzip", "deflate", "raw deflate", "twice"],
)
def test_a_compressed_reply_is_kept_as_text_and_replays_equal(
    encode: Callable[[bytes], bytes], named: str
) -> None:
    """What the server packs is readable in the file and the same JSON later (vcrpy#782)."""
    body = json.dumps({"message": {"content": "港口"}}, ensure_ascii=False).encode()
    recorder = Recorder(RecordingClock(SystemClock()))
    script = [response(200, encode(body), Content_Encoding=named)]
    with serving(script) as server, recording_session(recorder) as http:
        url = server.url
        live = http.get(url).json()
    file = recorder_file(recorder)
    assert "港口" in render_session(file)
    with replay_session(Player(file)) as http:
        assert http.get(url).json() == live


def test_a_client_that_stops_reading_is_recorded_as_such() -> None:
    """What it had is a complete exchange to it; the take says that it closed."""
    script: list[Action] = [stream_head(), chunk(ollama_line("a")), "wait", chunk(b"")]
    recorder = Recorder(RecordingClock(SystemClock()))
    with serving(script) as server, recording_session(recorder) as http:
        reply = http.post(server.url, data=b"{}", stream=True, timeout=FAR_FUTURE)
        next(reply.iter_content(None))
        reply.close()
    (take,), (exchange,) = recorder.results()
    assert take.closed
    assert exchange.response.body == ollama_line("a")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


PARTIAL = [stream_head(), chunk(ollama_line("He"))]
ERRORS: dict[str, tuple[list[list[Action]], str, int]] = {
    "timeout": ([["wait"]], "timeout", 0),
    "timeout in the body": ([[*PARTIAL, "wait"]], "timeout", len(ollama_line("He"))),
    "reset": ([["reset"]], "reset", 0),
    "closed without a word": ([[]], "cut", 0),
    "cut stream": ([[*PARTIAL]], "cut", len(ollama_line("He"))),
    "cut chunk": ([[*PARTIAL, b"ff\r\nabc"]], "cut", len(ollama_line("He")) + 3),
}


def failure_of(session: requests.Session, url: str, *, stream: bool) -> ModelError:
    """The error that a model client makes of it."""
    model = OllamaChat(
        "m",
        base_url=url,
        session=session,
        stream=stream,
        timeouts=Timeouts(connect=5, read=0.3),
        retry=RetryPolicy(attempts=1),
    )
    with pytest.raises(ModelError) as caught:
        model.chat([Message("user", "hi")])
    return caught.value


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_are_recorded_and_come_back_the_same(name: str, stream: bool) -> None:
    """The client makes the same of the take as of the network, type and words."""
    scripts, kind, after = ERRORS[name]
    recorder = Recorder(RecordingClock(SystemClock()))
    with serving(*scripts) as server, recording_session(recorder) as http:
        url = server.url
        live = failure_of(http, url, stream=stream)
        server.go_on.set()
    file = recorder_file(recorder)
    (take,) = file.takes
    assert take.error is not None
    assert take.error.kind == kind
    assert take.error.after == after
    with replay_session(Player(file)) as http:
        again = failure_of(http, url, stream=stream)
    assert type(again) is type(live)
    assert str(again) == str(live)


def test_a_refused_connection_is_a_take_too() -> None:
    """Nobody listening is recorded and replayed without a socket."""
    url = f"http://127.0.0.1:{free_port()}"
    recorder = Recorder(RecordingClock(SystemClock()))
    with recording_session(recorder) as http:
        live = failure_of(http, url, stream=False)
    file = recorder_file(recorder)
    assert file.takes[0].error is not None
    assert file.takes[0].error.kind == "refused"
    with replay_session(Player(file)) as http:
        again = failure_of(http, url, stream=False)
    assert (type(again), str(again)) == (type(live), str(live))


def test_a_session_with_a_retry_and_a_404_replays(tmp_path: Path) -> None:
    """A 503 with its retry is two takes; a missing model ends the run both times the same."""
    busy: list[Action] = [response(503, b'{"error":"busy"}', Retry_After="0")]
    missing: list[Action] = [response(404, b'{"error":"model \\"m\\" not found"}')]
    one = record_scripted(tmp_path / "busy.yaml", busy, ollama_reply(ANSWER))
    assert one.results[0].stop_reason is StopReason.FINAL_ANSWER
    assert len(one.file.exchanges) == 2
    two = record_scripted(tmp_path / "missing.yaml", missing)
    assert two.results[0].stop_reason is StopReason.MODEL_ERROR
    for name in ("busy", "missing"):
        report = replay(tmp_path / f"{name}.yaml")
        assert report.in_words() == []
        assert report.ok


def test_a_session_with_error_takes_replays(tmp_path: Path) -> None:
    """A connection that breaks and is tried again stands in `takes`, the cassette stays whole."""
    path = tmp_path / "reset.yaml"
    done = record_scripted(path, ["reset"], ollama_stream("Final Answer: ", "fine"), stream=True)
    assert done.results[0].answer == "fine"
    assert [take.exchange for take in done.file.takes] == [None, 0]
    report = replay(path)
    assert report.in_words() == []
    assert report.drift.total == 2
