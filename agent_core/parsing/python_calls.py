"""Calls in Python's notation, `name(key="value")`: literals only, read, never evaluated."""

from __future__ import annotations

import re

from agent_core.messages import JsonObject, JsonValue
from agent_core.parsing.json_reader import JsonReader
from agent_core.parsing.json_strings import Gap
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.toolset import Toolset

_NAME = re.compile(r"[^\W\d][\w.-]*+")
_KEYWORD = re.compile(r"([^\W\d]\w*+)\s*+(=(?!=)|＝|：|:)\s*+")
_OPEN = "(（"
_CLOSE = ")）"


def read_arguments(
    text: str, pos: int, name: str, *, tools: Toolset, log: RepairLog, gap: Gap
) -> tuple[JsonObject, int]:
    """Arguments and end of the bracketed list whose first character is at `pos`."""
    json_reader = JsonReader(text, log, gap=gap, python=True)
    if text[pos - 1] == "（":
        log.add("full_width", pos - 1, "（", "(")
    pos = json_reader.skip(pos)
    arguments: JsonObject = {}
    if pos < len(text) and text[pos] in "{｛":
        reader = JsonReader(text, log, gap=lambda t, at: t[at] in _CLOSE or gap(t, at))
        value, pos = reader.read(pos)
        return value, _closed(text, json_reader.skip(pos))
    while True:
        if pos >= len(text):
            raise Refusal("truncated", f"the call of {name} is not closed")
        if text[pos] in _CLOSE:
            return arguments, pos + 1
        keyword = _KEYWORD.match(text, pos)
        if keyword is None:
            if arguments:
                raise Refusal("unsafe", f"{text[pos : pos + 20]!r} is no named argument")
            value, end = _positional(text, pos, json_reader)
            return _only_argument(name, value, tools, log, pos), end
        value, pos = json_reader.read(keyword.end())
        if keyword[1] in arguments:
            raise Refusal("ambiguous", f"the argument {keyword[1]!r} is given twice")
        arguments[keyword[1]] = value
        pos = _separated(text, json_reader.skip(pos), log)


def _separated(text: str, pos: int, log: RepairLog) -> int:
    """Past the comma at `pos`; stays before a closing bracket."""
    if pos >= len(text) or text[pos] in _CLOSE:
        return pos
    if text[pos] not in ",，":
        raise Refusal("unsafe", f"expected a literal and ',' or ')', got {text[pos : pos + 20]!r}")
    if text[pos] == "，":
        log.add("full_width", pos, "，", ",")
    end = pos + 1
    while end < len(text) and text[end].isspace():
        end += 1
    return end


def _closed(text: str, pos: int) -> int:
    if pos >= len(text):
        raise Refusal("truncated", "the call is not closed")
    if text[pos] not in _CLOSE:
        raise Refusal("bad_json", f"expected ')' at {pos}, got {text[pos : pos + 20]!r}")
    return pos + 1


def _positional(text: str, pos: int, reader: JsonReader) -> tuple[JsonValue, int]:
    """One argument without a name, and the end of the call."""
    if text[pos] == "*" or _NAME.match(text, pos):
        reader.read(pos)  # a bare name is refused there as code
        raise Refusal("unsafe", f"{text[pos : pos + 20]!r} is no literal argument")
    value, end = reader.read(pos)
    return value, _closed(text, reader.skip(end))


def _only_argument(
    name: str, value: JsonValue, tools: Toolset, log: RepairLog, pos: int
) -> JsonObject:
    """The parameter a lone value fills, where the schema leaves no doubt which it is."""
    parameter = tools.plain_parameter(name)
    if parameter is None or not isinstance(value, str):
        raise Refusal(
            "bad_arguments", f"the arguments of {name} have no names: {value!r:.80}", tool=name
        )
    log.add("positional", pos, value, parameter)
    return {parameter: value}
