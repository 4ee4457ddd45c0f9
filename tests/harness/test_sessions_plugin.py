"""The pytest plugin: session files are tests, and nothing happens where there are none."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

# What pytest imports in this process is forgotten after each run, and numpy loads only once.
import harness.demo.agents  # noqa: F401
import harness.sessions.failed  # noqa: F401
from harness.cli import main
from harness.faults import FaultServer, Received, Response
from harness.sessions.cassette import load_session
from tests.harness.serve_support import record
from tests.harness.sessions_support import three_steps

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One recorded session."""
    path = tmp_path_factory.mktemp("recorded") / "three.yaml"
    three_steps(path)
    return path


@pytest.fixture
def live() -> Iterator[FaultServer]:
    """A server like Ollama, whose model knows one answer."""

    def answer(received: Received) -> Response:
        if received.path == "/api/chat":
            return Response(body=record("Final Answer: 5"))
        return Response(body={"version": "0.24.0", "models": []})

    with FaultServer(answer) as server:
        yield server


def asked(live: FaultServer) -> int:
    return sum(each.path == "/api/chat" for each in live.requests)


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest as a user does, with the plugins that are installed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder, capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def run_here(pytester: pytest.Pytester, *arguments: str) -> tuple[dict[str, int], str]:
    """The same in this process, which is quicker: the counts of outcomes, and the output."""
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", *arguments)
    return done.parseoutcomes(), done.stdout.str() + done.stderr.str()


def test_session_files_are_tests(pytester: pytest.Pytester, recorded: Path) -> None:
    """A green one passes and leaves nothing; a changed one fails, and what happened is shown."""
    folder = pytester.mkdir("cassettes")
    shutil.copy(recorded, folder / "good.yaml")
    (folder / "stock.yaml").write_text("interactions: []\n", encoding="utf-8")
    assert run_here(pytester, ".")[0] == {"passed": 1}
    assert not Path(".agentrig").exists()
    text = recorded.read_text(encoding="utf-8").replace("Current weather", "Weather")
    (folder / "changed.yaml").write_text(text, encoding="utf-8")
    Path("elsewhere.yaml").write_text(text, encoding="utf-8")
    counts, output = run_here(pytester, ".")
    assert counts == {"passed": 1, "failed": 1}
    assert "3 of 3 steps differ for one reason: description of tool `get_weather`" in output
    assert "+ Current weather of one city" in output
    way_on = re.search(r"if this is meant: agentrig (.*)", output)
    assert way_on is not None
    assert "└── step 3" in output
    page = Path(".agentrig/failed/cassettes-changed.yaml-replay.html")
    assert f"page: {page.absolute()}" in output
    shown = page.read_text(encoding="utf-8")
    assert "execute_tool get_weather" in shown
    assert "session changed changed: 3 of 3 steps differ for one reason" in shown
    assert "a replay: its times are its own" in shown
    assert "Traceback" not in output
    assert shlex.split(way_on[1]) == [
        "replay", "cassettes/changed.yaml", "--accept", "description of tool get_weather"
    ]  # fmt: skip
    assert CliRunner().invoke(main, shlex.split(way_on[1])).exit_code == 0
    assert run_here(pytester, ".")[0] == {"passed": 2}


def test_a_damaged_file_is_a_red_test(pytester: pytest.Pytester, recorded: Path) -> None:
    """A session that was emptied is not skipped without a word; YAML of others is."""
    folder = pytester.mkdir("cassettes")
    shutil.copy(recorded, folder / "good.yaml")
    (folder / "empty.yaml").write_bytes(b"")
    (folder / "zeros.yaml").write_bytes(bytes(4_000))
    (folder / "wide.yaml").write_bytes(recorded.read_text(encoding="utf-8").encode("utf-16"))
    (folder / "foreign.yaml").write_text("- !tag a\n--- {b: 1}\n", encoding="utf-8")
    (folder / "dir.yaml").mkdir()
    counts, output = run_here(pytester, ".")
    assert counts == {"passed": 1, "failed": 3}
    for name in ("empty", "zeros", "wide"):
        assert f"cassettes/{name}.yaml: expected" in output
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


def test_scripted(scripted_model, agent_trace):
    from agent_core.agent import Agent

    agent = agent_trace.watch(Agent(scripted_model("Final Answer: 4", name="s")))
    assert agent.run("2 + 2?").answer == "4"
    assert [span.kind for span in agent_trace.last.spans()][:2] == ["invoke_agent", "harness.step"]


@pytest.mark.agentrig("others", factory="my_agents:mine")
def test_the_marker_names_session_and_agent(replay):
    assert replay().ok


def test_no_session_is_named(replay):
    with pytest.raises(pytest.UsageError, match="no session"):
        replay()


