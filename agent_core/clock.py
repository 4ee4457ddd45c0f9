"""Clocks: the machine's, and one that a test or a replay sets."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from threading import Lock


class SystemClock:
    """The machine's clock, in the local time zone."""

    def now(self) -> datetime:
        """Wall time, with its zone."""
        return datetime.now(UTC).astimezone()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is told otherwise; `sleep` moves it at once.

    Args:
        start: what `now` gives at first.
        tick: seconds by which each reading of either time moves the clock on.
    """

    def __init__(self, start: datetime, *, tick: float = 0.0) -> None:
        self._start = start
        self._tick = tick
        self._elapsed = 0.0
        self._lock = Lock()

    def now(self) -> datetime:
        """The start, plus what has passed since."""
        return self._start + timedelta(seconds=self._read())

    def monotonic(self) -> float:
        """Seconds that have passed since the start."""
        return self._read()

    def sleep(self, seconds: float) -> None:
        """Move on without waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let this many seconds pass."""
        with self._lock:
            self._elapsed += seconds

    def _read(self) -> float:
        with self._lock:
            elapsed = self._elapsed
            self._elapsed += self._tick
            return elapsed
