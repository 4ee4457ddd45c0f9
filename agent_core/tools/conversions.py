"""What one value may become without losing anything: text to a number, a number to text."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from agent_core.messages import JsonObject, JsonValue
from agent_core.tools.schema import types_of

KEEP: Any = object()
"""Given for a value that cannot be turned into what was asked."""

# `1.000` is one in English and a thousand in German: three digits after the only dot say nothing.
_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}(?:\.(?!000\Z)0{1,20})?")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,1000}(?:\.[0-9]{0,1000})?|\.[0-9]{1,1000})(?:[eE][+-]?[0-9]{1,3})?"
)
_TRUTH = {
    **dict.fromkeys(("true", "yes", "是", "真"), True),
    **dict.fromkeys(("false", "no", "否", "假"), False),
}


def _plain(text: str) -> str:
    """Full-width digits and signs as ASCII ones, without spaces around."""
    if any(unicodedata.category(each) == "No" for each in text):
        return text  # NFKC would make 32 of 3²
    return unicodedata.normalize("NFKC", text).replace("\u2212", "-").strip()


def _to_integer(value: JsonValue) -> JsonValue:
    text = _plain(value) if isinstance(value, str) else ""
    return int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else KEEP


def _to_number(value: JsonValue) -> JsonValue:
    whole = _to_integer(value)
    if whole is not KEEP and "." not in _plain(value):
        return whole
    text = _plain(value) if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text):
        return KEEP
    number = float(text)
    try:
        exact = math.isfinite(number) and Decimal(text) == Decimal(repr(number))
    except InvalidOperation:
        return KEEP
    return number if exact else KEEP  # digits that a float cannot hold would be lost


def _to_boolean(value: JsonValue) -> JsonValue:
    return _TRUTH.get(_plain(value).casefold(), KEEP) if isinstance(value, str) else KEEP


def _to_null(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and _plain(value).casefold() in {"null", "none"}:
        return None
    return KEEP


def _to_string(value: JsonValue) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return KEEP
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # not finite, or more digits than Python writes
        return KEEP


SCALARS: dict[str, Callable[[JsonValue], JsonValue]] = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "null": _to_null,
    "string": _to_string,
}


def from_json_text(value: JsonValue, kind: type, levels: int) -> JsonValue:
    """A list or object that came as its JSON text, nested no deeper than so many levels."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"[", "{"}:
        return KEEP
    try:
        decoded = json.loads(value, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return KEEP
    fits = isinstance(decoded, kind) and not _deeper(decoded, levels)
    return decoded if fits else KEEP


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


def _refuse(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no JSON")


def _deeper(value: JsonValue, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            child
            for each in layer
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not layer:
            return False
    return True


def choose_option(schema: JsonObject, value: JsonValue) -> JsonValue:
    """The one option of `enum` or `const` that differs only in case, width, spaces or type."""
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if not options or isinstance(value, dict | list) or any(_same(value, o) for o in options):
        return value
    if isinstance(value, str):
        wanted = _plain(value).casefold()
        like = [o for o in options if isinstance(o, str) and _plain(o).casefold() == wanted]
        if len(like) == 1:
            return like[0]
    if not types_of(schema):
        for convert in SCALARS.values():
            result = convert(value)
            if result is not KEEP and any(_same(result, o) for o in options):
                return result
    return value


def _same(a: JsonValue, b: JsonValue) -> bool:
    """Equality as JSON knows it: true is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)
