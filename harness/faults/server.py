"""A loopback server that does what bad servers do, one scripted response a request.

::

    with FaultServer([Response(503), Response(body={"message": {...}, "done": True})]) as server:
        model = OllamaChat("m", base_url=server.url)

It listens on 127.0.0.1 only, keeps what it received in `requests`, and leaves no thread behind.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from select import select
from threading import Event, Lock, Thread
from typing import Any

from harness.faults.response import Response


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server got it. Header names are in lower case.

    Attributes:
        has_left: whether the client has closed the connection, to be asked before the response.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    has_left: Callable[[], bool] = field(default=lambda: False, repr=False, compare=False)

    def json(self) -> Any:
        """The body, decoded as JSON."""
        return json.loads(self.body)


Script = Iterable[Response] | Callable[[Received], Response]


class FaultServer:
    """Serves scripted responses on a free port of 127.0.0.1.

    Args:
        responses: one for each request, in order, or a function of the request. A request for
            which none is left is answered with status 500.
        port: a free one unless given.

    Attributes:
        requests: what has been received.
        connections: how many connections were opened.
    """

    def __init__(self, responses: Script, *, port: int = 0) -> None:
        self.requests: list[Received] = []
        self.connections = 0
        self.stopping = Event()
        self._answer = responses if callable(responses) else None
        self._responses = iter(() if callable(responses) else responses)
        self._lock = Lock()
        self._http = _Server(self, port)
        self._thread = Thread(target=self._http.serve_forever, args=(0.02,), name="fault-server")

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> FaultServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.hang_up()
        self._http.server_close()
        self._thread.join()

    def next_response(self, request: Received) -> Response:
        """Note a request and say what is answered."""
        with self._lock:
            self.requests.append(request)
            if self._answer is None:
                number = len(self.requests)
                none_left = Response(500, f"FaultServer: no response left for request {number}")
                return next(self._responses, none_left)
        return self._answer(request)


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that it can end them."""

    daemon_threads = False  # server_close waits for them

    def __init__(self, owner: FaultServer, port: int) -> None:
        self.owner = owner
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # pieces stay pieces
        self.owner.connections += 1
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        """End every connection, so that no thread waits for a request."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Reads requests of one connection and sends what the script says."""

    protocol_version = "HTTP/1.1"
    server: _Server
    raw_requestline: bytes

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):  # every method is answered the same way
            return self._respond
        raise AttributeError(name)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def parse_request(self) -> bool:
        """Read the first line; a path of bare UTF-8 is percent-encoded, as it should have come."""
        self.raw_requestline = re.sub(
            rb"[\x80-\xff]", lambda found: b"%%%02X" % found[0][0], self.raw_requestline
        )
        return super().parse_request()

    def handle(self) -> None:
        with suppress(OSError):  # the client left, or was sent away
            super().handle()

    def _respond(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            body = self._body(headers)
        except ValueError as error:
            self.send_error(400, f"the body cannot be read: {error}")
            return
        received = Received(self.command, self.path, headers, body, self._left)
        response = self.server.owner.next_response(received)
        asked_to_close = self.close_connection  # by a header, or by speaking HTTP/1.0
        if asked_to_close:
            response = response.closing(chunked=self.request_version != "HTTP/1.0")
        stopping = self.server.owner.stopping
        self.close_connection = True
        if stopping.wait(response.delay):
            return
        if response.silent:
            self._wait_for_the_client()
        elif response.reset and response.cut_after is None:
            self._reset()
        elif self._send(response, stopping):
            if response.reset:
                self._reset()
            ends = response.reset or response.ends_connection()
            self.close_connection = ends or asked_to_close

    def _body(self, headers: Mapping[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", "").lower():
            length = int(headers.get("content-length") or 0)
            if length < 0:
                raise ValueError(f"expected a length, got {length!r}")
            return self.rfile.read(length)
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():  # trailers
            pass
        return b"".join(pieces)

    def _left(self) -> bool:
        try:
            readable = select([self.connection], [], [], 0)[0]
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:  # reset
            return True
        except ValueError:  # too many open files for select: nobody knows
            return False

    def _send(self, response: Response, stopping: Event) -> bool:
        """Send a response; False when the server is stopped meanwhile."""
        head_only = self.command == "HEAD" and response.raw is None
        for number, piece in enumerate(islice(response.wire(), 1 if head_only else None)):
            if number > 1 and stopping.wait(response.pause):
                return False
            step = 1 if response.drip else max(1, len(piece))
            for start in range(0, len(piece), step):
                if response.drip and stopping.wait(response.drip):
                    return False
                self.wfile.write(piece[start : start + step])
        return True

    def _reset(self) -> None:
        """Close the connection by a reset, at once."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def _wait_for_the_client(self) -> None:
        """Keep the connection open until the client closes it or the server is stopped."""
        self.connection.settimeout(0.05)
        while not self.server.owner.stopping.is_set():
            with suppress(TimeoutError):
                if not self.connection.recv(1):
                    return
