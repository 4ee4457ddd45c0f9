"""Numbers, literals and words without quotes in damaged JSON."""

from __future__ import annotations

import json
import math
import re

from agent_core.messages import JsonValue
from agent_core.parsing.outcome import Refusal, RepairLog, snippet

MAX_DIGITS = 4_300  # what Python itself turns into an int, and prints again, at most

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?>\.[0-9]++)?+(?>[eE][+-]?[0-9]++)?+")
_LOOSE_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*+)(?>\.[0-9]*+)?+|\.[0-9]++)(?>[eE][+-]?[0-9]++)?+"
)
_WORD = re.compile(r"[^\s,，;；:：{}\[\]｛｝［］()（）\"'“”‘’＂/#<>`=]*+")
_BARE_VALUE = re.compile(r"[^\W\d](?>[\w.@-]|[ ](?=[\w.@-]))*+")
_LITERALS: dict[str, JsonValue] = {
    "true": True, "false": False, "null": None,
    "True": True, "False": False, "None": None,
    "TRUE": True, "FALSE": False, "NULL": None,
}  # fmt: skip
_NOT_FINITE = frozenset({"nan", "infinity", "inf", "+inf", "-inf", "+infinity", "-infinity"})
_NO_VALUE = frozenset({"undefined", "nil", "none", "void"}) | _NOT_FINITE
_CUT_SHORT = ("true", "false", "null")  # the beginning of one is no word of its own
_FULL_WIDTH = str.maketrans("０１２３４５６７８９．－＋", "0123456789.-+")


def word_at(text: str, pos: int) -> str:
    """The run of characters at `pos` that a scalar can be made of."""
    found = _WORD.match(text, pos)
    return found.group() if found else ""


def plain_value(word: str, pos: int, log: RepairLog, *, python: bool) -> tuple[bool, JsonValue]:
    """Whether `word` is a literal or a number, and its value."""
    if word in _LITERALS:
        if not python and word not in {"true", "false", "null"}:
            log.add("literal", pos, word, json.dumps(_LITERALS[word]))
        return True, _LITERALS[word]
    if word.lower() in _NOT_FINITE:
        raise Refusal("unsafe", f"{word} at {pos} is no JSON number")
    plain = word if word.isascii() else word.translate(_FULL_WIDTH)
    if any("0" <= char <= "9" for char in plain[:3]):
        return True, _number(word, plain, pos, log)
    return False, None


def _number(word: str, plain: str, pos: int, log: RepairLog) -> int | float:
    if not _NUMBER.fullmatch(plain):
        if not _LOOSE_NUMBER.fullmatch(plain):
            raise Refusal("bad_json", f"{snippet(word)!r} at {pos} is no number")
        log.add("number", pos, word, plain)
    if plain != word:
        log.add("full_width", pos, word, plain)
    if len(plain) > MAX_DIGITS:
        raise Refusal("too_large", f"the number at {pos} has {len(plain)} digits")
    if not set(plain) & set(".eE"):
        return int(plain)
    value = float(plain)
    if not math.isfinite(value):
        raise Refusal("unsafe", f"{snippet(word)!r} at {pos} is no finite number")
    return value


def bare_value(text: str, pos: int) -> str:
    """The words at `pos` that may be a string without its quotes, or nothing."""
    found = _BARE_VALUE.match(text, pos)
    words = found.group() if found else ""
    parts = {part.lower() for part in words.split(" ", 1)[0].split(".")}
    cut = len(words) > 1 and any(each.startswith(words.lower()) for each in _CUT_SHORT)
    return "" if parts & _NO_VALUE or cut or not words[:1].isalpha() else words
