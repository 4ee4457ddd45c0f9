"""The recording proxy: any agent that is pointed at it is recorded, its replies stream through.

Each session is kept in a file of its own: that of the proxy's name, or NAME for what comes under
`/s/NAME/…`, so that several agents can be recorded at once. A journal beside the file holds what
has happened; the file is written when the proxy stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from typing import NoReturn

import requests

from agent_core.models.address import parse_address
from harness.faults import Received, Response
from harness.redact import register_headers
from harness.sessions.delivery import UNREACHED, failure, no_answer
from harness.sessions.errors import SessionError
from harness.sessions.format import SessionFile
from harness.sessions.journal import journal_path
from harness.sessions.loopback import NamedServer
from harness.sessions.storage import session_path
from harness.sessions.traffic import Mode, TrafficTape
from harness.sessions.watch import kind_before_response

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host",
        "content-length", "proxy-connection", "expect"}  # fmt: skip
_AHEAD = 64  # pieces that may wait for a slow client
_POLL = 0.2  # seconds between looks at whether the proxy is being stopped, or the client gone
_PAUSE = 1.0  # seconds of silence that any stream may have between two pieces

_Arrival = requests.Response | bytes | Exception | None


class RecordingProxy(NamedServer):
    """A proxy on 127.0.0.1; a context manager. The sessions are written when it ends in order.

    Args:
        upstream: the server that answers, e.g. http://localhost:11434.
        folder, name: the session is FOLDER/NAME.yaml.
        port: a free one unless given.
        mode: `new` refuses to replace anything, `rewrite` replaces sessions of these names at
            the end, `resume` goes on from the journals of a proxy that was killed: an agent that
            begins again gets the replies that it got, any other request comes after them.

    Attributes:
        written: the files, once it has ended.

    Raises:
        ConfigError: no address of a server.
        SessionExists, SessionBusy: the name is taken.
        SessionError: nothing to resume.
        OSError: the port is taken.
    """

    def __init__(
        self, upstream: str, folder: Path, name: str, *, port: int = 0, mode: Mode = "new"
    ) -> None:
        self._upstream = parse_address(upstream, what="upstream", default_port=11434)
        self._folder = folder
        self._name = name
        self._mode = mode
        self._tapes: dict[str, TrafficTape] = {}
        self._lock = Lock()
        self.written: list[Path] = []
        folder.mkdir(parents=True, exist_ok=True)
        if mode == "resume" and not journal_path(session_path(folder, name)).exists():
            raise SessionError(f"no interrupted recording of {name!r}: nothing to resume")
        self._tape(name)
        try:
            super().__init__(port)
        except OSError:
            self._tapes[name].leave()
            raise

    def __exit__(self, *exc: object) -> None:
        self.stop()
        if any(exc):
            self.leave()
        else:
            self.finish()

    def stop(self) -> None:
        """Answer no more; what has been recorded is yet to be written or left."""
        super().__exit__(None, None, None)

    def finish(self) -> None:
        """Write the sessions."""
        for tape in self._tapes.values():
            if tape.finish():
                self.written.append(tape.path)

    def leave(self) -> None:
        """Write no session; the journals stay."""
        for tape in self._tapes.values():
            tape.leave()

    def session(self) -> SessionFile:
        """What has been recorded so far under the name of the proxy."""
        return self._tape(self._name).session()

    def _tape(self, name: str) -> TrafficTape:
        with self._lock:
            if name not in self._tapes:
                path = session_path(self._folder, name)
                self._tapes[name] = TrafficTape(path, self._upstream.url, self._mode)
            return self._tapes[name]

    def _answer(self, received: Received, name: str | None) -> Response:
        try:
            tape = self._tape(name or self._name)
        except SessionError as error:
            return Response(409, {"error": str(error)})
        register_headers(received.headers)  # a body may quote them
        headers = {key: value for key, value in received.headers.items() if key not in _HOP}
        # Only what can be read again: a recording holds what was said, not how it was packed.
        accepted = headers.get("accept-encoding", "")
        headers["accept-encoding"] = "gzip" if "gzip" in accepted else "identity"
        url = self._upstream.url + received.path
        request = requests.Request(received.method, url, headers=headers, data=received.body)
        passage = _Passage(tape, request.prepare(), received.has_left, self._stopping)
        try:
            head = passage.head()
        except requests.RequestException as error:
            kind = kind_before_response(error)
            return (
                no_answer(url, kind) if kind in UNREACHED else failure(kind, None, self._stopping)
            )
        kept = {
            key.title(): value for key, value in head.headers.items() if key.lower() not in _HOP
        }
        if passage.streams:
            return Response(head.status_code, headers=kept, chunks=passage)
        return Response(head.status_code, b"".join(passage), kept)


class _Passage:
    """One request on its way through, in a thread of its own that is left behind when we stop.

    Iterating gives the pieces of the body as they arrive.

    Attributes:
        streams: the head does not say how long the body will be.

    Raises:
        requests.RequestException: before the head, nothing came.
        ConnectionAbortedError: the body broke off, the client left, or the proxy is stopped.
    """

    def __init__(
        self,
        tape: TrafficTape,
        request: requests.PreparedRequest,
        has_left: Callable[[], bool],
        stopping: Event,
    ) -> None:
        self._tape = tape
        self._request = request
        self._has_left = has_left
        self._stopping = stopping
        self._client_left = Event()
        self._arrived: Queue[_Arrival] = Queue(_AHEAD)
        self._last = time.monotonic()
        self._pause = 0.0  # the longest so far between two pieces of a stream
        self.streams = False
        Thread(target=self._carry, name="proxy", daemon=True).start()

    def head(self) -> requests.Response:
        """Status and headers."""
        first = self._next()
        if isinstance(first, requests.Response):
            self.streams = "content-length" not in first.headers
            return first
        assert isinstance(first, Exception)
        raise first

    def __iter__(self) -> Iterator[bytes]:
        try:
            while (piece := self._next()) is not None:
                if not isinstance(piece, bytes):
                    raise ConnectionAbortedError("the server broke off")
                now = time.monotonic()
                self._pause, self._last = max(self._pause, _PAUSE, now - self._last), now
                yield piece
        finally:
            self._client_left.set()

    def _next(self) -> _Arrival:
        while not self._stopping.is_set():
            try:
                return self._arrived.get(timeout=_POLL)
            except Empty:
                if self._has_left():
                    self._leave()
        raise ConnectionAbortedError("the proxy is stopped")

    def _leave(self) -> NoReturn:
        """The client is gone: it has read enough of a stream, or it waited longer than ever."""
        waiting = not self.streams or time.monotonic() - self._last > self._pause
        self._tape.recorder.client_left(self._request, waiting=waiting)
        self._client_left.set()
        raise ConnectionAbortedError("the client left")

    def _carry(self) -> None:
        try:
            with self._tape.send(self._request) as response:
                self._put(response)
                for piece in response.raw.stream(2**16, decode_content=False):
                    if not self._put(piece):
                        return
            self._put(None)
        except Exception as error:  # recorded already; here it only has to reach the client
            self._put(error)

    def _put(self, arrival: _Arrival) -> bool:
        """Hand it on when there is room; whether anybody is there to take it."""
        while not (self._stopping.is_set() or self._client_left.is_set()):
            try:
                self._arrived.put(arrival, timeout=_POLL)
            except Full:
                continue
            return True
        return False
