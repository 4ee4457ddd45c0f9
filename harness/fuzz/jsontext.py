"""Write JSON the way models do: in a style, with pieces that are already text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_FULL_WIDTH = str.maketrans("0123456789", "０１２３４５６７８９")
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


@dataclass(frozen=True, slots=True)
class Raw:
    """A piece that is written as it stands."""

    text: str


@dataclass(frozen=True, slots=True)
class Members:
    """An object given by its members, so that a key can stand twice."""

    pairs: tuple[tuple[str, Any], ...]


@dataclass(slots=True)
class JsonStyle:
    """How to write. The defaults are plain JSON on one line.

    Attributes:
        quotes: what opens and closes a string; the closing one is escaped inside.
        bare_keys: keys without quotes; bare_values: strings too.
        member: what separates members. `trailing`: what follows the last one.
        comment: written once, after the first member's value.
        literals: the words for true, false and null.
        brackets: `{`, `}`, `[`, `]` as written.
        wide_digits: digits as full-width ones.
        ascii: non-ASCII characters as escapes.
    """

    quotes: tuple[str, str] = ('"', '"')
    bare_keys: bool = False
    bare_values: bool = False
    colon: str = ": "
    member: str = ", "
    trailing: str = ""
    comment: str = ""
    literals: tuple[str, str, str] = ("true", "false", "null")
    brackets: str = "{}[]"
    wide_digits: bool = False
    ascii: bool = False


def write_json(value: Any, style: JsonStyle) -> str:
    """The text of a value; `Raw` pieces stand as they are."""
    return _Writer(style).write(value)


class _Writer:
    def __init__(self, style: JsonStyle) -> None:
        self.style = style
        self.comment = style.comment

    def write(self, value: Any) -> str:
        style = self.style
        if isinstance(value, Raw):
            return value.text
        if isinstance(value, str):
            return value if style.bare_values else self._string(value)
        if isinstance(value, bool) or value is None:
            return style.literals[2 if value is None else 1 - value]
        if isinstance(value, dict):
            value = Members(tuple(value.items()))
        if isinstance(value, Members):
            members = [self._key(key) + style.colon + self.write(each) for key, each in value.pairs]
            return self._join(style.brackets[0], members, style.brackets[1])
        if isinstance(value, list):
            return self._join(
                style.brackets[2], [self.write(each) for each in value], style.brackets[3]
            )
        number = json.dumps(value)
        return number.translate(_FULL_WIDTH) if style.wide_digits else number

    def _join(self, before: str, members: list[str], after: str) -> str:
        if members and self.comment:
            members[0] += self.comment
            self.comment = ""
        return (
            before
            + self.style.member.join(members)
            + (self.style.trailing if members else "")
            + after
        )

    def _key(self, key: str) -> str:
        return key if self.style.bare_keys else self._string(key)

    def _string(self, text: str) -> str:
        opening, closing = self.style.quotes
        if opening == closing == '"':
            return json.dumps(text, ensure_ascii=self.style.ascii)
        text = text.replace("\\", "\\\\").replace(closing, "\\" + closing)
        for control, escape in _CONTROLS.items():
            text = text.replace(control, escape)
        return opening + text + closing
