"""What is recorded: agent, model, questions."""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.messages import JsonObject, Message, ToolCall
from agent_core.models.address import parse_address
from harness.redact import redactor
from harness.sessions.errors import SessionError
from harness.sessions.format import AgentSource, ModelSource, Session, Turn
from harness.sessions.paths import changed_paths
from harness.sessions.sources import public, resolved


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


def public_plan(plan: Plan) -> Plan:
    """The plan as it may stand in a file."""
    agent = plan.agent.model_copy(
        update={"parameters": redactor.value(plan.agent.parameters)},
    )
    turns = tuple(Turn(**redactor.value(turn.model_dump())) for turn in plan.turns)
    return Plan(agent, public(resolved(plan.model)), turns, plan.seed)


def see_that_it_is_the_same(given: Plan, begun: Plan) -> None:
    """A recording that is resumed stays what it was.

    Raises:
        SessionError: it was begun with something else.
    """
    was, now = changed_paths(_said(begun), _said(given))
    if was or now:
        sides = ["; ".join((side or "nothing of it").splitlines()) for side in (was, now)]
        raise SessionError(
            f"the interrupted recording is of {sides[0]}, not of {sides[1]}; leave out what "
            "differs to go on with it, or begin anew with --rewrite"
        )


def _said(plan: Plan) -> JsonObject:
    kept = public_plan(plan)
    model = kept.model.model_dump()
    model["base_url"] = parse_address(kept.model.base_url or "", what="base_url").url
    return {
        **kept.agent.model_dump(),
        "model": model,
        "turns": [turn.model_dump() for turn in kept.turns],
        "seed": kept.seed,
    }


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
