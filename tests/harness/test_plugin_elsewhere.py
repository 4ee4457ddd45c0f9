"""The pytest plugin in projects that have no sessions, or modules of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness.command_line import run_pytest

OTHERS = """
import sys


def test_nothing_of_ours_is_here(replay):
    import harness

    assert (harness.OURS, replay) == (True, "theirs")
    assert not any(name.startswith(("harness.sessions", "agent_core")) for name in sys.modules)


def test_red():
    raise AssertionError
"""

THEIR_CONFTEST = """
import pytest


@pytest.fixture
def replay():
    return "theirs"
"""


def test_a_project_with_a_harness_of_its_own_is_left_alone(tmp_path: Path) -> None:
    """Its package and its fixtures are the ones that are used, and no file of its is collected."""
    files: dict[str, Any] = {
        "harness/__init__.py": "OURS = True\n",
        "cassettes/x.yaml": "interactions: []\n",
        "cassettes/login.yaml": "session:\n  user: somebody\n",
        "conftest.py": THEIR_CONFTEST,
        "test_own.py": OTHERS,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    code, output = run_pytest(tmp_path, ".", "--strict-markers", "-W", "error")
    assert (code, "1 failed, 1 passed" in output) == (1, True), output
    assert "agentrig" not in output
    assert not (tmp_path / ".agentrig").exists()


USERS = """
def test_serve(serve_session):
    with serve_session("three"):
        pass


def test_replay(replay):
    replay("three")


def test_model(scripted_model):
    scripted_model("Final Answer: 4")


def test_trace(agent_trace):
    pass
"""


@pytest.mark.parametrize("theirs", ["harness.py", "harness/__init__.py", "agent_core/__init__.py"])
def test_a_module_that_hides_ours_is_named(tmp_path: Path, recorded: Path, theirs: str) -> None:
    """Whoever uses sessions all the same gets a sentence for it, and none of our source."""
    shutil.copytree(recorded.parent, tmp_path / "cassettes")
    (tmp_path / theirs).parent.mkdir(exist_ok=True)
    (tmp_path / theirs).touch()
    (tmp_path / "test_users.py").write_text(USERS, encoding="utf-8")
    code, output = run_pytest(tmp_path, ".")
    assert (code, "4 failed, 1 error" in output) == (1, True), output
    name = theirs.partition(".")[0].partition("/")[0]
    assert output.count(f"the module `{name}` of {tmp_path / theirs} hides agentrig's") >= 5
    assert "pytest_agentrig.py" not in output
    assert "Error" not in output.replace("ERROR", "")


def test_our_modules_are_loaded_as_they_are(tmp_path: Path, recorded: Path) -> None:
    """An installed distribution with a plugin is compiled anew by pytest, but for ours."""
    about = tmp_path / "other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: other\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[pytest11]\nother = other\n", encoding="utf-8")
    listed = "agent_core/__init__.py,,\nharness/__init__.py,,\nother.py,,\n"
    (about / "RECORD").write_text(listed, encoding="utf-8")
    (tmp_path / "other.py").touch()
    shutil.copytree(recorded.parent, tmp_path / "cassettes")
    kept = tmp_path / "kept"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "cassettes"],
        cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300, check=False,
        env=os.environ | {"PYTHONPYCACHEPREFIX": str(kept), "PYTHONDONTWRITEBYTECODE": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    rewritten = list(kept.rglob("*-pytest-*.pyc"))
    assert {"other", "pytest_agentrig"} <= {each.name.split(".")[0] for each in rewritten}
    assert not [each for each in rewritten if {"agent_core", "harness"} & {*each.parts}]
    assert list(kept.rglob("agent_core/loop.*.pyc"))


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
