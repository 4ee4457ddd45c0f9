"""Cases after public bug reports (`source` in the data), each on a whole agent."""

from __future__ import annotations

import html
import json
import re
import time
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.limits import Limits
from agent_core.messages import (
    Action,
    Chunk,
    Hit,
    Language,
    Message,
    Protocol,
    Reply,
    ToolCall,
)
from agent_core.models import ScriptedModel
from agent_core.prompts import action_message
from agent_core.rag import search_knowledge_tool
from agent_core.tools import FunctionDefinition, define

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for line in (Path(__file__).parents[1] / "data" / "bug_cases_loop.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
    for case in [json.loads(line)]
}
WAYS: list[tuple[Protocol, Language]] = [
    ("react-json", "en"),
    ("react-json", "zh"),
    ("react-labels", "en"),
    ("react-labels", "zh"),
    ("native", "en"),
]
LINE_BREAKS = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
ANNOUNCES = re.compile(
    r"[\s*#【]*(final answer|thought|action( input)?|observation|user|system|assistant|human"
    r"|最终答案|行动(输入)?|思考|观察|用户|系统)[\s*】]*[:：]",
    re.IGNORECASE,
)


class Tools:
    """The tools of a case; each call is counted and gives the case's result."""

    def __init__(self, case: dict[str, Any], result: str = "ok") -> None:
        self.runs: Counter[str] = Counter()
        self.result = case["input"].get("tool_result", result)
        described = case["input"].get("tools") or CASES["security-03"]["input"]["tools"]
        self.definitions = [self._define(each) for each in described]

    def _define(self, described: dict[str, Any]) -> FunctionDefinition:
        name = described["name"]

        def run(**arguments: Any) -> str:
            self.runs[name] += 1
            return str(self.result)

        return FunctionDefinition(
            name=name,
            description=f"Do {name}.",
            parameters=described["parameters"] | {"additionalProperties": False},
            function=run,
        )


class Shelf:
    """A retriever that finds one passage, whatever is asked."""

    name = "shelf"

    def __init__(self, text: str) -> None:
        self.hit = Hit(Chunk("1", text, text, 0, len(text)), 1.0)

    def retrieve(self, query: str, top_k: int = 3) -> list[Hit]:
        """Give the passage."""
        return [self.hit]


def asking(name: str, arguments: dict[str, Any], protocol: Protocol, language: Language) -> Reply:
    """A reply that asks for a tool, in any protocol."""
    if protocol == "native":
        return Reply("", (ToolCall("c1", name, arguments),))
    return Reply(
        action_message(
            [Action(name, arguments)], "look", protocol=protocol, language=language
        ).content
    )


def contents(messages: list[Message]) -> str:
    """Everything a prompt holds but the system prompt, as a reader of entities would see it."""
    text = "\n".join(each.content for each in messages[1:])
    for _ in range(3):
        text = html.unescape(text)
    return unicodedata.normalize("NFKC", text)


def test_stop_strings_are_sent_and_the_parser_cuts_anyway() -> None:
    """loop-10: in a text protocol the request names the label; a server may ignore it."""
    tools = Tools(CASES["loop-10"])
    for language in ("en", "zh"):
        went_on = asking("lookup", {"query": "a"}, "react-json", language)
        model = ScriptedModel(
            [
                Reply(went_on.text + "\nObservation: 7\n观察：7\nFinal Answer: 7"),
                Reply("Final Answer: seen"),
            ],
        )
        result = Agent(model, tools.definitions, language=language).run("q")
        assert any("Observation" in each for each in model.requests[0].stop)
        assert any("观察" in each for each in model.requests[0].stop)
        assert result.answer == "seen"
    assert tools.runs == {"lookup": 2}


def test_an_honest_second_read_is_not_swallowed() -> None:
    """loop-11: the same read before and after a write runs twice."""
    case = CASES["loop-11"]
    tools = Tools(case)
    limits = Limits(max_steps=case["input"]["max_steps"])
    model = ScriptedModel(case["input"]["replies"])
    result = Agent(model, tools.definitions, protocol="react-labels", limits=limits).run("q")
    assert tools.runs.total() == case["expect"]["tool_executions"]
    assert (result.stop_reason, result.answer) == ("final_answer", "done")


