"""Demo agents that each show one more gear: data, a team, memory, a summary, a catalogue, routes.

They are built as those of `harness.demo.agents` are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from agent_core.agent import Agent
from agent_core.catalogue import ToolCatalogue
from agent_core.gears import ChatModel, Clock
from agent_core.limits import Limits
from agent_core.longterm import LongTermMemory
from agent_core.messages import Language, Message, Protocol
from agent_core.models import Route, RouterChat
from agent_core.rag import search_knowledge_tool
from agent_core.summary import SummaryMemory
from agent_core.tools import FunctionDefinition, calculator, current_time
from harness.demo.agents import assistant, examples, knowledge
from harness.demo.world import get_weather

Tools: TypeAlias = list[Callable[..., Any] | FunctionDefinition]

WEATHER_SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "temperature": {"type": "number"},
        "condition": {"type": "string"},
    },
    "required": ["city", "temperature", "condition"],
    "additionalProperties": False,
}


def weather_data(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
) -> Agent:
    """The assistant, whose answers about the weather are data, too."""
    agent = assistant(model, clock=clock, language=language, protocol=protocol)
    return agent.replace(answer_schema=WEATHER_SCHEMA, name="weather_data")


_TEAM: dict[Language, dict[str, str]] = {
    "en": {
        "research": "Looks facts up: the weather, the knowledge base.",
        "write": "Writes two friendly sentences from facts that you give it.",
        "check": "Checks a text against facts; says what is wrong, or: correct.",
        "lead": "Ask the researcher for facts, give them to the writer, have the checker check the "
        "text, then answer with the text.",
    },
    "zh": {
        "research": "查找事实：天气、知识库。",
        "write": "根据你提供的事实写两句亲切的话。",
        "check": "对照事实检查一段文字；指出错误，或者说：正确。",
        "lead": "先向研究员要事实，再交给写作员，让检查员检查文字，最后用这段文字回答。",
    },
}


def team(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    max_steps: int = 24,
) -> Agent:
    """A lead who asks a researcher, a writer and a checker; all share the lead's limits."""
    words = _TEAM[language]
    how: dict[str, Any] = {"protocol": protocol, "language": language, "clock": clock}
    tools: Tools = [get_weather, search_knowledge_tool(knowledge(), language=language)]
    researcher = Agent(
        model, tools, name="researcher", examples=examples(protocol, language), **how
    )
    writer = Agent(model, name="writer", instructions=words["write"], **how)
    checker = Agent(model, name="checker", instructions=words["check"], **how)
    return Agent(
        model,
        [
            researcher.as_tool("researcher", words["research"]),
            writer.as_tool("writer", words["write"]),
            checker.as_tool("checker", words["check"]),
        ],
        name="lead",
        instructions=words["lead"],
        limits=Limits(max_steps=max_steps),
        **how,
    )


def remembering(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    path: str | None = None,
    known: str = "",
) -> Agent:
    """An assistant that remembers; `known` is a fact to begin with, `path` the file to keep."""
    file = Path(path) if path else Path(tempfile.mkdtemp(prefix="agentrig-")) / "memory.db"
    memory = LongTermMemory(file, language=language)
    if known:
        memory.remember(known)
    return Agent(
        model,
        [*memory.tools(), get_weather, calculator],
        longterm=memory,
        protocol=protocol,
        language=language,
        clock=clock,
        name="remembering",
        examples=examples(protocol, language),
    )


def summarising(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    rounds: int = 2,
) -> Agent:
    """The assistant with a short window; the model itself sums up what leaves it."""
    agent = assistant(model, clock=clock, language=language, protocol=protocol)
    memory = SummaryMemory(model, rounds, block=2, language=language)
    return agent.replace(memory=memory, name="summarising")


def selecting(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    show: int = 2,
) -> Agent:
    """The assistant, told of two of its tools at a time and of the way to the others."""
    tools: Tools = [
        get_weather,
        calculator,
        search_knowledge_tool(knowledge(), language=language),
        current_time(clock),
    ]
    return Agent(
        model,
        catalogue=ToolCatalogue(tools, show=show, language=language),
        protocol=protocol,
        language=language,
        clock=clock,
        name="selecting",
        examples=examples(protocol, language),
    )


def routed(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    small: str = "smollm2:135m",
    chars: int = 24,
) -> Agent:
    """The assistant that gives questions of a few characters to a small model of the server."""

    def is_short(messages: Any) -> bool:
        asked = [each for each in messages if each.role == "user"]
        return (
            len(messages) == 2 and isinstance(asked[0], Message) and len(asked[0].content) < chars
        )

    named = getattr(model, "with_name", None)  # clients over HTTP have it
    first = [] if named is None else [Route(named(small), when=is_short)]
    router = RouterChat([*first, model])
    return assistant(router, clock=clock, language=language, protocol=protocol).replace(
        name="routed"
    )
