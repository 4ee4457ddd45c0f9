"""Entries of containers with no damage, or with the damage of every day, at one match each.

Single quotes, bare keys and Python's literals are what models write most. Taking such entries
here keeps mending fast; whatever else they hold is left to `JsonReader`, which reads any entry.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agent_core.messages import JsonObject, JsonValue
from agent_core.parsing.outcome import RepairLog

_PLAIN_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}+)(?>\.[0-9]{1,17}+)?+"
_END = (  # what follows a whole member: a comma and the next key, or a closer
    r"""[ \t\r\n]*+(?:,[ \t\r\n]*+(?="[^"\\\n]{0,200}+"[ \t]*+:|'[^'\\\n]{0,200}+'[ \t]*+:"""
    r"""|[^\W\d][\w$-]{0,100}+[ \t]*+:)|(?=[}\]]))"""
)
_MEMBER = re.compile(
    r"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'|([^\W\d][\w$-]*+))[ \t]*+:[ \t\r\n]*+"""
    rf"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'|({_PLAIN_NUMBER})"""
    rf"""|(true|false|null|True|False|None)\b){_END}"""
)
_OPENING = re.compile(  # a key whose value is a container
    r"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)')[ \t]*+:[ \t\r\n]*+(?=[{\[])"""
)
_ITEM = re.compile(
    r"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'"""
    rf"""|({_PLAIN_NUMBER}))[ \t\r\n]*+,[ \t\r\n]*+(?=["'\d-])"""
)

_LITERALS: dict[str, JsonValue] = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip


def take_members(text: str, pos: int, items: JsonObject, log: RepairLog) -> int:
    """Take members into `items`; the offset of the first one left, or of the closer."""
    start = pos
    quotes = False
    while (found := _MEMBER.match(text, pos)) is not None:
        quoted, single, bare, words, single_words, number, literal = found.groups()
        key = quoted if quoted is not None else single if bare is None else bare
        value: Any = words if words is not None else single_words
        if key in items or not (value or "").isascii():
            break
        if number is not None:
            value = _number(number)
        elif literal is not None:
            value = _LITERALS[literal]
            if literal[0] in "TFN":
                log.add("literal", found.start(7), literal, json.dumps(value))
        if bare is not None:
            log.add("bare_key", pos, bare, f'"{bare}"')
        quotes = quotes or single is not None or single_words is not None
        items[key] = value
        pos = found.end()
    if quotes:
        log.add("quotes", start, "''", '""')
    return pos


def take_items(text: str, pos: int, items: list[JsonValue], log: RepairLog) -> int:
    """Take strings and numbers into `items`; the offset of the first item left."""
    while (found := _ITEM.match(text, pos)) is not None:
        double, single, number = found.groups()
        value: Any = double if double is not None else single
        if not (value or "").isascii():
            break
        if number is not None:
            value = _number(number)
        elif single is not None:
            log.add("quotes", pos, "''", '""')
        items.append(value)
        pos = found.end()
    return pos


def take_key(text: str, pos: int, log: RepairLog) -> tuple[str, int] | None:
    """The key of a container at `pos` and the offset of the container."""
    found = _OPENING.match(text, pos)
    if found is None:
        return None
    double, single = found.groups()
    if double is None:
        log.add("quotes", pos, "''", '""')
    return (single if double is None else double), found.end()


def _number(digits: str) -> int | float:
    return float(digits) if "." in digits else int(digits)
