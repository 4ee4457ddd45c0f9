"""Anything to JSON text, whatever it is: what writes a trace must not fail on what it is given."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Any

MAX_DEPTH = 50
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Controls of both sets, line breaks other than \\n, and marks that turn the direction of text."""
_COMMANDS = re.compile(r"::(?=[a-z-]+[ :])|##(?=(?:vso|teamcity)?\[)", re.IGNORECASE)
_RUNNERS = ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION")


def counted(count: object, what: str) -> str:
    """A number with its noun; what a file has in the place of a number stays as it is."""
    number = f"{count:,}" if isinstance(count, int) else count
    return f"{number} {what}" if count == 1 else f"{number} {what}s"


def to_json(value: Any) -> str:
    """JSON text, with Chinese as Chinese and no lone surrogates. Never raises.

    What has no JSON form becomes its `repr`; NaN and infinities become strings; keys that are
    no strings become their `repr`.
    """
    try:
        text = _ENCODER.encode(value)
    except Exception:  # tuple keys, NaN, cycles, depth: all rare, so the careful way comes second
        text = json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
    return utf8(text)


def utf8(text: str) -> str:
    """The text as UTF-8 can hold it: halves of a pair are joined, lone ones are replaced.

    One lone surrogate in a span's name loses the whole batch of spans.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def visible(text: str) -> str:
    """Text that cannot steer a terminal or a page: what would is spelled out, as `\\x1b`.

    Nor a runner of GitHub, Azure or TeamCity, which takes commands from what is printed: inside
    one `::error::` becomes `: :error::`, and `##[group]` `# #[group]`.
    """
    text = STEERING.sub(_spelled, text)
    if any(name in os.environ for name in _RUNNERS):
        return _COMMANDS.sub(lambda found: " ".join(found[0]), text)
    return text


def one_line(text: str) -> str:
    """The same on one line, so that nothing in it passes for a line of ours."""
    return visible(text).replace("\n", "\\n")


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def plain(value: Any, _depth: int = 0) -> Any:
    """The value in terms of JSON: None, bool, int, float, str, list, dict with string keys."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= 1024 else hex(value)  # `str` has a limit
    if isinstance(value, float):
        return float(value) if value - value == 0 else str(float(value))
    if _depth >= MAX_DEPTH:
        return "…"
    try:
        return _structure(value, _depth + 1)
    except Exception:  # a property or an iterator of a foreign object may raise anything
        return describe(value)


def describe(value: Any) -> str:
    """`repr`, or the type's name where that raises."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


def _structure(value: Any, depth: int) -> Any:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else describe(key): plain(item, depth)
            for key, item in value.items()
        }
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name), depth) for each in fields(value)}
    if isinstance(value, Sequence | Set):
        return [plain(item, depth) for item in value]
    return describe(value)


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=plain
)
