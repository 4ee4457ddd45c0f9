"""What a proxy records under one name: a journal while it lasts, a session file when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Literal
from urllib.parse import urlsplit

import requests

from agent_core.clock import SystemClock
from agent_core.models.address import is_loopback
from harness.files import write_atomically
from harness.sessions.cassette import render_session
from harness.sessions.clocks import RecordingClock
from harness.sessions.conversion import api_of
from harness.sessions.errors import SessionError, SessionExists
from harness.sessions.exchange import Exchange, json_body, request_of
from harness.sessions.format import ModelSource, Provenance, SessionFile, Take, Traffic
from harness.sessions.journal import Earlier, Journal, interrupted
from harness.sessions.player import Player
from harness.sessions.recorder import Recorder, recording_session
from harness.sessions.sources import server_facts

Mode = Literal["new", "rewrite", "resume"]

_TIMEOUT = (10.0, None)  # to connect; how long a model thinks is for the client to say


class TrafficTape:
    """What a proxy records under one name. Thread-safe.

    Args:
        path: of the session.
        upstream: base URL of the server.
        mode: as for the proxy.

    Attributes:
        recorder: of the requests that are sent.

    Raises:
        SessionExists, SessionBusy: the name is taken.
        SessionError: what was interrupted is no recording of a proxy.
    """

    def __init__(self, path: Path, upstream: str, mode: Mode) -> None:
        self.path = path
        self._upstream = upstream
        self._lock = Lock()
        self._over = False
        self._journal = Journal(path)
        try:
            self._earlier = self._take_up(mode)
        except BaseException:
            self._journal.close()
            raise
        self._again = Player(self._earlier.file()) if self._earlier.takes else None
        self._given_again = 0
        clock = SystemClock()
        self._recorded_at = clock.now().isoformat(timespec="seconds")
        self.recorder = Recorder(
            RecordingClock(clock, offset=self._earlier.seconds), on_take=self._keep
        )
        self._http = recording_session(self.recorder)
        self._http.trust_env = not is_loopback(urlsplit(upstream).hostname or "")

    def send(self, request: requests.PreparedRequest) -> requests.Response:
        """The response of the server, or that of the interrupted recording."""
        with self._lock:
            player, number = self._again, self._next_again(request)
        if player is not None and number is not None:
            return player.respond(number, request)
        return self._http.send(request, stream=True, timeout=_TIMEOUT, allow_redirects=False)

    def _next_again(self, request: requests.PreparedRequest) -> int | None:
        """The next take of the interrupted recording, if this is its request.

        An agent that began again and goes another way gives up what it did after that; one
        that never stopped goes on after everything.
        """
        if self._again is None:
            return None
        number = self._again.serve_next(request_of(request))
        if number is not None:
            self._given_again += 1
        else:
            if self._given_again:
                kept = sorted(self._earlier.takes)[: self._given_again]
                self._earlier.takes = {each: self._earlier.takes[each] for each in kept}
                self._journal.append({"rewind": kept[-1] + 1})
            self._again = None
        return number

    def _take_up(self, mode: Mode) -> Earlier:
        """What an interrupted recording has left, if that is to be gone on with."""
        earlier = (None if mode == "rewrite" else self._journal.earlier()) or Earlier()
        if mode == "resume" and earlier.header:
            raise SessionError(
                f"the interrupted recording of {self.path.name!r} is none of a proxy; "
                "go on with `agentrig record FACTORY --resume`"
            )
        if mode == "resume" and earlier.takes:
            return earlier
        if earlier.has_work:
            raise interrupted(self.path, earlier)
        if self.path.exists() and mode != "rewrite":
            raise SessionExists(
                f"{self.path} exists; record it again with --rewrite, or choose a name"
            )
        self._journal.restart()
        return Earlier()

    def leave(self) -> None:
        """End without a session; what has been recorded stays in the journal."""
        with self._lock:
            self._over = True
        if self._earlier.takes or self.recorder.results()[0]:
            self._journal.close()
        else:
            self._journal.discard()

    def finish(self) -> bool:
        """Write the file; whether there is anything in it."""
        with self._lock:
            self._over = True
        file = self.session()
        if file.takes:
            write_atomically(self.path, render_session(file))
        self._journal.discard()
        return bool(file.takes)

    def session(self) -> SessionFile:
        """What has been recorded so far."""
        takes, exchanges = self._recorded()
        traffic = Traffic(provenance=self._provenance(exchanges), takes=takes)
        return SessionFile(None, exchanges, traffic=traffic)

    def _recorded(self) -> tuple[list[Take], tuple[Exchange, ...]]:
        """What was interrupted, and what came after it."""
        before, (takes, exchanges) = self._earlier.file(), self.recorder.results()
        moved = [
            take if take.exchange is None
            else take.model_copy(update={"exchange": take.exchange + len(before.exchanges)})
            for take in takes
        ]  # fmt: skip
        return [*before.order, *moved], before.exchanges + exchanges

    def _keep(self, number: int, take: Take, exchange: Exchange | None) -> None:
        """Note how a request went; one that ends after the proxy has no journal any more."""
        with self._lock:
            if not self._over:
                first = max(self._earlier.takes, default=-1) + 1
                self._journal.take(first + number, take, exchange)

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
