"""One request while it is recorded: what has arrived of its response, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.client import RemoteDisconnected
from typing import Any

import requests
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from harness.sessions.cassette import request_block, response_block
from harness.sessions.clocks import RecordingClock
from harness.sessions.exchange import Exchange, Request, Response, decoded_body
from harness.sessions.format import ErrorKind, ErrorTake, Take
from harness.sessions.scrubbing import recut, scrub_request, scrub_response
from harness.sessions.taped import inside_call

OnEnd = Callable[[Take, Exchange | None], None]


class Watch:
    """What is known of one request so far; tells once how it ended.

    Args:
        on_end: told of the request when it is over: its take, and its exchange if complete.
    """

    def __init__(self, request: Request, clock: RecordingClock, on_end: OnEnd) -> None:
        self._request = request
        self._clock = clock
        self._on_end = on_end
        self._within = inside_call.get()
        self._at = clock.elapsed()
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
        self._times.append(round(self._clock.elapsed() - self._at, 3))

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
            seconds=round(self._clock.elapsed() - self._at, 3),
            sizes=sizes if len(sizes) > 1 else [],
            times=self._times if len(sizes) > 1 else [],
            within=self._within,
            **outcome,
        )

    def _tell(self, take: Take, exchange: Exchange | None) -> None:
        if not self._over:
            self._over = True
            self._on_end(take, exchange)

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


class Tee:
    """urllib3's response, telling a watch what is read from it and how that ends."""

    def __init__(self, raw: Any, watch: Watch) -> None:
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
