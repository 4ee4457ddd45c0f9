"""The pytest plugin: session files are tests, and nothing happens where there are none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.sessions_support import three_steps


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One recorded session."""
    path = tmp_path_factory.mktemp("recorded") / "three.yaml"
    three_steps(path)
    return path


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest as a user does, with the plugins that are installed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder, capture_output=True, encoding="utf-8", timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_session_files_are_tests(tmp_path: Path, recorded: Path) -> None:
    """A green one passes; a changed one fails with the report and no traceback."""
    (tmp_path / "cassettes").mkdir()
    shutil.copy(recorded, tmp_path / "cassettes" / "good.yaml")
    text = recorded.read_text(encoding="utf-8").replace("Current weather", "Weather")
    (tmp_path / "cassettes" / "changed.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "cassettes" / "stock.yaml").write_text("interactions: []\n", encoding="utf-8")
    (tmp_path / "elsewhere.yaml").write_text(text, encoding="utf-8")
    code, output = run_pytest(tmp_path, ".")
    assert code == 1, output
    assert "1 failed, 1 passed" in output
    assert "3 of 3 steps differ for one reason: description of tool `get_weather`" in output
    assert "Traceback" not in output


AGENTS = """
from harness.demo.agents import assistant


def mine(*args, **kwargs):
    return assistant(*args, **kwargs)
"""

TESTS = """
import pytest
from harness.demo.agents import assistant


def test_by_name(replay):
    report = replay("three")
    assert report.results[0].answer == "It is fine 😀 and the sum is 5."


def test_with_another_agent(replay):
    with pytest.raises(AssertionError, match="diverges at step 2"):
        replay("three", factory=lambda *a, **k: assistant(*a, **k, max_steps=1))


def test_scripted(scripted_model):
    from agent_core.agent import Agent

    result = Agent(scripted_model("Final Answer: 4", name="s")).run("2 + 2?")
    assert result.answer == "4"
"""


def test_the_fixtures_and_the_ini_option(tmp_path: Path, recorded: Path) -> None:
    """`replay` finds sessions by name; `agentrig_allow` lets a session name its own agent."""
    (tmp_path / "cassettes").mkdir()
    shutil.copy(recorded, tmp_path / "cassettes" / "three.yaml")
    text = recorded.read_text(encoding="utf-8")
    text = text.replace("harness.demo.agents:assistant", "my_agents:mine")
    (tmp_path / "cassettes" / "mine.yaml").write_text(text, encoding="utf-8")
    text = text.replace("my_agents:mine", "other_agents:others")
    (tmp_path / "cassettes" / "others.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "my_agents.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nagentrig_allow = my_agents\n", encoding="utf-8")
    code, output = run_pytest(tmp_path, ".")
    assert (code, "--allow other_agents" in output) == (1, True), output
    assert "1 failed, 5 passed" in output


OTHERS = """
import sys


def test_nothing_of_ours_is_here():
    import harness

    assert harness.OURS is True
    assert not any(name.startswith(("harness.sessions", "agent_core")) for name in sys.modules)
"""


def test_a_project_with_a_harness_of_its_own_is_left_alone(tmp_path: Path) -> None:
    """Its package is the one that is imported, and no file of its is collected."""
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("OURS = True\n", encoding="utf-8")
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "x.yaml").write_text("interactions: []\n", encoding="utf-8")
    (tmp_path / "test_own.py").write_text(OTHERS, encoding="utf-8")
    code, output = run_pytest(tmp_path, ".", "--strict-markers", "-W", "error")
    assert (code, "1 passed" in output) == (0, True), output


def test_the_plugin_imports_nothing_of_the_rig() -> None:
    """Importing it costs pytest and no more."""
    code = (
        "import sys, pytest_agentrig\n"
        "heavy = ('harness', 'agent_core', 'requests', 'vcr', 'numpy', 'yaml')\n"
        "print([each for each in heavy if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.strip() == "[]"
