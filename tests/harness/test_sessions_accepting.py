"""What an agent that is not ours sends now is taken over offline: replies stay, ways must be."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import vcr

from agent_core.clock import ManualClock
from harness.sessions.accepting import AcceptingServer
from harness.sessions.cassette import load_session, render_session
from harness.sessions.errors import SessionBusy, SessionError
from harness.sessions.format import SessionFile, Take, Traffic
from harness.sessions.journal import sole_writer
from harness.sessions.serve import serve
from harness.sessions.testing import server_for_test, write
from tests.harness.serve_support import ANSWER, ASKED, QUESTION, SEEN, ask, tool_turn
from tests.harness.sessions_support import three_steps

CLOCK = ManualClock(datetime(2026, 12, 1, 8, tzinfo=UTC))
SYSTEM = {"role": "system", "content": "Be brief."}
BASE: dict[str, Any] = {"model": "m", "stream": False}
FIRST: dict[str, Any] = {**BASE, "messages": [SYSTEM, QUESTION]}
SECOND: dict[str, Any] = {**BASE, "messages": [SYSTEM, QUESTION, ASKED, SEEN]}


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """What a proxy recorded: a call, and the answer to its result, with what was sent beside."""
    path = tool_turn(tmp_path / "theirs.yaml")
    takes = [Take(exchange=number, at=number, seconds=0.5) for number in range(2)]
    file = SessionFile(None, load_session(path).exchanges, traffic=Traffic(takes=takes))
    path.write_text(render_session(file), encoding="utf-8")
    return path


def accepting(path: Path, *bodies: Any) -> AcceptingServer:
    """The server, after these were sent."""
    with AcceptingServer(path) as server:
        for body in bodies:
            ask(server, body)
    return server


def test_new_requests_keep_their_replies(theirs: Path) -> None:
    """From then on the changed agent is served, and the one before is refused."""
    before = load_session(theirs)
    with AcceptingServer(theirs) as server:
        assert ask(server, FIRST).json()["message"]["tool_calls"]
        assert ask(server, SECOND).json()["message"]["content"] == ANSWER
    assert server.verdict().ok
    assert server.accept(CLOCK) == ("system text",)
    after = load_session(theirs)
    assert [each.response for each in after.exchanges] == [
        each.response for each in before.exchanges
    ]
    assert [each.request.url for each in after.exchanges] == [
        each.request.url for each in before.exchanges
    ]
    assert after.takes == before.takes
    (note,) = after.provenance.accepted
    assert (note.at, note.causes) == ("2026-12-01T08:00:00+00:00", ["system text"])
    with serve([theirs]) as server_of_now:
        assert ask(server_of_now, {**BASE, "messages": [QUESTION]}).status_code == 409
        for body in (FIRST, SECOND):
            assert ask(server_of_now, body).status_code == 200
    assert accepting(theirs, FIRST, SECOND).accept(CLOCK) == ()
    with vcr.use_cassette(str(theirs), record_mode="none") as cassette:
        assert len(cassette) == 2


@pytest.mark.parametrize(
    "bodies",
    [
        [FIRST],  # one less
        [FIRST, SECOND, SECOND],  # one more
        [FIRST, {**BASE, "messages": [QUESTION, ASKED, SEEN]}, {**BASE, "messages": [QUESTION]}],
    ],
)
def test_another_way_is_not_accepted(theirs: Path, bodies: list[Any]) -> None:
    """Requests too many, too few or out of their turn: only a recording can tell."""
    assert not accepting(theirs, *bodies).verdict().ok


def test_an_unchanged_agent_changes_nothing(theirs: Path) -> None:
    """The same requests, spelled otherwise: not a byte is written."""
    before = theirs.read_bytes()
    same = [{**BASE, "messages": each["messages"][1:], "tools": []} for each in (FIRST, SECOND)]
    server = accepting(theirs, *same)
    assert (server.verdict().ok, server.accept(CLOCK)) == (True, ())
    assert theirs.read_bytes() == before


def test_secrets_of_what_is_sent_do_not_reach_the_file(theirs: Path) -> None:
    """A key that the agent puts into its prompt is masked, as when it is recorded."""
    key = "sk-proj-" + "a1B2" * 12
    system = {"role": "system", "content": f"The key is {key}."}
    bodies = [{**BASE, "messages": [system, *each["messages"][1:]]} for each in (FIRST, SECOND)]
    assert accepting(theirs, *bodies).accept(CLOCK) == ("system text",)
    assert key not in theirs.read_text(encoding="utf-8")
    with serve([theirs]) as server:
        assert [ask(server, each).status_code for each in bodies] == [200, 200]


def test_one_writer_wins(theirs: Path) -> None:
    """Who comes second with the same finds it done; with other things, or too early, is told."""
    first, second = accepting(theirs, FIRST, SECOND), accepting(theirs, FIRST, SECOND)
    system = {"role": "system", "content": "Be long."}
    others = [{**BASE, "messages": [system, *each["messages"][1:]]} for each in (FIRST, SECOND)]
    third = accepting(theirs, *others)
    before = theirs.read_bytes()
    with sole_writer(theirs), pytest.raises(SessionBusy):
        first.accept(CLOCK)
    assert theirs.read_bytes() == before
    assert first.accept(CLOCK) == ("system text",)
    assert second.accept(CLOCK) == ()
    with pytest.raises(SessionError, match="changed while it was accepted"):
        third.accept(CLOCK)
    assert len(load_session(theirs).provenance.accepted) == 1


def test_a_worker_beside_is_waited_for(theirs: Path) -> None:
    """Two tests of one session accept the same at once: both end well, and it is noted once."""
    servers = [accepting(theirs, FIRST, SECOND) for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        with sole_writer(theirs):
            waiting = [pool.submit(write, each) for each in servers]
            assert not any(each.done() for each in waiting)
        causes = sorted(each.result(timeout=60) for each in waiting)
    assert causes == [(), ("system text",)]
    assert len(load_session(theirs).provenance.accepted) == 1


def test_it_takes_the_arguments_of_plain_serving(theirs: Path) -> None:
    """A test is not written for one mode: what changes nothing about requests is no hindrance."""
    how: dict[str, Any] = {"pace": 0.0, "repeat": False, "faults": (), "unreadable": print}
    with server_for_test(theirs, "accept", records=False, **how) as server:
        assert isinstance(server, AcceptingServer)
        for body in (FIRST, SECOND):
            ask(server, body)
    assert write(server) == ("system text",)


def test_a_stock_cassette_gets_a_place_for_the_note(tmp_path: Path) -> None:
    """It has no block; that the model was not asked has to stand somewhere."""
    path = tool_turn(tmp_path / "stock.yaml")
    accepting(path, FIRST, SECOND).accept(CLOCK)
    assert load_session(path).provenance.accepted[0].causes == ["system text"]
    assert json.loads(load_session(path).exchanges[0].request.body)["messages"] == [
        SYSTEM,
        QUESTION,
    ]


def test_a_session_of_ours_is_accepted_by_its_replay(tmp_path: Path) -> None:
    """Its trajectory belongs to its own agent."""
    three_steps(tmp_path / "ours.yaml")
    with pytest.raises(SessionError, match=r"agentrig replay .*ours.yaml --accept CAUSE"):
        AcceptingServer(tmp_path / "ours.yaml")


def test_headers_stay_those_of_the_recording(theirs: Path) -> None:
    """What came through the proxy had them; only the length is that of the new body."""
    file = load_session(theirs)
    headers = {"content-length": ["1"], "user-agent": ["theirs/1"]}
    exchanges = tuple(
        replace(each, request=replace(each.request, headers=headers)) for each in file.exchanges
    )
    text = render_session(SessionFile(None, exchanges, traffic=file.traffic))
    theirs.write_text(text, encoding="utf-8")
    assert accepting(theirs, FIRST, SECOND).accept(CLOCK) == ("system text",)
    for each in load_session(theirs).exchanges:
        length = str(len(each.request.body))
        assert each.request.headers == {"content-length": [length], "user-agent": ["theirs/1"]}
