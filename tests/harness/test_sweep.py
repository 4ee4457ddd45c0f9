"""The sweep: what becomes of a recorded session when one thing goes wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from harness.demo.agents import assistant
from harness.demo.gears import summarising
from harness.faults.catalogue import FAULTS
from harness.faults.recording import NotSwept
from harness.faults.sweep import Plan, sweep
from harness.faults.trial import Rehearsal
from tests.harness.sessions_support import (
    ANSWER,
    SUM,
    WEATHER,
    ollama_reply,
    ollama_stream,
    record_scripted,
    response,
)
from tests.harness.sweep_support import rehearsal_of, verdict

CASSETTES = Path(__file__).parents[2] / "cassettes"


@pytest.fixture(scope="module")
def rehearsal(recorded: Path) -> Iterator[Rehearsal]:
    """The demo assistant on that session."""
    built = rehearsal_of(recorded, assistant)
    yield built
    built.close()


def test_no_fault_of_any_kind_is_a_violation(rehearsal: Rehearsal) -> None:
    """Every fault of a call and of an answer ends well, and most are recovered from."""
    found = {(code, step): verdict(rehearsal, code, step) for code in FAULTS for step in range(3)}
    assert [each for each in found.items() if each[1].verdict == "violation"] == []
    made = [each for each in found.values() if each.verdict != "not applicable"]
    assert sum(each.verdict == "recovered" for each in made) > 0.7 * len(made)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("empty", "recovered"),
        ("unknown-tool", "recovered"),
        ("two-actions", "recovered"),
        ("language-switch", "recovered"),
        ("length", "recovered"),
        ("J15", "recovered"),
        ("429", "recovered"),
        ("500", "recovered"),
        ("reset", "recovered"),
        ("wrong-type", "recovered"),
        ("404", "clean stop"),
        ("500-stays", "clean stop"),
        ("html", "clean stop"),
        ("short", "clean stop"),
        ("timeout", "clean stop"),
        ("stall", "clean stop"),
        ("broken", "recovered"),
        ("tool-exception", "recovered"),
        ("tool-timeout", "recovered"),
        ("tool-secret", "recovered"),
    ],
)
def test_verdict_on_a_fault_of_the_first_step(
    rehearsal: Rehearsal, code: str, expected: str
) -> None:
    """After a fault that passes, the recorded rest leads to the recorded answer."""
    judgement = verdict(rehearsal, code)
    assert (judgement.verdict, judgement.scripted) == (expected, False)


@pytest.mark.parametrize("code", ["tool-huge", "tool-unserialisable", "tool-orders"])
def test_another_observation_ends_on_a_scripted_reply(rehearsal: Rehearsal, code: str) -> None:
    """The recorded rest answers what was not seen, so it is not used and does not count."""
    judgement = verdict(rehearsal, code)
    assert (judgement.verdict, judgement.scripted) == ("other answer", True)


@pytest.mark.parametrize("code", ["tool-exception", "unknown-tool", "J9"])
def test_fault_that_cannot_be_is_not_applicable(rehearsal: Rehearsal, code: str) -> None:
    """The last step calls no tool."""
    assert verdict(rehearsal, code, step=2).verdict == "not applicable"


def test_nothing_waits(rehearsal: Rehearsal) -> None:
    """A minute of Retry-After and a read timeout pass on the injected clock only."""
    clock = rehearsal._replica.clock  # what is observed is the clock that the run was given
    verdict(rehearsal, "429-stays")
    assert clock.monotonic() >= 40.0
    verdict(rehearsal, "timeout")
    assert clock.monotonic() >= 300.0


def test_fault_in_a_later_turn_of_a_stream(tmp_path: Path) -> None:
    """A conversation is swept turn by turn; streams are cut anew around the fault."""
    path = record_scripted(
        tmp_path / "two-turns.yaml",
        ollama_stream(WEATHER[:30], WEATHER[30:]),
        ollama_stream("Thought: ok\nFinal Answer: ", "fine 😀"),
        ollama_stream(SUM[:9], SUM[9:]),
        ollama_stream(ANSWER),
        questions=("Weather in Lisbon?", "And 2 + 3?"),
        stream=True,
    ).path
    rehearsal = rehearsal_of(path, assistant)
    codes = ("empty", "L1", "J1", "two-actions", "500", "tool-exception")
    found = {code: verdict(rehearsal, code, turn=1).verdict for code in codes}
    rehearsal.close()
    assert found == dict.fromkeys(codes, "recovered")


def test_request_for_a_summary_comes_before_the_next_step() -> None:
    """What a step did is told in the next step's request, not in one that sums up older rounds."""
    rehearsal = rehearsal_of(CASSETTES / "gear-summary-zh.yaml", summarising)
    judgement = verdict(rehearsal, "429")
    rehearsal.close()
    assert judgement.verdict == "recovered"


def test_a_recording_without_an_answer_is_never_recovered(tmp_path: Path) -> None:
    """It ends as it was recorded, which is a clean stop and no answer."""

    def hurried(model: Any, **how: Any) -> Agent:
        return assistant(model, **how, max_steps=1)

    path = tmp_path / "stopped.yaml"
    record_scripted(path, ollama_reply(WEATHER), factory=hurried)
    rehearsal = rehearsal_of(path, hurried)
    judgement = verdict(rehearsal, "429")
    rehearsal.close()
    assert (judgement.verdict, judgement.detail) == ("clean stop", "max_steps")


def test_session_that_does_not_replay_is_not_swept(recorded: Path) -> None:
    """An agent that gives up earlier would be blamed for faults that are none."""
    with pytest.raises(NotSwept, match="does not replay"):
        rehearsal_of(recorded, lambda model, **how: assistant(model, **how, max_steps=1))


def test_a_single_step_is_one_that_calls_a_tool(recorded: Path) -> None:
    """The final answer has nothing that a fault of a tool could be done to."""
    report = sweep([recorded], Plan(("tool",), steps=1))
    assert {row.trial.step for row in report.rows} == {0}
    assert not [row for row in report.rows if row.judgement.verdict == "not applicable"]


@pytest.mark.parametrize("as_text", [False, True])
def test_native_calls_are_swept(tmp_path: Path, as_text: bool) -> None:
    """The faults are done to the calls that the server reports, or that were written as text."""
    call = {"name": "get_weather", "arguments": {"city": "Lisbon"}}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    message |= {"content": json.dumps(call)} if as_text else {"tool_calls": [{"function": call}]}
    first = json.dumps({"model": "m", "message": message, "done": True, "done_reason": "stop"})
    path = record_scripted(
        tmp_path / "native.yaml",
        [response(200, first.encode())],
        ollama_reply("It is fine in Lisbon."),
        factory=_native,
    ).path
    rehearsal = rehearsal_of(path, _native)
    recovered = ("unknown-tool", "two-actions", "invented-observation", "length", "J4", "N1",
                 "tool-exception", "429")  # fmt: skip
    found = {code: verdict(rehearsal, code).verdict for code in recovered}
    rehearsal.close()
    assert found == dict.fromkeys(recovered, "recovered")


def _native(model: Any, **how: Any) -> Agent:
    return assistant(model, **{**how, "protocol": "native"})
