"""Whatever is edited in an agent, exactly that is named as the cause of the drift."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.agent import Agent
from agent_core.limits import Limits
from agent_core.memory import WindowMemory
from agent_core.messages import Action, JsonObject, Language, Observation, Protocol
from agent_core.structured import AnswerSchema
from agent_core.tools import FunctionDefinition, define
from harness.demo.agents import assistant
from harness.sessions.cassette import load_session
from harness.sessions.differences import compare_parts
from harness.sessions.drift import Severity
from harness.sessions.exchange import Request
from harness.sessions.format import Session, SessionFile
from harness.sessions.parts import parts_of
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from tests.harness.sessions_support import ollama_reply, record_scripted

Change = Callable[[Any], Any]

TOOLS = ("get_weather", "calculator", "search_knowledge", "get_current_time")
UNUSED = ("search_knowledge", "get_current_time")
STYLES: tuple[tuple[Protocol, Language], ...] = (
    ("react-json", "en"), ("react-labels", "zh"), ("native", "en"),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Edit:
    """One edit of the agent, of the clock it is given, or of how the session asks the model.

    Attributes:
        causes: what has to be reported, and how bad it is.
        places: what it touches; two edits of one place are not made together.
    """

    name: str
    causes: Mapping[str, Severity]
    agent: Change = lambda agent: agent
    session: Change = lambda session: session
    places: frozenset[str] = frozenset()
    later: float = 0.0  # seconds that the agent's clock is ahead

    def __repr__(self) -> str:
        return self.name


def clocked(model: Any, *, clock: Any, **how: Any) -> Agent:
    """The demo assistant, told what time it is."""
    agent = assistant(model, clock=clock, **how)
    return agent.replace(instructions=f"{agent.instructions}\nIt is {clock.now().isoformat()}.")


def with_tools(change: Callable[[list[FunctionDefinition]], list[FunctionDefinition]]) -> Change:
    def edit(agent: Agent) -> Agent:
        tools = change([*agent.executor.definitions.values()])
        executor: Any = agent.executor
        return agent.replace(executor=executor.replace(tools=tools))

    return edit


def with_tool(name: str, change: Callable[[FunctionDefinition], Any]) -> Change:
    return with_tools(lambda tools: [change(each) if each.name == name else each for each in tools])


def with_model(**changes: Any) -> Callable[[Session], Session]:
    return lambda session: session.model_copy(
        update={"model": session.model.model_copy(update=changes)}
    )


def with_options(**options: Any) -> Callable[[Session], Session]:
    return lambda session: with_model(options={**session.model.options, **options})(session)


def asking(session: Session) -> Session:
    turns = [turn.model_copy(update={"question": "And in Oslo?"}) for turn in session.turns]
    return session.model_copy(update={"turns": turns})


class Labelled:
    """An executor that writes its observations in another format."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._executor, name)

    def replace(self, **changes: Any) -> Labelled:
        return Labelled(self._executor.replace(**changes))

    def execute(self, action: Action, **how: Any) -> Observation:
        seen: Observation = self._executor.execute(action, **how)
        return dataclasses.replace(seen, text=f"<result>{seen.text}</result>")


def described(tool: FunctionDefinition) -> FunctionDefinition:
    return dataclasses.replace(tool, description=f"{tool.description}\n\nA second paragraph.")


def loose(tool: FunctionDefinition) -> FunctionDefinition:
    extra = {"type": "string", "description": "one more", "maxLength": 9}
    properties = {**tool.parameters["properties"], "extra": extra}
    parameters = {**tool.parameters, "properties": properties}
    return dataclasses.replace(tool, parameters=parameters, function=lambda **_: None, convert=dict)


def limited(tool: FunctionDefinition) -> FunctionDefinition:
    """A bound that no prompt in words shows."""
    return dataclasses.replace(tool, parameters={**tool.parameters, "maxProperties": 9})


