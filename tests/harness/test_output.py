"""JSON that a command prints can be read by a parser and cannot steer a terminal."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import harness
from agent_core.events import AttemptEnded
from harness import telemetry
from harness.cli import main
from harness.fuzz.operators import OPERATORS
from harness.output import echo_json
from harness.redact import redactor
from tests.harness.event_script import PlannedStep, drive

STEERING = "\x1b[2J\x9b31m\x85\x7f\u202e\u2066\u061c\u2028\r"


def printed(value: object, indent: int | None = None) -> str:
    """What a command prints that prints this."""

    @click.command()
    def command() -> None:
        echo_json(value, indent=indent)

    done = CliRunner().invoke(command, catch_exceptions=False)
    return done.output


def steers(text: str) -> bool:
    """Whether a character of these would do something to a terminal, by its Unicode class."""
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return any(
        (unicodedata.category(c) in {"Cc", "Zl", "Zp", "Cs"} and c != "\n")
        or unicodedata.bidirectional(c) in bidi
        or c in "\u200e\u200f\u061c"
        for c in text
    )


@given(st.text(), st.text(), st.sampled_from([None, 2]))
def test_what_is_printed_is_what_was_given(key: str, text: str, indent: int | None) -> None:
    """A parser reads back every character, lone surrogates too; none of them steers."""
    value = {f"k{key}": [text + STEERING]}
    shown = printed(value, indent)
    assert not steers(shown)
    assert json.loads(shown) == redactor.value(value)


def test_chinese_stays_readable_and_secrets_do_not() -> None:
    """What is harmless is not escaped; a secret is gone whatever printed it."""
    shown = printed({
        "city": "北京",
        "password": "hunter2hunter2",
        "said": "key sk-abcdefgh12345678",
    })
    assert "北京" in shown
    assert "hunter2" not in shown
    assert "sk-abc" not in shown


def test_output_of_another_encoding_is_whole(tmp_path: Path) -> None:
    """What a code page lacks is escaped, in JSON so that it can be read back."""

    def agentrig(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            env=os.environ | {"PYTHONIOENCODING": "cp1252"},
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr
        return done.stdout.decode("cp1252")

    session = str(Path(__file__).parents[2] / "cassettes" / "weather-zh.yaml")
    said = json.loads(agentrig("replay", session, "--json"))["sessions"][0]
    assert said["answers"] == ["北京今天的天气是多云，温度为22摄氏度。"]
    assert "get_weather" in agentrig("trace", "show", session)


def test_no_command_prints_json_in_another_way() -> None:
    """`click.echo(json.dumps(…))` would let through what `echo_json` stops."""
    found = []
    for path in Path(harness.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            call = ast.unparse(node) if isinstance(node, ast.Call) else ""
            if call.startswith("click.echo(") and "dumps" in call:
                found.append(f"{path.name}: {call}")
    assert found == []


@pytest.mark.parametrize("command", [["list"], ["explain", "last"]])
def test_traces_as_json_of_a_hostile_run(tmp_path: Path, command: list[str]) -> None:
    """A trace may hold text of anybody: of who named the agent, of the server that was slow."""
    plan = PlannedStep(attempts=[AttemptEnded(503, retry_reason=STEERING), AttemptEnded(200, 9)])
    with telemetry.session(directory=tmp_path, say=lambda _: None) as watch:
        drive(watch.observer, [plan], agent=f"a{STEERING}")
    done = CliRunner().invoke(
        main, ["trace", *command, "--dir", str(tmp_path), "--json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    assert not steers(done.output)
    first = json.loads(done.output.splitlines()[0])
    assert any(STEERING in str(value) for value in first.values())


def test_nothing_is_cut_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log of a CI shows every operator with its whole name, however narrow it claims to be."""
    monkeypatch.setenv("COLUMNS", "40")
    every = [f"--only={code}" for code in OPERATORS]  # and no text that grows, which takes seconds
    done = CliRunner().invoke(main, ["fuzz", "parser", *every, "--examples", "40", "--workers=1"])
    assert "…" not in done.stdout
    assert OPERATORS["L9"].name in done.stdout
    assert OPERATORS["J11"].name in done.stdout
