"""Recording: a transport adapter that passes everything through and keeps what it saw.

Chunks go on to the client as they arrive. What ends without a complete response becomes an
error take. Everything is scrubbed before it is handed on to be written.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import requests
from requests.adapters import BaseAdapter

from agent_core.models.deadline import DeadlineAdapter
from harness.sessions.clocks import RecordingClock
from harness.sessions.errors import ServerRefused
from harness.sessions.exchange import Exchange, Request, request_of
from harness.sessions.format import Take
from harness.sessions.player import Player
from harness.sessions.servers import Servers
from harness.sessions.watch import Tee, Watch, kind_before_response

OnTake = Callable[[int, Take, Exchange | None], None]


class Recorder:
    """Collects the requests of a session in the order of their sending. Thread-safe.

    Args:
        earlier: what an interrupted recording has; its replies are given again as long as the
            requests are the same.
        on_take: told of each request when it is over: number, take, exchange if complete.
        on_rewind: told the number from which on the interrupted recording is of no use.
        servers: where requests may go; anywhere unless given.

    Attributes:
        refused: why the first request that goes elsewhere was not sent.
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
        self._watches: WeakKeyDictionary[requests.PreparedRequest, Watch] = WeakKeyDictionary()

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

    def watch(self, request: requests.PreparedRequest, watch: Watch) -> None:
        """Remember who watches a request that is being sent."""
        with self._lock:
            self._watches[request] = watch

    def client_left(self, request: requests.PreparedRequest, *, waiting: bool) -> None:
        """Keep a request as it stands: its client has read enough, or waited too long."""
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
        watch = Watch(seen, self._recorder.clock, partial(self._recorder.end, number))
        self._recorder.watch(request, watch)
        try:
            response = self._inner.send(request, *args, **kwargs)
        except Exception as error:
            watch.failed(kind_before_response(error))
            raise
        watch.answered(response)
        response.raw = Tee(response.raw, watch)
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
