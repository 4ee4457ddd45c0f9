"""The demo assistant with edited tools, and what a replay says about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from agent_core.agent import Agent
from agent_core.messages import Chunk, Hit
from agent_core.tools import FunctionCallExecutor
from harness.sessions.session_report import Report
from harness.sessions.sources import Factory, named_factory
from tests.harness.sessions_support import ASSISTANT, edited

assistant: Factory = named_factory(ASSISTANT)


def with_tools(change: Callable[[list[Any]], list[Any]]) -> Factory:
    """The assistant with edited tool definitions."""

    def edit(agent: Agent) -> Agent:
        assert isinstance(agent.executor, FunctionCallExecutor)
        tools = change(list(agent.executor.definitions.values()))
        return agent.replace(executor=agent.executor.replace(tools=tools))

    return edited(assistant, edit)


def with_weather(**changes: Any) -> Factory:
    """The assistant with another definition of `get_weather`."""
    return with_tools(
        lambda tools: [
            dataclasses.replace(each, **changes) if each.name == "get_weather" else each
            for each in tools
        ]
    )


def parts(report: Report) -> list[str]:
    return [cause.part for cause in report.drift.causes]


def city_only(**words: Any) -> dict[str, Any]:
    """The schema of the weather tool with other words."""
    return {
        "type": "object",
        "properties": {"city": {"type": "string", **words}, "unit": {"type": "string"}},
        "required": ["city"],
    }


class OnePassage:
    """A retriever that finds one passage, until it is told not to be asked."""

    name = "notes"

    def __init__(self, *, asleep: bool = False) -> None:
        self._asleep = asleep

    def retrieve(self, query: str, top_k: int = 5) -> list[Hit]:
        assert not self._asleep
        return [Hit(Chunk("c1", "The lighthouse is 41 m high.", "notes", 0, 28, {"k": 1}), 0.5)]


def with_notes(*, asleep: bool = False) -> Factory:
    """The assistant with a retriever."""
    notes = OnePassage(asleep=asleep)
    return edited(assistant, lambda agent: agent.replace(retriever=notes))
