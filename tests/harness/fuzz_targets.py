"""Targets of `agentrig fuzz` with one planted habit each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.fuzz import Outcome, Target

ERROR: Outcome = {"kind": "error"}


def parse(text: str, tools: Mapping[str, Any]) -> Outcome:
    """A target that refuses everything."""
    return ERROR


def raising(text: str, tools: Mapping[str, Any]) -> Outcome:
    """A target that raises what it does not declare."""
    raise KeyError(text[:5])


_read: list[str] = []


def forgetful(text: str, tools: Mapping[str, Any]) -> Outcome:
    """A target that depends on how much it has read before."""
    _read.append(text)
    if len(_read) % 3 == 0:
        raise KeyError(len(_read))
    return ERROR


declared = Target(raising, raises=(KeyError,))


def guessing(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as they come, `maybe` read as true, numbers as they please."""
    arguments.pop("unheard_of", None)
    return {"arguments": {k: True if v == "maybe" else v for k, v in arguments.items()}}


def losing(text: str, chunk_size: int, overlap: int) -> list[dict[str, Any]]:
    """Slices, without the last one."""
    starts = range(0, max(0, len(text) - chunk_size), chunk_size)
    return [
        {"text": text[at : at + chunk_size], "start": at, "end": at + chunk_size} for at in starts
    ]


def endless(model: Any, tools: Any, limits: Any) -> Any:
    """An agent that takes three steps more than it may."""
    from dataclasses import replace

    from agent_core.agent import Agent

    return Agent(model, tools, limits=replace(limits, max_steps=limits.max_steps + 3))
