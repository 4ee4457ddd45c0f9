"""Serve: recorded sessions as a server, for clients in any language.

Each session has a cursor. A request that is a recorded one gets its reply, as a stream or whole,
as it asks; anything else gets status 409 and a report of what differs. Afterwards `verdict` says
whether everything recorded was asked for, in its order, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

from agent_core.errors import ConfigError
from agent_core.messages import Reply
from harness.faults import Received, Response
from harness.faults.replies import REPLY_FAULTS
from harness.faults.transport import HTTP_FAULTS
from harness.plain import counted
from harness.sessions.borders import Borders
from harness.sessions.cassette import load_session
from harness.sessions.conversion import route_of
from harness.sessions.cursor import Cursor
from harness.sessions.delivery import Delivery
from harness.sessions.errors import SessionError, SessionFormatError
from harness.sessions.exchange import Request, canonical_key, decoded_body
from harness.sessions.facts import answer_fact
from harness.sessions.format import SessionFile
from harness.sessions.forms import FACTS, outline, same_form
from harness.sessions.loopback import NamedServer
from harness.sessions.misspoken import misspoken_reply
from harness.sessions.refusals import Refusal, Verdict, conflict, nearest, refusal_of

_FAULTS = {fault.code: fault for fault in (*HTTP_FAULTS, *REPLY_FAULTS)}
_ORDER = re.compile(r"(?:(?P<number>[1-9]\d*):)?(?P<code>.+)")


class SessionServer(NamedServer):
    """A server on 127.0.0.1 that answers from recordings; a context manager.

    `/s/NAME/…` asks one session by its name; without it every session is considered, and the
    one that has most in common with a request answers it.

    Args:
        sessions: by name.
        port: a free one unless given.
        pace: 1.0 lets replies arrive as slowly as they were recorded, 0.0 at once.
        repeat: answer a recorded request as often as it comes, for clients that are tried by
            hand; nothing is left over then.
        borders: where streams are cut into chunks.
        faults: of HTTP, such as `2:cut` for the second request of a session, or `500` for
            every one. Each strikes a request once, before its reply; one that lasts, always.
            Or of the reply, such as `1:unknown-tool`, which comes instead of it.

    Raises:
        ConfigError: a pace outside 0…1, or a fault that is not known or can strike nowhere.
        OSError: the port is taken.
    """

    def __init__(
        self,
        sessions: Mapping[str, SessionFile],
        *,
        port: int = 0,
        pace: float = 0.0,
        repeat: bool = False,
        borders: Borders = "lines",
        faults: Sequence[str] = (),
    ) -> None:
        if not 0 <= pace <= 1:
            raise ConfigError(f"pace must be from 0 (at once) to 1 (as recorded), got {pace!r}")
        self._cursors = {name: Cursor(name, file) for name, file in sessions.items()}
        self._repeat = repeat
        self._orders = [_order(each) for each in faults]
        self._struck: set[tuple[str, int, str]] = set()
        for place, code in self._orders:
            self._see_that_it_strikes(place, code)
        self._answered = 0
        self._refused: dict[bytes, Refusal] = {}
        self._lock = Lock()
        super().__init__(port)
        self._delivery = Delivery(pace=pace, borders=borders, stopping=self._stopping)

    @property
    def names(self) -> list[str]:
        """Of the sessions that are served."""
        return list(self._cursors)

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
                recorded = counted(len(cursor.takes), "recorded request")
                verb = "was" if len(unused) == 1 else "were"
                yield (
                    f"session {cursor.name}: {len(unused)} of {recorded} {verb} not sent, "
                    f"the first is request {unused[0] + 1}"
                )

    def _answer(self, received: Received, name: str | None) -> Response:
        cursors = [each for each in self._cursors.values() if name in {None, each.name}]
        headers, body = decoded_body({k: [v] for k, v in received.headers.items()}, received.body)
        asked = Request(received.method, f"http://localhost{received.path}", headers, body)
        form = same_form(asked)
        is_fact, fault = route_of(form.url) in FACTS, None
        with self._lock:
            found = self._find(form, cursors)
            if found is None and not is_fact:
                found = self._instead(asked, form, cursors)
            if found is None and not is_fact:
                refusal = refusal_of(form, cursors, repeats=self._repeat)
                self._refused.setdefault(canonical_key(form), refusal)
                return conflict(refusal)
            if found is not None and not is_fact:
                cursor, number = found
                fault = self._fault(cursor, number)
                if fault is not None and _FAULTS[fault].group == "reply":
                    cursor.mislead(number)
                elif fault is None:
                    cursor.answer(number)
                    self._answered += 1
        if found is None:
            return answer_fact(route_of(form.url), received, cursors)
        file, take = found[0].file, found[0].takes[found[1]]
        if fault is None:
            return self._delivery.reply(file, take, asked)
        wrong = _wrong_reply(fault, file, found[1])
        if wrong is not None:
            return self._delivery.misspoken(wrong, file, take, asked)
        return self._delivery.fault(fault, file, take, asked)

    def _find(self, form: Request, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
        """The recorded request that this is."""
        key = canonical_key(form)
        if route_of(form.url) in FACTS:
            places = ((cursor, cursor.anywhere(key)) for cursor in cursors)
            return next(((each, place) for each, place in places if place is not None), None)
        found = _best(key, cursors)
        if found is None and self._repeat:
            for cursor in cursors:
                cursor.forget(key)
            found = _best(key, cursors)
        return found or _after_detours(form, cursors) or _but_for_times(form, cursors)

    def _instead(
        self, _asked: Request, _form: Request, _cursors: Sequence[Cursor]
    ) -> tuple[Cursor, int] | None:
        """The recorded request whose reply one gets that is none of them; here it is refused."""
        return None

    def _fault(self, cursor: Cursor, number: int) -> str | None:
        """The fault whose turn it is at this request."""
        for place, code in self._orders:
            strikes = (cursor.name, number, code)
            if place not in {None, number} or strikes in self._struck:
                continue
            if _FAULTS[code].group == "reply" and not _wrong_reply(code, cursor.file, number):
                continue
            if not _FAULTS[code].lasting:
                self._struck.add(strikes)
            return code
        return None

    def _see_that_it_strikes(self, place: int | None, code: str) -> None:
        """A fault that can strike nowhere would be a test that tests nothing."""
        places = (
            (cursor.file, number)
            for cursor in self._cursors.values()
            for number in range(len(cursor.takes))
            if place in {None, number}
        )
        if _FAULTS[code].group == "http":
            strikes = any(places)
        else:
            strikes = any(_wrong_reply(code, *each) for each in places)
        if not strikes:
            what = "any request" if place is None else f"request {place + 1}"
            longest = max((len(each.takes) for each in self._cursors.values()), default=0)
            why = "its reply gives no occasion"
            if place is not None and place >= longest:
                why = f"the longest session has {counted(longest, 'request')}"
            raise ConfigError(
                f"the fault {code!r} ({_FAULTS[code].about}) cannot strike {what}: {why}"
            )


def serve(
    paths: Iterable[str | Path],
    *,
    port: int = 0,
    pace: float = 0.0,
    repeat: bool = False,
    borders: Borders = "lines",
    faults: Sequence[str] = (),
    unreadable: Callable[[Path, Exception], None] | None = None,
) -> SessionServer:
    """A server of session files and stock cassettes, not started yet; names are those of files.

    The other arguments are those of `SessionServer`.

    Args:
        unreadable: told of each file that cannot be read, and why; it is left out. Unless it is
            given, such a file is an error.

    Raises:
        SessionFormatError: a file is neither, or none is left.
        OSError: a file cannot be read, or the port is taken.
    """
    sessions: dict[str, SessionFile] = {}
    for path in map(Path, paths):
        try:
            file = load_session(path)
        except (SessionError, OSError) as error:
            if unreadable is None:
                raise
            unreadable(path, error)
            continue
        name, number = path.stem, 1
        while name in sessions:  # the same name in another folder
            number += 1
            name = f"{path.stem}-{number}"
        sessions[name] = file
    if not sessions:
        raise SessionFormatError("expected at least one session to serve, and there is none")
    return SessionServer(
        sessions, port=port, pace=pace, repeat=repeat, borders=borders, faults=faults
    )


def _order(text: str) -> tuple[int | None, str]:
    """Which request (from 0; None is every one) fails, and how."""
    found = _ORDER.fullmatch(text)
    if found is None or found["code"] not in _FAULTS:
        raise ConfigError(
            f"expected a fault as CODE or NUMBER:CODE with a code of {', '.join(_FAULTS)}; "
            f"got {text!r}"
        )
    return (int(found["number"]) - 1 if found["number"] else None), found["code"]


def _best(key: bytes, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
    """Where this very request was recorded: where it is its turn, if there are several."""
    places = [(each, place) for each in cursors if (place := each.find(key)) is not None]
    places.sort(key=lambda found: found[0].expected != found[1])
    return places[0] if places else None


def _after_detours(form: Request, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
    """Where a conversation goes on that a wrong reply has led astray."""
    for cursor in cursors:
        straight = cursor.without_detours(form)
        if straight is not None:
            found = _best(canonical_key(straight), [cursor]) or _but_for_times(straight, [cursor])
            if found is not None:
                return found
    return None


def _wrong_reply(code: str, file: SessionFile, number: int) -> Reply | None:
    if _FAULTS[code].group != "reply":
        return None
    return misspoken_reply(code, file, number)


def _but_for_times(form: Request, cursors: Sequence[Cursor]) -> tuple[Cursor, int] | None:
    """The request that differs only in times, ids and the like."""
    seen = outline(form)
    for _, cursor, place in nearest(form, cursors):
        if cursor.used[place] or outline(cursor.requests[place]) != seen:
            continue  # to explain what differs takes long
        if not cursor.drift({place: form}).reaches("warn"):
            return cursor, place
    return None