def test_red(replay):
    replay("three")
    raise AssertionError("the test's own")
"""


def test_the_fixtures_and_the_ini_option(pytester: pytest.Pytester, recorded: Path) -> None:
    """`replay` finds sessions by name; `agentrig_allow` lets a session name its own agent."""
    folder = pytester.mkdir("cassettes")
    shutil.copy(recorded, folder / "three.yaml")
    text = recorded.read_text(encoding="utf-8")
    text = text.replace("harness.demo.agents:assistant", "my_agents:mine")
    (folder / "mine.yaml").write_text(text, encoding="utf-8")
    text = text.replace("my_agents:mine", "other_agents:others")
    (folder / "others.yaml").write_text(text, encoding="utf-8")
    pytester.makepyfile(my_agents=AGENTS, test_mine=TESTS)
    pytester.makeini("[pytest]\nagentrig_allow = my_agents\n")
    counts, output = run_here(pytester, ".", "--strict-markers")
    assert counts == {"failed": 2, "passed": 7}, output
    assert "--allow other_agents" in output
    assert "list it in the ini option agentrig_allow" in output
    assert "page: " in output.partition("the test's own")[2]


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
    text = recorded.read_text(encoding="utf-8").replace("Current weather", "Weather")
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
    pytester: pytest.Pytester, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --agentrig-record `serve_session` puts a recording proxy before the live server."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    pytester.makepyfile(test_it=SERVED.replace("{broken}", "False"))
    for mode, times in (("once", 1), ("none", 1), ("once", 1), ("rewrite", 2)):
        counts, output = run_here(pytester, f"--agentrig-record={mode}")
        assert counts == {"passed": 2}, output
        assert asked(live) == times
    sent = load_session(Path("cassettes/theirs.yaml")).exchanges[0].request
    assert (sent.method, json.loads(sent.body)["model"]) == ("POST", "m")


def test_what_a_failing_agent_did_is_no_session(
    pytester: pytest.Pytester, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be served to the next run; the test that follows records anew."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
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


CHANGED = """
import requests


def test_their_agent(serve_session):
    body = {"model": "m", "stream": False, "messages": [{"role": "system", "content": "{words}"}]}
    with serve_session("theirs") as server, requests.Session() as http:
        http.trust_env = False
        http.post(server.url + "/api/chat", json=body, timeout=10)
"""


def test_what_another_agent_says_now_is_accepted_offline(
    pytester: pytest.Pytester, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red names both ways on; accepted, it is green, told, marked, and nobody was asked."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    test = pytester.makepyfile(test_it=CHANGED.replace("{words}", "Be brief."))
    run_here(pytester, "--agentrig-record=once")
    test.write_text(CHANGED.replace("{words}", "Be long."), encoding="utf-8")
    counts, output = run_here(pytester)
    assert counts == {"failed": 1}
    assert "pytest --agentrig-record=accept takes it over, offline" in output
    assert "pytest --agentrig-record=rewrite asks the live server" in output
    assert "contextlib" not in output
    assert "pytest_agentrig.py" not in output
    counts, output = run_here(pytester, "--agentrig-record=accept")
    assert counts == {"passed": 1}
    assert "accepted: theirs: system text; the model was not asked again" in output
    assert run_here(pytester)[0] == {"passed": 1}
    assert asked(live) == 1
    assert load_session(Path("cassettes/theirs.yaml")).provenance.accepted[0].causes == [
        "system text"
    ]


AFTERWARDS = """
import pytest
import requests


def ask(server, words):
    body = {"model": "m", "stream": False, "messages": [{"role": "system", "content": words}]}
    with requests.Session() as http:
        http.trust_env = False
        return http.post(server.url + "/api/chat", json=body, timeout=10).status_code


def test_assertion(serve_session):
    with serve_session("theirs") as server:
        ask(server, "{words}")
    assert {well}


@pytest.fixture
def agent(serve_session):
    with serve_session("theirs") as server:
        yield server


def test_fixture(agent):
    ask(agent, "{words}")
    assert {well}


@pytest.fixture
def checked(agent):
    yield agent
    assert {well}


def test_teardown(checked):
    ask(checked, "{words}")


@pytest.mark.xfail(strict=True)
def test_xfail(serve_session):
    with serve_session("theirs") as server:
        ask(server, "{words}")
    assert not {well}


def test_twice(serve_session):
    for _ in range(2):
        with serve_session("theirs") as server:
            assert ask(server, "{words}") == 200
    assert {well}
