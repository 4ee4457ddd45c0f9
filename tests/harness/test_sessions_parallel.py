"""Parallel native calls on the tape: recorded once, replayed the same in any order of threads."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from agent_core.agent import Agent
from agent_core.gears import ChatModel, Clock
from harness.sessions.replay import replay
from tests.harness.sessions_support import Action, ollama_reply, record_scripted, response


def native_reply(*calls: tuple[str, dict[str, Any]]) -> list[Action]:
    """A reply with native calls, as Ollama sends it."""
    message = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": n, "arguments": a}} for n, a in calls],
    }
    done = {"done": True, "done_reason": "stop", "prompt_eval_count": 90, "eval_count": 9}
    return [response(200, json.dumps({"model": "m", "message": message, **done}).encode())]


def shop(model: ChatModel, *, clock: Clock, **_: Any) -> Agent:
    """An agent whose tools give another value each time."""
    numbers = itertools.count()

    def ticket() -> int:
        """Draw a ticket."""
        return next(numbers)

    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    return Agent(model, [ticket, double], protocol="native", clock=clock)


def test_parallel_calls_replay_each_with_its_own_result(tmp_path: Path) -> None:
    """Two identical calls and two others keep their results, however the threads run."""
    asked: tuple[tuple[str, dict[str, Any]], ...] = (
        ("ticket", {}),
        ("double", {"n": 2}),
        ("ticket", {}),
        ("double", {"n": 3}),
    )
    done = record_scripted(
        tmp_path / "parallel.yaml",
        native_reply(*asked),
        ollama_reply("Tickets 0 and 1; 4 and 6."),
        factory=shop,
    )
    recorded = [each.text for each in done.results[0].steps[0].observations]
    assert recorded == ["0", "4", "1", "6"]
    for _ in range(5):
        report = replay(done.file, factory=shop, name="parallel")
        assert report.ok
        replayed = report.results[0].steps[0].observations
        assert [each.text for each in replayed] == recorded
