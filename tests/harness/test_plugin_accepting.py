"""The pytest plugin writes what an agent sends now only after its test has ended well."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from harness.faults import FaultServer
from harness.sessions.cassette import load_session
from tests.harness.plugin_support import asked, run_here

pytest_plugins = ["pytester"]


CHANGED = """
import requests


def test_their_agent(serve_session):
    body = {"model": "m", "stream": False, "messages": [{"role": "system", "content": "{words}"}]}
    with serve_session("theirs") as server, requests.Session() as http:
        http.trust_env = False
        http.post(server.url + "/api/chat", json=body, timeout=10)
"""


def test_what_another_agent_says_now_is_accepted_offline(
    pytester: pytest.Pytester, named: FaultServer
) -> None:
    """Red names both ways on; accepted, it is green, told, marked, and nobody was asked."""
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
    assert asked(named) == 1
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
    named: FaultServer,
    mode: str,
    test: str,
) -> None:
    """Whatever makes it red after the block: nothing is written, and that is said."""
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
    asked_before = asked(named)
    assert run("none", "Be long.", "True")[0]["passed"] == 1
    assert asked(named) == asked_before


@pytest.mark.parametrize(("well", "count"), [("True", "xfailed"), ("False", "failed")])
def test_what_is_expected_to_fail_writes_nothing(
    pytester: pytest.Pytester,
    named: FaultServer,
    well: str,
    count: str,
) -> None:
    """Neither when it fails, nor when it should have failed and did not."""
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
    assert "takes --accept CAUSE, offline, and --rewrite" in output.partition("ours.yaml")[2]
    assert "pytest --agentrig-record" not in output
    assert ours.read_bytes() == recorded.read_bytes()
    assert asked(live) == 0


def test_what_cannot_be_accepted_after_all_is_told_in_words(
    pytester: pytest.Pytester, named: FaultServer
) -> None:
    """Someone else writes the session meanwhile: that is kept, and the test fails with words."""
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
    pytester: pytest.Pytester, named: FaultServer
) -> None:
    """A request more than was recorded has no reply; the file stays as it is."""
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
