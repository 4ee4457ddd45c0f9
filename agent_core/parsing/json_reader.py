"""A tolerant reader of JSON: strict first, then named repairs, never a guess.

It keeps its own stack and reads every character a bounded number of times, so nesting cannot
exhaust Python's and no input is slow. It adds what is missing round complete values; it never
completes a value.
"""

from __future__ import annotations

import re

from agent_core.messages import JsonValue
from agent_core.parsing.json_containers import CLOSERS, Container, OpenContainers
from agent_core.parsing.json_everyday import take_items, take_key, take_members
from agent_core.parsing.json_scalars import bare_value, plain_value, word_at
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.json_strings import QUOTES, Gap, StringReader, starts_key
from agent_core.parsing.outcome import Refusal, RepairLog, snippet

MAX_STEPS = 20_000  # entries that need more than the everyday mending

_SPACE = re.compile(r"[\s\ufeff\u200b-\u200f\u2060]*+")
_LINE = re.compile(r"[^\r\n]*+")
_BARE_KEY = re.compile(r"[^\W\d][\w$-]*+")
_TOUCHED = frozenset(" \t\r\n/#\u00a0\u3000\ufeff\u2060")  # where blanks or comments may begin
_NEAR = 100  # blanks between two objects, at most, where a comma is missing
_PLAIN_ENDS = frozenset(",}]")


