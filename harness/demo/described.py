"""An agent with any tools: each is described by a schema and gives its arguments back."""

from __future__ import annotations

from collections.abc import Mapping

from agent_core.agent import Agent
from agent_core.gears import ChatModel, Clock
from agent_core.messages import JsonObject, Language, Protocol
from agent_core.tools import FunctionDefinition


def described(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    tools: Mapping[str, JsonObject],
) -> Agent:
    """The agent that reads a reply which the fuzzer has found.

    Args:
        tools: names with the JSON Schema of their arguments.
    """

    def echo(**arguments: object) -> object:
        return arguments

    definitions = [
        FunctionDefinition(name, "", parameters, function=echo)
        for name, parameters in tools.items()
    ]
    return Agent(
        model, definitions, language=language, protocol=protocol, clock=clock, name="described"
    )
