"""A catalogue of many tools: the right ones are shown, all can be called, prompts only grow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agent_core.agent import Agent
from agent_core.catalogue import MORE_TOOLS, ToolCatalogue
from agent_core.errors import ConfigError
from agent_core.events import Ended, RetrievalStarted, RunStarted, Started
from agent_core.messages import Chunk, Hit, Reply, ToolCall
from agent_core.models import ScriptedModel
from agent_core.prompts import system_prompt
from agent_core.resume import RunState
from agent_core.tools import FunctionDefinition, define

# Written for this test: 60 tools of ten categories, described in English and Chinese, with
# questions that need them.
ROWS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "tool_catalogue.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def sixty() -> list[FunctionDefinition]:
    """The tools; each gives its own name."""

    def tool(row: dict[str, Any]) -> FunctionDefinition:
        return FunctionDefinition(
            row["name"], row["description"], function=lambda: row["name"], category=row["category"]
        )

    return [tool(row) for row in ROWS]


def act(tool: str, **arguments: Any) -> str:
    """An action."""
    return f"Action: {json.dumps({'name': tool, 'parameters': arguments})}"


def test_recall_on_sixty_tools() -> None:
    """The tool that a question needs is nearly always among the dozen that are shown."""
    catalogue = ToolCatalogue(sixty(), show=12)
    found = {12: 0, 5: 0}
    missed = []
    asked = [(question, row["name"]) for row in ROWS for question in row["questions"]]
    for question, name in asked:
        found[12] += name in catalogue.select(question)
        best = [hit.chunk.id for hit in catalogue.retriever.retrieve(question, 5)]
        found[5] += name in best
        if name not in catalogue.select(question):
            missed.append((question, name))
    print({n: f"{hits}/{len(asked)}" for n, hits in found.items()}, missed)
    assert len(asked) > 80
    assert found[12] >= 0.95 * len(asked)
    assert found[5] >= 0.9 * len(asked)


def test_only_the_selection_is_described() -> None:
    """The prompt holds a dozen tools, grouped, and the way to others."""
    model = ScriptedModel([act("get_weather"), "Final Answer: dry"])
    agent = Agent(model, catalogue=ToolCatalogue(sixty(), show=12))
    result = agent.run("What will the weather be in Rome next Tuesday?")
    prompt = model.requests[0].messages[0].content
    described = [line for line in prompt.splitlines() if line.startswith("- ")]
    assert 2 <= len(described) <= 13
    assert any(line.startswith("- weather_forecast:") for line in described)
    assert any(line.startswith(f"- {MORE_TOOLS}:") for line in described)
    assert "\nweather:\n" in prompt
    assert result.steps[0].observations[0].text == "get_weather"
    assert len(prompt) < len(agent.system_prompt) / 2


def test_more_tools_come_as_an_observation() -> None:
    """The system prompt stays, the new tool is described and runs."""
    model = ScriptedModel([
        act(MORE_TOOLS, need="lock the door"), act("door_lock"), "Final Answer: locked"
    ])  # fmt: skip
    agent = Agent(model, catalogue=ToolCatalogue(sixty(), show=3))
    result = agent.run("Is the server under high load?")
    assert "- door_lock: Lock" in result.steps[0].observations[0].text
    assert result.steps[1].observations[0].text == "door_lock"
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.messages[: len(before.messages)] == before.messages


def test_native_tools_are_added_at_the_end() -> None:
    """What is asked for can be called natively from then on."""
    model = ScriptedModel([
        Reply("", (ToolCall("a", MORE_TOOLS, {"need": "lock the door"}),)),
        Reply("", (ToolCall("b", "door_lock", {}),)),
        "locked",
    ])
    agent = Agent(model, protocol="native", catalogue=ToolCatalogue(sixty(), show=3))
    agent.run("Is the server under high load?")
    first, second, third = ([t["function"]["name"] for t in r.tools] for r in model.requests)
    assert "door_lock" not in first
    assert MORE_TOOLS in first
    assert second[: len(first)] == first
    assert "door_lock" in second
    assert third == second


def test_a_tool_that_is_not_shown_runs_all_the_same() -> None:
    """A model that knows a tool may call it."""
    model = ScriptedModel([act("door_lock"), "Final Answer: locked"])
    result = Agent(model, catalogue=ToolCatalogue(sixty(), show=3)).run("Is it raining?")
    assert result.steps[0].observations[0].ok


def test_a_conversation_keeps_its_system_prompt() -> None:
    """The tools that a later question needs are described behind it, once."""
    model = ScriptedModel(["Final Answer: a", "Final Answer: b", "Final Answer: c"])
    agent = Agent(model, catalogue=ToolCatalogue(sixty(), show=4))
    first = agent.run("Is the server under high load?")
    second = agent.run("Lock the front door.", first.messages)
    agent.run("Now lock the door again.", second.messages)
    requests = [each.messages for each in model.requests]
    assert requests[1][0] == requests[0][0]
    assert "- door_lock:" in requests[1][-1].content
    assert requests[1][-1].content.startswith("Lock the front door.")
    assert requests[2][: len(requests[1])] == requests[1]
    assert "- door_lock:" not in requests[2][-1].content


def test_a_small_catalogue_is_shown_whole() -> None:
    """Nothing is searched, and nothing is added."""
    tools = sixty()[:5]
    model = ScriptedModel(["Final Answer: a"])
    Agent(model, catalogue=ToolCatalogue(tools, show=5)).run("q")
    assert MORE_TOOLS not in model.requests[0].messages[0].content
    assert model.requests[0].messages[0].content.count("\n- ") == 5


def test_tools_beside_the_catalogue_are_always_shown() -> None:
    """What is given as `tools` is not selected from."""

    def escalate(reason: str) -> str:
        """Call a human."""
        return reason

    model = ScriptedModel(["Final Answer: a"])
    Agent(model, [escalate], catalogue=ToolCatalogue(sixty(), show=2)).run("Is it raining?")
    assert "- escalate:" in model.requests[0].messages[0].content


def test_the_selection_is_traced_inside_the_run() -> None:
    """A retrieval, after the run has begun."""

    class Watch:
        """Notes what begins."""

        def __init__(self) -> None:
            self.heard: list[str] = []

        def started(self, event: Started) -> None:
            if isinstance(event, RunStarted | RetrievalStarted):
                self.heard.append(type(event).__name__)

        def ended(self, token: object, event: Ended) -> None: ...

    watch = Watch()
    model = ScriptedModel(["Final Answer: a"])
    Agent(model, catalogue=ToolCatalogue(sixty()), observers=[watch]).run("Is it raining?")
    assert watch.heard == ["RunStarted", "RetrievalStarted"]


def test_tools_can_be_found_by_meaning() -> None:
    """With an embedder words need not be shared."""

    class Doors:
        """Knows what is about doors."""

        name = "doors"
        dimension = 2
        max_tokens = None

        def embed_documents(self, texts: Any) -> NDArray[np.float32]:
            return np.array([self.embed_query(each) for each in texts], dtype=np.float32)

        def embed_query(self, text: str) -> NDArray[np.float32]:
            about = "door" in text.lower() or "entrance" in text.lower()
            return np.array([1, 0] if about else [0, 1], dtype=np.float32)

    catalogue = ToolCatalogue(sixty(), show=1, embedder=Doors())
    assert "door_lock" in catalogue.select("Secure the entrance")


@pytest.mark.parametrize(("language", "word"), [("en", "There are tools for"), ("zh", "类别")])
def test_more_tools_names_the_categories(language: Any, word: str) -> None:
    """Even when nothing fits, the model knows what there is."""
    catalogue = ToolCatalogue(sixty(), show=2, language=language)
    more = catalogue.tools[-1]
    assert word in more.description
    assert "weather, math, money" in more.description
    assert catalogue.fitting("qqq xyzzy", 2) == ()


def test_a_resumed_run_has_the_same_tools() -> None:
    """Text and native runs go on with what had been shown."""
    script: list[Any] = [
        Reply("", (ToolCall("a", MORE_TOOLS, {"need": "lock the door"}),)),
        Reply("", (ToolCall("b", "door_lock", {}),)),
        "locked",
    ]
    states: list[RunState] = []
    catalogue = ToolCatalogue(sixty(), show=3)
    whole = ScriptedModel(script)
    Agent(whole, protocol="native", catalogue=catalogue).run(
        "Is it raining?", on_step=states.append
    )
    rest = ScriptedModel(script[1:])
    Agent(rest, protocol="native", catalogue=catalogue).resume(states[0])
    assert rest.requests == whole.requests[1:]


def test_categories_group_tools_only_where_there_are_any() -> None:
    """Without categories the prompt is what it was."""

    def one() -> None:
        """First."""

    def two() -> None:
        """Second."""

    bare = {each.name: each for each in (define(one), define(two))}
    grouped = {each.name: each for each in (define(one, category="odd jobs"), define(two))}
    how: dict[str, Any] = {"protocol": "react-json", "language": "en"}
    assert "Tools:\n- one: First.\n- two: Second.\n\n" in system_prompt(bare, **how)
    assert "Tools:\n- two: Second.\nodd jobs:\n- one: First.\n\n" in system_prompt(grouped, **how)


def test_wrong_sizes_are_refused() -> None:
    """At least one tool has to be shown."""
    with pytest.raises(ConfigError, match="at least 1"):
        ToolCatalogue([], show=0)


def test_what_a_search_leaves_free_shows_every_category() -> None:
    """A question in words that no description has still gets a tool of each kind to begin with."""
    shown = ToolCatalogue(sixty(), show=12).select("qqq xyzzy")
    categories = {row["name"]: row["category"] for row in ROWS}
    assert len(shown) == 13
    assert {categories[name] for name in shown if name != MORE_TOOLS} == set(categories.values())


def test_a_later_question_is_told_of_fitting_tools_only() -> None:
    """What merely fills up the first prompt is not described again behind a later question."""
    model = ScriptedModel(["Final Answer: a", "Final Answer: b"])
    agent = Agent(model, catalogue=ToolCatalogue(sixty(), show=4))
    first = agent.run("Is the server under high load?")
    agent.run("qqq xyzzy", first.messages)
    assert model.requests[1].messages[-1].content == "qqq xyzzy"


def test_a_search_that_knows_other_tools_shows_those_of_the_catalogue() -> None:
    """A tape of an older catalogue, or a search that gives too much, breaks nothing."""

    class Foreign:
        name = "foreign"

        def retrieve(self, query: str, top_k: int = 5) -> list[Hit]:
            """More than was asked for, and a tool that is gone."""
            names = ["gone", *(row["name"] for row in ROWS)]
            return [Hit(Chunk(name, name, "tools", 0, 4), 1.0) for name in names]

    catalogue = ToolCatalogue(sixty(), show=3).with_retriever(Foreign())
    assert len(catalogue.select("anything")) == 4
    assert "gone" not in catalogue.fitting("anything", 3)
