"""The recording proxy: any agent that is pointed at it is recorded, its replies stream through.

Each session is kept in a file of its own: that of the proxy's name, or NAME for what comes under
`/s/NAME/…`, so that several agents can be recorded at once. A journal beside the file holds what
has happened; the file is written when the proxy stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Lock, Thread
from types import TracebackType
from urllib.parse import urlsplit

import requests

from agent_core.clock import SystemClock
from agent_core.models.address import is_loopback, parse_address
from harness import faults
from harness.sessions.cassette import render_session
from harness.sessions.clocks import RecordingClock
from harness.sessions.conversion import api_of
from harness.sessions.errors import SessionError, SessionExists
from harness.sessions.exchange import Exchange, json_body
from harness.sessions.format import ModelSource, Provenance, SessionFile, Take, Traffic
from harness.sessions.journal import Journal
from harness.sessions.recorder import Recorder, recording_session
from harness.sessions.serve import NAMED
from harness.sessions.sources import server_facts
from harness.sessions.storage import session_path, write_atomically

_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host",
        "content-length", "proxy-connection", "expect"}  # fmt: skip
_TIMEOUT = (10.0, None)  # to connect; how long a model thinks is for the client to say
_AHEAD = 64  # pieces that may wait for a slow client
_POLL = 0.2  # seconds between looks at whether the proxy is being stopped

_Arrival = requests.Response | bytes | Exception | None


class RecordingProxy:
    """A proxy on 127.0.0.1; a context manager. The sessions are written when it ends.

    Args:
        upstream: the server that answers, e.g. http://localhost:11434.
        folder, name: the session is FOLDER/NAME.yaml.
        port: a free one unless given.
        rewrite: replace sessions of these names; they stay until the end.

    Attributes:
        written: the files, once it has ended.

    Raises:
        ConfigError: no address of a server.
        SessionExists, SessionBusy: the name is taken.
        OSError: the port is taken.
    """

    def __init__(
        self, upstream: str, folder: Path, name: str, *, port: int = 0, rewrite: bool = False
    ) -> None:
        self._upstream = parse_address(upstream, what="upstream", default_port=11434)
        self._folder = folder
        self._name = name
        self._rewrite = rewrite
        self._tapes: dict[str, _Tape] = {}
        self._lock = Lock()
        self._stopping = Event()
        self.written: list[Path] = []
        folder.mkdir(parents=True, exist_ok=True)
        self._tape(name)
        try:
            self._http = faults.FaultServer(self._answer, port=port)
        except OSError:
            self._tapes[name].close()
            raise

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash."""
        return self._http.url

    def __enter__(self) -> RecordingProxy:
        self._http.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._http.__exit__(kind, error, traceback)
        for tape in self._tapes.values():
            if tape.finish():
                self.written.append(tape.path)

    def _tape(self, name: str) -> _Tape:
        with self._lock:
            if name not in self._tapes:
                path = session_path(self._folder, name)
                self._tapes[name] = _Tape(path, self._upstream.url, rewrite=self._rewrite)
            return self._tapes[name]

    def _answer(self, received: faults.Received) -> faults.Response:
        name, path = self._name, received.path
        if named := NAMED.fullmatch(path):
            name, path = named["name"], named["rest"]
        try:
            tape = self._tape(name)
        except SessionError as error:
            return faults.Response(409, {"error": str(error)})
        headers = {key: value for key, value in received.headers.items() if key not in _HOP}
        request = requests.Request(
            received.method, self._upstream.url + path, headers=headers, data=received.body
        )
        passage = _Passage(tape.http, request.prepare(), self._stopping)
        try:
            head = passage.head()
        except requests.RequestException as error:
            words = f"proxy: no answer from {self._upstream.url}: {type(error).__name__}"
            return faults.Response(502, {"error": words})
        kept = {
            key.title(): value for key, value in head.headers.items() if key.lower() not in _HOP
        }
        if "content-length" in head.headers:
            return faults.Response(head.status_code, b"".join(passage), kept)
        return faults.Response(head.status_code, headers=kept, chunks=passage)


