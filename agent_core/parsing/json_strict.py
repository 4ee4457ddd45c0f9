"""Strict JSON at the speed of C: the way of most replies, and proof that nothing was mended."""

from __future__ import annotations

import json
import math

from agent_core.messages import JsonObject, JsonValue
from agent_core.parsing.json_strings import is_sound_text

MAX_CHARS = 1_000_000
MAX_DEPTH = 128


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("no finite number")
    return value


def _no_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is no JSON number")


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate keys")  # the repairing reader says which
    return found


_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant
)


def read_strict(text: str, pos: int) -> tuple[JsonValue, int] | None:
    """Value and end of the strict JSON at `pos`, or None where it needs a closer look."""
    try:
        value, end = _STRICT.raw_decode(text, pos)
    except (ValueError, RecursionError):
        return None
    doubtful = (
        text.count("{", pos, end) + text.count("[", pos, end) > MAX_DEPTH
        or text.find("\\u", pos, end) >= 0
        or text.find(":\\", pos, end) >= 0
    )
    return None if doubtful and not _sound(value) else (value, end)


def _sound(value: JsonValue) -> bool:
    """Whether a value is not too deep, and all its strings can be meant as they are."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[JsonValue] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
                below += item.keys()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str) and not is_sound_text(item):
                return False
        if not below:
            return True
        level = below
    return False