"""


@pytest.mark.parametrize("mode", ["once", "rewrite", "accept"])
@pytest.mark.parametrize("test", ["assertion", "fixture", "teardown", "twice"])
def test_a_session_is_written_when_its_test_has_ended_well(
    pytester: pytest.Pytester,
    live: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    test: str,
) -> None:
    """Whatever makes it red after the block: nothing is written, and that is said."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    session = Path("cassettes/theirs.yaml")

    def run(mode: str, words: str, well: str) -> tuple[dict[str, int], str]:
        text = AFTERWARDS.replace("{words}", words).replace("{well}", well)
        pytester.makepyfile(test_it=text)
        return run_here(pytester, f"--agentrig-record={mode}", "-k", f"test_{test}")

    if mode != "once":
        run("once", "Be brief.", "True")
    before = session.read_bytes() if session.exists() else None
    counts, output = run(mode, "Be long.", "0 > 1")
    assert counts["errors" if test == "teardown" else "failed"] == 1, output
    assert (session.read_bytes() if session.exists() else None) == before
    what = "accepted: theirs: system text" if mode == "accept" else "recorded: theirs"
    assert output.count(f"not {what}: its test did not end well") == 1 + (
        test == "twice" and mode == "accept"
    )
    assert ("theirs.yaml.journal is left" in output) == (mode != "accept")
    counts, output = run(mode, "Be long.", "True")
    assert (counts["passed"], counts.get("errors")) == (1, None), output
    assert "not accepted" not in output
    assert [each.name for each in Path("cassettes").iterdir()] == ["theirs.yaml"]
    asked_before = asked(live)
    assert run("none", "Be long.", "True")[0]["passed"] == 1
    assert asked(live) == asked_before


@pytest.mark.parametrize(("well", "count"), [("True", "xfailed"), ("False", "failed")])
def test_what_is_expected_to_fail_writes_nothing(
    pytester: pytest.Pytester,
    live: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    well: str,
    count: str,
) -> None:
    """Neither when it fails, nor when it should have failed and did not."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    pytester.makepyfile(test_it=AFTERWARDS.replace("{well}", well))
    counts, output = run_here(pytester, "--agentrig-record=once", "-k", "test_xfail")
    assert counts[count] == 1
    assert "not recorded: theirs: its test did not end well" in output
    assert not Path("cassettes/theirs.yaml").exists()


SERVED_OURS = """
import json
import pytest
import requests
from harness.sessions.cassette import load_session


@pytest.mark.parametrize("words", ["", "More."])
def test_another_client(serve_session, words):
    recorded = [each.request for each in load_session("cassettes/ours.yaml").exchanges]
    with serve_session("ours") as server, requests.Session() as http:
        http.trust_env = False
        for each in recorded:
            if each.method == "POST":
                body = json.loads(each.body)
                body["messages"][0]["content"] += words
                http.post(server.url + "/api/chat", json=body, timeout=10)
"""


@pytest.mark.parametrize("mode", ["none", "accept", "rewrite"])
def test_a_session_of_ours_that_is_served_stays_ours(
    pytester: pytest.Pytester, recorded: Path, live: FaultServer, mode: str
) -> None:
    """Another client may use it; whatever the mode, it keeps its agent and its trajectory."""
    ours = pytester.mkdir("cassettes") / "ours.yaml"
    shutil.copy(recorded, ours)
    pytester.makepyfile(test_it=SERVED_OURS)
    counts, output = run_here(pytester, "test_it.py", f"--agentrig-record={mode}")
    assert counts == ({"failed": 2} if mode == "rewrite" else {"passed": 1, "failed": 1})
    assert "ours.yaml takes --accept CAUSE, offline, and --rewrite" in output
    assert "pytest --agentrig-record" not in output
    assert ours.read_bytes() == recorded.read_bytes()
    assert asked(live) == 0


def test_what_cannot_be_accepted_after_all_is_told_in_words(
    pytester: pytest.Pytester, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Someone else writes the session meanwhile: that is kept, and the test fails with words."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    test = pytester.makepyfile(test_it=CHANGED.replace("{words}", "Be brief."))
    run_here(pytester, "--agentrig-record=once")
    meanwhile = "        pathlib.Path('cassettes/theirs.yaml').write_text('interactions: []\\n')\n"
    changed = f"import pathlib\n{CHANGED}{meanwhile}".replace("{words}", "Be long.")
    test.write_text(changed, encoding="utf-8")
    counts, output = run_here(pytester, "--agentrig-record=accept")
    assert counts == {"passed": 1, "errors": 1}
    assert "cannot accept what was sent for theirs.yaml: " in output
    assert "changed while it was accepted; try again" in output
    assert "harness/sessions" not in output
    assert Path("cassettes/theirs.yaml").read_text(encoding="utf-8") == "interactions: []\n"


TWICE = """
import requests


