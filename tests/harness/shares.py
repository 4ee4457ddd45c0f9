"""A share of work for the tests, in a module that a process loads quickly."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

FAR_FUTURE = 30.0  # seconds: only a guard against hanging


@dataclass(frozen=True)
class Numbers:
    """Gives its numbers; `do` says what happens at number 1, `marker` that it has happened."""

    start: int
    do: str = ""
    marker: Path | None = None
    left_out: tuple[tuple[int, str], ...] = ()

    def run(self, at: Callable[[int], None]) -> list[Any]:
        given: list[Any] = []
        for number in range(3):
            if number in dict(self.left_out):
                given.append(dict(self.left_out)[number])
                continue
            at(number)
            if number == 1:
                self._happen()
            given.append(self.start + number)
        return given

    def _happen(self) -> None:
        if self.marker is not None and self.marker.exists():
            return
        if self.marker is not None:
            self.marker.touch()
        if self.do == "raise":
            raise LookupError("no such thing")
        if self.do == "sleep":
            time.sleep(FAR_FUTURE)
        if self.do:
            os.kill(os.getpid(), getattr(signal, self.do))

    def without(self, number: int, how: str) -> Numbers:
        return replace(self, left_out=(*self.left_out, (number, how)))


class Interrupted(Numbers):
    """Gets a Ctrl-C while its process is still loading it."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        self.__dict__.update(state)
