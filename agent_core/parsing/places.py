"""Where thinking, blocks of data and tags of calls stand in a reply, with `str.find` alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Literal

from agent_core.parsing.blocks import ELEMENTS
from agent_core.parsing.notations import TAGS

_WORDS = ("think", "thinking", "thought", "reasoning")
_NAMES = ("seed:think", "reflection", "scratchpad", "analysis", "inner_monologue", "思考", "推理")
THOUGHT_NAMES = (*_WORDS, *_NAMES)
"""Names of elements in which a model thinks."""

_THINKING = (
    {
        f"<{left}{word}{right}>": f"</{word}>"
        for name in _WORDS
        for word in (name, name.title(), name.upper())
        for left in ("", " ")
        for right in ("", " ")
    }
    | {f"<{name}>": f"</{name}>" for name in _NAMES}
    | {f"<|{name}|>": f"<|/{name}|>" for name in _WORDS}
    | {
        "[THINK]": "[/THINK]",
        "◁think▷": "◁/think▷",
        "＜think＞": "＜/think＞",
        "&lt;think&gt;": "&lt;/think&gt;",
        "<|begin_of_thought|>": "<|end_of_thought|>",
        "<|START_THINKING|>": "<|END_THINKING|>",
        "<unused94>": "<unused95>",
    }
)
_DATA = tuple(f"<{name}>\n" for name in ELEMENTS)
_QUOTES = "`\"'“‘「『"

PlaceKind = Literal["open", "close", "tag", "data"]
_KINDS: tuple[tuple[Iterable[str], PlaceKind], ...] = (
    (_THINKING, "open"),
    (sorted(set(_THINKING.values())), "close"),
    (TAGS, "tag"),
    (_DATA, "data"),
)
_BY_PREFIX: dict[str, list[tuple[str, PlaceKind]]] = {}
for _tags, _kind in _KINDS:
    for _tag in _tags:
        _BY_PREFIX.setdefault(_tag[:2], []).append((_tag, _kind))


class Places:
    """The next special place from an offset on. Offsets asked for may only grow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._missing: set[str] = set()  # closing tags that the rest does not hold
        self._first = tuple(
            (tag, kind, at)
            for prefix, tags in _BY_PREFIX.items()
            if prefix in text
            for tag, kind in tags
            if (at := text.find(tag)) >= 0
        )
        self._next: Sequence[tuple[str, PlaceKind, int]] = self._first

    def again(self) -> Places:
        """The same places once more, from the beginning."""
        other = copy(self)
        other._missing = set()
        other._next = self._first
        return other

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
