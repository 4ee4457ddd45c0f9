"""Replay names what differs: the part that was edited, where, and how much it matters."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.limits import Limits
from agent_core.tools import define
from harness.sessions.cassette import load_session
from harness.sessions.drift import SEVERITY, Cause
from harness.sessions.replay import replay
from harness.sessions.sources import Factory
from tests.harness.replay_support import assistant, city_only, parts, with_tools, with_weather
from tests.harness.sessions_support import ANSWER, edited, ollama_reply, record_scripted


def test_a_changed_description_is_one_reason_for_all_steps(recorded: Path) -> None:
    """Every prompt differs; the report names the one word's home and not its echoes."""
    report = replay(recorded, factory=with_weather(description="The weather of one city."))
    assert not report.ok
    assert report.in_words() == [
        "3 of 3 steps differ for one reason: description of tool `get_weather`"
        " (and with it: system text on tool `get_weather`)"
    ]
    (cause,) = report.drift.causes
    assert cause.severity == "warn"
    assert cause.after == "The weather of one city."
    assert report.divergence is None


EDITS: dict[str, tuple[Factory, list[str]]] = {
    "nothing": (assistant, []),
    "description": (
        with_weather(description="Weather.\n\nIn two paragraphs."),
        ["description of tool `get_weather`"],
    ),
    "schema": (
        with_weather(parameters=city_only(description="which city")),
        ["schema of tool `get_weather`"],
    ),
    "schema the model is not shown": (
        with_weather(
            parameters={
                **define(lambda: None, name="x").parameters,
                "properties": {
                    "city": {
                        "type": "string",
                        "description": "the city's name, for example Paris or 巴黎",
                        "maxLength": 99,
                    },
                    "unit": {
                        "type": "string",
                        "description": "the unit of the temperature",
                        "default": "celsius",
                        "enum": ["celsius", "fahrenheit"],
                    },
                },
                "required": ["city"],
            }
        ),
        ["schema of tool `get_weather`"],
    ),
    "new tool": (
        with_tools(lambda tools: [*tools, define(lambda: 1, name="dice", description="A dice.")]),
        ["tool `dice` is new"],
    ),
    "tool gone": (
        with_tools(lambda tools: [each for each in tools if each.name != "get_current_time"]),
        ["tool `get_current_time` is gone"],
    ),
    "order of tools": (with_tools(lambda tools: tools[::-1]), ["order of the tools"]),
    "system text": (
        edited(assistant, lambda agent: agent.replace(instructions="Be brief.")),
        ["system text"],
    ),
    "examples": (edited(assistant, lambda agent: agent.replace(examples=())), ["system text"]),
    "two at once": (
        edited(
            with_weather(description="Weather."),
            lambda agent: agent.replace(instructions="Be brief."),
        ),
        ["description of tool `get_weather`", "system text"],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_exactly_the_edited_part_is_named(recorded: Path, name: str) -> None:
    """Each edit is one cause, and nothing else is reported."""
    factory, causes = EDITS[name]
    report = replay(recorded, factory=factory)
    assert sorted(parts(report)) == sorted(causes)
    assert report.ok is not bool(causes)


@pytest.mark.parametrize(
    ("old", "new", "cause", "severity"),
    [
        ('"temperature": 0', '"temperature": 0.7', "option `temperature`", "fail"),
        ('"num_ctx": 8192', '"num_ctx": 4096', "option `num_ctx`", "fail"),
        ('"model": "m"', '"model": "other"', "model", "fail"),
        ("/api/chat", "/api/chatter", "address", "fail"),
        ("Weather in Lisbon", "Weather in Porto", "question", "fail"),
        (
            'Observation: {\\"city\\": \\"Lisbon',
            'Result: {\\"city\\": \\"Lisbon',
            "observation",
            "fail",
        ),
        ("I need the weather.", "I need weather.", "assistant message", "fail"),
        ('"temperature": 0', '"temperature": 0.0', None, "ignorable"),
    ],
)
def test_each_part_of_a_request_has_its_name(
    recorded: Path, old: str, new: str, cause: str | None, severity: str
) -> None:
    """What was recorded otherwise is found under the name of its part."""
    file = load_session(recorded)
    assert file.session is not None
    compact = {old: new, old.replace('": ', '":'): new.replace('": ', '":')}
    exchanges = []
    for exchange in file.exchanges:
        body, url = exchange.request.body.decode(), exchange.request.url
        for before, after in compact.items():
            if '"' not in before or before in body:
                body, url = body.replace(before, after), url.replace(before, after)
        request = dataclasses.replace(exchange.request, body=body.encode(), url=url)
        exchanges.append(dataclasses.replace(exchange, request=request))
    assert exchanges != list(file.exchanges)
    report = replay(dataclasses.replace(file, exchanges=tuple(exchanges)))
    shown = [each for each in report.drift.causes if each.severity != "ignorable"]
    assert [each.part for each in shown] == ([] if cause is None else [cause])
    assert report.drift.severity == severity


def test_a_time_in_a_message_is_volatile_and_a_mask_is_suggested(tmp_path: Path) -> None:
    """A clock that was not taken from the agent shows as what it is; it fails nothing."""
    path = tmp_path / "s.yaml"
    stamps = iter(["2026-11-30T12:00:00Z", "2026-12-01T08:30:00Z"])

    def clocked(*args: Any, **kwargs: Any) -> Agent:
        agent = assistant(*args, **kwargs)
        return agent.replace(instructions=f"It is {next(stamps)} now.")

    record_scripted(path, ollama_reply(ANSWER), factory=clocked)
    report = replay(path, factory=clocked)
    (cause,) = report.drift.causes
    assert (cause.part, cause.severity) == ("system text", "volatile")
    assert cause.mask
    assert report.ok


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (1, "diverges at step 2: recorded calculator({\"expression\":\"2 + 3\"}), "
            "now the run ends with max_steps"),
        (2, "diverges at step 3: recorded the final answer, now the run ends with max_steps"),
    ],
)  # fmt: skip
def test_a_run_that_stops_early_is_named_by_its_step(
    recorded: Path, limit: int, words: str
) -> None:
    """Another limit of the loop: the step that is missing, and no list of consequences."""
    factory = edited(assistant, lambda agent: agent.replace(limits=Limits(max_steps=limit)))
    report = replay(recorded, factory=factory)
    assert not report.ok
    assert report.in_words() == [f"the run {words}"]


