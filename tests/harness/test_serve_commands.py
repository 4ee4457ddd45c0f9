"""Serve as its users meet it: the pytest fixture and the command."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import requests
from click.testing import CliRunner

from harness.cli import main
from harness.sessions.serve import serve
from tests.harness.command_line import run_pytest
from tests.harness.serve_support import ASKED, QUESTION, SEEN, tool_turn
from tests.harness.sessions_support import three_steps

TESTS = """
import requests

QUESTION, ASKED, SEEN = {messages!r}


def ask(server, *messages):
    body = {{"model": "m", "messages": messages, "stream": False}}
    with requests.Session() as http:
        http.trust_env = False
        return http.post(server.url + "/api/chat", json=body, timeout=10)


def test_all_of_it(serve_session):
    with serve_session("tour") as server:
        ask(server, QUESTION)
        assert "25" in ask(server, QUESTION, ASKED, SEEN).json()["message"]["content"]


def test_half_of_it(serve_session):
    with serve_session("tour") as server:
        ask(server, QUESTION)


def test_something_else(serve_session):
    with serve_session("tour") as server:
        ask(server, {{"role": "user", "content": "Hi"}}).raise_for_status()
"""


def test_the_fixture_judges_at_the_end_of_its_block(tmp_path: Path) -> None:
    """An agent that asks something else, or too little, fails its test, and is told why."""
    (tmp_path / "cassettes").mkdir()
    tool_turn(tmp_path / "cassettes" / "tour.yaml")
    test = TESTS.format(messages=(QUESTION, ASKED, SEEN))
    (tmp_path / "test_it.py").write_text(test, encoding="utf-8")
    code, output = run_pytest(tmp_path)
    assert code == 1, output
    assert "2 failed, 1 passed" in output
    assert "1 of 2 recorded requests was not sent, the first is request 2" in output
    assert "HTTPError: 409" in output
    assert "differs in: question" in output


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    """It says where, answers, and its exit code says whether all fitted."""
    path = tool_turn(tmp_path / "tour.yaml")
    command = [sys.executable, "-m", "harness", "serve", str(path), "--port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as served:
        assert served.stdout
        assert served.stderr
        url = served.stderr.readline().split(" on ")[1].split(";")[0]
        with requests.Session() as http:
            http.trust_env = False
            body = {"model": "m", "messages": [QUESTION]}
            assert http.post(f"{url}/api/chat", json=body, timeout=10).status_code == 200
            body["model"] = "other"
            assert http.post(f"{url}/api/chat", json=body, timeout=10).status_code == 409
        served.send_signal(signal.SIGTERM)
        verdict = json.loads(served.communicate(timeout=30)[0])
    assert served.returncode == 1
    assert (verdict["ok"], verdict["answered"], len(verdict["refused"])) == (False, 1, 1)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_served(tmp_path: Path) -> None:
    """An empty file, bytes that are no text and a link that leads nowhere end nothing."""
    tool_turn(tmp_path / "tour.yaml")
    (tmp_path / "empty.yaml").touch()
    (tmp_path / "zeros.yaml").write_bytes(b"\0\0\0")
    (tmp_path / "lost.yaml").symlink_to("nowhere")
    command = [sys.executable, "-m", "harness", "serve", str(tmp_path), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    ) as served:
        assert served.stderr
        told = ""
        for line in served.stderr:
            told += line
            if line.startswith("serving"):
                break
        assert "serving 1 session on" in told
        for name in ("empty.yaml", "zeros.yaml", "lost.yaml"):
            assert sum(name in line for line in told.splitlines()) == 1, told
        served.send_signal(signal.SIGINT)
        output, _ = served.communicate(timeout=30)
    assert (served.returncode, output) == (0, "0 requests answered, 0 refused\n")


def test_nothing_left_to_serve_is_an_error(tmp_path: Path) -> None:
    """Each file is named, then that there is none."""
    (tmp_path / "empty.yaml").touch()
    done = CliRunner().invoke(main, ["serve", str(tmp_path), "--port", "0"])
    assert done.exit_code == 2
    assert "empty.yaml" in done.output
    assert "there is none" in done.output


def test_a_lost_link_on_the_command_line_does_not_end_the_command_for_the_others(
    tmp_path: Path,
) -> None:
    """What a shell makes of `*.yaml` holds links that lead nowhere, or in a circle."""
    three_steps(tmp_path / "a.yaml")
    (tmp_path / "lost.yaml").symlink_to("nowhere")
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    paths = sorted(map(str, tmp_path.glob("*.yaml")))
    assert len(paths) == 3
    commands = {"replay": 2, "lint": 1, "sweep --steps 1 --operators 404 --workers 1": 1}
    for command, code in commands.items():
        done = CliRunner().invoke(main, [*command.split(), *paths])
        assert done.exit_code == code, done.output
        assert "lost.yaml" in done.output
        assert "round.yaml" in done.output
        assert " a " in done.output or "3 files" in done.output


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """And what to do about it."""
    path = tool_turn(tmp_path / "tour.yaml")
    with serve([path]) as server:
        port = server.url.rpartition(":")[2]
        done = CliRunner().invoke(main, ["serve", str(path), "--port", port])
    assert done.exit_code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in done.output
    assert "another port" in done.output


def test_a_sweep_of_a_folder_leaves_out_what_names_no_agent(tmp_path: Path) -> None:
    """A proxy's recording beside sessions is told of and fails nothing, unless it is asked for."""
    three_steps(tmp_path / "a.yaml")
    stock = tool_turn(tmp_path / "tour.yaml")
    how = ["--steps", "1", "--operators", "404", "--workers", "1"]
    done = CliRunner().invoke(main, ["sweep", str(tmp_path), *how])
    assert done.exit_code == 0, done.output
    assert f"left out: {stock}" in done.stderr
    done = CliRunner().invoke(main, ["sweep", str(tmp_path), str(stock), *how])
    assert done.exit_code == 1
    assert "NOT SWEPT" in done.output
