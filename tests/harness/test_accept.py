"""An intended change is taken over offline: exactly what was named, whole, and marked as such."""

from __future__ import annotations

import dataclasses
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.limits import Limits
from harness.demo import gears
from harness.sessions.accept import accept
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionError
from harness.sessions.journal import sole_writer
from harness.sessions.lint import lint
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.sources import Factory, named_factory
from tests.harness.command_line import agentrig
from tests.harness.sessions_support import (
    ASSISTANT,
    edited,
    ollama_reply,
    record_scripted,
    three_steps,
)

assistant: Factory = named_factory(ASSISTANT)
CLOCK = ManualClock(datetime(2026, 12, 1, 8, tzinfo=UTC))
DESCRIPTION = "description of tool `get_weather`"


def described(agent: Agent, words: str = "Weather.") -> Agent:
    executor: Any = agent.executor
    tools = [
        dataclasses.replace(each, description=words) if each.name == "get_weather" else each
        for each in executor.definitions.values()
    ]
    return agent.replace(executor=executor.replace(tools=tools))


def instructed(agent: Agent) -> Agent:
    return agent.replace(instructions="Be brief.")


def capped(agent: Agent) -> Agent:
    executor: Any = agent.executor
    return agent.replace(executor=executor.replace(max_chars=40))


def taken_over(factory: Factory, *paths: Path, causes: list[str]) -> list[Report]:
    reports = [replay(path, factory=factory) for path in paths]
    return accept(reports, causes, CLOCK, factory=factory)


@pytest.mark.parametrize("cause", [DESCRIPTION, "Description of tool get_weather"])
def test_an_accepted_cause_is_green_from_then_on(tmp_path: Path, cause: str) -> None:
    """New requests, old replies, the same way, and a note that the model was not asked."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = load_session(path)
    factory = edited(assistant, described)
    (report,) = taken_over(factory, path, causes=[cause])
    assert (report.ok, report.verdict, report.accepted) == (True, "accepted", (DESCRIPTION,))
    assert replay(path, factory=factory).in_words() == []
    assert not replay(path).ok  # the agent as it was is the one that drifts now
    after = load_session(path)
    assert before.session is not None
    assert after.session is not None
    assert [e.response for e in after.exchanges] == [e.response for e in before.exchanges]
    assert after.session.trajectory == before.session.trajectory
    (note,) = after.provenance.accepted
    assert note.causes == [DESCRIPTION]
    assert note.at == CLOCK.now().isoformat(timespec="seconds")
    assert [each.rule for each in lint([path]) if each.level == "error"] == []


def test_notes_add_up(tmp_path: Path) -> None:
    """Accepted twice, it says so twice."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    taken_over(edited(assistant, described), path, causes=[DESCRIPTION])
    again = edited(assistant, lambda agent: instructed(described(agent)))
    taken_over(again, path, causes=["system text"])
    assert [note.causes for note in load_session(path).provenance.accepted] == [
        [DESCRIPTION],
        ["system text"],
    ]


def test_what_was_not_named_is_not_accepted(tmp_path: Path) -> None:
    """Two causes, one named: nothing is written, and the other one is told; both named, it is."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = path.read_bytes()
    factory = edited(assistant, lambda agent: instructed(described(agent)))
    (report,) = taken_over(factory, path, causes=[DESCRIPTION])
    assert not report.ok
    assert report.in_words()[-1].startswith("nothing was accepted, because of system text:")
    assert path.read_bytes() == before
    (report,) = taken_over(factory, path, causes=[DESCRIPTION, "system text"])
    assert report.verdict == "accepted"
    assert replay(path, factory=factory).ok


def test_a_cause_that_is_not_there_is_an_error_with_those_that_are(tmp_path: Path) -> None:
    """A slip of the pen writes nothing, not even what was named right."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = path.read_bytes()
    with pytest.raises(SessionError, match="for 'schema of tool x'; causes found: description of"):
        taken_over(edited(assistant, described), path, causes=[DESCRIPTION, "schema of tool x"])
    with pytest.raises(SessionError, match="causes found: none"):
        taken_over(assistant, path, causes=[DESCRIPTION])
    assert path.read_bytes() == before


