"""`parse_reply`: the text of a reply in, a decision out. It never raises."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent_core.messages import (
    Actions,
    FormatError,
    Language,
    ParsedReply,
    Protocol,
)
from agent_core.parsing.fast import parse_clean
from agent_core.parsing.hints import hint_for
from agent_core.parsing.json_strict import MAX_CHARS
from agent_core.parsing.labels import label_at
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.prepare import mend_surrogates, reveal_labels, unwrap
from agent_core.parsing.thoughts import reason_in
from agent_core.parsing.toolset import Tools, Toolset

if TYPE_CHECKING:
    from agent_core.parsing.verdicts import Decided

WHOLE = frozenset({"stop"})
CUT = frozenset({"length", "max_tokens"})
_CJK = r"[\u3400-\u9fff\uf900-\ufaff]"
_SAMPLE = 2_000  # characters looked at to tell the language


def parse_reply(
    text: str,
    *,
    tools: Tools,
    protocol: Protocol | None = None,
    finish_reason: str | None = None,
    language: Language | None = None,
    max_chars: int = MAX_CHARS,
) -> ParsedReply:
    """Read a model's reply.

    Args:
        text: the reply as the model wrote it; any string.
        tools: the registered tools: names, or a mapping of names to JSON Schemas.
        protocol: the protocol in use. Every notation is accepted in each; it decides which
            shape a hint shows, and with `native` prose is the answer.
        finish_reason: what the server said. Only `stop` proves that the reply is whole; with
            `length` a call at its very end is refused.
        language: of hints; None takes the reply's own.
        max_chars: longer replies are refused.
    """
    clean = parse_clean(text, tools, finish_reason) if len(text) <= max_chars else None
    if clean is not None:
        return clean
    toolset = Toolset.of(tools)
    log = RepairLog()
    try:
        decided = _decide(
            text, toolset, log, protocol=protocol, finish_reason=finish_reason, max_chars=max_chars
        )
    except Refusal as refusal:
        safe, _ = mend_surrogates(text[:_SAMPLE])
        return ParsedReply(
            None,
            None,
            format_error(
                refusal,
                toolset,
                protocol,
                language or language_of(safe),
                ended=finish_reason in WHOLE,
            ),
            log.all(),
        )
    thought = decided.thought or None
    return ParsedReply(thought, reason_in(thought), decided.decision, log.all(), decided.ignored)


def _decide(
    text: str,
    tools: Toolset,
    log: RepairLog,
    *,
    protocol: Protocol | None,
    finish_reason: str | None,
    max_chars: int,
) -> Decided:
    if len(text) > max_chars:
        raise Refusal("too_large", f"{len(text)} characters, at most {max_chars} are read")
    from agent_core.parsing.decide import ReplyPass  # noqa: PLC0415 - not for clean replies
    from agent_core.parsing.reading import Reading  # noqa: PLC0415

    text, broken = mend_surrogates(text)
    text = reveal_labels(unwrap(text, log), log)
    reading = Reading(
        text,
        tools,
        log,
        ended=finish_reason in WHOLE,
        cut=finish_reason in CUT,
        native=protocol == "native",
    )
    decided = ReplyPass(reading).run()
    if broken and isinstance(decided.decision, Actions):
        raise Refusal("unsafe", "the reply holds half of a surrogate pair")
    return decided


def is_complete(text: str, *, tools: Toolset, protocol: Protocol | None) -> bool:
    """Whether no further text can change the decision that `text` holds."""
    try:
        return _decide(
            text, tools, RepairLog(), protocol=protocol, finish_reason=None, max_chars=MAX_CHARS
        ).complete
    except Refusal:
        return False


def format_error(
    refusal: Refusal,
    tools: Toolset,
    protocol: Protocol | None,
    language: Language,
    *,
    ended: bool,
) -> FormatError:
    """The typed error for a refusal, with a hint for the model.

    With `ended` the model wrote all it wanted: what looks cut is JSON that lacks a quote or more.
    """
    schema = (tools.schema(refusal.tool) if refusal.tool else None) or {}
    properties = schema.get("properties")
    hint = hint_for(
        "bad_json" if refusal.code == "truncated" and ended else refusal.code,
        language=language,
        protocol=protocol,
        tools=tools,
        tool=refusal.tool,
        parameters=properties if isinstance(properties, dict) else (),
    )
    message, _ = mend_surrogates(refusal.message)
    return FormatError(refusal.code, message, hint)


def language_of(text: str) -> Language:
    """`zh` when the first label is Chinese, or much of the text is."""
    sample = text[:_SAMPLE]
    for line in sample.split("\n", 8)[:8]:
        label = label_at(line, 0)
        if label is not None:
            return "zh" if re.search(_CJK, line[: label.end]) else "en"
    return "zh" if 8 * len(re.findall(_CJK, sample)) > len(sample) else "en"
