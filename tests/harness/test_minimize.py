"""Minimize: what is left of a failing session fails the same way, and is mended with it.

The session of twelve steps is recorded from a scripted server through the real recorder.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core.agent import Agent
from harness.minimize import Failure, NothingToMinimize, failure_of, minimize
from harness.minimize.shrink import weight
from harness.sessions.cassette import load_session, parse_session, render_session
from harness.sessions.conversion import reply_of
from harness.sessions.errors import SessionError
from harness.sessions.format import SessionFile
from harness.sessions.lint import lint_session
from harness.sessions.replay import replay
from harness.sessions.sources import allowed_factory
from tests.harness import minimize_support as support
from tests.harness.command_line import agentrig
from tests.harness.minimize_support import call, patient, record_long
from tests.harness.sessions_support import ANSWER, ollama_reply, record_scripted, three_steps

HERE = "tests.harness.minimize_support"
CASSETTES = Path(__file__).parents[2] / "cassettes"
Factory = Callable[..., Agent]
AGES = 600.0  # seconds: a busy machine may be slow, and the result is looked at, not the time


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve steps; nothing fails about them."""
    return record_long(tmp_path_factory.mktemp("recorded") / "long.yaml").path


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def steps_of(file: SessionFile) -> list[list[tuple[str, dict[str, Any]]]]:
    assert file.session is not None
    return [
        [(each.tool, each.arguments) for each in step.actions]
        for turn in file.session.trajectory
        for step in turn.steps
    ]


def texts_of(file: SessionFile) -> list[str]:
    replies = [reply_of(each.request, each.response) for each in file.exchanges]
    return [each.text for each in replies if each is not None]


def again(file: SessionFile) -> SessionFile:
    """As it is read back from disk."""
    return parse_session(render_session(file))


TWO_STEPS = [[("get_weather", {"city": "Lisbon"})], [("calculator", {"expression": "2 + 3"})]]


def test_two_steps_far_apart(long: Path) -> None:
    """Steps 3 and 10 of twelve fail together: these two are left, and nothing of their texts."""
    result = minimize(load_session(long), patient, check=f"{HERE}:not_both", seconds=AGES)
    assert result.steps == (12, 2)
    assert steps_of(result.file) == TWO_STEPS
    assert result.finished
    assert not any("list" in text for text in texts_of(result.file))
    assert result.file.session is not None
    assert result.file.session.agent.tools == ["get_weather", "calculator"]
    assert failure_of(again(result.file), patient, check=f"{HERE}:not_both") == result.failure
    assert replay(again(result.file), factory=patient).ok


def test_two_drifting_steps_far_apart(long: Path) -> None:
    """An agent that has changed in two places: both stay, as recorded, and are mended with it."""
    result = minimize(load_session(long), support.two_observations, seconds=AGES)
    assert steps_of(result.file) == TWO_STEPS
    small = again(result.file)
    assert failure_of(small, support.two_observations) == result.failure
    assert failure_of(small, patient, check="replay") is None
    assert set(result.failure.causes) == {
        "observation", "observation of `calculator`", "observation of `get_weather`",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("factory", "steps", "error"),
    [
        (support.described_otherwise, 0, "drift"),
        (support.instructed_otherwise, 0, "drift"),
        (support.ends_early, 1, "decision, actions → final_answer"),
        (support.raises, 1, "RuntimeError"),
    ],
)
def test_red_with_the_defect_green_without(
    long: Path, factory: Factory, steps: int, error: str
) -> None:
    """The small session fails the same way, and replays once the agent is mended."""
    result = minimize(load_session(long), factory, seconds=AGES)
    assert result.failure.error == error
    assert len(steps_of(result.file)) == steps
    small = again(result.file)
    assert failure_of(small, factory) == result.failure
    assert failure_of(small, patient, check="replay") is None


