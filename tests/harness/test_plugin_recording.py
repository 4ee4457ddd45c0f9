"""The pytest plugin records sessions when the command line says so, and tells what it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.faults import FaultServer, Received, Response
from harness.sessions.cassette import load_session
from tests.harness.command_line import run_pytest
from tests.harness.plugin_support import asked, changed, run_here

pytest_plugins = ["pytester"]


RECORDED = """
import pytest

HOW = {{"factory": "harness.demo.agents:assistant", "questions": "2 + 3?", "model": "m"}}


@pytest.mark.agentrig("sum", base_url={url!r}, **HOW)
def test_one(replay):
    assert replay().results[0].answer == "5"


@pytest.mark.agentrig("sum", base_url={url!r}, **HOW)
def test_two(replay):
    replay()
"""


def test_sessions_are_recorded_when_the_command_line_says_so(
    pytester: pytest.Pytester, live: FaultServer
) -> None:
    """None asks nobody, once asks for what is not there, rewrite asks for all again."""
    pytester.makepyfile(test_it=RECORDED.format(url=live.url))
    counts, output = run_here(pytester)
    assert counts == {"failed": 2}
    assert "sum.yaml; record it with --agentrig-record=once" in output
    assert live.requests == []
    for mode, times in (("once", 1), ("once", 1), ("none", 1), ("rewrite", 2)):
        counts, output = run_here(pytester, "test_it.py", f"--agentrig-record={mode}")
        assert counts == {"passed": 2}, output
        assert asked(live) == times
    kept = load_session(Path("cassettes/sum.yaml")).session
    assert kept is not None
    assert kept.turns[0].question == "2 + 3?"
    assert run_here(pytester, "cassettes", "--agentrig-record=rewrite")[0] == {"passed": 1}
    assert asked(live) == 3  # the file says itself how it was made


@pytest.mark.parametrize("mode", ["once", "rewrite"])
def test_what_replay_records_in_a_red_test_is_told(
    pytester: pytest.Pytester, live: FaultServer, mode: str
) -> None:
    """The file is there, for the test has looked at it; green, or not recorded, nothing is told."""
    told = "recorded: sum, and written although its test did not end well"
    test = pytester.makepyfile(test_it=RECORDED.format(url=live.url))
    if mode == "rewrite":
        assert told not in run_here(pytester, "-k", "one", "--agentrig-record=once")[1]
    test.write_text(test.read_text(encoding="utf-8").replace('"5"', '"6"'), encoding="utf-8")
    counts, output = run_here(pytester, "-k", "test_one", f"--agentrig-record={mode}")
    assert (counts["failed"], output.count(told)) == (1, 1), output
    assert Path("cassettes/sum.yaml").exists()
    counts, output = run_here(pytester, "-k", "test_one")
    assert (counts["failed"], told in output) == (1, False)


def test_a_failure_says_which_record_mode_was_in_force(
    pytester: pytest.Pytester, recorded: Path, live: FaultServer
) -> None:
    """After kiwicom/pytest-recording#68: the project says one mode, the command line another."""
    folder = pytester.mkdir("cassettes")
    text = changed(recorded)
    (folder / "changed.yaml").write_text(text, encoding="utf-8")
    pytester.makeini("[pytest]\naddopts = --agentrig-record=once\n")
    pytester.makepyfile(test_it=RECORDED.format(url=live.url))
    _, output = run_here(pytester, ".", "--agentrig-record=none")
    assert output.count("record mode: --agentrig-record=none") == 3, output
    assert output.count("there is no ") >= 2
    assert asked(live) == 0
    counts, output = run_here(pytester, "cassettes/changed.yaml")
    assert counts == {"failed": 1}
    assert output.count("record mode: --agentrig-record=once") == 1, output
    assert asked(live) == 0


def test_what_cannot_be_recorded_is_told(pytester: pytest.Pytester, live: FaultServer) -> None:
    """A marker that says too little, no marker at all, a server that is not there."""
    live.__exit__()  # closed: nothing answers at its address
    test = RECORDED.format(url=live.url).replace('"model": "m"', '"modle": "m"')
    unmarked = "def test_three(replay):\n    replay('other')\n"
    pytester.makepyfile(test_a=test, test_b=RECORDED.format(url=live.url), test_c=unmarked)
    counts, output = run_here(pytester, "--agentrig-record=once")
    assert counts == {"failed": 5}
    assert "cannot record sum.yaml: the marker agentrig does not say how: " in output
    assert "unexpected keyword argument 'modle'" in output
    assert f"cannot record sum.yaml: nothing answers at {live.url}" in output
    assert "cannot record other.yaml: nothing says what agent to ask" in output
    assert "Traceback" not in output


