"""Demo agents that each show one more gear: data, a team, memory, a summary, a catalogue, routes.

They are built as those of `harness.demo.agents` are.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from agent_core.agent import Agent
from agent_core.catalogue import ToolCatalogue
from agent_core.gears import ChatModel, Clock
from agent_core.limits import Limits
from agent_core.longterm import LongTermMemory
from agent_core.messages import Action, Chunk, Hit, Language, Message, Protocol
from agent_core.models import Route, RouterChat
from agent_core.summary import SummaryMemory
from agent_core.task import render_memories
from agent_core.tools import current_time
from harness.demo.agents import assistant, example, examples, standing_tools

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
        "question": "Write two sentences about the weather in Paris.",
        "ask": "What is the weather in Paris?",
        "facts": "Paris: cloudy, 11 degrees Celsius.",
        "text": "Paris is cloudy today, at 11 degrees Celsius. Take a warm coat with you!",
        "correct": "correct",
        "first": "First I need facts: the weather in Paris. I ask the researcher.",
        "second": "I have the facts. Now the writer turns them into a text.",
        "third": "I have the text. Now the checker compares it with the facts.",
        "done": "The text is checked. I answer with it.",
    },
    "zh": {
        "research": "查找事实：天气、知识库。",
        "write": "根据你提供的事实写两句亲切的话。",
        "check": "对照事实检查一段文字；指出错误，或者说：正确。",
        "lead": "先向研究员要事实，再交给写作员，让检查员检查文字，最后用这段文字回答。",
        "question": "写两句话介绍巴黎的天气。",
        "ask": "巴黎的天气怎么样？",
        "facts": "巴黎：多云，11摄氏度。",
        "text": "巴黎今天多云，气温11摄氏度。出门请穿暖和一点！",
        "correct": "正确",
        "first": "先要事实：巴黎的天气。我问研究员。",
        "second": "事实有了。现在让写作员写成文字。",
        "third": "文字有了。现在让检查员对照事实检查。",
        "done": "文字检查过了，我用它来回答。",
    },
}


def _team_examples(protocol: Protocol, language: Language) -> dict[str, tuple[str | Message, ...]]:
    """What each of the team does with one task: the lead's rounds, the others' answers."""
    words = _TEAM[language]
    facts, text = words["facts"], words["text"]
    checked = f"{text} ({facts})"
    rounds = [
        (words["first"], Action("researcher", {"task": words["ask"]}), facts),
        (words["second"], Action("writer", {"task": facts}), text),
        (words["third"], Action("checker", {"task": checked}), words["correct"]),
    ]
    spoken = (protocol, language)
    return {
        "lead": example(words["question"], rounds, (words["done"], text), *spoken),
        "writer": example(facts, [], (words["write"], text), *spoken),
        "checker": example(checked, [], (words["check"], words["correct"]), *spoken),
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
    words, shown = _TEAM[language], _team_examples(protocol, language)
    how: dict[str, Any] = {"protocol": protocol, "language": language, "clock": clock}
    weather, _, search = standing_tools(language)
    shown_to_all = examples(protocol, language)
    researcher = Agent(model, [weather, search], name="researcher", examples=shown_to_all, **how)
    writer = Agent(
        model, name="writer", instructions=words["write"], examples=shown["writer"], **how
    )
    checker = Agent(
        model, name="checker", instructions=words["check"], examples=shown["checker"], **how
    )
    return Agent(
        model,
        [
            researcher.as_tool("researcher", words["research"]),
            writer.as_tool("writer", words["write"]),
            checker.as_tool("checker", words["check"]),
        ],
        name="lead",
        examples=shown["lead"],
        instructions=words["lead"],
        limits=Limits(max_steps=max_steps),
        **how,
    )


def _passing_memory(language: Language) -> LongTermMemory:
    """An empty memory whose file is removed when nobody uses it any more."""
    folder = tempfile.mkdtemp(prefix="agentrig-")
    memory = LongTermMemory(Path(folder) / "memory.db", language=language)
    weakref.finalize(memory, shutil.rmtree, folder, ignore_errors=True)
    return memory


_MEMORY: dict[Language, dict[str, str]] = {
    "en": {
        "told": "Remember this: my sister lives in Paris.",
        "fact": "The user's sister lives in Paris.",
        "noted": "Remembered as [1].",
        "keep": "The user asks me to remember a fact.",
        "kept": "I will remember that your sister lives in Paris.",
        "asked": "Where does my sister live?",
        "known": "It is known from earlier: in Paris. No tool is needed.",
        "answer": "Your sister lives in Paris.",
    },
    "zh": {
        "told": "请记住：我姐姐住在巴黎。",
        "fact": "用户的姐姐住在巴黎。",
        "noted": "已记住，编号 [1]。",
        "keep": "用户让我记住一个事实。",
        "kept": "好的，我记住了：你姐姐住在巴黎。",
        "asked": "我姐姐住在哪里？",
        "known": "以前已经知道：住在巴黎。不需要工具。",
        "answer": "你姐姐住在巴黎。",
    },
}


def _memory_examples(protocol: Protocol, language: Language) -> tuple[str | Message, ...]:
    """What is done with a fact that is told, and with one that is known."""
    words = _MEMORY[language]
    fact = words["fact"]
    hit = Hit(Chunk("1", fact, "memory", 0, len(fact)), 1.0)
    known = render_memories([hit], token_budget=400, language=language)
    keep = [(words["keep"], Action("remember", {"fact": fact}), words["noted"])]
    asked = f"{words['asked']}\n\n{known}"
    return (
        *example(words["told"], keep, (words["keep"], words["kept"]), protocol, language),
        *example(asked, [], (words["known"], words["answer"]), protocol, language),
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
    """An assistant that remembers; `known` is a fact to begin with, `path` the file to keep.

    Without a `path` it begins with an empty memory, which goes when the agent goes.
    """
    memory = LongTermMemory(path, language=language) if path else _passing_memory(language)
    if known:
        memory.remember(known)
    weather, sums, _ = standing_tools(language)
    return Agent(
        model,
        [*memory.tools(), weather, sums],
        longterm=memory,
        protocol=protocol,
        language=language,
        clock=clock,
        name="remembering",
        examples=_memory_examples(protocol, language),
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
    tools = [*standing_tools(language), current_time(clock)]
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


_AT_LENGTH: dict[Language, str] = {
    "en": "Write the Final Answer as three or four full sentences.",
    "zh": "最终答案写成三到四个完整的句子。",
}


def streaming(
    model: ChatModel,
    *,
    clock: Clock,
    language: Language = "en",
    protocol: Protocol = "react-json",
) -> Agent:
    """The assistant, with answers long enough to watch them grow: `--stream`, `Agent.stream`."""
    agent = assistant(model, clock=clock, language=language, protocol=protocol)
    instructions = f"{agent.instructions}\n\n{_AT_LENGTH[language]}"
    return agent.replace(instructions=instructions, name="streaming")
