"""The journal of a recording under way: one JSON line for each thing that happened, scrubbed.

It lies beside the session file and is the lock of its writer. When the recording ends the
session file is written whole and the journal goes; when it is interrupted the journal stays,
and `record --resume` goes on from it.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from agent_core.messages import JsonObject
from harness.files import naming_file, write_all
from harness.plain import counted
from harness.sessions.cassette import exchange_of, interaction_of
from harness.sessions.errors import SessionExists, SessionFormatError
from harness.sessions.exchange import Exchange
from harness.sessions.format import SessionFile, Take, TapedCall, TapedSearch
from harness.sessions.storage import open_locked


@dataclass
class Earlier:
    """What a journal holds."""

    header: JsonObject = field(default_factory=dict)
    takes: dict[int, tuple[Take, Exchange | None]] = field(default_factory=dict)
    calls: list[TapedCall] = field(default_factory=list)
    searches: list[TapedSearch] = field(default_factory=list)
    readings: list[str] = field(default_factory=list)

    def file(self) -> SessionFile:
        """The exchanges and takes as a cassette that a player can serve."""
        takes: list[Take] = []
        exchanges: list[Exchange] = []
        for number in sorted(self.takes):
            take, exchange = self.takes[number]
            if exchange is not None:
                take = take.model_copy(update={"exchange": len(exchanges)})
                exchanges.append(exchange)
            takes.append(take)
        return SessionFile(None, tuple(exchanges), tuple(takes))

    @property
    def has_work(self) -> bool:
        """Whether there is anything that would have to be asked or done again."""
        return bool(self.takes or self.calls)

    @property
    def seconds(self) -> float:
        """How long the interrupted recording had lasted."""
        ends = [take.at + take.seconds for take, _ in self.takes.values()]
        return max([0.0, *ends, *(call.at for call in self.calls)])


def interrupted(session: Path, earlier: Earlier) -> SessionExists:
    """The error about a recording that did not end, where another one is to begin."""
    return SessionExists(
        f"an interrupted recording of {session.name!r} is there "
        f"({counted(len(earlier.takes), 'request')}); "
        "go on with --resume, or start again with --rewrite"
    )


def journal_path(session: Path) -> Path:
    """Where the journal of a session lies while it is recorded."""
    return session.with_name(f"{session.name}.journal")


class Journal:
    """The open journal of one session.

    Raises:
        SessionBusy: another process records this session.
    """

    def __init__(self, session: Path) -> None:
        self.path = journal_path(session)
        self._descriptor = open_locked(self.path)
        self._lock = Lock()

    def earlier(self) -> Earlier | None:
        """What an interrupted recording left here, or None."""
        return read_journal(self.path.read_bytes())

    def restart(self) -> None:
        """Forget what is in it."""
        os.ftruncate(self._descriptor, 0)

    def append(self, entry: JsonObject) -> None:
        """Write one line and see it to the disk."""
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), default=_encoded)
        with self._lock, naming_file(self.path):
            write_all(self._descriptor, line.encode(errors="replace") + b"\n")
            os.fsync(self._descriptor)

    def take(self, number: int, take: Take, exchange: Exchange | None) -> None:
        """Write how a request went."""
        interaction = None if exchange is None else interaction_of(exchange)
        block = take.model_dump(mode="json", exclude_defaults=True)
        self.append({"take": block, "number": number, "interaction": interaction})

    def close(self) -> None:
        """Leave it for a resume."""
        os.close(self._descriptor)

    def discard(self) -> None:
        """The session is written: the journal is not needed any more."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        os.close(self._descriptor)


@contextmanager
def sole_writer(session: Path) -> Iterator[None]:
    """Keep everyone else from writing a session; what an interrupted recording left is kept.

    Raises:
        SessionBusy: someone else is writing it.
    """
    journal = Journal(session)
    try:
        yield
    finally:
        if journal.path.stat().st_size:
            journal.close()
        else:
            journal.discard()


def read_journal(data: bytes) -> Earlier | None:
    """Read a journal. A last line that was cut off while it was written is left out.

    Raises:
        SessionFormatError: a line before the last is damaged.
    """
    lines = data.split(b"\n")[:-1]  # what follows the last line break was never finished
    if not lines:
        return None
    earlier = Earlier()
    for number, line in enumerate(lines, start=1):
        try:
            _read_entry(json.loads(line), earlier)
        except (ValueError, KeyError, TypeError) as error:
            raise SessionFormatError(
                f"line {number} of the journal is damaged ({error}); record with --rewrite"
            ) from error
    return earlier


def _read_entry(entry: Any, earlier: Earlier) -> None:
    if "session" in entry:
        earlier.header = entry["session"]
    elif "take" in entry:
        exchange = None if entry["interaction"] is None else exchange_of(entry["interaction"])
        earlier.takes[entry["number"]] = Take(**entry["take"]), exchange
    elif "call" in entry:
        earlier.calls.append(TapedCall(**entry["call"]))
    elif "search" in entry:
        earlier.searches.append(TapedSearch(**entry["search"]))
    elif "now" in entry:
        earlier.readings.append(entry["now"])
    elif "rewind" in entry:
        earlier.takes = {n: each for n, each in earlier.takes.items() if n < entry["rewind"]}
    else:
        raise KeyError(f"unknown entry {sorted(entry)!r}")


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes):  # a body that is no UTF-8
        return {"base64_string": base64.b64encode(value).decode()}
    raise TypeError(f"{type(value).__name__} has no JSON form")
