"""Each demo of a gear can be recorded, shows its gear, and replays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_core.events import Ended, RunStarted, Started
from agent_core.messages import RunResult
from harness.demo import gears
from harness.sessions.record import Recorded
from harness.sessions.replay import replay
from tests.harness.sessions_support import ollama_reply, record_scripted


def act(tool: str, **arguments: Any) -> str:
    """An action."""
    return f"Action: {json.dumps({'name': tool, 'parameters': arguments})}"


WEATHER = act("get_weather", city="Paris")
DATA = {"city": "Paris", "temperature": 11, "condition": "cloudy"}


class Watch:
    """Notes whose runs begin."""

    def __init__(self) -> None:
        self.agents: list[str] = []

    def started(self, event: Started) -> None:
        if isinstance(event, RunStarted):
            self.agents.append(event.agent)

    def ended(self, token: object, event: Ended) -> None: ...


def recorded(path: Path, factory: Any, replies: Sequence[str], **how: Any) -> Recorded:
    """A session of the demo on scripted replies, which also replays."""
    scripts = [ollama_reply(text) for text in replies]
    done = record_scripted(path / "demo.yaml", *scripts, factory=factory, **how)
    assert len(done.file.exchanges) == len(replies)
    report = replay(done.file, factory=factory, name="demo")
    assert report.ok, report.in_words()
    return done


def last(done: Recorded) -> RunResult:
    """The result of the last turn."""
    return done.results[-1]


def test_weather_data(tmp_path: Path) -> None:
    """The answer is there as text and as data."""
    replies = [WEATHER, "Final Answer: Cloudy, 11 degrees in Paris.", json.dumps(DATA)]
    done = recorded(tmp_path, gears.weather_data, replies)
    assert last(done).data == DATA


def test_team(tmp_path: Path) -> None:
    """The lead's three helpers run inside its tools."""
    replies = [
        act("researcher", task="Weather in Paris?"), WEATHER, "Final Answer: cloudy, 11 degrees",
        act("writer", task="cloudy, 11 degrees"), "Final Answer: A mild day in Paris.",
        act("checker", task="A mild day; cloudy, 11 degrees"), "Final Answer: correct",
        "Final Answer: A mild day in Paris.",
    ]  # fmt: skip
    watch = Watch()
    done = recorded(tmp_path, gears.team, replies, observers=[watch])
    assert watch.agents == ["lead", "researcher", "writer", "checker"]
    assert last(done).answer == "A mild day in Paris."
    assert len(last(done).steps) == 4


@pytest.mark.parametrize("language", ["en", "zh"])
def test_remembering(tmp_path: Path, language: Any) -> None:
    """A fact of the first turn stands in the prompt of the second."""

    def factory(*args: Any, **kwargs: Any) -> Any:
        kwargs |= {"language": language, "path": str(tmp_path / "memory.db")}
        return gears.remembering(*args, **kwargs)

    fact = "猫叫米索" if language == "zh" else "The cat is called Miso."
    question = "我的猫叫什么？" if language == "zh" else "What is my cat called?"
    replies = [act("remember", fact=fact), "Final Answer: ok", "Final Answer: Miso"]
    done = recorded(tmp_path, factory, replies, questions=["Remember my cat.", question])
    asked = [each.content for each in last(done).messages if each.role == "user"]
    assert f"- [1] {fact}" in asked[-1]


def test_summarising(tmp_path: Path) -> None:
    """The model is asked for the summary between the steps."""
    replies = [
        act("calculator", expression="1 + 1"), act("calculator", expression="2 + 2"),
        act("calculator", expression="3 + 3"), "So far: 2, 4.", "Final Answer: 2, 4, 6",
    ]  # fmt: skip
    done = recorded(tmp_path, gears.summarising, replies)
    assert last(done).answer == "2, 4, 6"
    assert last(done).usage.total > sum(each.reply.usage.total for each in last(done).steps)


def test_selecting(tmp_path: Path) -> None:
    """The model asks for a tool that it is not told of, and gets it."""
    replies = [act("more_tools", need="weather of a city"), WEATHER, "Final Answer: cloudy"]
    done = recorded(tmp_path, gears.selecting, replies, questions=["What is 2 + 2?"])
    assert "- get_weather:" in last(done).steps[0].observations[0].text
    assert last(done).answer == "cloudy"


def test_routed(tmp_path: Path) -> None:
    """A short question goes to the small model, a long one to the other."""
    replies = ["Final Answer: Hello!", "Final Answer: It depends."]
    questions = ["Hi!", "Compare the weather in Paris with that in London, please."]
    done = recorded(tmp_path, gears.routed, replies, questions=questions)
    models = [json.loads(each.request.body)["model"] for each in done.file.exchanges]
    assert models == ["smollm2:135m", "m"]
