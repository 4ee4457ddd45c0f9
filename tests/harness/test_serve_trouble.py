"""Serve and proxy in trouble: recorded failures, faults on purpose, odd chunks, a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from agent_core.errors import ConfigError
from harness.faults import FaultServer, Response
from harness.sessions.borders import BORDERS, Borders, cut
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionError, SessionExists
from harness.sessions.proxy import RecordingProxy
from harness.sessions.serve import serve
from tests.harness.serve_support import (
    ANSWER,
    FIRST,
    SECOND,
    STREAMED,
    ask,
    cassette,
    interaction,
    ndjson,
    record,
    sse,
    tool_turn,
)
from tests.harness.sessions_support import record_scripted, response

FAR_FUTURE = 30.0
LINES = ndjson(record("北", done=False), record("京", done=False), record())
FIRST_LINE = LINES.encode().splitlines(keepends=True)[0]
STREAM = {"Content-Type": "application/x-ndjson"}

Outcome = tuple[Any, ...]


def outcome(url: str, body: Any = STREAMED, timeout: float = FAR_FUTURE) -> Outcome:
    """What a client sees: status and body, or how it failed and what came before."""
    with requests.Session() as http:
        http.trust_env = False
        came = b""
        try:
            with http.post(f"{url}/api/chat", json=body, stream=True, timeout=timeout) as got:
                for piece in got.iter_content(None):
                    came += piece
                return got.status_code, came
        except requests.RequestException as error:
            return type(error).__name__, came


def stalled() -> Iterator[bytes]:
    """The first line, and then nothing."""
    yield FIRST_LINE
    never = threading.Event()
    never.wait(3.0)  # until well after the client has gone
    raise ConnectionAbortedError


TROUBLES: dict[str, tuple[Callable[[], Response], float, str | None]] = {
    "404": (lambda: Response(404, {"error": "model 'm' not found"}), FAR_FUTURE, None),
    "429": (lambda: Response(429, {"error": "slow down"}, {"Retry-After": "1"}), FAR_FUTURE, None),
    "500": (lambda: Response(500, "<html>oops</html>", {"Content-Type": "text/html"}), FAR_FUTURE,
            None),
    "error within a stream": (
        lambda: Response(chunks=[FIRST_LINE, b'{"error":"unexpected EOF"}\n'], headers=STREAM),
        FAR_FUTURE, None),
    "reset before a response": (lambda: Response(reset=True), FAR_FUTURE, "reset"),
    "closed before a response": (lambda: Response(raw=b""), FAR_FUTURE, "cut"),
    "reset after n bytes": (
        lambda: Response(chunks=[LINES.encode()], headers=STREAM, cut_after=30, reset=True),
        FAR_FUTURE, "reset"),
    "cut stream": (
        lambda: Response(chunks=[LINES.encode()], headers=STREAM, cut_after=130),
        FAR_FUTURE, "cut"),
    "timeout": (lambda: Response(silent=True), 0.3, "timeout"),
    "timeout within a stream": (lambda: Response(chunks=stalled(), headers=STREAM), 1.5, "timeout"),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_is_recorded_and_comes_again(tmp_path: Path, trouble: str) -> None:
    """What a client meets through the proxy it meets again, and its next try gets what followed."""
    make, timeout, kind = TROUBLES[trouble]
    whole = Response(chunks=[LINES.encode()], headers=STREAM)
    with (
        FaultServer([make(), whole]) as upstream,
        RecordingProxy(upstream.url, tmp_path, "x") as proxy,
    ):
        live = [outcome(proxy.url, timeout=timeout), outcome(proxy.url)]
    error = load_session(tmp_path / "x.yaml").takes[0].error
    assert (error and error.kind) == kind
    with serve([tmp_path / "x.yaml"]) as server:
        again = [outcome(server.url, timeout=timeout), outcome(server.url)]
        assert server.verdict().ok
    assert live[-1] == (200, LINES.encode())
    if kind == "reset":  # the system may throw away what a reset overtakes, the head too
        assert {live.pop(0)[0], again.pop(0)[0]} <= {"ConnectionError", "ChunkedEncodingError"}
    assert again == live


def test_a_server_that_is_not_there_is_told_again(tmp_path: Path) -> None:
    """The proxy's 502, word for word."""
    with FaultServer([]) as upstream:
        url = upstream.url
    with RecordingProxy(url, tmp_path, "x") as proxy:
        live = outcome(proxy.url)
    with serve([tmp_path / "x.yaml"]) as server:
        assert outcome(server.url) == live
    assert live == (502, json.dumps({"error": f"proxy: no answer from {url} (refused)"}).encode())


