"""The recording proxy: whoever is pointed at it is recorded, and served again."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest
import requests
import vcr

from harness.faults import FaultServer, Received, Response
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionBusy, SessionExists
from harness.sessions.proxy import RecordingProxy
from harness.sessions.replay import replay
from harness.sessions.serve import serve
from tests.harness.serve_support import STREAMED, ndjson, record

FAR_FUTURE = 30.0
LINES = [record("北", done=False), record("京", done=False), record()]
KEY = "sk-" + "proj-Abc123Def456Ghi789Jkl012"


def post(url: str, body: Any = None, path: str = "/api/chat", **how: Any) -> requests.Response:
    with requests.Session() as http:
        http.trust_env = False
        return http.post(f"{url}{path}", json=body or STREAMED, timeout=FAR_FUTURE, **how)


@contextmanager
def recording(folder: Path, responses: Any) -> Iterator[tuple[RecordingProxy, FaultServer]]:
    """A proxy that records `tour.yaml`, before a server that answers so."""
    with (
        FaultServer(responses) as upstream,
        RecordingProxy(upstream.url, folder, "tour") as proxy,
    ):
        yield proxy, upstream


def ollama(received: Received) -> Response:
    """A server like Ollama, with one model."""
    if received.path == "/api/version":
        return Response(body={"version": "0.24.0"})
    if received.path == "/api/tags":
        return Response(body={"models": [{"name": "m:latest", "digest": "0123abcd"}]})
    if received.json().get("stream", True):
        chunks = [line.encode() for line in ndjson(*LINES).splitlines(keepends=True)]
        return Response(chunks=chunks, headers={"Content-Type": "application/x-ndjson"})
    return Response(body=record("北京"))


def test_what_is_recorded_is_served_again(tmp_path: Path) -> None:
    """Equal bodies through the proxy and from the recording; the file says where it is from."""
    whole = {**STREAMED, "stream": False, "seed": 1}
    with recording(tmp_path, ollama) as (proxy, upstream):
        live = [post(proxy.url), post(proxy.url, whole)]
    assert proxy.written == [tmp_path / "tour.yaml"]
    file = load_session(tmp_path / "tour.yaml")
    assert (file.provenance.server, file.provenance.model_digest) == ("ollama 0.24.0", "0123abcd")
    assert file.exchanges[0].request.url == f"{upstream.url}/api/chat"
    assert "北京" in (tmp_path / "tour.yaml").read_text(encoding="utf-8")
    with serve([tmp_path / "tour.yaml"]) as server:
        again = [post(server.url), post(server.url, whole)]
        assert server.verdict().ok
    assert [each.content for each in again] == [each.content for each in live]
    assert live[0].text == ndjson(*LINES)
    assert replay(tmp_path / "tour.yaml").ok
    assert [each.name for each in tmp_path.iterdir()] == ["tour.yaml"]  # no journal is left


def test_stock_vcrpy_plays_the_file(tmp_path: Path) -> None:
    """Below the block stands a plain cassette."""
    with recording(tmp_path, ollama) as (proxy, upstream):
        live = post(proxy.url)
    with vcr.use_cassette(str(tmp_path / "tour.yaml"), record_mode="none"):
        assert post(upstream.url).content == live.content


def test_replies_stream_through(tmp_path: Path) -> None:
    """The first line is with the client before the server has sent the second."""
    first_is_there = threading.Event()

    def chunks() -> Iterator[bytes]:
        yield b'{"done": false}\n'
        assert first_is_there.wait(FAR_FUTURE)
        yield b'{"done": true}\n'

    with (
        recording(tmp_path, [Response(chunks=chunks())]) as (proxy, _),
        requests.Session() as http,
    ):
        http.trust_env = False
        got = http.post(f"{proxy.url}/api/chat", json=STREAMED, stream=True, timeout=FAR_FUTURE)
        pieces = got.iter_content(None)
        first = next(pieces)
        first_is_there.set()
        rest = b"".join(pieces)
    assert (first, rest) == (b'{"done": false}\n', b'{"done": true}\n')
    assert len(load_session(tmp_path / "tour.yaml").takes[0].sizes) == 2


def test_secrets_reach_the_server_and_not_the_file(tmp_path: Path) -> None:
    """The key is passed on; neither it nor one in a reply, streamed in pieces, is kept."""
    lines = ndjson(*[record(piece, done=False) for piece in (KEY[:9], KEY[9:20], KEY[20:])])
    with recording(tmp_path, [Response(chunks=[lines.encode()])]) as (proxy, upstream):
        got = post(proxy.url, headers={"Authorization": f"Bearer {KEY}"})
        assert upstream.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert got.text == lines
    kept = (tmp_path / "tour.yaml").read_text(encoding="utf-8")
    assert KEY[9:20] not in kept
    assert KEY not in kept


def test_credentials_quoted_in_a_body_are_not_kept(tmp_path: Path) -> None:
    """Whatever shape they have: they are known from the headers of the request."""
    message = {"role": "user", "content": "hi prox1key1word, and xkey1plain1"}
    headers = {"Authorization": "Bearer prox1key1word", "X-Api-Key": "xkey1plain1"}
    with recording(tmp_path, [Response(body=record("ok"))]) as (proxy, upstream):
        post(proxy.url, {"model": "m", "messages": [message]}, headers=headers)
        assert b"prox1key1word, and xkey1plain1" in upstream.requests[0].body
    kept = (tmp_path / "tour.yaml").read_text(encoding="utf-8")
    assert "prox1key1word" not in kept
    assert "xkey1plain1" not in kept


def test_compressed_replies_pass_as_they_are(tmp_path: Path) -> None:
    """The client gets the compressed bytes, the file what they say."""
    body = gzip.compress(json.dumps(record("北京")).encode())
    response = Response(body=body, headers={"Content-Encoding": "gzip"})
    with recording(tmp_path, [response]) as (proxy, _):
        assert post(proxy.url).json() == record("北京")
    kept = load_session(tmp_path / "tour.yaml").exchanges[0].response
    assert json.loads(kept.body) == record("北京")


def test_agents_at_the_same_time_have_their_own_files(tmp_path: Path) -> None:
    """`/s/NAME/` keeps them apart; a name that is no file's name, or is taken, is refused."""
    (tmp_path / "taken.yaml").write_text("interactions: []\n", encoding="utf-8")
    with recording(tmp_path, ollama) as (proxy, upstream):
        assert post(proxy.url, path="/s/one/api/chat").status_code == 200
        assert post(proxy.url, path="/s/two/api/chat").status_code == 200
        strange = post(proxy.url, path="/s/..%2Fx/api/chat")
        taken = post(proxy.url, path="/s/taken/api/chat")
    assert [each.name for each in proxy.written] == ["one.yaml", "two.yaml"]
    sent = load_session(tmp_path / "one.yaml").exchanges[0].request
    assert sent.url == f"{upstream.url}/api/chat"
    assert strange.status_code == taken.status_code == 409
    assert "expected a session name" in strange.json()["error"]
    assert not (tmp_path / "tour.yaml").exists()


