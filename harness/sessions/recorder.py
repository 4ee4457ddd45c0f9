"""Recording: a transport adapter that passes everything through and keeps what it saw.

Chunks go on to the client as they arrive. What ends without a complete response becomes an
error take. Everything is scrubbed before it is handed on to be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.client import RemoteDisconnected
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import requests
from requests.adapters import BaseAdapter
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from agent_core.models.deadline import DeadlineAdapter
from harness.sessions.cassette import request_block, response_block
from harness.sessions.clocks import RecordingClock
from harness.sessions.errors import ServerRefused
from harness.sessions.exchange import Exchange, Request, Response, decoded_body, request_of
from harness.sessions.format import ErrorKind, ErrorTake, Take
from harness.sessions.player import Player
from harness.sessions.scrubbing import recut, scrub_request, scrub_response
from harness.sessions.servers import Servers
from harness.sessions.taped import inside_call

OnTake = Callable[[int, Take, Exchange | None], None]


class Recorder:
    """Collects the requests of a session in the order of their sending. Thread-safe.

    Args:
        earlier: what an interrupted recording has; its replies are given again as long as the
            requests are the same.
        on_take: told of each request when it is over: number, take, exchange if complete.
        on_rewind: told the number from which on the interrupted recording is of no use.
        servers: whom requests may go to; everybody unless given.

    Attributes:
        refused: why the first request was not sent that goes elsewhere.
    """

    def __init__(
        self,
        clock: RecordingClock,
        *,
        earlier: Player | None = None,
        on_take: OnTake = lambda _number, _take, _exchange: None,
        on_rewind: Callable[[int], None] = lambda _number: None,
        servers: Servers | None = None,
    ) -> None:
        self.clock = clock
        self._earlier = earlier
        self._on_take = on_take
        self._on_rewind = on_rewind
        self._servers = servers
        self.refused: ServerRefused | None = None
        self._lock = Lock()
        self._begun = 0
        self._over: dict[int, tuple[Take, Exchange | None]] = {}
        self._watches: WeakKeyDictionary[requests.PreparedRequest, _Watch] = WeakKeyDictionary()

    def results(self) -> tuple[list[Take], tuple[Exchange, ...]]:
        """The takes and their complete exchanges, numbered."""
        takes: list[Take] = []
        exchanges: list[Exchange] = []
        with self._lock:
            for number in sorted(self._over):
                take, exchange = self._over[number]
                if exchange is not None:
                    take = take.model_copy(update={"exchange": len(exchanges)})
                    exchanges.append(exchange)
                takes.append(take)
        return takes, tuple(exchanges)

    def check(self, url: str) -> None:
        """See that a request may be sent.

        Raises:
            ServerRefused: it may not.
        """
        try:
            if self._servers is not None:
                self._servers.check(url)
        except ServerRefused as error:
            self.refused = self.refused or error
            raise

    def begin(self) -> int:
        """A number for the request that is being sent."""
        with self._lock:
            self._begun += 1
            return self._begun - 1

    def end(self, number: int, take: Take, exchange: Exchange | None) -> None:
        """Keep how it went."""
        with self._lock:
            self._over[number] = take, exchange
        self._on_take(number, take, exchange)

    def watch(self, request: requests.PreparedRequest, watch: _Watch) -> None:
        """Remember who watches a request that is being sent."""
        with self._lock:
            self._watches[request] = watch

    def client_left(self, request: requests.PreparedRequest, *, waiting: bool) -> None:
        """Keep a request as it stands: whoever sent it has read enough, or waited too long."""
        with self._lock:
            watch = self._watches.get(request)
        if watch is not None and waiting:
            watch.failed("timeout")
        elif watch is not None:
            watch.complete(closed=True)

    def again(self, number: int, prepared: requests.PreparedRequest, request: Request) -> Any:
        """The reply of the interrupted recording, or None when it has none for this request."""
        earlier = self._earlier
        if earlier is None:
            return None
        found = earlier.serve_next(request)
        if found is None:
            self._earlier = None
            self._on_rewind(number)
            return None
        take = earlier.takes[found]
        exchange = None if take.exchange is None else earlier.file.exchanges[take.exchange]
        with self._lock:
            self._over[number] = take, exchange
        return earlier.respond(found, prepared)


class RecordingAdapter(BaseAdapter):
    """Sends through another adapter and records."""

    def __init__(self, recorder: Recorder, inner: BaseAdapter) -> None:
        super().__init__()
        self._recorder = recorder
        self._inner = inner

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Send, and hand out a response that records itself while it is read."""
        seen = request_of(request)
        self._recorder.check(seen.url)
        number = self._recorder.begin()
        again: requests.Response | None = self._recorder.again(number, request, seen)
        if again is not None:
            return again
        watch = _Watch(self._recorder, number, seen)
        self._recorder.watch(request, watch)
        try:
            response = self._inner.send(request, *args, **kwargs)
        except Exception as error:
            watch.failed(kind_before_response(error))
            raise
        watch.answered(response)
        response.raw = _Tee(response.raw, watch)
        return response

    def close(self) -> None:
        """Close the adapter that sends."""
        self._inner.close()