def test_failures_of_our_own_recordings_come_again(tmp_path: Path) -> None:
    """A session of ours that was refused once and cut once is served so."""
    scripts = ([b""], [response(200, json.dumps(record("Final Answer: 5")).encode())])
    path = tmp_path / "cut.yaml"
    recorded = record_scripted(path, *scripts, questions=["2 + 3?"])
    body = json.loads(recorded.file.exchanges[0].request.body)
    with serve([path]) as server:
        assert outcome(server.url, body) == ("ConnectionError", b"")
        assert outcome(server.url, body)[0] == 200


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("429", 429), ("500", 500), ("html", 200), ("cut", "ChunkedEncodingError"),
        ("short", 200), ("reset", "ConnectionError"), ("timeout", "ReadTimeout"),
        ("wrong-type", 200), ("broken", "ChunkedEncodingError"), ("stall", "ConnectionError"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("body", [STREAMED, FIRST])
def test_faults_strike_once_and_use_nothing_up(
    tmp_path: Path, code: str, seen: int | str, body: Any
) -> None:
    """The client's next try gets the recorded reply, streamed or not as it asks."""
    with serve([tool_turn(tmp_path / "c.yaml")], faults=[f"1:{code}"]) as server:
        struck = outcome(server.url, body, timeout=0.5)
        after = outcome(server.url, body)
        second = outcome(server.url, SECOND)
        assert server.verdict().ok
    assert struck[0] == seen
    assert struck[1] != after[1] or code == "wrong-type"
    assert (after[0], second[0]) == (200, 200)
    assert json.loads(second[1])["message"]["content"] == ANSWER


def test_faults_of_every_request_and_faults_that_stay(tmp_path: Path) -> None:
    """Without a number each request is struck once; what stays is never answered."""
    with serve([tool_turn(tmp_path / "c.yaml")], faults=["500", "2:404"]) as server:
        seen = [outcome(server.url, FIRST)[0] for _ in range(2)]
        seen += [outcome(server.url, SECOND)[0] for _ in range(3)]
        words = server.verdict().in_words()
    assert seen == [500, 200, 500, 404, 404]
    assert words == ["session c: 1 of 2 recorded requests was not sent, the first is request 2"]


def test_nobody_waits_long_for_a_retry(tmp_path: Path) -> None:
    """Retry-After asks for a second: whoever is tried here really waits."""
    with serve([tool_turn(tmp_path / "c.yaml")], faults=["429-stays"]) as server:
        assert ask(server, FIRST).headers["Retry-After"] == "1"


@pytest.mark.parametrize("fault", ["boom", "0:cut", "x:cut", ""])
def test_a_fault_that_is_none(tmp_path: Path, fault: str) -> None:
    """Said before anything is served, with the codes there are."""
    with pytest.raises(ConfigError, match="404, 429"):
        serve([tool_turn(tmp_path / "c.yaml")], faults=[fault])


@given(
    text=st.text(alphabet='ab北😀é\n"\\', max_size=40),
    borders=st.sampled_from(BORDERS),
    api=st.sampled_from(["ollama", "openai"]),
)
def test_cut_anywhere_the_bytes_are_the_same(text: str, borders: Borders, api: str) -> None:
    """However a stream is cut, all of it is there, and the borders are where they should be."""
    said = [record(each, done=False) for each in text] + [record()]
    whole = (ndjson(*said) if api == "ollama" else sse(*said)).encode()
    ends = b"\n" if api == "ollama" else b"\n\n"
    pieces = [each + ends for each in whole.split(ends) if each]
    chunks = cut(pieces, borders)
    assert b"".join(chunks) == whole
    assert all(chunks)
    starts = [chunk[0] for chunk in chunks[1:]]
    if borders == "once":
        assert len(chunks) == 1
    elif borders == "mid-utf8" and not text.isascii():
        assert starts
        assert all(0x80 <= start < 0xC0 for start in starts)
    elif borders == "mid-json":
        assert len(chunks) == len(pieces) + 1
        assert not any(chunk.endswith(b"\n") for chunk in chunks[:-1])


@pytest.mark.parametrize("borders", BORDERS)
def test_served_chunks_have_the_chosen_borders(tmp_path: Path, borders: Borders) -> None:
    """They arrive one by one, as many as there are."""
    path = cassette(tmp_path / "c.yaml", interaction(STREAMED, LINES))
    with serve([path], borders=borders) as server:
        chunks = list(ask(server, STREAMED, stream=True).iter_content(None))
    assert chunks == cut(LINES.encode().splitlines(keepends=True), borders)


def killed_after(folder: Path, upstream: str, bodies: list[Any], *names: str) -> None:
    """Record with the command and kill it, as a crash or a power cut would."""
    command = [sys.executable, "-m", "harness", "record", "--proxy", "--upstream", upstream,
               "--port", "0", "--name", "x", "--dir", str(folder)]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as running:
        assert running.stderr
        url = running.stderr.readline().split()[1]
        for name in names or ("x",):
            for body in bodies:
                assert outcome(f"{url}/s/{name}", body)[0] == 200
        running.send_signal(signal.SIGKILL)
    assert not (folder / "x.yaml").exists()
    assert (folder / "x.yaml.journal").exists()


def numbered(number: int) -> Any:
    return {**FIRST, "seed": number}


def seeds(path: Path) -> list[int]:
    return [json.loads(each.request.body)["seed"] for each in load_session(path).exchanges]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, FaultServer]]:
    """What a killed proxy left of two names, and the server."""
    folder = tmp_path_factory.mktemp("killed")
    with FaultServer(lambda received: Response(body=record("北京"))) as upstream:
        killed_after(folder, upstream.url, [numbered(1), numbered(2)], "x", "y")
        yield folder, upstream