class JsonReader:
    """Reads one value at a time from `text`, recording repairs in `log`.

    Args:
        text: the whole reply.
        log: where repairs go.
        ended: the reply is known to be whole, so closers may be added at its very end.
        gap: tells where the reply goes on after JSON that was left open.
        python: Python literals, as in `f(a=[1, 2])`: tuples are lists, bare words are code.
    """

    def __init__(
        self,
        text: str,
        log: RepairLog,
        *,
        ended: bool = False,
        gap: Gap,
        python: bool = False,
    ) -> None:
        self._text = text
        self._log = log
        self._ended = ended
        self._gap = gap
        self._python = python
        self._strings = StringReader(text, log, gap, in_call=python)
        self._open = OpenContainers(text, log, python=python)
        self._comments = 0

    def read(self, pos: int) -> tuple[JsonValue, int]:
        """The value at `pos` and the offset after it. Raises `Refusal`."""
        if not self._python:
            strict = read_strict(self._text, pos)
            if strict is not None:
                return strict
        return self.mend(pos)

    def mend(self, pos: int) -> tuple[JsonValue, int]:
        """Like `read`, for JSON that is known not to be strict."""
        self._open.clear()
        pos = self.skip(pos)
        for _ in range(MAX_STEPS):
            self._peek(pos)
            if self._open.open(pos):
                pos, at_value = self._first(pos + 1)
                if at_value:
                    continue
            else:
                value, pos = self._scalar(pos)
                if not self._open:
                    return value, pos
                self._open.innermost.add(value, self._log)
            whole, pos = self._after(pos)
            if whole is not None:
                return whole.items, pos
        raise Refusal("too_large", f"more than {MAX_STEPS} entries to mend")

    # Between tokens.

    def skip(self, pos: int) -> int:
        """The offset of the next visible character that is not in a comment."""
        text = self._text
        while True:
            char = text[pos : pos + 1]
            if char.isascii() and char not in _TOUCHED:
                return pos
            found = _SPACE.match(text, pos)
            pos = found.end() if found else pos
            if text.startswith("//", pos) or (text.startswith("#", pos) and self._open):
                line = _LINE.match(text, pos)
                end = line.end() if line else pos
                if end >= len(text) and self._open:
                    raise self._cut(end)  # it may hide what follows
            elif text.startswith("/*", pos):
                end = text.find("*/", pos + 2)
                if end < 0:
                    raise Refusal("truncated", f"the comment at {pos} never ends")
                end += 2
            else:
                return pos
            if self._open and self._gap(text, pos):
                return pos
            self._comments += 1
            if self._comments > MAX_STEPS:
                raise Refusal("too_large", f"more than {MAX_STEPS} comments")
            self._log.add("comment", pos, text[pos:end], "")
            pos = end

    def _cut(self, pos: int) -> Refusal:
        return Refusal("truncated", f"the reply ends at {pos} before its JSON is complete")

    def _peek(self, pos: int) -> str:
        if pos >= len(self._text):
            raise self._cut(pos)
        return self._text[pos]

    # Entries.

    def _first(self, pos: int) -> tuple[int, bool]:
        """Where the first value begins, or (with False) where the container may close."""
        frame = self._open.innermost
        pos = self.skip(pos)
        char = self._peek(pos)
        if frame.is_object and char == "{" and not frame.doubled:
            self._log.add("doubled_braces", pos, "{{", "{")
            frame.doubled = True
            return self._first(pos + 1)
        if CLOSERS.get(char) == frame.closer:
            return pos, False
        return self._entry(pos)

    def _entry(self, pos: int) -> tuple[int, bool]:
        """Into the next entry at `pos`: where its value begins, or (with False) its end."""
        frame = self._open.innermost
        if self._strings.mixed:
            after = pos
        elif frame.is_object:
            after = take_members(self._text, pos, frame.items, self._log)
        else:
            after = take_items(self._text, pos, frame.items, self._log)
        if after > pos and self._text[after] in "}]":
            return after, False
        opening = None
        if frame.is_object and not self._strings.mixed:
            opening = take_key(self._text, after, self._log)
        if opening is not None:
            frame.key, after = opening
            return after, True
        return (self._key(after), True) if frame.is_object else (after, True)

    # Keys.

    def _key(self, pos: int) -> int:
        """Read a key and its colon; returns where the value begins."""
        frame = self._open.innermost
        char = self._peek(pos)
        if char in QUOTES:
            frame.key, after = self._strings.read(pos, is_key=True, in_object=True)
        else:
            found = _BARE_KEY.match(self._text, pos)
            if found is None:
                near = self._text[pos : pos + 20]
                raise Refusal("bad_json", f"expected a key at {pos}, got {near!r}")
            frame.key, after = found.group(), found.end()
            if after >= len(self._text):
                raise self._cut(after)
            self._log.add("bare_key", pos, frame.key, f'"{frame.key}"')
        after = self.skip(after)
        colon = self._peek(after)
        if colon not in ":：=":
            near = self._text[after : after + 20]
            raise Refusal(
                "bad_json", f"expected ':' after the key {frame.key!r} at {after}, got {near!r}"
            )
        if colon != ":":
            self._log.add("full_width" if colon == "：" else "separator", after, colon, ":")
            self._strings.equals = self._strings.equals or colon == "="
        after += 2 if self._text.startswith("=>", after) else 1
        return self.skip(after)

    # Values.

    def _scalar(self, pos: int) -> tuple[JsonValue, int]:
        text = self._text
        if self._peek(pos) in QUOTES and not text.startswith("```", pos):
            in_object = bool(self._open) and self._open.innermost.is_object
            return self._strings.read(pos, is_key=False, in_object=in_object)
        word = word_at(text, pos)
        end = pos + len(word)
        if end >= len(text) or (not word and self._gap(text, pos)):
            raise self._cut(pos)
        if not word:
            raise Refusal("bad_json", f"expected a value at {pos}, got {text[pos : pos + 20]!r}")
        plain, value = plain_value(word, pos, self._log, python=self._python)
        return (value, end) if plain else self._bare(word, pos)

    def _bare(self, word: str, pos: int) -> tuple[JsonValue, int]:
        """A value without quotes is taken only where its end is beyond doubt."""
        words = bare_value(self._text, pos)
        end = pos + len(words)
        after = self.skip(end)
        follows = self._text[after : after + 1]
        if self._python or follows in ("(", "（"):
            raise Refusal("unsafe", f"{snippet(word)!r} at {pos} is code, not a value")
        if words and not follows:
            raise self._cut(after)
        if not words or follows not in (",", "，", "}", "｝", "]", "］"):
            raise Refusal("bad_json", f"expected a value at {pos}, got {snippet(word)!r}")
        self._log.add("bare_value", pos, words, f'"{words}"')
        return words, end

    # After a value.

    def _after(self, pos: int) -> tuple[Container | None, int]:
        """From the end of a value to the next one; or the outermost container, closed."""
        while True:
            at = pos
            if self._text[pos : pos + 1] not in _PLAIN_ENDS:
                space = _SPACE.match(self._text, pos)
                at = space.end() if space else pos
                if not self._is_gap(at):
                    at = self.skip(pos)
                if self._is_gap(at):
                    return self._open.close_all(at)
            if at >= len(self._text):
                # A number is whole only after a delimiter, so it has to be followed by one.
                if self._ended and (at > pos or self._text[at - 1] not in "0123456789"):
                    return self._open.close_all(at)
                raise self._cut(at)
            if self._text[at] not in CLOSERS:
                at = self._separator(at)
                if self._text[at] not in CLOSERS:
                    pos, at_value = self._entry(at)
                    if at_value:
                        return None, pos
                    continue
            closed, pos = self._open.close(at)
            if not self._open:
                return closed, pos
            self._open.innermost.add(closed.items, self._log)

    def _is_gap(self, at: int) -> bool:
        return at < len(self._text) and self._gap(self._text, at)

    def _separator(self, at: int) -> int:
        """Past the comma at `at`; one that is missing is added before a key, or between objects."""
        char = self._text[at]
        if char not in ",，;；、":
            if self._begins_entry(at):
                self._log.add("comma", at, "", ",")
                return at
            near = self._text[at : at + 20]
            raise Refusal("bad_json", f"expected ',' or a closer at {at}, got {near!r}")
        if char != ",":
            self._log.add("full_width" if char == "，" else "separator", at, char, ",")
        after = self.skip(at + 1)
        follows = self._peek(after)
        if follows in ",，":
            if not self._open.innermost.is_object:
                raise Refusal("bad_json", f"two commas at {at}, where an item may be missing")
            self._log.add("comma", at, ",,", ",")
            return self._separator(after)
        if follows in CLOSERS:
            self._log.add("comma", at, char, "")
        return after

    def _begins_entry(self, at: int) -> bool:
        """Whether at the visible character `at` another entry begins beyond doubt."""
        text = self._text
        if self._open.innermost.is_object:
            return starts_key(text, at, equals=self._strings.equals)
        return text[at] in "{｛" and text[max(0, at - _NEAR) : at].rstrip()[-1:] in ("}", "｝")
