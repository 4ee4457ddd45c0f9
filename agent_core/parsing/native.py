"""Calls that a server reports in `tool_calls`, and the parser the loop uses."""

from __future__ import annotations

import json
from collections.abc import Sequence

from agent_core.gears import ToolSchemas
from agent_core.messages import (
    Action,
    Actions,
    JsonObject,
    JsonValue,
    Language,
    ParsedReply,
    Protocol,
    Reply,
    ToolCall,
)
from agent_core.parsing.arguments import arguments_of
from agent_core.parsing.json_strict import MAX_CHARS, read_strict
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.prepare import mend_surrogates
from agent_core.parsing.reply import CUT, WHOLE, format_error, language_of, parse_reply
from agent_core.parsing.thoughts import reason_in
from agent_core.parsing.toolset import Tools, Toolset

_WHOLE = WHOLE | {"tool_calls"}


def parse_native(
    calls: Sequence[ToolCall],
    text: str = "",
    *,
    tools: Tools,
    finish_reason: str | None = None,
    language: Language | None = None,
    max_chars: int = MAX_CHARS,
) -> ParsedReply:
    """Read the calls a server reported, in order.

    One call that cannot be used makes the whole reply a `FormatError`: running the others
    would leave the model to guess which of its calls took place.

    Args:
        calls: name and arguments; arguments may be the object or its JSON text, which is mended
            like any other.
        text: what the model wrote beside the calls; it becomes the thought.
        tools: as for `parse_reply`.
        finish_reason: with `length` nothing is run.
        language: of hints; None takes the text's own.
        max_chars: longer texts are refused.
    """
    if not calls:
        return parse_reply(
            text, tools=tools, protocol="native", finish_reason=finish_reason,
            language=language, max_chars=max_chars,
        )  # fmt: skip
    toolset = Toolset.of(tools)
    log = RepairLog()
    thought = mend_surrogates(text)[0].strip() or None
    try:
        if finish_reason in CUT:
            raise Refusal("truncated", "the reply was cut at the token limit")
        actions = tuple(
            _action(call, toolset, log, index, max_chars, ended=finish_reason in _WHOLE)
            for index, call in enumerate(calls)
        )
    except Refusal as refusal:
        language = language or language_of(thought or "")
        ended = finish_reason in _WHOLE
        error = format_error(refusal, toolset, "native", language, ended=ended)
        return ParsedReply(thought, reason_in(thought), error, log.all())
    return ParsedReply(thought, reason_in(thought), Actions(actions), log.all())


def _action(
    call: ToolCall, tools: Toolset, log: RepairLog, index: int, max_chars: int, *, ended: bool
) -> Action:
    name = tools.require(call.name)
    if name != call.name:
        log.add("name", index, call.name, name)
    if isinstance(call.arguments, str) and len(call.arguments) > max_chars:
        raise Refusal("too_large", f"{len(call.arguments)} characters of arguments", tool=name)
    arguments = arguments_of(name, _unquoted(call.arguments), tools, log, index, ended=ended)
    _refuse_unprintable(arguments)
    return Action(name, arguments, call.id, "native")


def _unquoted(arguments: JsonValue) -> JsonValue:
    """One level of double encoding: JSON text that is a JSON string holding JSON text."""
    if isinstance(arguments, str) and arguments.lstrip()[:1] == '"':
        strict = read_strict(arguments, len(arguments) - len(arguments.lstrip()))
        if strict is not None and isinstance(strict[0], str):
            return strict[0]
    return arguments


def _refuse_unprintable(arguments: JsonObject) -> None:
    """What is no JSON in UTF-8 (NaN, half a surrogate pair, endless depth) is not run."""
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise Refusal("unsafe", f"the arguments are no JSON: {error}") from None


class StandardParser:
    """The parser of the loop: native calls where the server reported any, else the text.

    Args:
        protocol: the protocol of the run.
        language: of the hints.
    """

    def __init__(self, protocol: Protocol = "react-json", language: Language = "en") -> None:
        self.protocol: Protocol = protocol
        self.language: Language = language

    def parse(self, reply: Reply, tools: ToolSchemas) -> ParsedReply:
        """Turn a reply into a decision; it never raises."""
        if reply.tool_calls:
            return parse_native(
                reply.tool_calls, reply.text, tools=tools,
                finish_reason=reply.finish_reason, language=self.language,
            )  # fmt: skip
        return parse_reply(
            reply.text, tools=tools, protocol=self.protocol,
            finish_reason=reply.finish_reason, language=self.language,
        )  # fmt: skip