@pytest.fixture
def left(interrupted: tuple[Path, FaultServer], tmp_path: Path) -> tuple[Path, FaultServer]:
    """A copy of it."""
    folder, upstream = interrupted
    for each in folder.iterdir():
        (tmp_path / each.name).write_bytes(each.read_bytes())
    upstream.requests.clear()
    return tmp_path, upstream


def chats(upstream: FaultServer) -> int:
    return sum(each.path == "/api/chat" for each in upstream.requests)


def test_a_killed_recording_is_written_by_resume_alone(left: tuple[Path, FaultServer]) -> None:
    """Nothing more has to be sent; `/s/NAME` is gone on with when it is used."""
    folder, upstream = left
    with pytest.raises(SessionExists, match=r"2 requests.*--resume"):
        RecordingProxy(upstream.url, folder, "x")
    with RecordingProxy(upstream.url, folder, "x", mode="resume") as proxy:
        assert outcome(f"{proxy.url}/s/y", numbered(3))[0] == 200
        assert outcome(f"{proxy.url}/s/z", numbered(4))[0] == 200  # one that begins now
    assert [each.name for each in proxy.written] == ["x.yaml", "y.yaml", "z.yaml"]
    assert [seeds(each) for each in proxy.written] == [[1, 2], [1, 2, 3], [4]]
    takes = load_session(folder / "y.yaml").takes
    assert [take.exchange for take in takes] == [0, 1, 2]
    assert takes[1].at <= takes[1].at + takes[1].seconds <= takes[2].at
    assert sorted(each.name for each in folder.iterdir()) == ["x.yaml", "y.yaml", "z.yaml"]


