"""The current time as a tool."""

from __future__ import annotations

from agent_core.gears import Clock
from agent_core.messages import JsonObject
from agent_core.tools.definition import FunctionDefinition, define


def current_time(clock: Clock) -> FunctionDefinition:
    """Build the tool `get_current_time`, which reads the given clock."""

    def get_current_time() -> JsonObject:
        """Get the current local date, time and weekday."""
        now = clock.now()
        return {"time": now.isoformat(timespec="seconds"), "weekday": now.strftime("%A")}

    return define(get_current_time)