def test_their_agent(serve_session):
    with serve_session("theirs") as server, requests.Session() as http:
        http.trust_env = False
        for words in {words}:
            http.post(server.url + "/api/chat", json={"model": words}, timeout=10)
"""


def test_another_way_of_another_agent_is_red_when_it_is_to_be_accepted(
    pytester: pytest.Pytester, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request more than was recorded has no reply; the file stays as it is."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    test = pytester.makepyfile(test_it=TWICE.replace("{words}", "['m']"))
    run_here(pytester, "--agentrig-record=once")
    before = Path("cassettes/theirs.yaml").read_bytes()
    test.write_text(TWICE.replace("{words}", "['n', 'o']"), encoding="utf-8")
    counts, output = run_here(pytester, "--agentrig-record=accept")
    assert counts == {"failed": 1}
    assert "1 of 1 step differs for one reason: body" in output
    more = "the only recorded request was answered, and this is one more; request 1 comes nearest"
    assert output.index(more) < output.index("1 of 1 step differs for one reason: body")
    assert "this cannot be accepted: pytest --agentrig-record=rewrite" in output
    assert Path("cassettes/theirs.yaml").read_bytes() == before


TOLD = """
import pytest


def test_served(serve_session):
    with serve_session("theirs"):
        pass


def test_damaged(serve_session):
    with serve_session("damaged"):
        pass


def test_strange_fault(serve_session):
    with serve_session("stock", faults=["nonsense"]):
        pass


def test_strange_factory(replay):
    replay("strange")


def test_nothing_to_judge(replay):
    replay("traffic")
"""


def test_what_our_own_code_says_is_told_without_our_own_code(
    pytester: pytest.Pytester, recorded: Path, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is gone, a damaged file, a factory that may not be imported: words only."""
    live.__exit__()
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    folder = pytester.mkdir("cassettes")
    (folder / "damaged.yaml").write_bytes(b"")
    (folder / "stock.yaml").write_text("interactions: []\n", encoding="utf-8")
    (folder / "traffic.yaml").write_text("traffic: {}\ninteractions: []\n", encoding="utf-8")
    text = recorded.read_text(encoding="utf-8")
    strange = text.replace("harness.demo.agents:assistant", "others:agent")
    (folder / "strange.yaml").write_text(strange, encoding="utf-8")
    pytester.makepyfile(test_it=TOLD)
    counts, output = run_here(pytester, "test_it.py")
    assert counts == {"failed": 4, "skipped": 1}
    assert "cannot serve damaged.yaml: " in output
    assert "cannot serve stock.yaml: expected a fault as CODE" in output
    assert "list it in the ini option agentrig_allow" in output
    _, more = run_here(pytester, "test_it.py", "--agentrig-record=rewrite", "-k", "served")
    assert f"cannot record theirs.yaml: nothing answers at {live.url}" in more
    _, skipped = run_here(pytester, "test_it.py", "-k", "judge", "-rs")
    assert "not judged: a proxy recorded it" in skipped
    for each in (output, more):
        assert "Error" not in each
        assert "harness/sessions" not in each


def test_the_examples_of_the_documentation_run(
    pytester: pytest.Pytester, live: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded once against a live server, then without one; another question is told."""
    text = (Path(__file__).parents[2] / "docs" / "pytest.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        Path(block.partition("\n")[0].removeprefix("# ")).write_text(block, encoding="utf-8")
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    counts, output = run_here(pytester, "--agentrig-record=once")
    assert counts == {"passed": 3}, output
    times = asked(live)
    assert run_here(pytester)[0] == {"passed": 4}  # with the session file of the first
    agent = Path("their_agent.py")
    agent.write_text(agent.read_text(encoding="utf-8").replace("2 + 3", "3 + 3"), encoding="utf-8")
    counts, output = run_here(pytester, "test_their_agent.py")
    assert counts == {"failed": 1}
    assert "request 1 comes nearest and differs in: question" in output
    assert "    + 3 + 3? Only the number." in output
    assert asked(live) == times


def test_workers_side_by_side(tmp_path: Path, recorded: Path, live: FaultServer) -> None:
    """With pytest-xdist two that need the same session end well; a red one is shown as ever."""
    (tmp_path / "cassettes").mkdir()
    text = recorded.read_text(encoding="utf-8").replace("Current weather", "Weather")
    (tmp_path / "cassettes" / "changed.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(RECORDED.format(url=live.url), encoding="utf-8")
    code, output = run_pytest(tmp_path, ".", "-n", "2", "--agentrig-record=once")
    assert (code, "1 failed, 2 passed" in output) == (1, True), output
    assert "└── step 3" in output
    assert asked(live) == 1


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