def recording_session(recorder: Recorder) -> requests.Session:
    """A `requests.Session` whose every request is recorded; it keeps deadlines as ours do."""
    session = requests.Session()
    for prefix in list(session.adapters):
        session.mount(prefix, RecordingAdapter(recorder, DeadlineAdapter()))
    return session


class _Watch:
    """What is known of one request so far; tells the recorder once how it ended."""

    def __init__(self, recorder: Recorder, number: int, request: Request) -> None:
        self._recorder = recorder
        self._number = number
        self._request = request
        self._within = inside_call.get()
        self._at = recorder.clock.elapsed()
        self._head: tuple[int, str, dict[str, list[str]]] | None = None
        self._chunks: list[bytes] = []
        self._times: list[float] = []
        self._over = False

    def answered(self, response: requests.Response) -> None:
        """The headers are there."""
        raw = response.raw.headers
        headers = {str(name): [str(each) for each in raw.getlist(name)] for name in raw}
        self._head = response.status_code, response.reason or "", headers

    def chunk(self, data: bytes) -> None:
        """A piece of the body was handed to the client."""
        self._chunks.append(data)
        self._times.append(round(self._recorder.clock.elapsed() - self._at, 3))

    def complete(self, *, closed: bool = False) -> None:
        """The body is read whole, or as far as the client wanted it."""
        response, sizes = self._response()
        assert response is not None
        exchange = Exchange(scrub_request(self._request), response)
        self._tell(self._take(exchange=0, closed=closed, sizes=sizes), exchange)

    def failed(self, kind: ErrorKind) -> None:
        """It ended by an error."""
        response, sizes = self._response()
        error = ErrorTake(
            kind=kind,
            after=0 if response is None else len(response.body),
            request=request_block(scrub_request(self._request)),
            response=None if response is None else response_block(response),
        )
        self._tell(self._take(error=error, sizes=sizes), None)

    def _take(self, *, sizes: list[int], **outcome: Any) -> Take:
        return Take(
            at=self._at,
            seconds=round(self._recorder.clock.elapsed() - self._at, 3),
            sizes=sizes if len(sizes) > 1 else [],
            times=self._times if len(sizes) > 1 else [],
            within=self._within,
            **outcome,
        )

    def _tell(self, take: Take, exchange: Exchange | None) -> None:
        if not self._over:
            self._over = True
            self._recorder.end(self._number, take, exchange)

    def _response(self) -> tuple[Response | None, list[int]]:
        if self._head is None:
            return None, []
        status, reason, raw_headers = self._head
        raw = b"".join(self._chunks)
        headers, body = decoded_body(raw_headers, raw)
        response = scrub_response(Response(status, reason, headers, body))
        if body != raw:  # the client decoded it itself; chunks of encoded bytes mean nothing
            return response, []
        return response, recut(body, response.body, [len(each) for each in self._chunks])


class _Tee:
    """urllib3's response, telling a watch what is read from it and how that ends."""

    def __init__(self, raw: Any, watch: _Watch) -> None:
        self._raw = raw
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def read(self, amt: int | None = None, *args: Any, **kwargs: Any) -> bytes:
        data: bytes = self._reading(lambda: self._raw.read(amt, *args, **kwargs))
        if amt is None or (amt > 0 and not data):
            self._watch.complete()
        return data

    def read1(self, amt: int | None = None, *args: Any, **kwargs: Any) -> bytes:
        data: bytes = self._reading(lambda: self._raw.read1(amt, *args, **kwargs))
        if not data and amt != 0:
            self._watch.complete()
        return data

    def stream(
        self, amt: int | None = 2**16, decode_content: bool | None = None
    ) -> Iterator[bytes]:
        pieces = self._raw.stream(amt, decode_content=decode_content)
        while (piece := self._reading(lambda: next(pieces, None))) is not None:
            yield piece
        self._watch.complete()

    def close(self) -> None:
        self._raw.close()
        self._watch.complete(closed=True)

    def release_conn(self) -> None:
        self._raw.release_conn()
        self._watch.complete(closed=True)

    def _reading(self, read: Callable[[], Any]) -> Any:
        try:
            data = read()
        except Exception as error:
            self._watch.failed(_kind_while_reading(error))
            raise
        if data:
            self._watch.chunk(data)
        return data


def kind_before_response(error: BaseException) -> ErrorKind:
    """How a request failed that got no response."""
    if isinstance(error, requests.ConnectTimeout):
        return "connect_timeout"
    if isinstance(error, requests.Timeout | ReadTimeoutError | TimeoutError):
        return "timeout"
    inner = error.args[0] if error.args else None
    if not isinstance(inner, ProtocolError):
        return "refused"
    return "cut" if any(isinstance(each, RemoteDisconnected) for each in inner.args) else "reset"


def _kind_while_reading(error: BaseException) -> ErrorKind:
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return "timeout"
    chain: list[Any] = [error, error.__cause__, error.__context__, *getattr(error, "args", ())]
    if any(isinstance(each, ConnectionError) for each in chain):
        return "reset"
    return "cut"