def edits() -> list[Edit]:
    """Every kind of edit at every place it can be made."""
    found = []
    for name in TOOLS:
        found += [
            Edit(f"describe {name}", {f"description of tool `{name}`": "warn"},
                 with_tool(name, described), places=frozenset({f"{name} description"})),
            Edit(f"parameter of {name}", {f"schema of tool `{name}`": "warn"},
                 with_tool(name, loose), places=frozenset({f"{name} schema"})),
            Edit(f"bound of {name}", {f"schema of tool `{name}`": "warn"},
                 with_tool(name, limited), places=frozenset({f"{name} schema"})),
        ]  # fmt: skip
    for name in UNUSED:
        touched = frozenset({"list", f"{name} description", f"{name} schema"})
        without = with_tools(lambda tools, name=name: [t for t in tools if t.name != name])  # type: ignore[misc]
        renamed = with_tool(name, lambda tool: dataclasses.replace(tool, name="renamed"))
        gone: dict[str, Severity] = {f"tool `{name}` is gone": "warn"}
        found += [
            Edit(f"remove {name}", gone, without, places=touched),
            Edit(f"rename {name}", {**gone, "tool `renamed` is new": "warn"}, renamed,
                 places=touched),
        ]  # fmt: skip
    dice = define(lambda: 1, name="dice", description="Throw a dice.")
    fail: Severity = "fail"
    return [
        *found,
        Edit("add a tool", {"tool `dice` is new": "warn"}, with_tools(lambda t: [*t, dice]),
             places=frozenset({"dice"})),
        Edit("add it first", {"tool `dice` is new": "warn"}, with_tools(lambda t: [dice, *t]),
             places=frozenset({"dice"})),
        Edit("reverse the tools", {"order of the tools": "warn"}, with_tools(lambda t: t[::-1])),
        Edit("instruct", {"system text": "warn"},
             lambda agent: agent.replace(instructions=f"Be brief.\n{agent.instructions}")),
        Edit("instruct at the end", {"system text": "warn"},
             lambda agent: agent.replace(instructions=f"{agent.instructions}\nBe brief.")),
        Edit("another example", {"system text": "warn"},
             lambda agent: agent.replace(examples=(*agent.examples, "Question: 1?\nFinal Answer: 2"))),
        Edit("the clock", {"system text": "volatile"}, later=86_400.5),
        Edit("temperature", {"option `temperature`": fail}, session=with_options(temperature=0.5)),
        Edit("no temperature", {"option `temperature`": fail}, session=with_model(options={}),
             places=frozenset({"options"})),
        Edit("seed", {"option `seed`": fail}, session=with_options(seed=3),
             places=frozenset({"options"})),
        Edit("context", {"option `num_ctx`": fail}, session=with_options(num_ctx=2048),
             places=frozenset({"options"})),
        Edit("stream", {"option `stream`": fail}, session=with_model(stream=True)),
        Edit("model", {"model": fail}, session=with_model(name="other")),
        Edit("address", {"address": fail}, session=with_model(base_url="http://far.example:1")),
        Edit("question", {"question": fail}, session=asking),
        Edit("observations", {"observation": fail},
             lambda agent: agent.replace(executor=Labelled(agent.executor)),
             places=frozenset({"observations"})),
        Edit("shorter observations", {"observation": fail},
             lambda agent: agent.replace(executor=agent.executor.replace(max_chars=40)),
             places=frozenset({"observations"})),
        Edit("history rule", {"messages of the history": fail},
             lambda agent: agent.replace(memory=WindowMemory(1, block=1, language=agent.language)),
             places=frozenset({"loop"})),
        Edit("limit", {}, lambda agent: agent.replace(limits=Limits(max_steps=2)),
             places=frozenset({"loop"})),
        Edit("language", {"language of the prompts": fail},
             lambda agent: agent.replace(language="en" if agent.language == "zh" else "zh")),
        Edit("protocol", {"protocol of the prompts": fail},
             lambda agent: agent.replace(
                 protocol="react-json" if agent.protocol != "react-json" else "react-labels"),
             places=frozenset({"protocol"})),
        Edit("native or not", {"protocol of the prompts": fail},
             lambda agent: agent.replace(
                 protocol="native" if agent.protocol != "native" else "react-json"),
             places=frozenset({"protocol"})),
    ]  # fmt: skip


EDITS = edits()


