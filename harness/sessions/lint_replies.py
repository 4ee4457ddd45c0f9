"""What the replies of a recording, and the prompts they answer, give away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent_core.context import estimate_prompt, swallowed_note, truncation_note
from agent_core.errors import ConfigError
from agent_core.messages import Action, Actions, FormatError, JsonObject, Message, Reply
from agent_core.models.wire import as_count, as_text, read_calls
from agent_core.parsing import parse_native
from agent_core.parsing.native import StandardParser
from agent_core.tools.coercion import coerce
from agent_core.tools.validation import SchemaValidator
from harness.sessions.conversion import api_of, reply_of
from harness.sessions.exchange import canonical_json, json_body
from harness.sessions.format import Session, SessionFile

_CUT = frozenset({"length", "max_tokens"})
Found = tuple[str, str, str]  # rule, where, words


def reply_findings(file: SessionFile) -> Iterator[Found]:
    """Everything that exchange after exchange shows."""
    rounds = list(_rounds(file))
    yield from _prompts(rounds)
    known = _Known.of(file.session)
    for each in rounds:
        where = f"reply {each.number}"
        if each.reply.finish_reason in _CUT:
            yield "length", where, "it was cut at the token limit"
        note = swallowed_note(each.reply, native=bool(each.body.get("tools")))
        if note is not None:
            yield "output-swallowed", where, note.text
        if file.session is not None and each.is_main(rounds[0]):
            yield from _decision(each.reply, file.session, known, where)
        elif file.session is None and each.reply.tool_calls:
            yield from _calls(each, where)


@dataclass(frozen=True, slots=True)
class _Round:
    """A chat request and what the model replied. `number` is that of the exchange, from 1."""

    number: int
    body: JsonObject
    reply: Reply
    messages: list[JsonObject]

    def is_main(self, first: _Round) -> bool:
        """Whether the agent itself asked, not one in a tool or a summary of its history."""
        return _system(self.messages) == _system(first.messages)


def _rounds(file: SessionFile) -> Iterator[_Round]:
    for take in file.takes:
        if take.exchange is None or take.within is not None:
            continue
        exchange = file.exchanges[take.exchange]
        body = json_body(exchange.request.body)
        if api_of(exchange.request.url) is None or not isinstance(body, dict):
            continue
        messages = body.get("messages")
        reply = reply_of(exchange.request, exchange.response)
        if reply is not None and isinstance(messages, list):
            dicts = [each for each in messages if isinstance(each, dict)]
            yield _Round(take.exchange + 1, body, reply, dicts)


def _prompts(rounds: Sequence[_Round]) -> Iterator[Found]:
    """Prompts that rewrite an earlier one, and those the server cut."""
    for place, each in enumerate(rounds):
        before = [old for old in rounds[:place] if _same_task(old.messages, each.messages)]
        grown_from = [old for old in before if _begins(old.messages, each.messages)]
        asked_before = any(old["role"] != "user" for old in _after_task(each.messages))
        if before and asked_before and not grown_from:
            yield _rewritten(before[-1], each)
        options, tools = each.body.get("options"), each.body.get("tools")
        note = truncation_note(
            each.reply,
            window=as_count(options.get("num_ctx")) if isinstance(options, dict) else None,
            estimate=estimate_prompt(
                [_message(one) for one in each.messages], tools if isinstance(tools, list) else ()
            ),
            previous=grown_from[-1].reply.usage.prompt_tokens if grown_from else None,
            grew=bool(grown_from) and len(grown_from[-1].messages) < len(each.messages),
        )
        if note is not None:
            yield "context-truncated", f"reply {each.number}", note.text


def _rewritten(before: _Round, now: _Round) -> Found:
    """What a prompt is that does not go on from the one before: trimmed, or told anew."""
    where = f"request {now.number}"
    if _trimmed(before.messages, now.messages):
        words = f"rounds of request {before.number} left, a summary stands in their place"
        return "prompt-trimmed", where, words
    place = _common_start(before.messages, now.messages) + 1
    words = (
        f"message {place} is not what it was in request {before.number}: "
        "the server has to read the prompt again from there"
    )
    return "prompt-not-append-only", where, words


@dataclass(frozen=True, slots=True)
class _Known:
    """What the recording itself says went wrong: that is its content, not its defect."""

    errors: frozenset[str] = frozenset()
    failed: frozenset[tuple[str, str]] = frozenset()
    tools: Mapping[str, JsonObject] = field(default_factory=dict)

    @staticmethod
    def of(session: Session | None) -> _Known:
        if session is None:
            return _Known()
        steps = [step for turn in session.trajectory for step in turn.steps]
        errors = {step.decision.removeprefix("format_error:") for step in steps}
        failed = {
            (action.tool, canonical_json(action.arguments))
            for step in steps for action in step.actions if not action.ok
        }  # fmt: skip
        tools = {tool.name: tool.parameters for tool in session.tools}
        return _Known(frozenset(errors), frozenset(failed), tools)


def _decision(reply: Reply, session: Session, known: _Known, where: str) -> Iterator[Found]:
    parser = StandardParser(session.agent.protocol, session.agent.language)
    decision = parser.parse(reply, known.tools).decision
    if isinstance(decision, FormatError) and decision.code not in known.errors:
        rule = "unknown-tool" if decision.code == "unknown_tool" else "unparsable-reply"
        yield rule, where, f"{decision.code}: {decision.message}"
    if isinstance(decision, Actions):
        for action in decision.actions:
            if (action.name, canonical_json(action.arguments)) not in known.failed:
                yield from _arguments(action, known.tools[action.name], where)


def _calls(each: _Round, where: str) -> Iterator[Found]:
    """Native calls of an agent that is not ours; their tools stand in the request."""
    described = described_tools(each.body)
    if not described:
        return
    reply = each.reply
    decision = parse_native(
        reply.tool_calls, reply.text, tools=described, finish_reason=reply.finish_reason
    ).decision
    if isinstance(decision, FormatError):
        rule = "unknown-tool" if decision.code == "unknown_tool" else "unparsable-reply"
        yield rule, where, f"{decision.code}: {decision.message}"
    elif isinstance(decision, Actions):
        for action in decision.actions:
            yield from _arguments(action, described[action.name], where)


def described_tools(body: JsonObject) -> dict[str, JsonObject]:
    """The tools of a request, by name, with their schemas."""
    tools = body.get("tools")
    functions = [
        each["function"]
        for each in (tools if isinstance(tools, list) else ())
        if isinstance(each, dict) and isinstance(each.get("function"), dict)
    ]
    return {
        str(each.get("name")): each["parameters"]
        if isinstance(each.get("parameters"), dict)
        else {}
        for each in functions
    }


def _arguments(action: Action, schema: JsonObject, where: str) -> Iterator[Found]:
    try:
        validator = _validator(canonical_json(schema))
    except ConfigError as error:
        yield "invalid-arguments", where, f"the schema of {action.name!r} is none: {error}"
        return
    value, _ = coerce(validator, action.arguments)
    for wrong in validator.errors(value)[:3]:
        yield "invalid-arguments", where, f"{action.name}: {wrong}"


@lru_cache(maxsize=256)
def _validator(schema: str) -> SchemaValidator:
    return SchemaValidator(json_body(schema.encode()))


def _system(messages: Sequence[JsonObject]) -> list[Any]:
    return [each.get("content") for each in messages if each.get("role") == "system"]


def _task(messages: Sequence[JsonObject]) -> str | None:
    return next((str(each.get("content")) for each in messages if each.get("role") == "user"), None)


def _after_task(messages: Sequence[JsonObject]) -> list[JsonObject]:
    roles = [each.get("role") for each in messages]
    start = roles.index("user") + 1 if "user" in roles else len(roles)
    return [{"role": each.get("role")} for each in messages[start:]]


def _same_task(old: Sequence[JsonObject], new: Sequence[JsonObject]) -> bool:
    before, now = _task(old), _task(new)
    return before is not None and now is not None and now.startswith(before)


def _begins(old: Sequence[JsonObject], new: Sequence[JsonObject]) -> bool:
    return _common_start(old, new) == len(old)


def _trimmed(old: Sequence[JsonObject], new: Sequence[JsonObject]) -> bool:
    """Whether older rounds left the prompt, with a summary in their place, and nothing else."""
    kept = _common_start(old, new)
    if kept == 0:  # not even the system text is the same
        return False
    rests = [new[kept:], new[kept + 1 :]]
    # Where all the old rounds left, the summary behind the task is the only trace of them.
    most = len(old) + _adds_to(old[kept : kept + 1], new[kept : kept + 1])
    return any(rest and rest[: len(old) - k] == old[k:] for k in range(kept + 1, most)
               for rest in rests)  # fmt: skip


def _adds_to(old: Sequence[JsonObject], new: Sequence[JsonObject]) -> bool:
    """Whether the second is the first one with more text behind it."""
    if not old or not new or old[0].get("role") != new[0].get("role"):
        return False
    return str(new[0].get("content")).startswith(str(old[0].get("content")))


def _common_start(old: Sequence[Any], new: Sequence[Any]) -> int:
    length = min(len(old), len(new))
    return next((n for n in range(length) if old[n] != new[n]), length)


def _message(message: JsonObject) -> Message:
    calls = tuple(read_calls(message.get("tool_calls")))
    return Message("user", as_text(message.get("content")) or "", calls)
