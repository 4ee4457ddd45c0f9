"""The loopback server sends exactly what it is told to send."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from harness.faults import FaultServer, Received, Response


def ask(server: FaultServer, body: bytes = b"{}") -> tuple[int, bytes]:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
    try:
        connection.request("POST", "/path", body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def wire(
    server: FaultServer, sent: bytes = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
) -> bytes:
    """Every byte that the server sends before it closes the connection."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as sock:
        sock.sendall(sent)
        data = b""
        while piece := sock.recv(65536):
            data += piece
        return data


def test_responses_are_served_in_order_and_requests_are_kept() -> None:
    """The script is followed, and what came in can be looked at."""
    with FaultServer([Response(503), Response(body={"城市": "北京"})]) as server:
        assert ask(server, b'{"n": 1}') == (503, b"")
        assert ask(server, b'{"n": 2}') == (200, '{"城市": "北京"}'.encode())
        status, body = ask(server)
    assert (status, b"no response left for request 3" in body) == (500, True)
    assert [each.body for each in server.requests] == [b'{"n": 1}', b'{"n": 2}', b"{}"]
    assert (server.requests[0].method, server.requests[0].path) == ("POST", "/path")
    assert server.requests[1].json() == {"n": 2}
    assert server.connections == 3


def test_a_function_may_answer() -> None:
    """A function of the request stands in for a list."""

    def echo(request: Received) -> Response:
        return Response(201, request.body, headers={"X-Path": request.path})

    with FaultServer(echo) as server:
        assert ask(server, b"hello") == (201, b"hello")


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_every_framing_carries_the_whole_body(framing: str) -> None:
    """Length, chunks and the end of the connection all mark the end."""
    response = Response(chunks=[b"one ", b"", b"two"], framing=framing)  # type: ignore[arg-type]
    with FaultServer([response]) as server:
        assert ask(server) == (200, b"one two")


def test_chunks_stand_on_the_wire_as_given() -> None:
    """Each piece is one HTTP chunk, cut wherever the test wants it cut."""
    with FaultServer([Response(chunks=["北".encode()[:1], b"abc"], close=True)]) as server:
        assert wire(server).partition(b"\r\n\r\n")[2] == b"1\r\n\xe5\r\n3\r\nabc\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("response", "sent"),
    [
        (Response(body=b"abcdef", cut_after=2), b"ab"),
        (Response(body=b"abcdef", cut_after=0), b""),
        (Response(chunks=[b"abc", b"def"], cut_after=4), b"3\r\nabc\r\n3\r\nd"),
        (Response(chunks=[b"abc", b"def"], cut_after=3), b"3\r\nabc\r\n"),
    ],
)
def test_a_cut_ends_the_body_at_that_byte(response: Response, sent: bytes) -> None:
    """The head promises everything, the body stops short."""
    with FaultServer([response]) as server:
        assert wire(server).partition(b"\r\n\r\n")[2] == sent


def test_headers_may_lie() -> None:
    """A given Content-Length or Content-Type is sent as it is."""
    headers = {"Content-Length": "3", "Content-Type": "text/html; charset=gbk"}
    with FaultServer([Response(body=b"abcdef", headers=headers, close=True)]) as server:
        head = wire(server)
    assert b"Content-Length: 3\r\n" in head
    assert b"Content-Type: text/html; charset=gbk\r\n" in head
    assert head.endswith(b"abcdef")


def test_raw_bytes_need_not_be_http() -> None:
    """Whatever is given goes out."""
    with FaultServer([Response(raw=b"SSH-2.0-x\r\n")]) as server:
        assert wire(server) == b"SSH-2.0-x\r\n"


@pytest.mark.parametrize("cut_after", [None, 3])
def test_a_reset_is_a_reset(cut_after: int | None) -> None:
    """The client sees ECONNRESET, before or after some bytes."""
    response = Response(body=b"abcdef", reset=True, cut_after=cut_after)
    with FaultServer([response]) as server, pytest.raises(ConnectionResetError):
        wire(server)


def test_silence_lasts_until_the_client_gives_up() -> None:
    """Nothing is sent, and leaving the server does not hang."""
    with FaultServer([Response(silent=True)]) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=0.2)
        connection.request("GET", "/")
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()


def test_a_connection_is_kept_unless_the_response_closes_it() -> None:
    """Keep-alive is the default; `close` ends the connection without saying so."""
    with FaultServer([Response(), Response(close=True), Response()]) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
        for _ in range(2):
            connection.request("GET", "/")
            assert connection.getresponse().read() == b""
        assert server.connections == 1
        connection.sock.settimeout(5)
        assert connection.sock.recv(1) == b""
        connection.close()


@pytest.mark.parametrize(
    "head",
    [
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close",
        "POST / HTTP/1.0",
        "GET / HTTP/1.1\r\nConnection: Close",
    ],
)
@pytest.mark.parametrize("response", [Response(body=b"ab"), Response(chunks=[b"a", b"b"])])
def test_a_client_that_asks_for_the_end_gets_it(head: str, response: Response) -> None:
    """It is announced, and who speaks HTTP/1.0 gets no chunks."""
    with FaultServer([response]) as server:
        received = wire(server, head.encode() + b"\r\nContent-Length: 0\r\n\r\n")
    announced, body = received.split(b"\r\n\r\n", 1)
    chunked = response.chunks is not None and "1.1" in head
    assert b"Connection: close" in announced
    assert (b"chunked" in announced) == chunked
    assert body == (b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n" if chunked else b"ab")


def test_waits_are_kept_and_stopping_ends_them() -> None:
    """A delay, a pause and a drip take their time; a stopped server does not finish them."""
    with FaultServer([Response(chunks=[b"a", b"b"], delay=0.1, pause=0.1)]) as server:
        began = time.monotonic()
        assert ask(server) == (200, b"ab")
        assert time.monotonic() - began >= 0.2
    before = threading.active_count()
    with FaultServer([Response(body=b"abc", drip=30.0)]) as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            while not server.requests:
                time.sleep(0.005)
    assert threading.active_count() == before


def test_chunks_are_taken_as_they_are_sent() -> None:
    """An iterator may wait for what it gives; one that fails ends the connection in the middle."""
    told: list[str] = []

    def chunks() -> Iterator[bytes]:
        yield b"first"
        told.append("asked for more")
        raise ConnectionResetError

    with FaultServer([Response(chunks=chunks())]) as server:
        received = wire(server)
    assert received.endswith(b"5\r\nfirst\r\n")
    assert told == ["asked for more"]


def test_a_request_in_chunks_is_read_whole() -> None:
    """Clients that do not know the length beforehand send chunks."""
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with FaultServer([Response(close=True)]) as server:
        wire(server, head + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
        assert server.requests[0].body == b"abcde"


def test_head_gets_no_body_and_the_connection_goes_on() -> None:
    """What it would have is announced; the next response on the connection is in its place."""
    with FaultServer([Response(409, {"error": "x"}), Response(body={"done": True})]) as server:
        connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=5)
        connection.request("HEAD", "/")
        head = connection.getresponse()
        assert (head.status, head.getheader("Content-Length"), head.read()) == (409, "14", b"")
        connection.request("GET", "/")
        assert connection.getresponse().read() == b'{"done": true}'
        connection.close()
        assert server.connections == 1


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: x", b"Content-Length: -1", b"Transfer-Encoding: chunked\r\n\r\nzz"],
)
def test_a_body_without_an_end_is_refused(framing: bytes) -> None:
    """400, and nothing waits for it."""
    with FaultServer([]) as server:
        answer = wire(server, b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert server.requests == []