@pytest.fixture(scope="module", params=STYLES, ids="-".join)
def recorded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SessionFile:
    """Three steps in each protocol: the weather, a sum, the answer."""
    protocol, language = request.param
    path = tmp_path_factory.mktemp("recorded") / "s.yaml"
    calls = ('{"name": "get_weather", "parameters": {"city": "Lisbon"}}',
             '{"name": "calculator", "parameters": {"expression": "2 + 3"}}')  # fmt: skip
    texts = [*(call if protocol == "native" else f"Action: {call}" for call in calls),
             "Final Answer: It is 5."]  # fmt: skip

    def factory(model: Any, **how: Any) -> Agent:
        return clocked(model, **{**how, "protocol": protocol, "language": language})

    record_scripted(path, *map(ollama_reply, texts), factory=factory)
    file = load_session(path)
    assert file.session is not None
    agent = file.session.agent.model_copy(update={"protocol": protocol, "language": language})
    return dataclasses.replace(file, session=file.session.model_copy(update={"agent": agent}))


def replayed(file: SessionFile, *made: Edit) -> Report:
    """Replay with these edits, in their order."""

    class Ahead:
        def __init__(self, clock: Any, seconds: float) -> None:
            self._clock, self._ahead = clock, timedelta(seconds=seconds)

        def now(self) -> Any:
            return self._clock.now() + self._ahead

        def __getattr__(self, name: str) -> Any:
            return getattr(self._clock, name)

    def factory(model: Any, *, clock: Any, **how: Any) -> Agent:
        agent = clocked(model, clock=Ahead(clock, sum(each.later for each in made)), **how)
        for each in made:
            agent = each.agent(agent)
        return agent

    session = file.session
    for each in made:
        session = each.session(session)
    return replay(dataclasses.replace(file, session=session), factory=factory)


def causes(report: Report) -> set[tuple[str, Severity]]:
    return {(c.part, c.severity) for c in report.drift.causes if c.severity != "ignorable"}


def test_nothing_is_reported_where_nothing_changed(recorded: SessionFile) -> None:
    """No cause, no divergence."""
    report = replayed(recorded)
    assert report.ok
    assert report.in_words() == []


@pytest.mark.parametrize("edit", EDITS, ids=repr)
def test_one_edit_is_one_cause(recorded: SessionFile, edit: Edit) -> None:
    """Each kind of edit, in each place, in each protocol."""
    assert causes(replayed(recorded, edit)) == set(edit.causes.items())


def test_another_limit_is_no_drift_but_another_way(recorded: SessionFile) -> None:
    """The requests that are sent are as they were; the step that is missing is named."""
    (limit,) = (each for each in EDITS if each.name == "limit")
    (words,) = replayed(recorded, limit).in_words()
    assert words.startswith("the run diverges at step 3: recorded the final answer, now")
    assert words.endswith("ends with max_steps")


@settings(max_examples=40, deadline=None)
@given(pair=st.lists(st.sampled_from(EDITS), min_size=2, max_size=2, unique_by=repr))
def test_two_edits_are_their_causes(recorded: SessionFile, pair: list[Edit]) -> None:
    """Neither hides the other, and nothing comes on top."""
    one, other = pair
    if one.places & other.places:
        return
    report = replayed(recorded, one, other)
    unseen = {cause.part for cause in report.drift.causes if not cause.requests}
    assert unseen <= {part for edit in pair if "bound" in edit.name for part in edit.causes}
    assert causes(report) == set(one.causes.items()) | set(other.causes.items())


def test_a_tool_is_seen_to_change_where_it_moves_to_the_body(recorded: SessionFile) -> None:
    """With another protocol the description stands elsewhere; the cause still names its steps."""
    made = {each.name: each for each in EDITS}
    report = replayed(recorded, made["describe calculator"], made["native or not"])
    (cause,) = (each for each in report.drift.causes if each.kind == "description")
    assert cause.requests == (1, 2, 3)


def narrowed(tool: FunctionDefinition) -> FunctionDefinition:
    """A schema that refuses the city that was recorded."""
    city = {"type": "string", "enum": ["Oslo", "Rome"]}
    return dataclasses.replace(
        tool, parameters={"type": "object", "properties": {"city": city}, "required": ["city"]}
    )


