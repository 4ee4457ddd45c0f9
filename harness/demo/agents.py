"""Demo agents, each from a factory: `module:function` on the command line.

A factory gets the model and the clock and builds the agent; whatever else it takes is a
parameter that `agentrig record --param name=value` sets and the session file keeps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache

import requests

from agent_core.agent import Agent
from agent_core.errors import ToolError
from agent_core.gears import ChatModel, Clock, Embedder
from agent_core.limits import Limits
from agent_core.messages import Action, Chunk, JsonObject, Language, Message, Protocol
from agent_core.prompts import worked_example, worked_turns
from agent_core.rag import LexicalRetriever, search_knowledge_tool
from agent_core.tools import FunctionDefinition, calculator, current_time, define
from harness.demo.world import get_weather, world


def knowledge() -> LexicalRetriever:
    """The small knowledge base, searched by words."""
    return LexicalRetriever(knowledge_chunks(), name="knowledge")


def knowledge_chunks() -> list[Chunk]:
    """The texts of the knowledge base, one chunk each."""
    chunks = []
    for entry in world()["knowledge"]:
        text = f"{entry['title']}: {entry['content']}"
        chunks.append(Chunk(entry["title"], text, entry["title"], 0, len(text)))
    return chunks


@cache
def standing_tools(
    language: Language,
) -> tuple[FunctionDefinition, FunctionDefinition, FunctionDefinition]:
    """Weather, arithmetic and the knowledge base: described once for all agents."""
    search = search_knowledge_tool(knowledge(), language=language)
    return define(get_weather), define(calculator), define(search)


@cache
def examples(protocol: Protocol, language: Language) -> tuple[str | Message, ...]:
    """Two worked examples, about nothing that a recorded session asks."""
    if language == "zh":
        question, thoughts, answer = (
            "巴黎现在多云吗？另外12乘12等于多少？",
            (
                "问题有两部分：巴黎是否多云，12乘12是多少。先查巴黎的天气，因为我不知道。",
                "第一部分：巴黎多云，11摄氏度。还缺第二部分：12乘12。",
                "两部分都有了：巴黎多云；12乘12是144。",
            ),
            "巴黎现在多云，11摄氏度；12乘12等于144。",
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
    rounds = [
        (
            thoughts[0],
            Action("get_weather", {"city": city}),
            json.dumps(weather, ensure_ascii=False),
        ),
        (thoughts[1], Action("calculator", {"expression": "12 * 12"}), "144"),
    ]
    last = small_talk(protocol, language)
    return (*example(question, rounds, (thoughts[2], answer), protocol, language), *last)


def small_talk(protocol: Protocol, language: Language) -> tuple[str | Message, ...]:
    """A worked example that needs no tool."""
    if language == "zh":
        thanks, end = "谢谢你！", ("不需要工具。", "不客气，随时可以再问我。")
    else:
        thanks, end = "Thank you!", ("No tool is needed.", "You are welcome. Ask me anything.")
    return example(thanks, [], end, protocol, language)


def example(
    question: str,
    rounds: Sequence[tuple[str, Action, str]],
    end: tuple[str, str],
    protocol: Protocol,
    language: Language,
) -> tuple[str | Message, ...]:
    """One worked example: a text for the system prompt, or the turns of native calls."""
    if protocol == "native":
        turns = [(action, observation) for _, action, observation in rounds]
        return worked_turns(question, turns, end[1])
    return (worked_example(question, rounds, end, protocol=protocol, language=language),)


INSTRUCTIONS: dict[Language, str] = {
    "en": "For questions about AI agents, function calling, RAG or ReAct, and whenever the "
    "knowledge base is mentioned, use search_knowledge before you answer.",
    "zh": "凡是关于AI Agent、函数调用、RAG或ReAct的问题，以及提到知识库的问题，"
    "都要先用search_knowledge查找，再回答。",
}


def assistant(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
    max_steps: int = 10,
) -> Agent:
    """Weather, arithmetic, a knowledge base and the time."""
    return Agent(
        model,
        [*standing_tools(language), current_time(clock)],
        protocol=protocol,
        language=language,
        clock=clock,
        limits=Limits(max_steps=max_steps),
        name="assistant",
        examples=examples(protocol, language),
        instructions=INSTRUCTIONS[language],
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

    return Agent(
        model,
        [get_weather, calculator, current_time(clock)],
        protocol=protocol,
        language=language,
        clock=clock,
        limits=Limits(max_steps=max_steps),
        name="broken_weather",
        examples=examples(protocol, language),
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


def embedded(
    model: ChatModel,
    *,
    clock: Clock,
    http: requests.Session,
    language: Language = "en",
    protocol: Protocol = "react-json",
    embedding_model: str = "smollm2:135m",
    v1: str | None = None,
) -> Agent:
    """Answers from passages that a server embeds: Ollama's own route, or the one at `v1`."""
    from agent_core.rag import (  # noqa: PLC0415 - brings numpy
        DenseRetriever,
        OllamaEmbedder,
        OpenAIEmbedder,
    )

    embedder: Embedder = OllamaEmbedder(embedding_model, session=http, clock=clock)
    if v1 is not None:
        embedder = OpenAIEmbedder(embedding_model, base_url=v1, session=http, clock=clock)
    return Agent(
        model,
        [current_time(clock)],
        retriever=DenseRetriever(embedder, knowledge_chunks(), name="knowledge"),
        protocol=protocol,
        language=language,
        clock=clock,
        name="embedded",
        examples=small_talk(protocol, language),
    )
