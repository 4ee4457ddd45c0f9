"""The current time as a tool."""

from __future__ import annotations

from agent_core.gears import Clock
from agent_core.messages import JsonObject
from agent_core.tools.definition import FunctionDefinition

# not strftime("%A"), which speaks the language of the machine's locale
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def current_time(clock: Clock) -> FunctionDefinition:
    """Build the tool `get_current_time`, which reads the given clock."""

    def get_current_time() -> JsonObject:
        now = clock.now()
        return {
            "date": now.strftime("%Y-%m-%d"),
            "time": now.strftime("%H:%M:%S"),
            "utc_offset": now.strftime("%z"),
            "weekday": _WEEKDAYS[now.weekday()],
        }

    description = "Get the current local date, time and weekday."
    return FunctionDefinition("get_current_time", description, function=get_current_time)
