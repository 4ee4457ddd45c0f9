"""Accepting drift of an agent that is not ours: it is served its session, and judged by it.

What it sends in another way than it was recorded gets the recorded reply all the same. If it
goes its recorded way so, its requests are taken over, as `harness.sessions.accept` does it: the
model is not asked again, and the recording says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agent_core.gears import Clock
from harness.sessions.accept import acceptance, causes_of, with_traffic
from harness.sessions.borders import Borders
from harness.sessions.cassette import load_session
from harness.sessions.cursor import Cursor, recorded_request
from harness.sessions.drift import Drift
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Request
from harness.sessions.forms import is_fact, same_form
from harness.sessions.journal import sole_writer
from harness.sessions.lint_secrets import write_scrubbed
from harness.sessions.scrubbing import scrub_body
from harness.sessions.serve import SessionServer


class AcceptingServer(SessionServer):
    """Serves one recording to an agent that was changed; port, pace and borders as `SessionServer`.

    Raises:
        SessionError: the session is one of an agent of ours.
    """

    def __init__(
        self, path: Path, *, port: int = 0, pace: float = 0.0, borders: Borders = "lines"
    ) -> None:
        self._path = path
        self._file = load_session(path)
        if self._file.session is not None:
            raise SessionError(
                f"{path} was recorded with an agent of ours: take its changes over with "
                f"`agentrig replay {path} --accept CAUSE`"
            )
        self._sent: dict[int, Request] = {}
        super().__init__({path.stem: self._file}, port=port, pace=pace, borders=borders)

    def drift(self) -> Drift:
        """What the agent has sent in another way than it was recorded."""
        (cursor,) = self._cursors.values()
        return _drift(cursor, self._sent)

    def accept(self, clock: Clock) -> tuple[str, ...]:
        """Take over what was sent; the causes, none if nothing changed.

        Only what has gone the recorded way, as `verdict` says, can be taken over.

        Raises:
            SessionBusy: someone else is writing the file.
            SessionError: someone else has changed it.
            OSError: it cannot be written; what was there is untouched.
        """
        causes = [each.part for each in causes_of(self.drift())]
        if not causes:
            return ()
        takes = self._file.takes
        sent = {
            number: _with_body_of(request, recorded_request(self._file, takes[number]))
            for number, request in self._sent.items()
        }
        accepted = with_traffic(self._file, sent, acceptance(causes, clock))
        if _drift(Cursor(self._path.stem, accepted), self._sent).reaches("warn"):
            raise SessionError(f"{self._path}: what was accepted would not be served; record it")
        with sole_writer(self._path):
            there = load_session(self._path)
            if there.exchanges == accepted.exchanges:  # a test beside this one was first
                return ()
            if there != self._file:
                raise SessionError(f"{self._path} changed while it was accepted; try again")
            write_scrubbed(self._path, accepted)
        return tuple(causes)

    def _instead(
        self, asked: Request, form: Request, cursors: Sequence[Cursor]
    ) -> tuple[Cursor, int] | None:
        for cursor in cursors:
            number = cursor.next_of(form)
            if number is not None:
                self._sent[number] = asked
                return cursor, number
        return None


def _drift(cursor: Cursor, sent: Mapping[int, Request]) -> Drift:
    """What a whole conversation drifts for in which these requests were sent."""
    return cursor.drift({
        number: same_form(sent[number]) if number in sent else form
        for number, form in enumerate(cursor.requests)
        if not is_fact(form)
    })


def _with_body_of(asked: Request, recorded: Request) -> Request:
    """The recorded request with what is asked now; it came through the proxy, this one did not."""
    body = scrub_body(asked.body)
    length = [str(len(body))]
    headers = {
        name: length if name.lower() == "content-length" else values
        for name, values in recorded.headers.items()
    }
    return replace(recorded, headers=headers, body=body)