def test_turns_history_and_passages(long: Path) -> None:
    """Of a recorded session with two turns one is left, where one is enough."""
    path = CASSETTES / "two-turns-en.yaml"
    file = load_session(path)
    assert file.session is not None
    factory = allowed_factory(file.session.agent.factory)

    def reworded(model: Any, **how: Any) -> Agent:
        agent = factory(model, **how)
        return agent.replace(instructions=f"{agent.instructions} Be brief.")

    result = minimize(file, reworded, seconds=AGES)
    assert result.file.session is not None
    assert len(result.file.session.turns) == 1
    assert failure_of(again(result.file), reworded) == result.failure
    assert failure_of(again(result.file), factory, check="replay") is None


def test_lint_finding(tmp_path: Path) -> None:
    """A server that counts too few tokens for the prompt: lint still says so, of fewer steps."""
    file = three_steps(tmp_path / "short.yaml", factory=patient).file
    result = minimize(file, patient, seconds=AGES)
    assert (result.failure.check, result.failure.error) == ("lint", "context-truncated")
    assert result.steps[1] < result.steps[0] == 3
    rules = {each.rule for each in lint_session(again(result.file), tmp_path / "short-min.yaml")}
    assert rules == {"context-truncated"}


def test_a_secret_that_was_overlooked_is_not_copied(long: Path, tmp_path: Path) -> None:
    """After kevin1024/vcrpy#961: whatever writes a session anew takes the secrets out."""
    file = load_session(long)
    headers = {"Authorization": ["Bearer SECRET-TOKEN-123"]}
    first, *others = file.exchanges
    spoilt = replace(first, request=replace(first.request, headers=headers))
    file = replace(file, exchanges=(spoilt, *others))
    path = tmp_path / "spoilt.yaml"
    path.write_text(render_session(file), encoding="utf-8")
    assert "SECRET-TOKEN-123" in path.read_text(encoding="utf-8")
    done = agentrig("minimize", path, "--agent", f"{HERE}:ends_early",
                    "--seconds", AGES)  # fmt: skip
    assert done.exit_code == 0, done.output
    for written in Path("minimized").iterdir():
        assert "SECRET-TOKEN-123" not in written.read_text(encoding="utf-8")


def test_trajectory_check(long: Path) -> None:
    """What was expected is the cause: a session that misses another call is not the same."""
    file = load_session(long)
    found = failure_of(file, patient, check=f"{HERE}:by_trajectory")
    assert found == Failure(
        f"{HERE}:by_trajectory",
        "TrajectoryMismatch",
        ('call 2: expected get_weather({"city":"Paris","unit":"celsius"})',),
    )
    result = minimize(file, patient, check=f"{HERE}:by_trajectory", seconds=AGES)
    assert len(steps_of(result.file)) == 1
    assert steps_of(result.file)[0][0][0] == "calculator"


def test_check_that_says_false(long: Path) -> None:
    """A predicate is a check, too."""
    result = minimize(load_session(long), patient, check=f"{HERE}:no_lisbon", seconds=AGES)
    assert result.failure == Failure(f"{HERE}:no_lisbon", "False")
    assert steps_of(result.file) == TWO_STEPS[:1]


def test_marked_as_derived(long: Path) -> None:
    """It says from which session it was made, and how; twice minimized, both."""
    agent = support.ends_early
    once = minimize(load_session(long), agent, name="long", seconds=AGES)
    twice = minimize(again(once.file), agent, name="long-min", seconds=AGES)
    assert once.file.provenance.derived is not None
    assert "from session long: 12 steps to 1" in once.file.provenance.derived
    assert "decision, actions → final_answer" in once.file.provenance.derived
    assert twice.file.provenance.derived is not None
    assert twice.file.provenance.derived.startswith(once.file.provenance.derived)
    assert "from session long-min" in twice.file.provenance.derived


def test_the_same_every_time(long: Path) -> None:
    """Nothing about it is random."""
    first, second = (
        minimize(load_session(long), support.described_otherwise, seconds=AGES) for _ in range(2)
    )
    assert render_session(first.file) == render_session(second.file)
    assert first.replays == second.replays


