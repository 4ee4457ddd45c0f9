"""Serve with faults of the reply: the model misspeaks, and a client that mends it gets on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from agent_core.clock import SystemClock
from agent_core.errors import ConfigError
from agent_core.messages import RunResult
from harness.sessions.cassette import load_session
from harness.sessions.serve import SessionServer, serve
from harness.sessions.sources import build_agent, build_model, named_factory
from tests.harness.serve_support import ANSWER, ASKED, CALL, QUESTION, SEEN, ask, tool_turn
from tests.harness.sessions_support import three_steps


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weather, a sum, the answer."""
    path = tmp_path_factory.mktemp("served") / "three.yaml"
    three_steps(path)
    return path


def run_against(server: SessionServer, path: Path) -> RunResult:
    """The session's agent asks the server as any client would."""
    session = load_session(path).session
    assert session is not None
    source = session.model.model_copy(update={"base_url": server.url})
    clock = SystemClock()
    with requests.Session() as http:
        model = build_model(source, session=http, clock=clock)
        agent = build_agent(named_factory(session.agent.factory), session.agent, model, clock, http)
        return agent.run(session.turns[0].question)


def said(reply: requests.Response) -> Any:
    return reply.json()["message"]


@pytest.mark.parametrize(
    "faults",
    [
        ["1:empty"],
        ["1:unknown-tool"],
        ["2:length"],
        ["1:two-actions"],
        ["2:invented-observation"],
        ["1:L1"],
        ["2:J1"],
        ["3:L3"],
        ["thinking-only"],
        ["1:unknown-tool", "2:empty", "500"],
    ],
    ids="+".join,
)
def test_an_agent_that_recovers_gets_its_recorded_answer(three: Path, faults: list[str]) -> None:
    """It mends the reply, or asks again and is answered; either way everything was asked for."""
    with serve([three], faults=faults) as server:
        result = run_against(server, three)
        verdict = server.verdict()
    assert verdict.ok, verdict.in_words()
    session = load_session(three).session
    assert session is not None
    assert result.answer == session.trajectory[0].answer


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_is_not_ours_meets_a_tool_that_does_not_exist(
    tmp_path: Path, streamed: bool
) -> None:
    """It complains in its own words, gets the recorded call, and goes on from there."""
    path = tool_turn(tmp_path / "tour.yaml")
    base = {"model": "m", "tools": []}
    with serve([path], faults=["1:unknown-tool"]) as server:
        reply = ask(server, {**base, "messages": [QUESTION], "stream": streamed})
        lines = [json.loads(line)["message"] for line in reply.text.splitlines()]
        wrong = lines[-1] if streamed else lines[0]
        calls = [call for line in lines for call in line.get("tool_calls", [])]
        assert [call["function"]["name"] for call in calls] == ["book_zeppelin"]
        complaint = {"role": "tool", "content": "there is no book_zeppelin"}
        history = [QUESTION, wrong, complaint]
        again = ask(server, {**base, "messages": history, "stream": False})
        assert said(again)["tool_calls"] == [CALL]
        other = ask(server, {**base, "messages": [*history, ASKED, {**SEEN, "content": "?"}]})
        assert other.status_code == 409
        end = ask(server, {**base, "messages": [*history, ASKED, SEEN], "stream": False})
        assert said(end)["content"] == ANSWER
        assert len(server.verdict().refused) == 1
        assert server.verdict().protocol == ()


def test_a_client_that_understands_goes_on_at_once(tmp_path: Path) -> None:
    """Its history holds what it was sent instead of what was recorded, and nothing else is new."""
    path = tool_turn(tmp_path / "tour.yaml")
    base = {"model": "m", "stream": False}
    with serve([path], faults=["1:two-actions"]) as server:
        wrong = said(ask(server, {**base, "messages": [QUESTION]}))
        assert len(wrong["tool_calls"]) == 2
        end = ask(server, {**base, "messages": [QUESTION, wrong, SEEN]})
        assert said(end)["content"] == ANSWER
        assert server.verdict().ok


def test_one_that_asks_the_same_again_gets_what_was_recorded(tmp_path: Path) -> None:
    """The fault is there once."""
    path = tool_turn(tmp_path / "tour.yaml")
    body = {"model": "m", "messages": [QUESTION], "stream": False}
    with serve([path], faults=["1:empty"]) as server:
        assert not said(ask(server, body)).get("tool_calls")
        assert said(ask(server, body))["tool_calls"] == [CALL]
        assert ask(server, body).status_code == 409


@pytest.mark.parametrize("fault", ["2:unknown-tool", "9:cut", "9:empty", "tool-timeout", "J99"])
def test_a_fault_that_can_strike_nowhere_is_an_error(tmp_path: Path, fault: str) -> None:
    """An answer calls no tool, there is no ninth request, tools are the client's own."""
    path = tool_turn(tmp_path / "tour.yaml")
    with pytest.raises(ConfigError, match=r"cannot strike|expected a fault"):
        serve([path], faults=[fault])
