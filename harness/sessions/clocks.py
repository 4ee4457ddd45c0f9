"""Two clocks: one that remembers its readings, and one that gives them again.

The wall clock is kept reading by reading, because a reading may stand in a prompt. Monotonic
time is kept by event instead: when a request was sent, when a chunk came, when a tool ended.
So an agent that looks at the clock more often than it did is still in the same moment.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock

from agent_core.gears import Clock


class RecordingClock:
    """The given clock, with every wall time it gave.

    Args:
        earlier: readings of an interrupted recording, given again first.
        offset: seconds that recording had lasted.
        on_reading: told of each new reading.
    """

    def __init__(
        self,
        base: Clock,
        *,
        earlier: Sequence[str] = (),
        offset: float = 0.0,
        on_reading: Callable[[str], None] = lambda _reading: None,
    ) -> None:
        self._base = base
        self._origin = base.monotonic() - offset
        self._earlier = list(reversed(earlier))
        self._on_reading = on_reading
        self._lock = Lock()
        self.readings: list[str] = []

    def now(self) -> datetime:
        """Wall time, exactly as a replay will give it: the zone's name is not kept."""
        with self._lock:
            if self._earlier:
                reading = self._earlier.pop()
            else:
                reading = self._base.now().isoformat()
                self._on_reading(reading)
            self.readings.append(reading)
        return datetime.fromisoformat(reading)

    def monotonic(self) -> float:
        """The given clock's monotonic time."""
        return self._base.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._base.sleep(seconds)

    def elapsed(self) -> float:
        """Seconds since the session began, to the millisecond."""
        return round(self._base.monotonic() - self._origin, 3)


class ReplayClock:
    """Gives the recorded readings in order; time moves as the tape does, and nothing waits.

    After the last reading wall time goes on from there with what has passed since.

    Args:
        pace: what is waited of the recorded time, from 0.0 (nothing) to 1.0 (all of it).
    """

    def __init__(self, readings: Sequence[str] = (), *, pace: float = 0.0) -> None:
        self._pace = pace
        self._readings = [datetime.fromisoformat(each) for each in readings]
        self._next = 0
        self._elapsed = self._last_read = 0.0
        self._lock = Lock()

    def now(self) -> datetime:
        """The next recorded reading."""
        with self._lock:
            if self._next < len(self._readings):
                self._next += 1
                self._last_read = self._elapsed
                return self._readings[self._next - 1]
            last = self._readings[-1] if self._readings else datetime(2000, 1, 1, tzinfo=UTC)
            return last + timedelta(seconds=self._elapsed - self._last_read)

    def monotonic(self) -> float:
        """Seconds since the session began, as the recording had them."""
        with self._lock:
            return self._elapsed

    def sleep(self, seconds: float) -> None:
        """Move on; waits only as the pace says."""
        time.sleep(self._pace * seconds)
        with self._lock:
            self._elapsed += seconds

    def advance_to(self, elapsed: float) -> None:
        """Be at least this far; time does not go back."""
        if self._pace and elapsed > self._elapsed:
            time.sleep(self._pace * (elapsed - self._elapsed))
        with self._lock:
            self._elapsed = max(self._elapsed, elapsed)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let `random` start from a seed inside the block; its state comes back afterwards."""
    state = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(state)
