"""Where thinking, blocks of data and tags of calls stand in a reply, with `str.find` alone."""

from __future__ import annotations

from typing import Literal

from agent_core.parsing.blocks import ELEMENTS
from agent_core.parsing.notations import TAGS

_WORDS = ("think", "thinking", "thought", "reasoning")
_THINKING = {
    f"<{left}{word}{right}>": f"</{word}>"
    for name in _WORDS
    for word in (name, name.title(), name.upper())
    for left in ("", " ")
    for right in ("", " ")
} | {"[THINK]": "[/THINK]", "◁think▷": "◁/think▷", "&lt;think&gt;": "&lt;/think&gt;"}
_DATA = tuple(f"<{name}>\n" for name in ELEMENTS)
_QUOTES = "`\"'“‘「『"

PlaceKind = Literal["open", "close", "tag", "data"]


class Places:
    """The next special place from an offset on. Offsets asked for may only grow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()  # closing tags that the rest does not hold
        kinds: list[tuple[str, PlaceKind]] = [
            *((tag, "open") for tag in _THINKING),
            *((tag, "close") for tag in set(_THINKING.values())),
            *((tag, "tag") for tag in TAGS),
            *((tag, "data") for tag in _DATA),
        ]
        may_hold = "<" in text or "[" in text or "◁" in text or "&lt;" in text
        found = ((tag, kind, text.find(tag)) for tag, kind in kinds) if may_hold else ()
        self._next: list[tuple[str, PlaceKind, int]] = [item for item in found if item[2] >= 0]

    def next(self, pos: int) -> tuple[int, str, PlaceKind]:
        """Offset, text and kind of the first special place at or after `pos`.

        The offset is the length of the text where there is none.
        """
        best: tuple[int, str, PlaceKind] = (len(self._text), "", "tag")
        kept = []
        for tag, kind, seen in self._next:
            at = seen if seen >= pos else self._text.find(tag, pos)
            if at < 0:
                continue
            kept.append((tag, kind, at))
            if at < best[0]:
                best = (at, tag, kind)
        self._next = kept
        return best

    def next_close(self, pos: int, end: int) -> int:
        """The first closing tag of a thinking block in the range that opens in none, or -1."""
        at = pos
        while at < end:
            at, tag, kind = self.next(at)
            if at >= end:
                break
            if kind == "open" and not self.quoted(at):
                close, _ = self.closing(tag, at)
                at = close if close >= 0 else end
            elif kind == "close" and not self.quoted(at):
                return at
            at += max(1, len(tag))
        return -1

    def closing(self, tag: str, pos: int) -> tuple[int, int]:
        """Start and end of the tag that closes `tag`; both -1 where none does."""
        closer = _THINKING[tag]
        if closer in self._missing:
            return -1, -1
        at = self._text.find(closer, pos)
        if at < 0:
            self._missing.add(closer)
        return (at, at + len(closer)) if at >= 0 else (-1, -1)

    def quoted(self, pos: int) -> bool:
        """Whether the tag at `pos` is only named: a quote or a backtick stands before it."""
        return pos > 0 and self._text[pos - 1] in _QUOTES