REFUSING = {
    "refused": with_tool("get_weather", narrowed),
    "another type": with_tool("get_weather", lambda tool: dataclasses.replace(
        tool, parameters={"type": "object", "properties": {"city": {"type": "integer"}},
                          "required": ["city"]})),
    "renamed argument": with_tool("get_weather", lambda tool: dataclasses.replace(
        tool, parameters={"type": "object", "properties": {"town": {"type": "string"}},
                          "required": ["town"], "additionalProperties": False},
        function=lambda town: town)),
}  # fmt: skip


@pytest.mark.parametrize("change", REFUSING.values(), ids=REFUSING)
def test_an_observation_that_a_schema_changed_is_no_reason_of_its_own(
    recorded: SessionFile, change: Change
) -> None:
    """The recorded call is refused today: that follows from the schema."""
    report = replayed(recorded, Edit("schema", {}, change))
    assert not report.ok
    assert causes(report) == {("schema of tool `get_weather`", "warn")}
    (cause,) = (each for each in report.drift.causes if each.kind == "schema")
    assert "observation" in cause.consequences


def test_an_observation_of_another_tool_is_a_reason_of_its_own(recorded: SessionFile) -> None:
    """A schema explains what became of its own tool's calls and of no others."""
    schema = with_tool("get_current_time", limited)
    shorter = {each.name: each for each in EDITS}["shorter observations"]
    report = replayed(recorded, Edit("schema", {}, schema), shorter)
    assert ("observation", "fail") in causes(report)


@pytest.mark.parametrize("protocol", ["native", "react-json"])
def test_a_stop_is_named_beside_another_protocol(recorded: SessionFile, protocol: Protocol) -> None:
    """Labels that a protocol stops at come with it; what else is in the option does not."""
    other = Edit("protocol", {}, lambda agent: agent.replace(protocol=protocol))
    stop = Edit("stop", {}, session=with_options(stop=["X"]))
    names = {part for part, _ in causes(replayed(recorded, other, stop))}
    assert "option `stop`" in names
    assert names <= {"option `stop`", "protocol of the prompts"}


def test_what_is_only_translated_follows_from_the_language(tmp_path: Path) -> None:
    """A factory asked for Chinese brings its own texts: one cause, and what came with it."""
    path = tmp_path / "s.yaml"
    record_scripted(path, ollama_reply("Final Answer: It is 5."))

    def chinese(model: Any, **how: Any) -> Agent:
        return assistant(model, **{**how, "language": "zh"})

    (cause,) = replay(path, factory=chinese).drift.causes
    assert cause.part == "language of the prompts"
    assert set(cause.consequences) >= {
        "description of tool `search_knowledge`",
        "schema of tool `search_knowledge`",
        "system text",
    }


def asks_for_data(schema: JsonObject, *, name: str = "answer", asked: bool = True) -> Request:
    """A request of the OpenAI API for an answer as data; later ones have only the message."""
    said = AnswerSchema(schema).request("en")
    body: JsonObject = {"model": "m", "messages": [{"role": "user", "content": said}]}
    if asked:
        wrapped: JsonObject = {"name": name, "schema": schema}
        body["response_format"] = {"type": "json_schema", "json_schema": wrapped}
    return Request("POST", "http://h/v1/chat/completions", {}, json.dumps(body).encode())


@pytest.mark.parametrize("asked", [True, False])
def test_a_schema_of_the_answer_is_a_part_wherever_it_stands(asked: bool) -> None:
    """In the option of either API and in the message; what else is in the option stays one."""
    was, now = {"type": "object"}, {"type": "object", "title": "A"}
    old = parts_of(asks_for_data(was, asked=asked))
    found = compare_parts(old, parts_of(asks_for_data(now, asked=asked)))
    assert {(each.part, each.before, each.after) for each in found} == {
        ("answer schema", None, 'title: "A"')
    }
    if asked:
        renamed = compare_parts(old, parts_of(asks_for_data(was, name="reply")))
        assert [each.part for each in renamed] == ["option `response_format`"]
