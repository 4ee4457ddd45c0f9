"""A `.env` file: read only when asked, never overriding, never shown."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent_core.errors import ConfigError
from agent_core.scrub import scrub
from harness.cli import main
from harness.envfile import load_env_file, read_env_file
from tests.harness.sessions_support import ASSISTANT, ollama_reply, serving

TEXT = """\
# a comment
OPENAI_API_KEY=sk-live-env-file-12345678
export QUOTED="two words # no comment\\n"   # a comment
SINGLE='raw \\n'
SPACED = value with blanks   # a comment
EMPTY=
中文=no
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, with the environment as it was afterwards."""
    before = dict(os.environ)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    os.environ.clear()
    os.environ.update(before)


def write(folder: Path, text: str) -> Path:
    """Write a file."""
    path = folder / ".env"
    path.write_text(text, encoding="utf-8")
    return path


def test_values_quotes_comments_and_export(folder: Path) -> None:
    """The usual forms are read as usual."""
    found = read_env_file(write(folder, TEXT.replace("中文=no\n", "")))
    assert {name: each.reveal() for name, each in found.items()} == {
        "OPENAI_API_KEY": "sk-live-env-file-12345678",
        "QUOTED": "two words # no comment\n",
        "SINGLE": "raw \\n",
        "SPACED": "value with blanks",
        "EMPTY": "",
    }


def test_values_do_not_show_themselves(folder: Path) -> None:
    """Neither printed nor in a text that is scrubbed."""
    found = read_env_file(write(folder, "PLAIN=correct-horse-battery"))
    assert "horse" not in f"{found} {found['PLAIN']}"
    assert "horse" not in scrub("it was correct-horse-battery")


def test_what_is_no_assignment_is_refused_without_showing_it(folder: Path) -> None:
    """The line's number is enough to find it."""
    with pytest.raises(ConfigError, match="line 7: expected NAME=value") as caught:
        read_env_file(write(folder, TEXT))
    assert "中文" not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot read"):
        read_env_file(folder / "none")


def test_what_is_set_stays(folder: Path) -> None:
    """A variable that is set already wins over the file."""
    os.environ["AGENTRIG_TEST_A"] = "mine"
    load_env_file(write(folder, "AGENTRIG_TEST_A=file\nAGENTRIG_TEST_B=file"))
    assert (os.environ["AGENTRIG_TEST_A"], os.environ["AGENTRIG_TEST_B"]) == ("mine", "file")


def test_the_command_reads_it_only_when_asked(folder: Path) -> None:
    """A `.env` that lies there does nothing by itself."""
    with serving(ollama_reply("Final Answer: a"), ollama_reply("Final Answer: b")) as server:
        write(folder, f"OLLAMA_HOST={server.url}")
        os.environ["OLLAMA_HOST"] = "http://127.0.0.1:9"
        ask = ["run", ASSISTANT, "q", "--model", "m"]
        assert CliRunner().invoke(main, ask).exit_code == 3
        del os.environ["OLLAMA_HOST"]
        done = CliRunner().invoke(main, [*ask, "--env-file", ".env"])
        assert done.exit_code == 0, done.output
        assert len(server.requests) == 1


def test_a_broken_file_is_wrong_usage(folder: Path) -> None:
    """Exit code 2, and nothing has run."""
    write(folder, "what is this")
    done = CliRunner().invoke(main, ["run", ASSISTANT, "q", "--model", "m", "--env-file", ".env"])
    assert done.exit_code == 2
    assert "line 1" in done.output


def test_a_conversation_goes_on_until_an_empty_line(folder: Path) -> None:
    """Each question sees the ones before it."""
    with serving(ollama_reply("Final Answer: one"), ollama_reply("Final Answer: two")) as server:
        ask = ["run", ASSISTANT, "-i", "--model", "m", "--base-url", server.url]
        done = CliRunner().invoke(main, ask, input="first?\nsecond?\n\nnever asked\n")
        assert done.exit_code == 0, done.output
        assert len(server.requests) == 2
        assert b"first?" in server.requests[1]
        assert b"second?" in server.requests[1]
        assert "two" in done.output
        assert "> " not in done.stderr  # nobody types


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
@pytest.mark.parametrize("typed", [True, False])
def test_a_question_that_is_no_text_is_not_asked(folder: Path, typed: bool, errors: str) -> None:
    """Bytes that are no UTF-8, typed or as an argument, are told and go nowhere."""
    bad = b"\xff\xfe bad \xe5\x8c\x97"
    command = [sys.executable, "-m", "harness", "run", ASSISTANT, "--model", "m"]
    done = subprocess.run(
        [*command, "-i"] if typed else [*map(os.fsencode, command), bad],
        input=bad + b"\n", capture_output=True, check=False,
        env=os.environ | {"PYTHONIOENCODING": f"utf-8:{errors}"},
    )  # fmt: skip
    assert done.returncode == 2
    assert b"a question is not UTF-8" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_conversation_without_a_question_is_wrong_usage(folder: Path) -> None:
    """An empty line at once: there is nothing to ask."""
    done = CliRunner().invoke(main, ["run", ASSISTANT, "-i", "--model", "m"], input="\n")
    assert done.exit_code == 2
    assert "no question" in done.output
