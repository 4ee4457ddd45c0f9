"""What the replies of a recording give away; of the prompts see `lint_prompts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from agent_core.context import message_text, most_tokens, swallowed_note
from agent_core.errors import ConfigError
from agent_core.messages import (
    Action,
    Actions,
    FinalAnswer,
    FormatError,
    JsonObject,
    Message,
    Reply,
)
from agent_core.parsing import parse_native
from agent_core.parsing.native import StandardParser
from agent_core.tools.coercion import coerce
from agent_core.tools.validation import SchemaValidator
from harness.sessions.exchange import canonical_json, json_body
from harness.sessions.format import Session, SessionFile
from harness.sessions.lint_prompts import Found, prompt_findings
from harness.sessions.lint_rounds import Round, rounds_of, unreadable_replies

_CUT = frozenset({"length", "max_tokens"})
_UNLABELLED = "unlabelled_answer"
_FAR_BEYOND = 2  # times what a reply holds, by an estimate that is high already
_UNSHOWN = 50  # tokens: marks of channels, turns and calls are no text


def reply_findings(file: SessionFile) -> Iterator[Found]:
    """Everything that exchange after exchange shows."""
    rounds = list(rounds_of(file))
    own = [each for each in rounds if not each.aside]
    yield from prompt_findings(own)
    for number, words in unreadable_replies(file):
        yield "unparsable-reply", f"reply {number}", words
    main = [each for each in own if each.is_main(own[0])]
    known = _Known.of(file.session, len(main))
    for each in rounds:
        where = f"reply {each.number}"
        if each.reply.finish_reason in _CUT:
            yield "length", where, "it was cut at the token limit"
        if (swallowed := _swallowed(each)) is not None:
            yield "output-swallowed", where, swallowed
        if file.session is None and each.reply.tool_calls:
            yield from _calls(each, where)
    if file.session is not None:
        for step, each in enumerate(main):
            yield from _decision(each.reply, file.session, known, step, f"reply {each.number}")


def _swallowed(each: Round) -> str | None:
    """Tokens that were generated, and that text, thinking and calls together cannot hold."""
    reply = each.reply
    note = swallowed_note(reply, native=bool(each.body.get("tools")))
    if note is not None:
        return note.text
    tokens = reply.usage.completion_tokens or 0
    text = message_text(Message("assistant", reply.text, reply.tool_calls)) + (reply.thinking or "")
    most = most_tokens(text)
    if tokens <= _FAR_BEYOND * most + _UNSHOWN:
        return None
    return (
        f"{tokens} tokens were generated, and the {len(text)} characters of text, thinking and "
        f"calls hold {most:.0f} at most"
    )


@dataclass(frozen=True, slots=True)
class _Known:
    """What the recording itself says went wrong: that is its content, not its defect.

    Attributes:
        steps: how each reply was read, if there is one for each step; else all are for any.
    """

    steps: tuple[frozenset[str], ...] = ()
    failed: frozenset[tuple[str, str]] = frozenset()
    tools: Mapping[str, JsonObject] = field(default_factory=dict)

    @staticmethod
    def of(session: Session | None, replies: int) -> _Known:
        if session is None:
            return _Known()
        steps = [step for turn in session.trajectory for step in turn.steps]
        read = [frozenset({step.decision.removeprefix("format_error:")}) for step in steps]
        if len(read) != replies:
            read = [frozenset().union(*read)] * replies
        failed = {
            (action.tool, canonical_json(action.arguments))
            for step in steps for action in step.actions if not action.ok
        }  # fmt: skip
        tools = {tool.name: tool.parameters for tool in session.tools}
        return _Known(tuple(read), frozenset(failed), tools)


def _decision(
    reply: Reply, session: Session, known: _Known, step: int, where: str
) -> Iterator[Found]:
    parser = StandardParser(session.agent.protocol, session.agent.language)
    decision = parser.parse(reply, known.tools).decision
    if isinstance(decision, FormatError) and decision.code not in known.steps[step]:
        rule = "unknown-tool" if decision.code == "unknown_tool" else "unparsable-reply"
        yield rule, where, f"{decision.code}: {decision.message}"
    unlabelled = isinstance(decision, FinalAnswer) and not decision.labelled
    if unlabelled and _asks_again(session) and _UNLABELLED not in known.steps[step]:
        yield "unparsable-reply", where, "prose without a label: the agent asks again"
    if isinstance(decision, Actions):
        for action in decision.actions:
            if (action.name, canonical_json(action.arguments)) not in known.failed:
                yield from _arguments(action, known.tools[action.name], where)


def _asks_again(session: Session) -> bool:
    """Whether prose without a label is no answer; data may be, and who asked for it is unknown."""
    structured = any(turn.data is not None for turn in session.trajectory)
    return session.agent.protocol != "native" and not structured


def _calls(each: Round, where: str) -> Iterator[Found]:
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