def test_another_way_cannot_be_accepted(tmp_path: Path) -> None:
    """No new request makes a missing step equal: only a recording can."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = path.read_bytes()
    short = edited(assistant, lambda agent: described(agent).replace(limits=Limits(max_steps=2)))
    (report,) = taken_over(short, path, causes=[DESCRIPTION])
    assert not report.ok
    assert "step 3" in report.withheld[0]
    assert "--rewrite" in report.in_words()[-1]
    assert path.read_bytes() == before


def test_observations_in_another_format_are_accepted_with_their_digests(tmp_path: Path) -> None:
    """What the model is told now is what a replay compares from then on; decisions stay."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    factory = edited(assistant, capped)
    (report,) = taken_over(factory, path, causes=["observation"])
    assert report.verdict == "accepted"
    assert replay(path, factory=factory).in_words() == []


def test_native_tools_and_failed_requests_are_taken_over(tmp_path: Path) -> None:
    """Definitions in the body, and the request of a take that got no response."""
    path = tmp_path / "s.yaml"
    native = edited(assistant, lambda agent: agent.replace(protocol="native"))
    record_scripted(path, ["reset"], ollama_reply("Final Answer: 5"), factory=native)
    assert any(take.error for take in load_session(path).takes)
    factory = edited(native, described)
    (report,) = taken_over(factory, path, causes=[DESCRIPTION])
    assert report.verdict == "accepted"
    assert replay(path, factory=factory).in_words() == []


def test_a_session_that_is_being_recorded_is_left_alone(tmp_path: Path) -> None:
    """One writer wins whole, the other is told."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = path.read_bytes()
    with sole_writer(path):
        (report,) = taken_over(edited(assistant, described), path, causes=[DESCRIPTION])
    assert not report.ok
    assert report.in_words()[-1].startswith("nothing was accepted: another process is recording")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["s.yaml"]


def test_who_comes_second_is_told(tmp_path: Path) -> None:
    """Two saw the same drift, and one has accepted it meanwhile: the file is as that one left it."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    factory = edited(assistant, described)
    seen = [replay(path, factory=factory)]
    accept(seen, [DESCRIPTION], CLOCK, factory=factory)
    first = path.read_bytes()
    (report,) = accept(seen, [DESCRIPTION], CLOCK, factory=factory)
    assert "changed while it was accepted" in report.in_words()[-1]
    assert path.read_bytes() == first


def test_an_interrupted_recording_keeps_its_journal(tmp_path: Path) -> None:
    """What waits for `--resume` beside a session is not lost."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    journal = tmp_path / "s.yaml.journal"
    journal.write_bytes(b'{"now": "2026-11-30T12:00:00+00:00"}\n')
    taken_over(edited(assistant, described), path, causes=[DESCRIPTION])
    assert journal.read_bytes().startswith(b'{"now"')


def changed(path: Path) -> Path:
    """A session recorded with other words for a tool than the demo agent's."""
    three_steps(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("Current weather of", "The weather of"), encoding="utf-8")
    return path


def test_the_command_accepts_in_every_session_that_has_the_cause(tmp_path: Path) -> None:
    """One change of the agent is accepted once, for the whole folder; the rest is left alone."""
    for name in ("a", "b"):
        changed(tmp_path / f"{name}.yaml")
    three_steps(tmp_path / "c.yaml")
    untouched = (tmp_path / "c.yaml").read_bytes()
    assert agentrig("replay", tmp_path).exit_code == 1
    done = agentrig("replay", tmp_path, "--accept", "description of tool get_weather")
    assert done.exit_code == 0, done.output
    assert "ACCEPT a" in done.output
    assert "the model was not asked again" in done.output
    assert "3 sessions, 3 ok, 2 of them accepted" in done.output
    assert (tmp_path / "c.yaml").read_bytes() == untouched
    assert agentrig("replay", tmp_path).exit_code == 0


