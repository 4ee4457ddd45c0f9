"""Each demo of a gear can be recorded, shows its gear, and replays."""

from __future__ import annotations

import gc
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_core.events import Ended, RunStarted, Started
from agent_core.limits import Limits
from agent_core.messages import RunResult
from agent_core.models import ScriptedModel
from agent_core.streaming import AnswerPiece
from harness.cli import main
from harness.demo import gears
from harness.demo.world import world_clock
from harness.sessions.clocks import ReplayClock
from harness.sessions.format import SessionFile
from harness.sessions.player import Player, replay_session
from harness.sessions.record import Recorded
from harness.sessions.replay import replay
from harness.sessions.sources import build_agent, build_model
from tests.harness.sessions_support import (
    ollama_reply,
    ollama_stream,
    record_scripted,
    response,
    serving,
)


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


def test_other_data_is_a_divergence(tmp_path: Path) -> None:
    """The same answer, read as other data, is not the same run; the report shows both."""
    replies = [WEATHER, "Final Answer: Cloudy, 11 degrees in Paris.", json.dumps(DATA)]
    done = recorded(tmp_path, gears.weather_data, replies)
    text = done.path.read_text(encoding="utf-8")
    assert "condition: cloudy" in text
    done.path.write_text(text.replace("condition: cloudy", "condition: rain"), encoding="utf-8")
    report = replay(done.path, factory=gears.weather_data)
    assert [cause.part for cause in report.drift.causes] == []
    assert report.divergence is not None
    assert report.divergence.what == "data"
    assert "rain" in report.divergence.recorded
    assert report.as_json()["data"] == [DATA]


def test_data_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` shows the data to a reader and, with --json, to a program."""
    monkeypatch.chdir(tmp_path)
    replies = [WEATHER, "Final Answer: Cloudy, 11 degrees in Paris.", json.dumps(DATA)]
    factory = "harness.demo.gears:weather_data"
    for flags in ([], ["--json"]):
        with serving(*(ollama_reply(text) for text in replies)) as server:
            arguments = ["run", factory, "Paris?", "--model", "m", "--base-url", server.url]
            done = CliRunner().invoke(main, [*arguments, *flags])
        assert done.exit_code == 0, done.output
        if flags:
            assert json.loads(done.stdout)[0]["data"] == DATA
        else:
            assert '"condition": "cloudy"' in done.output


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


@pytest.mark.parametrize("limit", [{"max_steps": 4}, {"token_limit": 400}])
def test_what_the_team_spends_counts_in_a_replay(tmp_path: Path, limit: dict[str, int]) -> None:
    """A researcher that is not run again has used up the lead's steps and tokens all the same."""

    def factory(*args: Any, **kwargs: Any) -> Any:
        return gears.team(*args, **kwargs).replace(limits=Limits(**limit))

    replies = [
        act("researcher", task="Weather in Paris?"), WEATHER, "Final Answer: cloudy, 11 degrees",
        act("writer", task="cloudy, 11 degrees"),
    ]  # fmt: skip
    if "token_limit" in limit:  # 99 tokens a reply
        replies.append("Final Answer: A mild day.")
    done = recorded(tmp_path, factory, replies)
    assert str(last(done).stop_reason) == next(iter(limit))
    assert done.file.session is not None
    assert (done.file.session.tape[0].steps, done.file.session.tape[0].tokens) == (2, 198)


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


def test_remembering_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory without a path begins empty, with what is known, and is gone with its agent."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = ScriptedModel(["Final Answer: Miso"])
    agent = gears.remembering(model, clock=world_clock(), known="The cat is called Miso.")
    agent.run("What is the cat called?")
    assert "- [1] The cat is called Miso." in model.requests[0].messages[-1].content
    assert list(tmp_path.iterdir())
    del agent
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_routed_falls_back(tmp_path: Path) -> None:
    """Where the server does not have the small model, the other one answers."""
    scripts: list[list[Any]] = [
        [response(404, json.dumps({"error": "model 'none' not found"}).encode())],
        ollama_reply("Final Answer: Hello!"),
    ]

    def factory(*args: Any, **kwargs: Any) -> Any:
        return gears.routed(*args, small="none", **kwargs)

    done = record_scripted(tmp_path / "demo.yaml", *scripts, factory=factory, questions=["Hi!"])
    assert last(done).answer == "Hello!"
    report = replay(done.file, factory=factory, name="demo")
    assert report.ok, report.in_words()


def test_streaming(tmp_path: Path) -> None:
    """A recorded stream can be watched again: the pieces of the answer are the answer."""
    answer = "ReAct is a way to think. It acts in between. It looks at what comes back."
    scripts = [
        ollama_stream(*WEATHER.partition(" ")),
        ollama_stream("Thought: I know.\nFinal", " Answer: ReAct is", answer[8:30], answer[30:]),
    ]
    done = record_scripted(tmp_path / "demo.yaml", *scripts, factory=gears.streaming, stream=True)
    assert last(done).answer == answer
    report = replay(done.file, factory=gears.streaming, name="demo")
    assert report.ok, report.in_words()
    events = list(streamed_again(done.file, gears.streaming))
    kinds = [type(each).__name__ for each in events]
    assert kinds[:3] == ["Action", "Observation", "Thought"]
    pieces = [each.text for each in events if isinstance(each, AnswerPiece)]
    assert len(pieces) > 2
    assert "".join(pieces) == answer == events[-1].answer


def streamed_again(file: SessionFile, factory: Any) -> Iterator[Any]:
    """The events of a session's first question, with the model's replies from the file."""
    assert file.session is not None
    clock = ReplayClock(file.session.clock.now)
    http = replay_session(Player(file, clock=clock))
    model = build_model(file.session.model, session=http, clock=clock)
    agent = build_agent(factory, file.session.agent, model, clock, http)
    yield from agent.stream(file.session.turns[0].question)
