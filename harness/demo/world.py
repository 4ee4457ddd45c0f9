"""The world of the demo agents: a few cities, a small knowledge base, and a time of day."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from agent_core.clock import ManualClock
from agent_core.errors import ToolError
from agent_core.messages import JsonObject


@cache
def world() -> dict[str, Any]:
    """Weather by city, knowledge by title, and the time; read once."""
    text = files("harness.demo").joinpath("world.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def world_clock() -> ManualClock:
    """A clock that stands at the world's time."""
    return ManualClock(datetime.fromisoformat(world()["clock"]).replace(tzinfo=UTC))


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> JsonObject:
    """Current weather of one city: temperature and condition.

    Args:
        city: the city's name, for example Paris or 巴黎
        unit: the unit of the temperature
    """
    for names, weather in world()["weather"].items():
        if city.strip().casefold() in names.casefold().split("|"):
            celsius = weather["temperature"]
            degrees = celsius if unit == "celsius" else round(celsius * 9 / 5 + 32, 1)
            return {
                "city": city.strip(),
                "temperature": degrees,
                "unit": unit,
                "condition": weather["condition"],
            }
    known = ", ".join(name.split("|")[0] for name in world()["weather"])
    raise ToolError(f"no weather for {city!r}; known cities: {known}")