def test_one_that_cannot_be_written_does_not_keep_the_others_from_being_told(
    tmp_path: Path,
) -> None:
    """Of three the second is being written: the others are accepted, and all three are named."""
    for name in ("a", "b", "c"):
        changed(tmp_path / f"{name}.yaml")
    busy = tmp_path / "b.yaml"
    before = busy.read_bytes()
    with sole_writer(busy):
        done = agentrig("replay", tmp_path, "--accept", DESCRIPTION)
    assert done.exit_code == 1, done.output
    for line in ("ACCEPT a", "FAILED b", "nothing was accepted: another process", "ACCEPT c"):
        assert line in done.output
    assert "3 sessions, 2 ok, 2 of them accepted, 1 failed" in done.output
    assert busy.read_bytes() == before


def test_the_command_says_what_can_be_accepted(tmp_path: Path) -> None:
    """A wrong name is exit 2 with the right ones; the JSON says what was accepted."""
    path = changed(tmp_path / "a.yaml")
    done = agentrig("replay", path, "--accept", "system text")
    assert done.exit_code == 2
    assert "causes found: description of tool `get_weather`" in done.output
    for other in (["--rewrite"], ["--mode", "lenient"]):
        assert agentrig("replay", path, "--accept", "system text", *other).exit_code == 2
    done = agentrig("replay", path, "--accept", DESCRIPTION, "--json")
    (session,) = json.loads(done.stdout)["sessions"]
    assert (session["verdict"], session["accepted"]) == ("accepted", [DESCRIPTION])


def test_what_cannot_be_accepted_is_not_offered(tmp_path: Path) -> None:
    """Other tool calls have no name to accept; a way that parts is told, not that all is well."""
    path = tmp_path / "s.yaml"
    three_steps(path)

    def defaulted(agent: Agent) -> Agent:
        executor: Any = agent.executor
        tools = list(executor.definitions.values())
        unit = tools[0].parameters["properties"]["unit"] | {"default": "fahrenheit"}
        properties = tools[0].parameters["properties"] | {"unit": unit}
        parameters = tools[0].parameters | {"properties": properties}
        changed = dataclasses.replace(tools[0], parameters=parameters)
        return agent.replace(executor=executor.replace(tools=[changed, *tools[1:]]))

    (report,) = taken_over(
        edited(assistant, defaulted), path, causes=["schema of tool get_weather"]
    )
    last = report.in_words()[-1]
    assert "other tool calls" in last
    assert last.endswith(": record the session again with --rewrite")
    short = edited(assistant, lambda agent: agent.replace(limits=Limits(max_steps=2)))
    with pytest.raises(SessionError, match="another way is gone by s: record that again") as told:
        taken_over(short, path, causes=["max_steps"])
    assert "as it was recorded" not in str(told.value)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_another_schema_of_the_answer_is_one_cause(tmp_path: Path, language: str) -> None:
    """It stands in an option and in a message; the place in it is named, and it is accepted."""
    path = tmp_path / "data.yaml"
    shutil.copy(Path(__file__).parents[2] / f"cassettes/gear-data-{language}.yaml", path)

    def rescaled(model: Any, **how: Any) -> Agent:
        schema: Any = json.loads(json.dumps(gears.WEATHER_SCHEMA))
        schema["properties"]["city"]["type"] = ["string", "null"]
        return gears.weather_data(model, **how).replace(answer_schema=schema)

    (cause,) = replay(path, factory=rescaled).drift.causes
    assert (cause.part, cause.kind, cause.severity) == ("answer schema", "schema", "warn")
    assert cause.before == 'properties.city.type: "string"'
    assert cause.after == 'properties.city.type: ["string","null"]'
    (report,) = taken_over(rescaled, path, causes=["answer schema"])
    assert report.accepted == ("answer schema",)
    assert replay(path, factory=rescaled).drift.causes == ()