@pytest.mark.parametrize("path", ["/s/%E5%BC%A0%E4%B8%89", "/s/%e5%bc%a0%e4%b8%89", "/s/张三"])
def test_a_name_in_an_address_is_read_as_it_was_meant(tmp_path: Path, path: str) -> None:
    """Percent-encoded as HTTP clients do, or as bare UTF-8, in a recording and when served."""
    with recording(tmp_path, ollama) as (proxy, _):
        assert raw_post(proxy.url, f"{path}/api/chat")[0] == 200
    assert [each.name for each in proxy.written] == ["张三.yaml"]
    with serve(proxy.written) as server:
        assert raw_post(server.url, f"{path}/api/chat")[0] == 200
        assert server.verdict().ok


@pytest.mark.parametrize("name", ["%2e%2e%2fx", "a%2fb", "%2Ftmp", "a%5Cb", "a%00", "%ff", "a%20b"])
def test_a_name_that_is_decoded_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    """What would be another folder, or no text at all, is refused in words."""
    folder = tmp_path / "inner"
    with recording(folder, ollama) as (proxy, _):
        status, refused = raw_post(proxy.url, f"/s/{name}/api/chat")
    assert status == 409
    assert "expected a session name" in refused
    assert "without spaces and of at most 120 characters" in refused
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == []


def raw_post(url: str, path: str) -> tuple[int, str]:
    """Send the path to the byte, as a client that does not mend it."""
    body = json.dumps(STREAMED).encode()
    host, port = url.removeprefix("http://").split(":")
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=FAR_FUTURE) as connection:
        connection.sendall(head.encode() + body)
        with HTTPResponse(connection) as got:
            got.begin()
            return got.status, got.read().decode()


def test_one_writer_a_session(tmp_path: Path) -> None:
    """A second proxy of the same name is told; one after it needs --rewrite."""
    with recording(tmp_path, ollama) as (proxy, upstream):
        with pytest.raises(SessionBusy):
            RecordingProxy(upstream.url, tmp_path, "tour")
        post(proxy.url)
    with pytest.raises(SessionExists):
        RecordingProxy(upstream.url, tmp_path, "tour")
    with (
        FaultServer(ollama) as upstream,
        RecordingProxy(upstream.url, tmp_path, "tour", mode="rewrite") as again,
    ):
        post(again.url, {**STREAMED, "seed": 2})
    assert b'"seed": 2' in load_session(tmp_path / "tour.yaml").exchanges[0].request.body


def test_failures_of_the_server_are_passed_on_and_kept(tmp_path: Path) -> None:
    """A reply that broke off breaks off; a server that is not there is a 502 that says so."""
    cut = Response(chunks=[b'{"done": false}\n', b"x"], cut_after=16)
    with FaultServer([cut]) as upstream:
        url = upstream.url
        with (
            RecordingProxy(url, tmp_path, "cut") as proxy,
            pytest.raises(requests.exceptions.ChunkedEncodingError),
        ):
            post(proxy.url)
    with RecordingProxy(url, tmp_path, "down") as proxy:
        down = post(proxy.url)
    assert (down.status_code, down.json()["error"][:22]) == (502, "proxy: no answer from ")
    kinds = [load_session(tmp_path / f"{each}.yaml").takes[0].error for each in ("cut", "down")]
    assert [each and (each.kind, each.after) for each in kinds] == [("cut", 16), ("refused", 0)]


def test_a_client_that_leaves_is_recorded_as_far_as_it_read(tmp_path: Path) -> None:
    """Agents stop reading when they have a decision: the exchange is complete, and closed."""
    left = threading.Event()

    def chunks() -> Iterator[bytes]:
        yield b'{"done": false}\n'
        left.wait(FAR_FUTURE)
        while True:
            yield b'{"done": false}\n' * 100
            time.sleep(0.01)

    with recording(tmp_path, [Response(chunks=chunks())]) as (proxy, _):
        with requests.Session() as http:
            http.trust_env = False
            got = http.post(f"{proxy.url}/api/chat", json=STREAMED, stream=True, timeout=FAR_FUTURE)
            next(got.iter_content(16))
            got.close()
        left.set()
        deadline = time.monotonic() + FAR_FUTURE
        while not (tmp_path / "tour.yaml.journal").stat().st_size and time.monotonic() < deadline:
            time.sleep(0.05)
    take = load_session(tmp_path / "tour.yaml").takes[0]
    assert take.closed
    assert take.exchange == 0


def test_the_command_writes_when_it_is_stopped(tmp_path: Path) -> None:
    """SIGTERM ends it in order: the session is written, the exit code is 0."""
    with FaultServer(ollama) as upstream:
        command = [sys.executable, "-m", "harness", "record", "--proxy", "--upstream", upstream.url,
                   "--port", "0", "--name", "x", "--dir", str(tmp_path)]  # fmt: skip
        with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as running:
            assert running.stderr
            url = running.stderr.readline().split()[1]
            assert post(url).status_code == 200
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=FAR_FUTURE)
    assert running.returncode == 0
    assert len(load_session(tmp_path / "x.yaml").exchanges) == 1
