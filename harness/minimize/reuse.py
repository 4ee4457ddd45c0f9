"""Build the agent once: that costs more than running it on a tape."""

from __future__ import annotations

from inspect import signature
from typing import Any

from agent_core.agent import Agent
from agent_core.gears import ChatModel, Clock
from agent_core.memory import WindowMemory
from agent_core.parsing import StandardParser
from agent_core.tools import FunctionCallExecutor
from harness.sessions.sources import Factory


def built_once(factory: Factory) -> Factory:
    """The factory, called once where nobody can tell.

    An agent of our own gears keeps nothing from run to run: its tools, its retriever and its
    long-term memory are taped. One with other gears, or that asks a server while it is built,
    is built for each run.
    """
    if "http" in signature(factory).parameters:
        return factory
    built: list[Agent] = []

    def once(model: ChatModel, *, clock: Clock, **parameters: Any) -> Agent:
        if built:
            return built[0].replace(model=model, clock=clock)
        agent = factory(model, clock=clock, **parameters)
        if isinstance(agent, Agent) and _keeps_nothing(agent):
            built.append(agent)
        return agent

    return once


def _keeps_nothing(agent: Agent) -> bool:
    ours = (
        (agent, Agent),
        (agent.parser, StandardParser),
        (agent.executor, FunctionCallExecutor),
        (agent.memory, WindowMemory),
    )
    plain = all(type(each) is kind for each, kind in ours)
    return plain and agent.catalogue is None and not agent.observers
