"""Replay: a transport adapter that answers from a session and never opens a socket.

Step k of the recording answers step k, found by what was sent: the bytes first, then what they
say. A request that fits nothing gets the reply whose turn it is, and is kept, so that one
replay finds every difference. When nothing is left, the answer is status 409.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter

from harness.plain import counted
from harness.sessions.borders import Borders
from harness.sessions.cassette import read_request, read_response
from harness.sessions.clocks import ReplayClock
from harness.sessions.conversion import api_of, is_stream, pieces_of
from harness.sessions.exchange import (
    Request,
    Response,
    canonical_key,
    raw_key,
    request_of,
)
from harness.sessions.format import SessionFile, Take
from harness.sessions.pacing import moments, recut
from harness.sessions.responses import build_response, transport_error
from harness.sessions.scrubbing import scrub_request


@dataclass(frozen=True, slots=True)
class Served:
    """One answered request.

    Attributes:
        number: of the take that answered, from 0; None when nothing was left.
        expected: number of the take whose turn it was, None when all were used.
        sent: the request, scrubbed, when it is not what was recorded; else None.
        respelled: the same request in other bytes.
    """

    number: int | None
    expected: int | None
    sent: Request | None = None
    respelled: bool = False


class Player:
    """Finds the reply to each request. Thread-safe; constant time a request.

    Args:
        clock: moves on as the recorded replies arrive.
        skip_within: requests that a taped tool sent are not expected, because it does not run.
        borders: where streams are cut into chunks; as they came unless given.
    """

    def __init__(
        self,
        file: SessionFile,
        *,
        clock: ReplayClock | None = None,
        skip_within: bool = True,
        borders: Borders | None = None,
    ) -> None:
        self.file = file
        self.takes = file.takes
        self.clock = clock or ReplayClock()
        self.served: list[Served] = []
        self._borders = borders
        self._requests = [self._request(take) for take in self.takes]
        self._used = [skip_within and take.within is not None for take in self.takes]
        self._cursor = 0
        self._by_bytes = _index(map(raw_key, self._requests))
        self._by_meaning: Mapping[bytes, deque[int]] | None = None  # built at the first miss
        self._by_path = _index(map(_path_key, self._requests))
        self._lock = Lock()

    def serve(self, request: Request) -> int | None:
        """Choose the take that answers a request; None when none is left for it."""
        served = self._find(request)
        if served is None:
            request = scrub_request(request)  # what was recorded is scrubbed: so has this to be
            served = self._find(request)
        if served is None:
            with self._lock:
                expected = self._expected()
                number = self._first(self._by_path, _path_key(request))
                number = expected if number is None else number
                served = self._answer(Served(number, expected, request))
        return served.number

    def serve_next(self, request: Request) -> int | None:
        """Serve only a request that is exactly the next one; else None, and nothing is used."""
        clean = scrub_request(request)
        with self._lock:
            expected = self._expected()
            if expected is None or raw_key(clean) != raw_key(self._requests[expected]):
                return None
            return self._answer(Served(expected, expected)).number

    def respond(self, number: int | None, prepared: requests.PreparedRequest) -> requests.Response:
        """Build the response of a take, or raise what `requests` raised when it was recorded."""
        if number is None:
            return build_response(prepared, nothing_recorded(prepared, len(self.takes)))
        take = self.takes[number]
        self.clock.advance_to(take.at)
        response = self.response(number)
        if response is None:
            assert take.error is not None
            self.clock.advance_to(take.at + take.seconds)
            raise transport_error(take.error.kind, prepared)
        if self._borders is not None:
            take = self._recut(take, self.request(number), response, self._borders)
        return build_response(prepared, response, take=take, clock=self.clock)

    def request(self, number: int) -> Request:
        """The recorded request of a take."""
        return self._requests[number]

    def asked(self, served: Served) -> Request:
        """The request that was answered: the recorded one, unless another one was sent."""
        if served.sent is not None:
            return served.sent
        assert served.number is not None  # what was recorded has a number
        return self.request(served.number)

    def response(self, number: int) -> Response | None:
        """What arrived in answer to it: whole, in part, or nothing."""
        take = self.takes[number]
        if take.exchange is not None:
            return self.file.exchanges[take.exchange].response
        assert take.error is not None
        return None if take.error.response is None else read_response(take.error.response)

    @property
    def unused(self) -> list[int]:
        """Takes that nobody asked for."""
        return [number for number, used in enumerate(self._used) if not used]

    def _request(self, take: Take) -> Request:
        if take.exchange is not None:
            return self.file.exchanges[take.exchange].request
        assert take.error is not None
        return read_request(take.error.request)

    def _recut(self, take: Take, request: Request, response: Response, borders: Borders) -> Take:
        """The take with a stream in other chunks."""
        api = api_of(request.url)
        if api is None or not is_stream(api, response):
            return take
        pieces = pieces_of(api, response.body)
        chunks, times = recut(pieces, moments(pieces, take), borders)
        return take.model_copy(update={"sizes": [len(each) for each in chunks], "times": times})

    def _find(self, request: Request) -> Served | None:
        """Answer a request that is what was recorded: in the same bytes, else in others."""
        key = raw_key(request)
        with self._lock:
            number = self._first(self._by_bytes, key)
            if number is not None:
                return self._answer(Served(number, self._expected()))
            if self._by_meaning is None:
                self._by_meaning = _index(map(canonical_key, self._requests))
        key = canonical_key(request)
        with self._lock:
            number = self._first(self._by_meaning, key)
            if number is None:
                return None
            return self._answer(Served(number, self._expected(), respelled=True))

    def _answer(self, served: Served) -> Served:
        if served.number is not None:
            self._used[served.number] = True
        self.served.append(served)
        return served

    def _expected(self) -> int | None:
        while self._cursor < len(self._used) and self._used[self._cursor]:
            self._cursor += 1
        return self._cursor if self._cursor < len(self._used) else None

    def _first(self, index: Mapping[bytes, deque[int]], key: bytes) -> int | None:
        numbers = index.get(key)
        while numbers and self._used[numbers[0]]:
            numbers.popleft()
        return numbers[0] if numbers else None


class ReplayAdapter(BaseAdapter):
    """Mount it on a `requests.Session` and every request is answered by the player."""

    def __init__(self, player: Player) -> None:
        super().__init__()
        self.player = player

    def send(
        self, request: requests.PreparedRequest, *_args: Any, **_kwargs: Any
    ) -> requests.Response:
        """Answer from the session."""
        return self.player.respond(self.player.serve(request_of(request)), request)

    def close(self) -> None:
        """Nothing is open."""


def replay_session(player: Player) -> requests.Session:
    """A `requests.Session` that reaches nothing but the player."""
    session = requests.Session()
    session.trust_env = False
    for prefix in list(session.adapters):
        session.mount(prefix, ReplayAdapter(player))
    return session


def nothing_recorded(prepared: requests.PreparedRequest, takes: int) -> Response:
    """The reply to a request for which the recording has nothing left."""
    message = f"replay: the recording has {counted(takes, 'request')} and none is left for this one"
    is_openai = "/v1/" in urlsplit(prepared.url or "").path
    error: Any = {"message": message, "type": "not_recorded"} if is_openai else message
    body = json.dumps({"error": error}).encode()
    return Response(409, "Conflict", {"Content-Type": ["application/json"]}, body)


def _path_key(request: Request) -> bytes:
    return f"{request.method} {urlsplit(request.url).path}".encode()


def _index(keys: Any) -> dict[bytes, deque[int]]:
    index: defaultdict[bytes, deque[int]] = defaultdict(deque)
    for number, key in enumerate(keys):
        index[key].append(number)
    return dict(index)