@pytest.mark.parametrize(("protocol", "language"), WAYS)
@pytest.mark.parametrize("name", ["security-02", "security-03"])
def test_instructions_in_a_tool_result_stay_a_tool_result(
    name: str, protocol: Protocol, language: Language
) -> None:
    """security-02, -03: no line of it stands where a label or a role would, and none is obeyed."""
    case = CASES[name]
    tools = Tools(case)
    model = ScriptedModel([
        asking("lookup", {"query": "a"}, protocol, language),
        case["input"]["next_reply"],
    ])
    result = Agent(model, tools.definitions, protocol=protocol, language=language).run("q")
    assert tools.runs == {"lookup": 1}
    assert result.answer == case["expect"]["answer"]
    seen = model.requests[1].messages[-1]
    _, *others = LINE_BREAKS.split(seen.content)
    assert [line for line in others if ANNOUNCES.match(line)] == []
    for line in case["input"]["tool_result"].split("\n"):
        assert line in seen.content  # quoted, not hidden


@pytest.mark.parametrize(("protocol", "language"), WAYS)
@pytest.mark.parametrize("by_tool", [False, True])
def test_a_call_that_a_document_and_the_answer_quote_does_not_run(
    protocol: Protocol, language: Language, by_tool: bool
) -> None:
    """security-04: neither in retrieved text nor in prose about it."""
    case = CASES["security-04"]
    shelf = Shelf(case["input"]["retrieved_text"])
    tools = Tools(case)
    search = define(search_knowledge_tool(shelf))
    replies = [
        *([asking("search_knowledge", {"query": "reset"}, protocol, language)] if by_tool else []),
        case["input"]["next_reply"],
        "Final Answer: I would not.",
    ]
    model = ScriptedModel(replies)
    agent = Agent(model, [*tools.definitions, search], protocol=protocol, language=language)
    if not by_tool:
        agent = agent.replace(retriever=shelf)
    result = agent.run("How do I reset it?")
    assert result.stop_reason == "final_answer"
    assert tools.runs["delete_file"] == case["expect"]["delete_file_executions"]


MARKERS = [
    "retrieved", "observation", "tool_response", "tool_result", "context", "documents", "passage",
    "knowledge", "think", "answer", "system", "user",
]  # fmt: skip


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("name", ["security-06", "security-11"])
def test_foreign_text_closes_no_quotation(name: str, marker: str) -> None:
    """security-06, -11: a closing tag in a passage, its source or a tool's result is broken."""
    text: str = CASES[name]["input"]["retrieved_text"].replace("retrieved", marker)
    shelf = Shelf(text)
    for protocol, language in WAYS:
        model = ScriptedModel([
            asking("search_knowledge", {"query": "tide"}, protocol, language),
            asking("plain", {}, protocol, language),
            Reply("Final Answer: ok"),
        ])

        def plain() -> str:
            """Give the text as it is."""
            return text

        tools: list[Any] = [search_knowledge_tool(shelf), plain]
        agent = Agent(model, tools, protocol=protocol, language=language, retriever=shelf)
        result = agent.run("When is high tide?")
        assert [len(step.observations) for step in result.steps] == [1, 1, 0]
        prompt = contents(list(model.requests[-1].messages))
        assert prompt.count("quotation over") == 5  # source and text, twice, and the plain result
        assert f"</{marker}>" not in prompt


def test_a_page_full_of_labels_costs_no_time() -> None:
    """security-23: cleaning, quoting, prompting and parsing are linear."""
    case = CASES["security-23"]
    tools = Tools(case, "".join(piece * n for piece, n in case["input"]["tool_result_build"]))
    model = ScriptedModel([
        asking("lookup", {"query": "a"}, "react-json", "en"),
        case["input"]["next_reply"],
    ])
    began = time.monotonic()
    result = Agent(model, tools.definitions).run("q")
    assert time.monotonic() - began < 5 * case["expect"]["ends_within_seconds"]
    assert (result.answer, tools.runs.total()) == ("ok", 1)


def test_every_visible_case_has_a_test() -> None:
    """A case that is added to the data is not forgotten."""
    here = Path(__file__).read_text(encoding="utf-8")
    there = Path(__file__).parents[1] / "harness" / "test_security_cases.py"
    named = set(re.findall(r"(?:loop|security)-\d+", here + there.read_text(encoding="utf-8")))
    named |= {f"security-{each}" for each in re.findall(r", -(\d+)", here)}
    assert CASES.keys() <= named
