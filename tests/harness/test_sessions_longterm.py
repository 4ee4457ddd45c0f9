"""Long-term memory in sessions: what was recalled is taped, and a replay keeps nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_core.agent import Agent
from agent_core.gears import ChatModel, Clock
from agent_core.longterm import LongTermMemory
from harness.sessions.replay import replay
from tests.harness.sessions_support import ollama_reply, record_scripted

REMEMBER = 'Action: {"name": "remember", "parameters": {"fact": "The cat is called Miso."}}'


def test_replay_neither_reads_nor_writes_the_memory(tmp_path: Path) -> None:
    """The session stays the same when the memory has changed, and leaves it as it is."""
    memory = LongTermMemory(tmp_path / "memory.db")
    memory.remember("The user has a cat.")

    def friend(model: ChatModel, *, clock: Clock, **_: Any) -> Agent:
        return Agent(model, memory.tools(), longterm=memory, clock=clock)

    done = record_scripted(
        tmp_path / "memory.yaml",
        ollama_reply(REMEMBER),
        ollama_reply("Final Answer: Noted."),
        ollama_reply("Final Answer: Miso."),
        questions=["My cat is called Miso.", "What is my cat called?"],
        factory=friend,
    )
    assert "The cat is called Miso." in done.results[1].messages[-2].content
    before = len(memory)
    memory.forget(1)
    memory.remember("The cat is called Tofu.")
    report = replay(done.file, factory=friend, name="memory")
    assert report.ok
    assert len(memory) == before
