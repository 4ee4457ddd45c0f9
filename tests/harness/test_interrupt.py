"""A real Ctrl-C: SIGINT to a process, while the model answers, in a tool, and in between."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.faults import FaultServer, Received, Response

GUARD = 60.0  # seconds; only against hanging
POINTS = ["model", "tool", "between"]

AGENTS = '''
"""An agent that says where it is, and stays there."""
import time
from pathlib import Path

from agent_core.agent import Agent


def stay(where):
    Path(where).touch()
    time.sleep(60)


class Between:
    def started(self, event):
        return None

    def ended(self, token, event):
        if type(event).__name__ == "StepEnded" and event.step.index == 2 and Path("stop").exists():
            stay("between")


def look(query: str) -> str:
    """Look something up."""
    return "found"


def slow() -> str:
    """Take long."""
    if Path("stop").exists():
        return "quick"
    stay("tool")
    return "late"


def agent(model, *, clock, **_):
    return Agent(model, [look, slow], clock=clock, observers=[Between()])
'''
SCRIPT = """
import json, sys
from agent_core.clock import SystemClock
from agent_core.models import OllamaChat
from slow_agents import agent

model = OllamaChat("m", base_url=sys.argv[1], stream=True)
try:
    agent(model, clock=SystemClock()).run("q")
except KeyboardInterrupt as interrupt:
    result = interrupt.partial_result
    print(json.dumps({
        "stop_reason": result.stop_reason,
        "steps": [[seen.error.kind if seen.error else None for seen in step.observations]
                  for step in result.steps],
        "roles": [each.role for each in result.messages],
        "usage": result.usage.total,
    }))
"""


def said(text: str) -> Response:
    """A reply of the server."""
    message = {"role": "assistant", "content": text}
    return Response(
        body={"message": message, "done": True, "done_reason": "stop", "prompt_eval_count": 9,
              "eval_count": 3}
    )  # fmt: skip


LOOK = said('Action: {"name": "look", "parameters": {"query": "a"}}')
SLOW = said('Action: {"name": "slow", "parameters": {}}')


@contextmanager
def interrupted(
    point: str, folder: Path, arguments: list[str], number: signal.Signals = signal.SIGINT
) -> Iterator[tuple[int, str, str]]:
    """Run Python with `{url}` in the arguments replaced, and send a signal when it is there."""
    (folder / "slow_agents.py").write_text(AGENTS, encoding="utf-8")
    if point == "between":
        (folder / "stop").touch()
    replies = iter([LOOK, Response(silent=True) if point == "model" else SLOW])
    asked = threading.Semaphore(0)

    def answer(request: Received) -> Response:
        if request.path != "/api/chat":  # a recording asks what server it is
            return Response(404)
        asked.release()
        return next(replies)

    with FaultServer(answer) as server:
        process = subprocess.Popen(
            [sys.executable, *(each.replace("{url}", server.url) for each in arguments)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            for _ in range(2):
                assert asked.acquire(timeout=GUARD), process.poll()
            until = time.monotonic() + GUARD
            while point != "model" and not (folder / point).exists():
                assert time.monotonic() < until
                time.sleep(0.02)
            process.send_signal(number)
            out, err = process.communicate(timeout=GUARD)
        finally:
            process.kill()
        yield process.returncode, out, err


@pytest.mark.parametrize("point", POINTS)
def test_a_program_gets_a_partial_result(point: str, tmp_path: Path) -> None:
    """What happened until then, with a history that can be sent again."""
    with interrupted(point, tmp_path, ["-c", SCRIPT, "{url}"]) as (code, out, err):
        assert (code, err) == (0, "")
        partial = json.loads(out)
    assert partial["stop_reason"] == "cancelled"
    steps: dict[str, list[list[str | None]]] = {
        "model": [[None]],
        "tool": [[None], ["cancelled"]],
        "between": [[None], [None]],
    }
    assert partial["steps"] == steps[point]
    assert partial["usage"] == 12 * len(partial["steps"])
    assert partial["roles"] == ["system", "user"] + ["assistant", "user"] * len(partial["steps"])


@pytest.mark.parametrize("point", POINTS)
def test_a_command_ends_in_order(point: str, tmp_path: Path) -> None:
    """Exit 130, one line instead of a traceback, and the trace of what was done is kept."""
    run = ["-m", "harness", "run", "slow_agents:agent", "q", "--model", "m", "--base-url", "{url}"]
    with interrupted(point, tmp_path, run) as (code, out, err):
        assert code == 130, err
        assert "Traceback" not in out + err
        assert "interrupted" in err
        assert "--resume" not in err
        assert "found" in out
    (trace,) = (tmp_path / ".agentrig" / "traces").iterdir()
    assert "harness.step" in trace.read_text("utf-8")


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_recording_can_be_resumed(tmp_path: Path, number: signal.Signals, expected: int) -> None:
    """The journal holds what was done; nothing half-written is in the folder."""
    run = ["-m", "harness", "record", "slow_agents:agent", "q", "--name", "r", "--dir", "kept",
           "--model", "m", "--base-url", "{url}"]  # fmt: skip
    with interrupted("tool", tmp_path, run, number) as (code, out, err):
        assert code == expected, err
        assert "Traceback" not in out + err
        assert "--resume" in err
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["r.yaml.journal"]


def test_a_command_that_is_terminated_says_so(tmp_path: Path) -> None:
    """SIGTERM while the model is silent: a word, and the code that shells have for it."""
    run = ["-m", "harness", "run", "slow_agents:agent", "q", "--model", "m", "--base-url", "{url}"]
    with interrupted("model", tmp_path, run, signal.SIGTERM) as (code, out, err):
        assert code == 143, err
        assert "Traceback" not in out + err
        assert err.splitlines()[-1] == "terminated"


def test_ctrl_c_while_a_command_is_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that a command imports takes a while, too: the exit code is the same."""
    (tmp_path / "slow_to_load.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    done = CliRunner().invoke(main, ["fuzz", "parser", "--target", "slow_to_load:parse"])
    assert done.exit_code == 130
    assert done.stderr == "interrupted\n"


def test_a_sweep_that_is_interrupted_reports_what_it_has(tmp_path: Path) -> None:
    """The verdicts so far, the sessions that are missing, and exit code 130."""
    content = (Path(__file__).parents[2] / "cassettes" / "weather-zh.yaml").read_bytes()
    for number in range(20):
        (tmp_path / f"{number:02}.yaml").write_bytes(content)
    command = [sys.executable, "-m", "harness", "sweep", str(tmp_path), "--operators", "http"]
    with subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stderr.readline() == "swept 2 of 20\n"
        process.send_signal(signal.SIGINT)
        said = json.loads(process.stdout.read())
        assert process.wait(GUARD) == 130
    assert said["interrupted"]
    assert "00" in said["sessions"]
    missing = "interrupted before all of it was swept"
    assert said["errors"][str(tmp_path / "19.yaml")] == missing
    assert len(said["sessions"]) + len(said["errors"]) == 20