class FirstWordParser:
    """A parser that takes every reply for an answer."""

    def parse(self, reply: Any, tools: Any) -> Any:
        from agent_core.messages import FinalAnswer, ParsedReply

        return ParsedReply(None, None, FinalAnswer(reply.text[:5]))


def test_another_decision_stops_a_strict_replay_there(recorded: Path) -> None:
    """The first step that decides otherwise is named; nothing after it is asked."""
    factory = edited(assistant, lambda agent: agent.replace(parser=FirstWordParser()))
    report = replay(recorded, factory=factory)
    assert not report.ok
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.what) == (1, "decision")
    assert "get_weather" in report.divergence.recorded
    assert report.drift.total == 1


def test_lenient_reports_and_does_not_fail(recorded: Path) -> None:
    """The same report, another verdict."""
    report = replay(recorded, factory=with_weather(description="Weather."), mode="lenient")
    assert report.ok
    assert parts(report) == ["description of tool `get_weather`"]


def test_fail_on_fail_lets_warnings_pass(recorded: Path) -> None:
    """The bar is the caller's; a changed message is over both."""
    assert replay(recorded, factory=with_weather(description="W."), fail_on="fail").ok
    asked = edited(assistant, lambda agent: agent.replace(language="zh"))
    assert not replay(recorded, factory=asked, fail_on="fail").ok


def test_every_kind_of_difference_has_a_severity() -> None:
    """The table is complete, and a description warns while a message fails."""
    assert set(SEVERITY.values()) == {"warn", "fail"}
    assert (SEVERITY["description"], SEVERITY["message"]) == ("warn", "fail")


def test_a_native_tool_changes_in_the_request_itself(tmp_path: Path) -> None:
    """With native calls the definitions stand in the body; the cause has the same name."""
    path = tmp_path / "s.yaml"
    native = edited(assistant, lambda agent: agent.replace(protocol="native"))
    record_scripted(path, ollama_reply("It is 5."), factory=native)
    report = replay(
        path,
        factory=edited(
            with_weather(description="W."), lambda agent: agent.replace(protocol="native")
        ),
    )
    assert report.in_words() == [
        "1 of 1 step differs for one reason: description of tool `get_weather`"
    ]


def test_the_report_has_a_json_form(recorded: Path) -> None:
    """Everything in it can be written as JSON and says what the words say."""
    report = replay(recorded, factory=with_weather(description="W."))
    data = json.loads(json.dumps(report.as_json()))
    assert data["ok"] is False
    assert data["steps"] == 3
    assert data["causes"][0]["part"] == "description of tool `get_weather`"
    assert data["causes"][0]["requests"] == [1, 2, 3]
    assert data["words"] == report.in_words()


def test_one_reason_in_some_steps_only_says_so() -> None:
    """The count is of the steps in which it is seen."""
    from harness.sessions.drift import Drift

    cause = Cause("message", "observation", "fail", (2, 3))
    assert Drift(4, (cause,)).in_words() == ["2 of 4 steps differ for one reason: observation"]
    unseen = Cause("schema", "schema of tool `t`", "warn", ())
    assert Drift(4, (unseen,)).in_words() == ["not seen in any request: schema of tool `t`"]
    assert Drift(4, (cause, unseen)).in_words()[0] == "2 of 4 steps differ for 2 reasons:"
    alone = Cause("message", "observation", "fail", (1,))
    assert Drift(1, (alone, unseen)).in_words()[0] == "1 of 1 step differs for 2 reasons:"
