"""The short way of a reply with plain labels on their own lines and nothing after its input.

Most replies of a good model are of this kind. Whatever is unusual outside the JSON is left to
the pass, which gives the same result for these replies.
"""

from __future__ import annotations

import re

from agent_core.messages import Action, Actions, ParsedReply
from agent_core.parsing.calls import may_hold_call
from agent_core.parsing.json_reader import JsonReader
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.notations import goes_on
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.thoughts import reason_in
from agent_core.parsing.toolset import Tools

_CLEAN = re.compile(
    r"(?:(?:Thought|思考)[:：] ?([^\n<`>\"“「『':：]*+)\n)?+"
    r"(?:Action|行动|动作)[:：] ?([^\W\d]\w*+)\n"
    r"(?:Action Input|行动输入|动作输入)[:：] ?(?=\{)"
)
_WHOLE = frozenset({None, "stop"})


def parse_clean(text: str, tools: Tools, finish_reason: str | None) -> ParsedReply | None:
    """The action of a clean reply, or None for every other reply."""
    found = _CLEAN.match(text)
    if found is None or finish_reason not in _WHOLE:
        return None
    thought, name = found.groups()
    if not isinstance(tools, dict | list | tuple | frozenset | set) or name not in tools:
        return None
    log = None
    strict = read_strict(text, found.end())
    if strict is None:
        log = RepairLog()
        try:
            strict = JsonReader(text, log, gap=goes_on).mend(found.end())
        except Refusal:
            return None
    arguments, end = strict
    if text[end:].strip() or "properties" in arguments or may_hold_call(arguments):
        return None  # something follows; an echoed schema or a nested call, perhaps
    if not text.isascii() and not _encodable(text):
        return None
    thought = (thought or "").strip() or None
    action = Actions((Action(name, arguments, None, "labels"),))
    reason = reason_in(thought) if thought else None
    return ParsedReply(thought, reason, action, log.all() if log else ())


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
