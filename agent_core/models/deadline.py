"""A transport adapter that keeps a deadline while it reads, headers included.

The read timeout of `requests` starts again with every byte: a server that drips one byte a
second is never late. Here each read of the socket waits no longer than what is left, and not
after the run was cancelled.
"""

from __future__ import annotations

import io
import math
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPResponse
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.wait import wait_for_read

from agent_core.cancellation import cancellation
from agent_core.gears import Clock

_LOOK = 0.05  # seconds between two looks at whether anybody still waits


class Deadline:
    """The moment by which something has to be over; None means whenever.

    The run that it is part of may be cancelled before.
    """

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        self._clock = clock
        self._cancel = cancellation()
        self._at = None if seconds is None else clock.monotonic() + seconds

    def left(self) -> float | None:
        """Seconds left, 0.0 when it has passed, None without a deadline."""
        return None if self._at is None else max(0.0, self._at - self._clock.monotonic())

    def passed(self) -> bool:
        """Whether there is nothing left."""
        return self.left() == 0.0

    @property
    def can_be_cancelled(self) -> bool:
        """Whether it is part of a run."""
        return self._cancel is not None

    def cancelled(self) -> bool:
        """Whether the run that waits for this has been cancelled."""
        return self._cancel is not None and self._cancel.is_set()

    def within(self, seconds: float) -> float:
        """This many seconds, or what is left when that is less."""
        left = self.left()
        return seconds if left is None else min(seconds, left)

    def shorten(self, seconds: float) -> None:
        """Be over in this many seconds at the latest."""
        self._at = self._clock.monotonic() + self.within(seconds)


_current: ContextVar[Deadline | None] = ContextVar("agent_core_http_deadline", default=None)


@contextmanager
def keeping(deadline: Deadline) -> Iterator[None]:
    """Let responses that begin inside the block keep this deadline until they are read."""
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)


class _Reader(io.RawIOBase):
    """The socket's stream, waiting no longer than the deadline allows."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: Deadline) -> None:
        self._raw = raw
        self._sock = sock
        self._timeout = sock.gettimeout()
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline.left()
        if left == 0.0:
            raise TimeoutError("the deadline has passed")
        limits = [each for each in (left, self._timeout) if each is not None]
        limit = min(limits, default=None)
        self._sock.settimeout(limit)
        self._wait(limit)
        count: int | None = self._raw.readinto(buffer)
        return count

    def _wait(self, limit: float | None) -> None:
        """Wait until there is something to read, and look up now and then."""
        if isinstance(self._sock, ssl.SSLSocket) and self._sock.pending():
            return
        until = math.inf if limit is None else time.monotonic() + limit
        while not wait_for_read(self._sock, min(_LOOK, max(0.0, until - time.monotonic()))):
            if self._deadline.cancelled():
                raise TimeoutError("nobody waits any more")
            if time.monotonic() >= until:
                raise TimeoutError("timed out")

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    """A response whose bytes come through a `_Reader`."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        deadline = _current.get()
        if deadline is not None:
            self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, deadline))


class _Pool(HTTPConnectionPool):
    """Connections whose responses keep the deadline.

    The class of the connections stays what it is: tools that record or forbid traffic put
    their own in its place.
    """

    def _new_conn(self) -> Any:
        connection = super()._new_conn()
        connection.response_class = _Response  # type: ignore[attr-defined]
        return connection


class _SecurePool(HTTPSConnectionPool):
    """The same over TLS."""

    def _new_conn(self) -> Any:
        connection = super()._new_conn()
        connection.response_class = _Response  # type: ignore[attr-defined]
        return connection


class DeadlineAdapter(HTTPAdapter):
    """The adapter of `requests`, with connections that keep the deadline set by `keeping`."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Use our connections for direct requests."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """Use our connections for requests through a proxy."""
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):  # those have connections of their own
            manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        return manager
