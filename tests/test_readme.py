"""The code of the README and of the page about the agent runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def blocks(name: str, language: str) -> list[str]:
    """The code blocks of a document."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_example_agent_and_its_test_pass(tmp_path: Path) -> None:
    """What a reader copies: the factory, the test with the fixture, the ini option."""
    shop, test, _ = blocks("README.md", "python")
    (tmp_path / "shop.py").write_text(shop, encoding="utf-8")
    (tmp_path / "test_shop.py").write_text(test, encoding="utf-8")
    (ini,) = blocks("README.md", "toml")
    (tmp_path / "pyproject.toml").write_text(ini, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--strict-config", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_gears_work_together_and_print_what_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The comment behind the last line is what it prints."""
    gears = blocks("README.md", "python")[-1]
    exec(compile(gears, "README.md", "exec"), {})
    assert gears.endswith(f"# {capsys.readouterr().out}")


def test_the_page_about_the_agent_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    """The blocks run one after the other; behind each `print` stands what it printed."""
    scope: dict[str, object] = {}
    told = blocks("docs/agent.md", "python")
    for block in told:
        exec(compile(block, "docs/agent.md", "exec", dont_inherit=True), scope)
    promised = re.findall(r"^print\(.*\)  # (.*)$", "\n".join(told), re.MULTILINE)
    printed = capsys.readouterr().out.splitlines()
    printed.remove("order -> Error: boats are sold out; offer a canoe")  # the observer's
    assert printed == promised


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_every_python_block_compiles_and_every_command_exists(name: str) -> None:
    """No command in the README is one that `agentrig` does not have."""
    from harness.cli import COMMANDS

    for block in blocks(name, "python"):
        compile(block, name, "exec")
    commands = re.findall(r"^agentrig (\w+)", "\n".join(blocks(name, "sh")), re.MULTILINE)
    assert commands
    assert set(commands) <= set(COMMANDS)
