"""Replay: a whole session, and the cost of one step among few and among many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.sessions.cassette import load_session, render_session
from harness.sessions.exchange import Exchange, Request, Response
from harness.sessions.format import SessionFile
from harness.sessions.player import Player, replay_session
from harness.sessions.replay import replay

URL = "http://localhost:11434/api/chat"
SYSTEM = "You answer questions with the help of tools. " * 40
SESSIONS = Path(__file__).parents[1] / "cassettes"


def conversation(steps: int, *, window: int = 10) -> SessionFile:
    """A session whose history grows to `window` rounds, as ours is trimmed."""
    exchanges = []
    for step in range(steps):
        said = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Go on."}]
        for earlier in range(max(0, step - window), step):
            said.append({"role": "assistant", "content": f"Action: step {earlier} " + "x" * 200})
            said.append({"role": "user", "content": f"Observation: result {earlier} " + "y" * 200})
        body = json.dumps({"model": "m", "messages": said, "stream": False}).encode()
        reply = json.dumps({"message": {"content": f"Action: step {step}"}, "done": True}).encode()
        request = Request("POST", URL, {"Content-Type": ["application/json"]}, body)
        response = Response(200, "OK", {"Content-Type": ["application/json"]}, reply)
        exchanges.append(Exchange(request, response))
    return SessionFile(None, tuple(exchanges))


def send_all(file: SessionFile, http: requests.Session) -> None:
    """Ask everything in order."""
    for exchange in file.exchanges:
        http.post(URL, data=exchange.request.body).json()


@pytest.mark.parametrize("steps", [5, 50, 500])
def test_a_step_costs_the_same_in_a_long_session(benchmark: Any, steps: int) -> None:
    """Divide by `steps`: the cost of one exchange, order and body checked."""
    file = conversation(steps)
    benchmark.extra_info["steps"] = steps

    def fresh() -> tuple[tuple[SessionFile, requests.Session], dict[str, Any]]:
        return (file, replay_session(Player(file))), {}

    benchmark.pedantic(send_all, setup=fresh, rounds=max(3, 150 // steps))


@pytest.mark.parametrize("steps", [5, 500])
def test_a_step_that_was_respelled_costs_the_same_too(benchmark: Any, steps: int) -> None:
    """The same requests in other bytes: found by what they say."""
    file = conversation(steps)
    other = SessionFile(
        None,
        tuple(
            Exchange(
                Request(
                    "POST", URL, {}, json.dumps(json.loads(each.request.body), indent=1).encode()
                ),
                each.response,
            )
            for each in file.exchanges
        ),
    )
    benchmark.extra_info["steps"] = steps

    def fresh() -> tuple[tuple[SessionFile, requests.Session], dict[str, Any]]:
        return (other, replay_session(Player(file))), {}

    benchmark.pedantic(send_all, setup=fresh, rounds=max(3, 150 // steps))


@pytest.mark.parametrize("megabytes", [1, 10])
def test_loading_a_cassette(benchmark: Any, tmp_path: Path, megabytes: int) -> None:
    """Reading a file of this size."""
    path = tmp_path / "big.yaml"
    path.write_text(render_session(conversation(110 * megabytes)), encoding="utf-8")
    benchmark.extra_info["bytes"] = path.stat().st_size
    benchmark.pedantic(load_session, args=(path,), rounds=3)


def test_replaying_the_recorded_sessions(benchmark: Any) -> None:
    """Every session of the project: loaded, run and judged."""
    paths = sorted(SESSIONS.glob("*.yaml"))
    benchmark.extra_info["sessions"] = len(paths)
    benchmark.pedantic(lambda: [replay(path, mode="lenient") for path in paths], rounds=5)
