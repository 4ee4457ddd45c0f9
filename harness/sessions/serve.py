"""Serve: recorded sessions as a server, for clients in any language.

Each session has a cursor. A request that is a recorded one gets its reply, as a stream or whole,
as it asks; anything else gets status 409 and a report of what differs. Afterwards `verdict` says
whether everything recorded was asked for, in its order, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Event, Lock
from types import TracebackType

from harness import faults
from harness.sessions.cassette import load_session, read_response
from harness.sessions.conversion import (
    api_of,
    is_stream,
    pieces_of,
    records_of,
    route_of,
    stream,
    wants_stream,
    whole,
)
from harness.sessions.cursor import FACTS, Cursor, same_form
from harness.sessions.exchange import Request, canonical_key, decoded_body, json_body
from harness.sessions.exchange import Response as Recorded
from harness.sessions.facts import answer_fact
from harness.sessions.format import Api, SessionFile, Take
from harness.sessions.pacing import duration, moments
from harness.sessions.refusals import Refusal, Verdict, conflict, nearest, refusal_of

NAMED = re.compile(r"/s/(?P<name>[^/]+)(?P<rest>/.*)")
_NOT_SENT = {"transfer-encoding", "content-encoding", "content-length", "connection", "date"}
_JSON, _NDJSON, _EVENTS = "application/json", "application/x-ndjson", "text/event-stream"


class SessionServer:
    """A server on 127.0.0.1 that answers from recordings; a context manager.

    `/s/NAME/…` asks one session by its name; without it every session is considered, and the
    one that begins most like a request answers it.

    Args:
        sessions: by name.
        port: a free one unless given.
        pace: 1.0 lets replies arrive as slowly as they were recorded, 0.0 at once.
        repeat: answer a recorded request as often as it comes, for clients that are tried by
            hand; nothing is left over then.

    Raises:
        ValueError: a pace outside 0…1.
    """

    def __init__(
        self,
        sessions: Mapping[str, SessionFile],
        *,
        port: int = 0,
        pace: float = 0.0,
        repeat: bool = False,
    ) -> None:
        if not 0 <= pace <= 1:
            raise ValueError(f"pace must be from 0 (at once) to 1 (as recorded), got {pace!r}")
        self._cursors = {name: Cursor(name, file) for name, file in sessions.items()}
        self._pace = pace
        self._repeat = repeat
        self._answered = 0
        self._refused: dict[bytes, Refusal] = {}
        self._lock = Lock()
        self._stopping = Event()
        self._http = faults.FaultServer(self._answer, port=port)

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash: what `OLLAMA_HOST` wants; add `/v1` for that."""
        return self._http.url

    def __enter__(self) -> SessionServer:
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

    def verdict(self) -> Verdict:
        """What has been asked so far, and what has not."""
        with self._lock:
            leftover = () if self._repeat else tuple(self._protocol())
            return Verdict(self._answered, tuple(self._refused.values()), leftover)

    def _protocol(self) -> Iterator[str]:
        for cursor in self._cursors.values():
            for number, expected in cursor.early[:1]:
                yield (
                    f"session {cursor.name}: the recorded request {number + 1} came before "
                    f"request {expected + 1}"
                )
            if unused := cursor.unused:
                yield (
                    f"session {cursor.name}: {len(unused)} of {len(cursor.takes)} recorded "
                    f"requests were not sent, the first is request {unused[0] + 1}"
                )

    def _answer(self, received: faults.Received) -> faults.Response:
        path, cursors = received.path, list(self._cursors.values())
        if named := NAMED.fullmatch(path):
            path = named["rest"]
            cursors = [each for each in cursors if each.name == named["name"]]
        headers, body = decoded_body({k: [v] for k, v in received.headers.items()}, received.body)
        form = same_form(Request(received.method, f"http://localhost{path}", headers, body))
        with self._lock:
            found = self._find(form, cursors)
            if found is None and route_of(form.url) not in FACTS:
                refusal = refusal_of(form, cursors)
                self._refused.setdefault(canonical_key(form), refusal)
                return conflict(refusal)
        if found is None:
            return answer_fact(route_of(form.url), received, cursors)
        cursor, number = found
        api = api_of(form.url)
        wanted = None if api is None else wants_stream(api, json_body(body))
        return self._reply(cursor, number, api, wanted, body)

    def _find(self, form: Request, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
        """The recorded request that this is, marked as answered."""
        key = canonical_key(form)
        if route_of(form.url) in FACTS:
            places = ((cursor, cursor.anywhere(key)) for cursor in cursors)
            return next(((each, place) for each, place in places if place is not None), None)
        found = _best(key, cursors)
        if found is None and self._repeat:
            for cursor in cursors:
                cursor.forget(key)
            found = _best(key, cursors)
        found = found or _but_for_times(form, cursors)
        if found is not None:
            found[0].answer(found[1])
            self._answered += 1
        return found

    def _reply(
        self, cursor: Cursor, number: int, api: Api | None, wanted: bool | None, asked: bytes
    ) -> faults.Response:
        take = cursor.takes[number]
        if take.exchange is None:
            return self._failure(take)
        recorded = cursor.file.exchanges[take.exchange].response
        records = None if api is None else records_of(api, recorded)
        headers = _headers(recorded)
        if api is None or records is None:
            delay = self._pace * duration(json_body(recorded.body), take)
            return faults.Response(recorded.status, recorded.body, headers, delay=delay)
        came_as_stream = is_stream(api, recorded)
        if not wanted:
            headers["Content-Type"] = _JSON
            record = whole(api, records) if came_as_stream else records[0]
            delay = self._pace * duration(record, take)
            plain = recorded.body if not came_as_stream else None
            return faults.Response(200, record if plain is None else plain, headers, delay=delay)
        headers["Content-Type"] = _EVENTS if api == "openai" else _NDJSON
        if came_as_stream:
            pieces = pieces_of(api, recorded.body)
            times = moments(pieces, take)
        else:
            pieces = stream(api, records[0], usage=_wants_usage(asked))
            total = duration(records[0], take)
            times = [total * (n + 1) / len(pieces) for n in range(len(pieces))]
        return faults.Response(200, headers=headers, chunks=self._paced(pieces, times))

    def _paced(self, pieces: Sequence[bytes], times: Sequence[float]) -> Iterator[bytes]:
        passed = 0.0
        for piece, moment in zip(pieces, times, strict=True):
            if self._stopping.wait(self._pace * (moment - passed)):
                raise ConnectionAbortedError("the server is stopped")
            passed = moment
            yield piece

    def _failure(self, take: Take) -> faults.Response:
        """Fail as it failed when it was recorded; a timeout is waited for by the client."""
        error = take.error
        assert error is not None
        if error.response is None:
            if error.kind in {"timeout", "connect_timeout"}:
                return faults.Response(silent=True)
            return faults.Response(raw=b"") if error.kind == "cut" else faults.Response(reset=True)
        recorded = read_response(error.response)
        body, headers = recorded.body, _headers(recorded)
        if error.kind == "reset":
            return faults.Response(
                recorded.status, headers=headers, chunks=[body], cut_after=len(body), reset=True
            )
        chunks = self._broken(body, hang=error.kind == "timeout")
        return faults.Response(recorded.status, headers=headers, chunks=chunks)

    def _broken(self, body: bytes, *, hang: bool) -> Iterator[bytes]:
        yield body
        if hang:
            self._stopping.wait()
        raise ConnectionAbortedError("recorded so")


def serve(
    paths: Iterable[str | Path], *, port: int = 0, pace: float = 0.0, repeat: bool = False
) -> SessionServer:
    """A server of session files and stock cassettes, not started yet; names are those of files.

    Raises:
        SessionFormatError: a file is neither.
        OSError: a file cannot be read, or the port is taken.
    """
    sessions: dict[str, SessionFile] = {}
    for path in map(Path, paths):
        name, number = path.stem, 1
        while name in sessions:  # the same name in another folder
            number += 1
            name = f"{path.stem}-{number}"
        sessions[name] = load_session(path)
    return SessionServer(sessions, port=port, pace=pace, repeat=repeat)


def _best(key: bytes, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
    """Where this very request was recorded: where it is its turn, if there are several."""
    places = [(each, place) for each in cursors if (place := each.find(key)) is not None]
    places.sort(key=lambda found: found[0].expected != found[1])
    return places[0] if places else None


def _but_for_times(form: Request, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
    """The request that differs only in times, ids and the like."""
    for _, cursor, place in nearest(form, cursors):
        if not cursor.used[place] and not cursor.drift(place, form).reaches("warn"):
            return cursor, place
    return None


def _headers(recorded: Recorded) -> dict[str, str]:
    headers = {
        name.title(): ", ".join(values)
        for name, values in recorded.headers.items()
        if name.lower() not in _NOT_SENT
    }
    return {"Content-Type": _JSON, **headers}


def _wants_usage(asked: bytes) -> bool:
    body = json_body(asked)
    options = body.get("stream_options") if isinstance(body, dict) else None
    return isinstance(options, dict) and options.get("include_usage") is True
