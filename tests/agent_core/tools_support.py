"""A tool, and a call of any function as a tool, for the tests of the executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent_core.messages import Action, JsonObject, Observation
from agent_core.tools import FunctionCallExecutor, define


def weather(city: str, days: int = 1) -> JsonObject:
    """Weather of a city.

    Args:
        city: which one
        days: how many
    """
    return {"city": city, "days": days, "_debug": {"ms": 3}, "hours": [{"trace_id": "t", "t": 9}]}


def execute(function: Callable[..., Any], arguments: Any = None, **options: Any) -> Observation:
    """Run one function as a tool named `tool`."""
    tool = define(function, name="tool")
    return FunctionCallExecutor([tool], **options).execute(Action("tool", arguments or {}))
