"""Demo agents, each from a factory: `module:function` on the command line.

A factory gets the model and the clock and builds the agent; whatever else it takes is a
parameter that `agentrig record --param name=value` sets and the session file keeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agent_core.agent import Agent
from agent_core.errors import ToolError
from agent_core.gears import ChatModel, Clock
from agent_core.limits import Limits
from agent_core.messages import Action, Chunk, JsonObject, Language, Protocol
from agent_core.prompts import worked_example
from agent_core.rag import LexicalRetriever, search_knowledge_tool
from agent_core.tools import FunctionDefinition, calculator, current_time
from harness.demo.world import get_weather, world


def knowledge() -> LexicalRetriever:
    """The small knowledge base: one chunk a text, searched by words."""
    chunks = []
    for entry in world()["knowledge"]:
        text = f"{entry['title']}: {entry['content']}"
        chunks.append(Chunk(entry["title"], text, entry["title"], 0, len(text)))
    return LexicalRetriever(chunks, name="knowledge")


def example(protocol: Protocol, language: Language) -> str:
    """A worked example with two actions, about nothing that a recorded session asks."""
    if language == "zh":
        question, thoughts, answer = (
            "巴黎现在多云吗？另外 12 乘 12 等于多少？",
            (
                "问题有两部分：巴黎是否多云，12 乘 12 是多少。先查巴黎的天气，因为我不知道。",
                "第一部分：巴黎多云，11 摄氏度。还缺第二部分：12 乘 12。",
                "两部分都有了：巴黎多云，12 乘 12 是 144。",
            ),
            "巴黎现在多云，11 摄氏度；12 乘 12 等于 144。",
        )
    else:
        question, thoughts, answer = (
            "Is it cloudy in Paris? And what is 12 times 12?",
            (
                "Two parts: the weather in Paris, and 12 times 12. I look up the weather first, "
                "because I do not know it.",
                "First part: cloudy, 11 degrees Celsius. The second part, 12 times 12, is missing.",
                "Both parts are there: cloudy in Paris, and 144.",
            ),
            "It is cloudy in Paris, 11 degrees Celsius; 12 times 12 is 144.",
        )
    city = "巴黎" if language == "zh" else "Paris"
    weather = {"city": city, "temperature": 11, "unit": "celsius", "condition": "cloudy"}
    observation = json.dumps(weather, ensure_ascii=False)
    return worked_example(
        question,
        [
            (thoughts[0], Action("get_weather", {"city": city}), observation),
            (thoughts[1], Action("calculator", {"expression": "12 * 12"}), "144"),
        ],
        (thoughts[2], answer),
        protocol=protocol,
        language=language,
    )


def assistant(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    max_steps: int = 10,
) -> Agent:
    """Weather, arithmetic, a knowledge base and the time."""
    tools: list[Callable[..., Any] | FunctionDefinition] = [
        get_weather,
        calculator,
        search_knowledge_tool(knowledge(), language=language),
        current_time(clock),
    ]
    examples = [] if protocol == "native" else [example(protocol, language)]
    return Agent(
        model,
        tools,
        protocol=protocol,
        language=language,
        clock=clock,
        limits=Limits(max_steps=max_steps),
        name="assistant",
        examples=examples,
    )


def broken_weather(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    max_steps: int = 10,
) -> Agent:
    """The assistant with a weather service that is down: how does it take a failing tool?"""

    def get_weather(city: str) -> JsonObject:
        """Current weather of one city.

        Args:
            city: the city's name, for example Paris or 巴黎
        """
        raise ToolError(f"the weather service is down, no weather for {city!r}; do not try again")

    examples = [] if protocol == "native" else [example(protocol, language)]
    return Agent(
        model,
        [get_weather, calculator, current_time(clock)],
        protocol=protocol,
        language=language,
        clock=clock,
        limits=Limits(max_steps=max_steps),
        name="broken_weather",
        examples=examples,
    )


def plain(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    max_steps: int = 10,
) -> Agent:
    """The assistant without a worked example: what a small model makes of the bare protocol."""
    agent = assistant(model, clock=clock, language=language, protocol=protocol, max_steps=max_steps)
    return agent.replace(examples=(), name="plain")