class _Passage:
    """One request on its way through, in a thread of its own that is left behind when we stop.

    Iterating gives the pieces of the body as they arrive.

    Raises:
        requests.ConnectionError: before the head, nothing came.
        ConnectionAbortedError: the body broke off, or the proxy is being stopped.
    """

    def __init__(
        self, http: requests.Session, request: requests.PreparedRequest, stopping: Event
    ) -> None:
        self._arrived: Queue[_Arrival] = Queue(_AHEAD)
        self._stopping = stopping
        self._client_left = Event()
        Thread(target=self._carry, args=(http, request), name="proxy", daemon=True).start()

    def head(self) -> requests.Response:
        """Status and headers."""
        first = self._next()
        if isinstance(first, requests.Response):
            return first
        assert isinstance(first, Exception)
        raise first

    def __iter__(self) -> Iterator[bytes]:
        try:
            while (piece := self._next()) is not None:
                if not isinstance(piece, bytes):
                    raise ConnectionAbortedError("the server broke off")
                yield piece
        finally:
            self._client_left.set()

    def _next(self) -> _Arrival:
        while not self._stopping.is_set():
            try:
                return self._arrived.get(timeout=_POLL)
            except Empty:
                continue
        raise ConnectionAbortedError("the proxy is stopped")

    def _carry(self, http: requests.Session, request: requests.PreparedRequest) -> None:
        try:
            with http.send(
                request, stream=True, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
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


class _Tape:
    """What is recorded under one name."""

    def __init__(self, path: Path, upstream: str, *, rewrite: bool) -> None:
        if path.exists() and not rewrite:
            raise SessionExists(f"{path} exists; record it again with --rewrite, or choose a name")
        self.path = path
        self._upstream = upstream
        self._lock = Lock()
        self._over = False
        self._journal = Journal(path)
        try:
            self._begin(rewrite=rewrite)
        except BaseException:
            self._journal.close()
            raise

    def _begin(self, *, rewrite: bool) -> None:
        earlier = None if rewrite else self._journal.earlier()
        if earlier is not None and earlier.has_work:
            raise SessionExists(
                f"an interrupted recording of {self.path.name!r} is there; "
                "start again with --rewrite, or choose another name"
            )
        self._journal.restart()
        clock = SystemClock()
        self._recorded_at = clock.now().isoformat(timespec="seconds")
        self._recorder = Recorder(RecordingClock(clock), on_take=self._keep)
        self.http = recording_session(self._recorder)
        self.http.trust_env = not is_loopback(urlsplit(self._upstream).hostname or "")

    def close(self) -> None:
        """Give it up; nothing was recorded."""
        self._journal.discard()

    def finish(self) -> bool:
        """Write the file; whether there is anything in it."""
        with self._lock:
            self._over = True
        takes, exchanges = self._recorder.results()
        if takes:
            traffic = Traffic(provenance=self._provenance(exchanges), takes=takes)
            file = SessionFile(None, exchanges, traffic=traffic)
            write_atomically(self.path, render_session(file))
        self._journal.discard()
        return bool(takes)

    def _keep(self, number: int, take: Take, exchange: Exchange | None) -> None:
        """Note how a request went; one that ends after the proxy has no journal any more."""
        with self._lock:
            if not self._over:
                self._journal.take(number, take, exchange)

    def _provenance(self, exchanges: Sequence[Exchange]) -> Provenance:
        asked = [(api_of(each.request.url), json_body(each.request.body)) for each in exchanges]
        facts = Provenance()
        for api, body in asked:
            if api is not None and isinstance(body, dict) and isinstance(body.get("model"), str):
                source = ModelSource(api=api, name=body["model"], base_url=self._upstream)
                facts = server_facts(source)
                break
        extra = {"recorded_at": self._recorded_at, "agentrig": version("agentrig")}
        return facts.model_copy(update=extra)
