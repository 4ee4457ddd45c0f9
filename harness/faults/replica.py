"""The session's agent, built once, on gears that each trial sets anew.

Building an agent costs more than running it on a tape: signatures become schemas, knowledge
bases are indexed. So its model asks over a transport that is pointed at the stage of the
trial, and its clock is wound back. An agent whose memory may keep something from run to run is
built for each trial.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import requests
from requests.adapters import BaseAdapter

from agent_core.agent import Agent
from agent_core.events import Observer
from agent_core.gears import ToolRunner
from agent_core.memory import WindowMemory
from harness.faults.fault import USERINFO
from harness.faults.recording import Recording
from harness.sessions.clocks import ReplayClock
from harness.sessions.player import ReplayAdapter


class Replica:
    """Hands out the session's agent on a stage. Close it when it is no longer needed."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.clock = WoundClock(recording.session.clock.now)
        self._transport = _Pointed()
        self._http = requests.Session()
        self._http.trust_env = False
        for prefix in list(self._http.adapters):
            self._http.mount(prefix, self._transport)
        self._built: Agent | None = None

    def agent(self, stage: BaseAdapter, runner: ToolRunner, observers: Sequence[Observer]) -> Agent:
        """The agent, with this stage behind its model and this runner behind its tools."""
        if self._built is None or type(self._built.memory) is not WindowMemory:
            self.clock.wind_back(0)
            self._transport.stage = ReplayAdapter(self._recording.player())
            self._built = self._recording.build(self._http, self.clock, userinfo=USERINFO)
            self.clock.mark()
        self._transport.stage = stage
        self.clock.wind_back()
        return self._recording.staged(self._built, self.clock, runner, observers)

    def close(self) -> None:
        """Close the transport."""
        self._http.close()


class WoundClock:
    """A replay clock that can be wound back to a mark."""

    def __init__(self, readings: Sequence[str]) -> None:
        self._recorded = readings
        self._read = self._mark = 0
        self._clock = ReplayClock(readings)

    def now(self) -> datetime:
        """The next recorded reading."""
        self._read += 1
        return self._clock.now()

    def monotonic(self) -> float:
        """Seconds since the beginning."""
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Move on without waiting."""
        self._clock.sleep(seconds)

    def mark(self) -> None:
        """Remember how many readings have been given."""
        self._mark = self._read

    def wind_back(self, reading: int | None = None) -> None:
        """Give the readings again from the mark, or from this one."""
        self._read = self._mark if reading is None else reading
        self._clock = ReplayClock(self._recorded[self._read :])


class _Pointed(BaseAdapter):
    """A transport that passes everything on to the stage of the moment."""

    def __init__(self) -> None:
        super().__init__()
        self.stage: BaseAdapter | None = None

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Pass a request on."""
        assert self.stage is not None
        return self.stage.send(request, *args, **kwargs)

    def close(self) -> None:
        """Nothing is open."""