def test_written_test_is_red_then_green(long: Path, tmp_path: Path) -> None:
    """The pytest file fails with the fingerprint, and passes with the mended agent."""
    done = agentrig("minimize", long, "--agent", f"{HERE}:ends_early", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    test = tmp_path / "out" / "test_long_min.py"
    root = Path(__file__).parents[2]

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(test)]
        return subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=False, timeout=120
        )

    red = run()
    assert red.returncode == 1
    assert "replay: decision, actions → final_answer" in red.stdout
    assert "if the change was meant and is accepted, remove this test" in red.stdout
    text = test.read_text(encoding="utf-8")
    assert "--accept" in (ast.get_docstring(ast.parse(text)) or "")
    test.write_text(text.replace(":ends_early", ":patient"), encoding="utf-8")
    assert run().returncode == 0


def test_what_a_newcomer_sees(long: Path, tmp_path: Path) -> None:
    """How it fails, how small it became, the steps that are left, and what was written."""
    agent = ("--agent", f"{HERE}:patient")
    done = agentrig("minimize", long, "--check", f"{HERE}:not_both", *agent, "--seconds", AGES)
    assert done.exit_code == 0, done.output
    assert "fails: tests.harness.minimize_support:not_both: AssertionError" in done.output
    assert "steps 12 → 2" in done.output
    assert 'step 1: get_weather({"city":"Lisbon"})' in done.output
    assert "wrote minimized/long-min.yaml" in done.output
    assert "accepted" not in done.output  # no change to accept makes a check of one's own pass
    assert "accept" not in Path("minimized/test_long_min.py").read_text(encoding="utf-8")
    assert agentrig("replay", "minimized", *agent).exit_code == 0