def test_a_model_that_fails_is_told_and_replaces_nothing(
    pytester: pytest.Pytester, live: FaultServer
) -> None:
    """What was recorded stays; a session whose server nobody named is not recorded again."""

    def answer(received: Received) -> Response:
        return Response(404, '{"error": "no such model"}')

    pytester.makepyfile(test_it=RECORDED.format(url=live.url))
    run_here(pytester, "--agentrig-record=once")
    path = Path("cassettes/sum.yaml")
    before = path.read_text(encoding="utf-8")
    with FaultServer(answer) as failing:
        pytester.makepyfile(test_it=RECORDED.format(url=failing.url))
        counts, output = run_here(pytester, "test_it.py", "--agentrig-record=rewrite")
        assert counts == {"failed": 2}
        assert "cannot record sum.yaml: " in output
        assert "stays as it was: the run ended with model_error (ModelNotFound: " in output
        assert path.read_text(encoding="utf-8") == before
        path.unlink()
        _, output = run_here(pytester, "test_it.py", "-k", "one", "--agentrig-record=once")
        assert "the model failed (ModelNotFound: " in output
        assert path.exists()
    path.write_text(before.replace(live.url, "http://192.0.2.7"), encoding="utf-8")
    counts, output = run_here(pytester, "cassettes", "--agentrig-record=rewrite")
    assert counts == {"failed": 1}
    assert "--allow http://192.0.2.7" in output
    assert "list it in the ini option agentrig_allow" in output


SERVED = """
import pytest
import requests


BODY = {"model": "m", "stream": False}


@pytest.mark.parametrize("broken", [{broken}, False])
def test_their_agent(serve_session, broken):
    with serve_session("theirs") as server, requests.Session() as http:
        http.trust_env = False
        reply = http.post(server.url + "/api/chat", json=BODY, timeout=10)
        assert reply.json()["message"]["content"] == "Final Answer: 5"
        assert not broken
"""


def test_an_agent_that_is_not_ours_is_recorded_too(
    pytester: pytest.Pytester, named: FaultServer
) -> None:
    """With --agentrig-record `serve_session` puts a recording proxy before the live server."""
    pytester.makepyfile(test_it=SERVED.replace("{broken}", "False"))
    for mode, times in (("once", 1), ("none", 1), ("once", 1), ("rewrite", 2)):
        counts, output = run_here(pytester, f"--agentrig-record={mode}")
        assert counts == {"passed": 2}, output
        assert asked(named) == times
    sent = load_session(Path("cassettes/theirs.yaml")).exchanges[0].request
    assert (sent.method, json.loads(sent.body)["model"]) == ("POST", "m")


def test_what_a_failing_agent_did_is_no_session(
    pytester: pytest.Pytester, named: FaultServer
) -> None:
    """It would be served to the next run; the test that follows records anew."""
    pytester.makepyfile(test_it=SERVED.replace("{broken}", "True"))
    counts, output = run_here(pytester, "-k", "True", "--agentrig-record=once")
    assert counts == {"failed": 1, "deselected": 1}
    assert [each.name for each in Path("cassettes").iterdir()] == ["theirs.yaml.journal"]
    told = "theirs.yaml.journal is left of a recording that did not end"
    assert told in output
    _, output = run_here(pytester, "-k", "False")
    assert told in output.partition("theirs.yaml; record it with --agentrig-record=once")[2]
    lint = CliRunner().invoke(main, ["lint", "cassettes"])
    assert "theirs.yaml.journal: " in lint.output
    assert "[orphan]" in lint.output
    counts, output = run_here(pytester, "-k", "False", "--agentrig-record=once")
    assert counts == {"passed": 1, "deselected": 1}, output
    assert len(load_session(Path("cassettes/theirs.yaml")).exchanges) == 1


def test_workers_side_by_side(tmp_path: Path, recorded: Path, live: FaultServer) -> None:
    """With pytest-xdist two that need the same session end well; a red one is shown as ever."""
    (tmp_path / "cassettes").mkdir()
    text = changed(recorded)
    (tmp_path / "cassettes" / "changed.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(RECORDED.format(url=live.url), encoding="utf-8")
    code, output = run_pytest(tmp_path, ".", "-n", "2", "--agentrig-record=once")
    assert (code, "1 failed, 2 passed" in output) == (1, True), output
    assert "└── step 3" in output
    assert asked(live) == 1
