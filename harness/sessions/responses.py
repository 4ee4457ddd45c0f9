"""Recorded replies as `requests` would hand them out, chunk by chunk, errors included."""

from __future__ import annotations

import errno
import io
from collections.abc import Generator
from http.client import IncompleteRead, RemoteDisconnected
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPHeaderDict, HTTPResponse
from urllib3.connection import HTTPConnection
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from harness.sessions.clocks import ReplayClock
from harness.sessions.exchange import Response
from harness.sessions.format import ErrorKind, Take

_ADAPTER = HTTPAdapter()  # never sends: it knows how a response is put together
_TRANSPORT_HEADERS = {"transfer-encoding", "content-encoding", "content-length", "connection"}


def build_response(
    prepared: requests.PreparedRequest,
    response: Response,
    *,
    take: Take | None = None,
    clock: ReplayClock | None = None,
) -> requests.Response:
    """A response of `requests` over recorded bytes, cut into the chunks in which they came."""
    headers = [
        (name, value)
        for name, values in response.headers.items()
        if name.lower() not in _TRANSPORT_HEADERS
        for value in values
    ]
    raw = _Raw(
        body=_Body(response.body, take, clock),
        headers=HTTPHeaderDict(headers),
        status=response.status,
        reason=response.reason,
        preload_content=False,
        decode_content=False,
        request_method=prepared.method,
        request_url=prepared.url,
    )
    return _ADAPTER.build_response(prepared, raw)


def transport_error(
    kind: ErrorKind, prepared: requests.PreparedRequest
) -> requests.RequestException:
    """What `requests` raises for a request that got no response, with the same causes inside."""
    parts = urlsplit(prepared.url or "")
    pool = HTTPConnectionPool(parts.hostname or "localhost", parts.port)
    where = prepared.path_url
    if kind == "connect_timeout":
        connection = HTTPConnection(pool.host, pool.port)
        late = ConnectTimeoutError(connection, f"Connection to {pool.host} timed out.")
        return requests.ConnectTimeout(MaxRetryError(pool, where, late), request=prepared)
    if kind == "refused":
        connection = HTTPConnection(pool.host, pool.port)
        refused = OSError(errno.ECONNREFUSED, "Connection refused")
        failed = NewConnectionError(connection, f"Failed to establish a new connection: {refused}")
        failed.__cause__ = refused
        return requests.ConnectionError(MaxRetryError(pool, where, failed), request=prepared)
    if kind == "timeout":
        timed_out = ReadTimeoutError(pool, where, "Read timed out.")
        return requests.ReadTimeout(timed_out, request=prepared)
    broken: OSError = OSError(errno.ECONNRESET, "Connection reset by peer")
    if kind == "cut":
        broken = RemoteDisconnected("Remote end closed connection without response")
    return requests.ConnectionError(ProtocolError("Connection aborted.", broken), request=prepared)


class _Body(io.BufferedIOBase):
    """The recorded bytes. A read gives at most the rest of a chunk, then the recorded end."""

    def __init__(self, body: bytes, take: Take | None, clock: ReplayClock | None) -> None:
        self._body = body
        self._take = take
        self._clock = clock
        sizes = take.sizes if take is not None else []
        self._sizes = sizes if sum(sizes) == len(body) else [len(body)]
        self._chunk = -1
        self._left = self._at = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Read this many bytes over as many chunks as it takes."""
        wanted = len(self._body) if size is None or size < 0 else size
        pieces = []
        while wanted > 0 and (piece := self.read1(wanted)):
            pieces.append(piece)
            wanted -= len(piece)
        return b"".join(pieces)

    def read1(self, size: int = -1, /) -> bytes:
        """Read what is left of the current chunk, or the next one."""
        while self._left == 0:
            if self._chunk + 1 >= len(self._sizes):
                return self._end()
            self._chunk += 1
            self._left = self._sizes[self._chunk]
            self._advance(self._chunk)
        count = self._left if size is None or size < 0 else min(size, self._left)
        piece = self._body[self._at : self._at + count]
        self._at += count
        self._left -= count
        return piece

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer."""
        piece = self.read1(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def _advance(self, chunk: int) -> None:
        take = self._take
        if self._clock is not None and take is not None and chunk < len(take.times):
            self._clock.advance_to(take.at + take.times[chunk])

    def _end(self) -> bytes:
        take = self._take
        if take is None:
            return b""
        if self._clock is not None:
            self._clock.advance_to(take.at + take.seconds)
        if take.error is not None:
            if take.error.kind == "timeout":
                raise TimeoutError("timed out")
            if take.error.kind == "reset":
                raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            raise IncompleteRead(b"")
        return b""


class _Raw(HTTPResponse):
    """urllib3's response; a stream gives chunk by chunk instead of filling up its pieces."""

    def stream(
        self, amt: int | None = 2**16, decode_content: bool | None = None
    ) -> Generator[bytes, None, None]:
        """The chunks in which the body came, each at most `amt` bytes."""
        while piece := self.read1(2**20 if amt is None else amt, decode_content=decode_content):
            yield piece
