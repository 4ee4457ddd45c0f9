"""The short way of a reply with plain labels on their own lines and nothing after its decision.

Most replies of a good model are of this kind. Whatever is unusual outside the JSON is left to
the pass, which gives the same result for these replies.
"""

from __future__ import annotations

import re

from agent_core.messages import Action, Actions, FinalAnswer, JsonObject, ParsedReply
from agent_core.parsing.calls import may_hold_call
from agent_core.parsing.ending import clean_answer
from agent_core.parsing.json_reader import JsonReader
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.notations import goes_on
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.thoughts import reason_in
from agent_core.parsing.toolset import Tools

_CLEAN = re.compile(
    r"(?>(?:Thought|思考)[:：] ?(?P<thought>[^\n<`>\"“「『':：]*+)\n)?+"
    r"(?:(?:Action|行动|动作)[:：] ?"
    r"(?>(?P<name>[^\W\d]\w*+)\n(?:Action Input|行动输入|动作输入)[:：] ?)?+(?=\{)"
    r"|(?:Final Answer|最终答案)[:：] ?(?P<answer>[^\n<`>\"“”「『':：&*_#|~\\{}\[\]]*+)\n?\Z)"
)
_WHOLE = frozenset({None, "stop"})


def parse_clean(text: str, tools: Tools, finish_reason: str | None) -> ParsedReply | None:
    """The decision of a clean reply, or None for every other reply."""
    found = _CLEAN.match(text)
    if found is None or finish_reason not in _WHOLE:
        return None
    log: RepairLog | None = None
    decision: Actions | FinalAnswer | None
    if found["answer"] is not None:
        decision = _answer(text, found["answer"])
    elif found["name"]:
        log = RepairLog()
        decision = _labelled(text, found.end(), found["name"], tools, log)
    else:
        decision = _object(text, found.end(), tools)
    if decision is None or (not text.isascii() and not _encodable(text)):
        return None
    thought = (found["thought"] or "").strip() or None
    return ParsedReply(thought, reason_in(thought), decision, log.all() if log else ())


def _answer(text: str, said: str) -> FinalAnswer | None:
    words = clean_answer(said, "") if _is_plain(text) else ""
    return FinalAnswer(words) if words else None


def _labelled(text: str, pos: int, name: str, tools: Tools, log: RepairLog) -> Actions | None:
    """A name, and an input that may be mended."""
    strict = read_strict(text, pos)
    if strict is None:
        try:
            strict = JsonReader(text, log, gap=goes_on).mend(pos)
        except Refusal:
            return None
    arguments, end = strict
    return None if text[end:].strip() else _action(name, arguments, "labels", tools)


def _object(text: str, pos: int, tools: Tools) -> Actions | None:
    """A call as an object of name and parameters, on one line."""
    strict = read_strict(text, pos) if _is_plain(text) else None
    if strict is None or "\n" in text[pos : strict[1]] or text[strict[1] :].strip():
        return None
    call = strict[0]
    if not isinstance(call, dict) or call.keys() != {"name", "parameters"}:
        return None
    name, arguments = call["name"], call["parameters"]
    if not isinstance(name, str) or not name.isidentifier() or not isinstance(arguments, dict):
        return None
    return _action(name, arguments, "json", tools)


def _action(name: str, arguments: JsonObject, notation: str, tools: Tools) -> Actions | None:
    if not isinstance(tools, dict | list | tuple | frozenset | set) or name not in tools:
        return None
    if "properties" in arguments or may_hold_call(arguments):
        return None  # an echoed schema or a nested call, perhaps
    return Actions((Action(name, arguments, None, notation),))


def _is_plain(text: str) -> bool:
    """Whether there are no tags, fences, entities or invisible characters in it."""
    return text.replace("\n", "").isprintable() and not any(each in text for each in "<`&")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
