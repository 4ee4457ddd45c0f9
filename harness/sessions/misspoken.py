"""A recorded reply said wrong: the sweep's faults of the reply, for clients that are not ours."""

from __future__ import annotations

from random import Random

from agent_core.messages import JsonObject, JsonValue, Reply, Step
from agent_core.parsing.native import StandardParser
from harness.faults.recording import RecordedStep
from harness.faults.replies import Speaker, misspoken
from harness.sessions.conversion import reply_of
from harness.sessions.exchange import json_body
from harness.sessions.format import SessionFile
from harness.sessions.lint_replies import described_tools
from harness.sessions.trajectory import golden_step


def misspoken_reply(code: str, file: SessionFile, number: int) -> Reply | None:
    """What the model said in answer to a request, with this fault; always the same.

    None where it cannot be: the fault needs a call and there is none, say.

    Args:
        code: of a fault of the reply.
        number: of the take, from 0.
    """
    take = file.takes[number]
    exchange = None if take.exchange is None else file.exchanges[take.exchange]
    reply = exchange and reply_of(exchange.request, exchange.response)
    if not exchange or not reply:
        return None
    speaker = _speaker(file, json_body(exchange.request.body), reply)
    parsed = StandardParser(speaker.protocol, speaker.language).parse(reply, speaker.schemas)
    step = Step(1, reply, parsed)
    rng = Random(f"{code}/{number}")  # noqa: S311 - reproducible, not secret
    faulty = misspoken(code, RecordedStep(number, step, golden_step(step)), speaker, rng)
    return None if faulty is None else faulty.reply


def _speaker(file: SessionFile, body: JsonValue, reply: Reply) -> Speaker:
    """The agent as its session tells of it; of one that is not ours request and reply tell."""
    if file.session is not None:
        described = {tool.name: tool.parameters for tool in file.session.tools}
        agent = file.session.agent
        return Speaker(agent.protocol, agent.language, described, streamed=False)
    schemas: dict[str, JsonObject] = {call.name: {} for call in reply.tool_calls}
    schemas |= described_tools(body if isinstance(body, dict) else {})
    return Speaker("native", "en", schemas, streamed=False)