@pytest.mark.parametrize(
    ("sent", "kept", "asked"),
    [
        ([3, 4], [1, 2, 3, 4], 2),  # the agent lived on
        ([1, 2, 3], [1, 2, 3], 1),  # it began again
        ([1, 5, 2], [1, 5, 2], 2),  # and went another way
        ([1, 1], [1, 1], 1),
    ],
)
def test_an_agent_that_begins_again_gets_what_it_got(
    left: tuple[Path, FaultServer], sent: list[int], kept: list[int], asked: int
) -> None:
    """The server is asked only for what is new."""
    folder, upstream = left
    with RecordingProxy(upstream.url, folder, "x", mode="resume") as proxy:
        got = [outcome(proxy.url, numbered(each)) for each in sent]
    assert {each[0] for each in got} == {200}
    assert {json.loads(each[1])["message"]["content"] for each in got} == {"北京"}
    assert seeds(folder / "x.yaml") == kept
    assert chats(upstream) == asked


def test_killed_again_while_it_goes_on(left: tuple[Path, FaultServer]) -> None:
    """The journal holds both parts, without what was given up."""
    folder, upstream = left
    command = [sys.executable, "-m", "harness", "record", "--proxy", "--upstream", upstream.url,
               "--port", "0", "--name", "x", "--dir", str(folder), "--resume"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as running:
        assert running.stderr
        url = running.stderr.readline().split()[1]
        for each in (1, 6):
            assert outcome(url, numbered(each))[0] == 200
        os.kill(running.pid, signal.SIGKILL)
    with RecordingProxy(upstream.url, folder, "x", mode="resume"):
        pass
    assert seeds(folder / "x.yaml") == [1, 6]


def test_a_taken_port_loses_nothing(left: tuple[Path, FaultServer]) -> None:
    """Whoever may not begin leaves what was interrupted as it is."""
    folder, upstream = left
    port = int(upstream.url.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        RecordingProxy(upstream.url, folder, "x", port=port, mode="resume")
    with RecordingProxy(upstream.url, folder, "x", mode="resume"):
        pass
    assert seeds(folder / "x.yaml") == [1, 2]


def test_nothing_to_resume(tmp_path: Path) -> None:
    """Without a journal there is nothing to go on with, and none is left behind."""
    with pytest.raises(SessionError, match="nothing to resume"):
        RecordingProxy("http://127.0.0.1:1", tmp_path, "x", mode="resume")
    (tmp_path / "x.yaml.journal").write_text(
        '{"session": {"agent": {"factory": "a:b"}}}\n', encoding="utf-8"
    )
    with pytest.raises(SessionError, match="none of a proxy"):
        RecordingProxy("http://127.0.0.1:1", tmp_path, "x", mode="resume")


def test_only_what_can_be_read_again_is_accepted(tmp_path: Path) -> None:
    """The server is not asked for encodings that the recording could not undo."""
    with (
        FaultServer(lambda _: Response(body=record("x"))) as upstream,
        RecordingProxy(upstream.url, tmp_path, "x") as proxy,
        requests.Session() as http,
    ):
        http.trust_env = False
        for accepted in ("gzip, deflate, zstd", "br", None):
            sent = {"Accept-Encoding": accepted}
            http.post(f"{proxy.url}/api/chat", json=FIRST, headers=sent, timeout=FAR_FUTURE)
        seen = [each.headers["accept-encoding"] for each in upstream.requests]
    assert seen[:3] == ["gzip", "identity", "identity"]
