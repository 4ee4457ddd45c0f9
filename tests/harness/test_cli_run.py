"""`agentrig run`, and what every command says when it is used wrongly."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.command_line import agentrig
from tests.harness.sessions_support import (
    ANSWER,
    ASSISTANT,
    SUM,
    ollama_reply,
    response,
    serving,
    three_steps,
)

pytestmark = pytest.mark.usefixtures("own_directory")


SECRET = "sk-test-ABCDEFGHIJKLMNOPQRSTUVWX"


def test_run_prints_the_steps_and_the_answer() -> None:
    """Thought, action, observation, answer, stop reason; nothing is kept."""
    with serving(ollama_reply(SUM), ollama_reply(ANSWER)) as server:
        done = agentrig("run", ASSISTANT, "2 + 3?", "--model", "m", "--base-url", server.url)
    assert done.exit_code == 0, done.output
    for line in ("Step 1", "Thought: Now the sum.", "Action: calculator", "Observation: 5",
                 "Answer: It is fine", "Stop reason: final_answer"):  # fmt: skip
        assert line in done.output


def test_run_prints_what_was_lost() -> None:
    """A reply that the server cut is not taken for a whole one."""
    body = {
        "message": {"role": "assistant", "content": "Final Answer: The three rea"},
        "done": True, "done_reason": "length", "prompt_eval_count": 9, "eval_count": 9,
    }  # fmt: skip
    with serving([response(200, json.dumps(body).encode())]) as server:
        done = agentrig("run", ASSISTANT, "?", "--model", "m", "--base-url", server.url)
    assert "Answer: The three rea" in done.output
    assert "output_cut" in done.output


def test_run_as_json() -> None:
    """One object a question."""
    with serving(ollama_reply(SUM), ollama_reply(ANSWER)) as server:
        done = agentrig(
            "run", ASSISTANT, "2 + 3?", "--model", "m", "--base-url", server.url, "--json"
        )
    (run,) = json.loads(done.stdout)
    assert run["stop_reason"] == "final_answer"
    assert run["steps"][0]["actions"] == [
        {"tool": "calculator", "arguments": {"expression": "2 + 3"}}
    ]
    assert run["usage"] == {"prompt_tokens": 180, "completion_tokens": 18, "estimated": False}


def test_a_run_without_an_answer_fails() -> None:
    """Exit 1 and the reason."""
    with serving(ollama_reply(SUM)) as server:
        done = agentrig("run", ASSISTANT, "?", "--model", "m", "--base-url", server.url,
                        "--param", "max_steps=1")  # fmt: skip
    assert done.exit_code == 1
    assert "Stop reason: max_steps" in done.output


@pytest.mark.parametrize("command", ["run", "record"])
def test_an_endpoint_that_is_not_there_is_exit_3(tmp_path: Path, command: str) -> None:
    """Nothing is recorded, and the words name the address."""
    with serving() as server:
        url = server.url
    extra: list[str | Path] = ["--name", "x", "--dir", tmp_path] if command == "record" else []
    done = agentrig(command, ASSISTANT, "?", "--model", "m", "--base-url", url, *extra)
    assert done.exit_code == 3
    assert url in done.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", ASSISTANT],
        ["run", ASSISTANT, "?"],
        ["run", "nothing", "?", "--model", "m"],
        ["run", "no_such_module:x", "?", "--model", "m"],
        ["run", ASSISTANT, "?", "--model", "m", "--api", "openai"],
        ["run", ASSISTANT, "?", "--model", "m", "-o", "temperature"],
        ["run", ASSISTANT, "?", "--model", "m", "--base-url", "ftp://x"],
        ["run", ASSISTANT, "?", "--model", "m", "--param", "language=xx"],
        ["run", ASSISTANT, "?", "--model", "m", "--param", "colour=red"],
        ["record", ASSISTANT, "?", "--model", "m"],
        ["record", ASSISTANT, "?", "--model", "m", "--name", "../x"],
        ["record", ASSISTANT, "--name", "never-recorded", "--resume"],
        ["replay"],
        ["replay", "no-such-file.yaml"],
        ["replay", "."],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Exit 2 and words, never a traceback, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    done = agentrig(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_a_strangers_factory_is_refused(tmp_path: Path) -> None:
    """The command line says how to allow it and does not import it."""
    three_steps(tmp_path / "s.yaml")
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8").replace(ASSISTANT, "antigravity:fly")
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    done = agentrig("replay", tmp_path / "s.yaml")
    assert done.exit_code == 2
    assert "--allow antigravity" in done.output
    assert "antigravity" not in sys.modules
    assert agentrig("replay", tmp_path / "s.yaml", "--agent", ASSISTANT).exit_code == 0


def test_a_module_that_hides_ours_is_named(tmp_path: Path) -> None:
    """`python -m` looks into the current folder first."""
    (tmp_path / "agent_core.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "harness", "replay", "."],
        cwd=tmp_path, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"`agent_core` of {tmp_path / 'agent_core.py'} hides agentrig's" in done.stderr
    assert "Traceback" not in done.stderr


def test_secrets_and_control_characters_do_not_reach_the_terminal() -> None:
    """What a model or a tool says cannot steer a terminal or show a key."""
    with serving(ollama_reply(f"Final Answer: \x1b[31mred {SECRET} [bold]x[/bold]")) as server:
        done = agentrig("run", ASSISTANT, "?", "--model", "m", "--base-url", server.url)
    assert "\x1b[31m" not in done.output
    assert SECRET not in done.output
    assert "[bold]x[/bold]" in done.output


@pytest.mark.parametrize("command", ["run", "record", "replay", "demo"])
def test_help_has_examples(command: str) -> None:
    """Each command shows how it is used, one example a line."""
    done = agentrig(command, "--help")
    assert done.exit_code == 0
    assert f"\n    agentrig {command}" in done.output


def test_a_log_that_cannot_be_written_names_its_option(tmp_path: Path) -> None:
    """Wrong usage, before anything is asked."""
    three_steps(tmp_path / "s.yaml")
    for command in (["replay", tmp_path / "s.yaml"], ["run", ASSISTANT, "Q?", "--model", "m"]):
        done = agentrig(*command, "--log", tmp_path / "none" / "log.jsonl")
        assert done.exit_code == 2
        assert "--log: cannot write to" in done.output
        assert "existing folder" in done.output
