"""A saved run goes on elsewhere with the result it would have had."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.errors import ConfigError
from agent_core.limits import Limits, StopReason
from agent_core.messages import Reply, RunResult, ToolCall, Usage
from agent_core.models import ScriptedModel
from agent_core.resume import RunState
from agent_core.summary import SummaryMemory


def look(n: int) -> str:
    """Look."""
    return f"结果 {n}"


def act(n: Any) -> str:
    """An action."""
    return f"思考：看\nAction: {json.dumps({'name': 'look', 'parameters': {'n': n}})}"


SECONDS = re.compile(r'"seconds": [^,\n]+')
SCRIPT: list[Any] = [
    Reply(act("1"), usage=Usage(100, 10), finish_reason="stop"),
    "prose without a label",
    "",
    act(1),
    Reply(act(2) + "\nObservation: made up", usage=Usage(200, 20)),
    act(1),
    act(1),
    "Final Answer: 完",
]


def agent(script: list[Any], **options: Any) -> Agent:
    """The same agent each time, with what is left of its script."""
    return Agent(ScriptedModel(script), [look], **options)


def saved(
    script: list[Any], state: RunState | None = None, **options: Any
) -> tuple[RunResult, list[str]]:
    """A whole run, or what is left of one, and its state after each step."""
    states: list[str] = []

    def keep(each: RunState) -> None:
        states.append(each.to_json())

    one = agent(script, **options)
    if state is not None:
        return one.resume(state, on_step=keep), states
    return one.run("问题", on_step=keep), states


def timeless(result: RunResult) -> RunResult:
    """A result without the time that passed."""
    steps = tuple(
        replace(
            step,
            seconds=0.0,
            observations=tuple(replace(each, seconds=0.0) for each in step.observations),
        )
        for step in result.steps
    )
    return replace(result, seconds=0.0, steps=steps)


@pytest.mark.parametrize("limits", [Limits(), Limits(max_steps=6), Limits(token_limit=900)])
def test_the_same_result_from_every_step(limits: Limits) -> None:
    """Repairs, format errors, refused repetitions, usage, history: all go on where they were."""
    whole, states = saved(SCRIPT, limits=limits)
    assert len(states) >= 4
    for done, state in enumerate(states, start=1):
        resumed, later = saved(SCRIPT[done:], RunState.from_json(state), limits=limits)
        assert timeless(resumed) == timeless(whole)
        assert [SECONDS.sub("", each) for each in later] == [
            SECONDS.sub("", each) for each in states[done:]
        ]


@pytest.mark.parametrize(
    ("wrong", "limits"),
    [("prose without a label", Limits(max_format_errors=2)), ("", Limits(max_empty_replies=2))],
)
def test_useless_replies_in_a_row_stay_counted(wrong: str, limits: Limits) -> None:
    """The second of them ends a run that was resumed after the first."""
    script = [wrong, wrong, "Final Answer: never asked for"]
    whole, states = saved(script, limits=limits)
    assert whole.answer is None
    resumed = agent(script[1:], limits=limits).resume(RunState.from_json(states[0]))
    assert timeless(resumed) == timeless(whole)


def test_native_calls_are_saved(tmp_path: Path) -> None:
    """Ids and arguments come back as they were."""
    script: list[Any] = [
        Reply("", (ToolCall("a", "look", {"n": 1}), ToolCall("b", "look", '{"n": 2}'))),
        "done",
    ]
    whole, states = saved(script, protocol="native")
    resumed = agent(script[1:], protocol="native").resume(RunState.from_json(states[0]))
    assert timeless(resumed) == timeless(whole)


def test_another_process_goes_on(tmp_path: Path) -> None:
    """The file is all it needs."""
    whole, states = saved(SCRIPT)
    (tmp_path / "run.json").write_text(states[4], encoding="utf-8")
    code = (
        "import sys; from pathlib import Path\n"
        "from agent_core.agent import Agent; from agent_core.models import ScriptedModel\n"
        "from agent_core.resume import RunState\n"
        "def look(n: int) -> str:\n"
        "    'Look.'\n"
        "    return f'结果 {n}'\n"
        "state = RunState.from_json(Path(sys.argv[1]).read_text(encoding='utf-8'))\n"
        "script = ['Final Answer: 完']\n"
        "result = Agent(ScriptedModel(script), [look]).resume(state)\n"
        "sys.stdout.buffer.write(f'{result.answer} {len(result.steps)}'.encode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run.json")], capture_output=True, check=True
    )
    assert done.stdout.decode() == f"{whole.answer} 6"
    assert "问题" in states[4]  # Chinese stays readable


def test_time_that_was_spent_is_spent() -> None:
    """The time limit goes on from where the saved run was."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))

    def slow() -> str:
        """Take eight seconds."""
        clock.advance(8)
        return "slow"

    call = 'Action: {"name": "slow", "parameters": {}}'
    states: list[RunState] = []
    options: dict[str, Any] = {"clock": clock, "limits": Limits(time_limit=15)}
    first = Agent(ScriptedModel([call, call]), [slow], **options)
    assert first.run("q", on_step=states.append).stop_reason is StopReason.TIME_LIMIT
    clock.advance(1_000)  # time between two processes is nobody's
    again = Agent(ScriptedModel([call, "Final Answer: no"]), [slow], **options)
    result = again.resume(states[0])
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert len(result.steps) == 2


def test_another_agent_cannot_go_on() -> None:
    """Other tools or another protocol would give another result: refused before anything runs."""
    _, states = saved(SCRIPT)
    state = RunState.from_json(states[0])
    for other in (Agent(ScriptedModel([])), agent([], protocol="react-labels")):
        with pytest.raises(ConfigError, match="another system prompt"):
            other.resume(state)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2}', '{"version": 1, "question": 3}', "\ud800"]
)
def test_something_else_is_refused(text: str) -> None:
    """With a message that shows nothing of the content."""
    with pytest.raises(ConfigError, match="expected a saved run of version 1"):
        RunState.from_json(text)


def test_an_error_while_saving_comes_out() -> None:
    """A state that cannot be saved is no secret."""

    def full(_state: RunState) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        agent(SCRIPT).run("q", on_step=full)


def test_summaries_go_along() -> None:
    """Elsewhere nothing is summed up again, and what other tasks were about is not in the file."""
    script: list[Any] = [*(act(n) for n in range(6)), "Final Answer: 完"]
    options: dict[str, Any] = {"limits": Limits(max_steps=20)}
    writer = ScriptedModel(["ANOTHER"] * 3)
    memory = SummaryMemory(writer, 2, block=2)
    agent([*script[:4], script[-1]], memory=memory, **options).run("another task")
    memory.model = ScriptedModel(["FIRST", "SECOND"])
    whole, states = saved(script, memory=memory, **options)
    assert "FIRST" in states[3]
    assert "ANOTHER" not in states[3]
    for done, state in enumerate(states, start=1):
        left = ["FIRST", "SECOND"][sum(each in state for each in ("FIRST", "SECOND")) :]
        elsewhere = SummaryMemory(ScriptedModel(left), 2, block=2)
        resumed = agent(script[done:], memory=elsewhere, **options).resume(
            RunState.from_json(state)
        )
        assert timeless(resumed) == timeless(whole)