def test_json(long: Path) -> None:
    """For programs: the fingerprint, the sizes, the files."""
    done = agentrig("minimize", long, "--agent", f"{HERE}:ends_early", "--json")
    report = json.loads(done.stdout)
    assert report["steps"] == [12, 1]
    assert report["failure"]["error"] == "decision, actions → final_answer"
    assert report["written"] == ["minimized/long-min.yaml", "minimized/test_long_min.py"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent", f"{HERE}:patient", "--check", "replay"], "does not fail replay"),
        (["--agent", "no_such_module:agent"], "cannot import 'no_such_module'"),
        (["--agent", f"{HERE}:nobody"], "has no function 'nobody'"),
        (["--agent", f"{HERE}:patient", "--check", f"{HERE}:nothing"], "expected --check as"),
        (["--agent", f"{HERE}:patient", "--check", "no check"], "expected --check as"),
        (["--agent", f"{HERE}:patient", "--check", f"{HERE}:now_and_then"], "not deterministic"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_nothing_to_do_is_said_in_one_line(long: Path, arguments: list[str], words: str) -> None:
    """Exit code 2, what was expected, and no file."""
    done = agentrig("minimize", long, *arguments)
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert not Path("minimized").exists()


def test_agent_that_may_not_be_imported(tmp_path: Path) -> None:
    """A session names code: it runs only when its user trusts it."""
    path = tmp_path / "stranger.yaml"
    recorded = three_steps(path)
    assert recorded.file.session is not None
    agent = recorded.file.session.agent.model_copy(update={"factory": "their.agents:agent"})
    session = recorded.file.session.model_copy(update={"agent": agent})
    path.write_text(render_session(SessionFile(session, recorded.file.exchanges)), encoding="utf-8")
    done = agentrig("minimize", path)
    assert done.exit_code == 2
    assert "--allow their.agents" in done.output


def test_stock_cassette(tmp_path: Path) -> None:
    """Nobody knows its agent."""
    path = tmp_path / "stock.yaml"
    path.write_text("version: 1\ninteractions: []\n", encoding="utf-8")
    done = agentrig("minimize", path)
    assert done.exit_code == 2
    assert "without a session block" in done.output
    with pytest.raises(SessionError, match="session block"):
        minimize(load_session(path), patient, check="lint")


def test_time_is_up(long: Path) -> None:
    """The best so far fails the same way; where it is nothing smaller, nothing is written."""
    result = minimize(load_session(long), support.two_observations, seconds=1e-9)
    assert not result.finished
    assert result.replays == 0
    assert "this is the best so far" in replace(result, size=(2, 1)).in_words()
    assert failure_of(again(result.file), support.two_observations) == result.failure
    done = agentrig(
        "minimize", long, "--agent", f"{HERE}:two_observations", "--seconds", "0.000001"
    )
    assert done.exit_code == 2
    assert "no smaller session was found: the time was up first" in done.output
    assert not Path("minimized").exists()


def test_what_is_as_small_as_can_be(long: Path) -> None:
    """It is said, the exit code is that of a session with nothing to minimize, also in JSON."""
    agent = ("--agent", f"{HERE}:two_observations", "--seconds", AGES)
    assert agentrig("minimize", long, *agent).exit_code == 0
    (small,) = Path("minimized").glob("*.yaml")
    before = {each: each.read_bytes() for each in Path("minimized").iterdir()}
    done = agentrig("minimize", small, *agent)
    assert done.exit_code == 2
    assert "no smaller session was found: each that was tried fails otherwise" in done.output
    assert "nothing is written" in done.output
    assert "→" not in done.output
    report = json.loads(agentrig("minimize", small, *agent, "--json").stdout)
    assert report["written"] == []
    assert report["bytes"][0] == report["bytes"][1]
    assert before == {each: each.read_bytes() for each in Path("minimized").iterdir()}


def test_interrupted(long: Path) -> None:
    """Ctrl-C in the middle: code 130, and nothing is written."""
    done = agentrig("minimize", long, "--agent", f"{HERE}:patient", "--check",
                    f"{HERE}:interrupting")  # fmt: skip
    assert done.exit_code == 130
    assert "nothing is written" in done.output
    assert not Path("minimized").exists()


def test_a_file_of_yours_is_not_replaced(long: Path) -> None:
    """Only a minimized session of before may be written over."""
    arguments = ("minimize", long, "--agent", f"{HERE}:ends_early", "--out", "out")
    assert agentrig(*arguments).exit_code == 0
    assert agentrig(*arguments).exit_code == 0
    Path("out/long-min.yaml").write_bytes(long.read_bytes())
    done = agentrig(*arguments)
    assert done.exit_code == 2
    assert "no minimized session" in done.output
    assert Path("out/long-min.yaml").read_bytes() == long.read_bytes()


def test_nondeterministic_agent(long: Path) -> None:
    """An agent that fails by chance is told, not minimized."""
    flips = iter([True, False, True, False])

    def moody(model: Any, **how: Any) -> Agent:
        return (support.ends_early if next(flips) else patient)(model, **how)

    with pytest.raises(NothingToMinimize, match="not deterministic"):
        minimize(load_session(long), moody)


@settings(
    max_examples=8, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(st.data())
def test_never_larger_and_fails_the_same_way(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever session and whatever defect: same fingerprint, not larger, mended with it."""
    kinds = st.sampled_from([
        call("get_weather", city="Lisbon"),
        call("calculator", expression="2 + 3"),
        call("get_current_time"),
        call("no_such_tool", x=1),
        "I have no idea.",
        'Action: {"name": "calculator", "parameters": {"expression": "1 +',
    ])
    replies = [*data.draw(st.lists(kinds, min_size=1, max_size=6)), ANSWER]
    stream = data.draw(st.booleans())
    factory = data.draw(
        st.sampled_from([support.two_observations, support.described_otherwise, support.raises])
    )
    path = tmp_path_factory.mktemp("drawn") / "drawn.yaml"
    scripts = (ollama_reply(text) for text in replies)
    file = record_scripted(path, *scripts, factory=patient, stream=stream).file
    failure = failure_of(file, factory, check="replay")
    if failure is None:
        return
    result = minimize(file, factory, seconds=1)
    small = again(result.file)
    assert result.failure == failure
    assert failure_of(small, factory) == failure
    assert weight(small) <= weight(file)
    assert failure_of(small, patient, check="replay") is None
