"""What is recorded: agent, model, questions."""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.messages import Message, ToolCall
from harness.sessions.format import AgentSource, ModelSource, Session, Turn


@dataclass(frozen=True, slots=True)
class Plan:
    """What to record."""

    agent: AgentSource
    model: ModelSource
    turns: tuple[Turn, ...]
    seed: int = 0


def plan_of(session: Session) -> Plan:
    """What a session was recorded from, to record it again."""
    return Plan(session.agent, session.model, tuple(session.turns), session.seed)


def history_of(turn: Turn) -> list[Message]:
    """The messages that a session began with."""
    return [
        Message(
            each.role,
            each.content,
            tuple(ToolCall(call.id, call.name, call.arguments) for call in each.tool_calls),
            each.tool_call_id,
            each.name,
        )
        for each in turn.history
    ]
