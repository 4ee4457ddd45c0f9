"""A tolerant reader of JSON: strict first, then named repairs, never a guess.

It keeps its own stack and reads every character a bounded number of times, so nesting cannot
exhaust Python's and no input is slow. It adds what is missing round complete values; it never
completes a value.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field

from agent_core.messages import FormatErrorCode, JsonObject, JsonValue, Repair
from agent_core.parsing.json_strings import CLOSERS, Gap, StringReader, is_sound_text, starts_key
from agent_core.parsing.outcome import Refusal, RepairLog, snippet

MAX_CHARS = 1_000_000
MAX_DEPTH = 128
MAX_STEPS = 30_000  # entries that need more than the everyday mending
MAX_DIGITS = 4_300  # what Python itself turns into an int, and prints again, at most

_SPACE = re.compile(r"[\s\ufeff\u200b-\u200f\u2060]*+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_LOOSE_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*+)?(?:\.[0-9]*+)?+(?:[eE][+-]?[0-9]++)?+")
_FENCE = re.compile(r"[\s\ufeff]*+(```[ \t]*+\w*+)?+[\s\ufeff]*+")
_WORD = re.compile(r"[^\s,，;；:：{}\[\]｛｝［］()（）\"'“”‘’＂/#<>`=]*+")
_BARE_VALUE = re.compile(r"[^\W\d](?:[\w.@-]|[ ](?=[\w.@-]))*+")
_BARE_KEY = re.compile(r"[^\W\d][\w$-]*+")
_PLAIN_NUMBER = r"-?(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]{1,17}+)?+"
_END = (  # what follows a whole member: a comma and the next key, or a closer
    r"""[ \t\r\n]*+(?:,[ \t\r\n]*+(?="[^"\\\n]{0,200}+"[ \t]*+:|'[^'\\\n]{0,200}+'[ \t]*+:"""
    r"""|[^\W\d][\w$-]{0,100}+[ \t]*+:)|(?=[}\]]))"""
)
_MEMBER = re.compile(
    r"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'|([^\W\d][\w$-]*+))[ \t]*+:[ \t\r\n]*+"""
    rf"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'|({_PLAIN_NUMBER})"""
    rf"""|(true|false|null|True|False|None)\b){_END}"""
)
_OPENING = re.compile(
    r"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)')[ \t]*+:[ \t\r\n]*+(?=[{\[])"""
)
_ITEM = re.compile(
    r"""(?:"([^"\\\x00-\x1f]*+)"|'([^'\\\x00-\x1f]*+)'"""
    rf"""|({_PLAIN_NUMBER}))[ \t\r\n]*+,[ \t\r\n]*+(?=["'\d-])"""
)
_TOUCHED = frozenset(" \t\r\n/#\u00a0\u3000\ufeff\u2060")  # where blanks or comments may begin
_LITERALS: dict[str, JsonValue] = {
    "true": True, "false": False, "null": None,
    "True": True, "False": False, "None": None,
    "TRUE": True, "FALSE": False, "NULL": None,
}  # fmt: skip
_NOT_FINITE = frozenset({"nan", "infinity", "inf", "+inf", "-inf", "+infinity", "-infinity"})
_NO_VALUE = frozenset({"undefined", "nil", "none", "void"}) | _NOT_FINITE
_FULL_WIDTH = str.maketrans("０１２３４５６７８９．－＋", "0123456789.-+")
_OPEN = {"{": "}", "｛": "}", "[": "]", "［": "]", "(": ")"}
_CLOSE = {"}": "}", "｝": "}", "]": "]", "］": "]", ")": ")", "）": ")"}


_PLAIN_ENDS = frozenset(",}]")


def no_gap(text: str, pos: int) -> bool:
    """Only a closing fence ends a document that is nothing but JSON."""
    return text.startswith("```", pos)


@dataclass(frozen=True, slots=True)
class TolerantJson:
    """A value read from damaged JSON.

    Attributes:
        value: what was read.
        end: offset after it in the text; anything that follows was not looked at.
        repairs: what was mended; empty when the text was strict JSON.
    """

    value: JsonValue
    end: int
    repairs: tuple[Repair, ...] = ()


@dataclass(slots=True)
class _Frame:
    """A container that is still open."""

    closer: str
    items: JsonValue
    doubled: bool = False
    key: str | None = None
    is_object: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_object = isinstance(self.items, dict)


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
        gap: Gap = no_gap,
        python: bool = False,
    ) -> None:
        self._text = text
        self._log = log
        self._ended = ended
        self._gap = gap
        self._python = python
        self._strings = StringReader(text, log, gap, in_call=python)
        self._stack: list[_Frame] = []
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
        self._stack = []
        pos = self.skip(pos)
        for _ in range(MAX_STEPS):
            opened = self._open(pos)
            if opened is not None:
                pos, at_value = self._first(opened)
                if at_value:
                    continue
            else:
                value, pos = self._scalar(pos)
                if not self._stack:
                    return value, pos
                self._attach(value)
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
            if text.startswith("//", pos) or (text.startswith("#", pos) and self._stack):
                end = text.find("\n", pos)
                end = len(text) if end < 0 else end
            elif text.startswith("/*", pos):
                end = text.find("*/", pos + 2)
                if end < 0:
                    raise Refusal("truncated", f"the comment at {pos} never ends")
                end += 2
            else:
                return pos
            if self._stack and self._gap(text, pos):
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

    # Opening a container.

    def _open(self, pos: int) -> int | None:
        char = self._peek(pos)
        if char not in _OPEN or (char == "(" and not self._python):
            return None
        if len(self._stack) >= MAX_DEPTH:
            raise Refusal("too_large", f"more than {MAX_DEPTH} levels of nesting at {pos}")
        closer = _OPEN[char]
        self._stack.append(_Frame(closer, {} if closer == "}" else []))
        if char in "｛［":
            self._log.add("full_width", pos, char, "{" if closer == "}" else "[")
        elif char == "(":
            self._log.add("tuple", pos, "(", "[")
        return pos + 1

    def _first(self, pos: int) -> tuple[int, bool]:
        """Where the first value begins, or (with False) where the container may close."""
        frame = self._stack[-1]
        pos = self.skip(pos)
        char = self._peek(pos)
        if frame.is_object and char == "{" and not frame.doubled:
            self._log.add("doubled_braces", pos, "{{", "{")
            frame.doubled = True
            return self._first(pos + 1)
        if _CLOSE.get(char) == frame.closer:
            return pos, False
        return self._entry(pos)

    def _entry(self, pos: int) -> tuple[int, bool]:
        """Into the next entry at `pos`: where its value begins, or (with False) its end."""
        frame = self._stack[-1]
        after = (
            self._members(frame.items, pos) if frame.is_object else self._items(frame.items, pos)
        )
        if after > pos and self._text[after] in "}]":
            return after, False
        opening = _OPENING.match(self._text, after) if frame.is_object else None
        if opening is not None and not self._strings.mixed:
            frame.key = opening[1] if opening[1] is not None else opening[2]
            if opening[1] is None:
                self._log.add("quotes", after, "''", '""')
            return opening.end(), True
        return (self._key(after), True) if frame.is_object else (after, True)

    def _past_closer(self, frame: _Frame, pos: int) -> int:
        char = self._text[pos]
        if char in "｝］":
            self._log.add("full_width", pos, char, frame.closer)
        pos += 1
        if frame.doubled and self._text.startswith("}", pos):
            pos += 1
        return pos

    # Keys.

    def _key(self, pos: int) -> int:
        """Read a key and its colon; returns where the value begins."""
        frame = self._stack[-1]
        char = self._peek(pos)
        if char in CLOSERS:
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
        after += 2 if self._text.startswith("=>", after) else 1
        return self.skip(after)

    def _members(self, items: JsonObject, pos: int) -> int:
        """Take members with everyday damage at most; stop at any other and at the end."""
        text, log, match = self._text, self._log, _MEMBER.match
        while (found := match(text, pos)) is not None:
            quoted, single, bare, words, single_words, number, literal = found.groups()
            key = quoted if quoted is not None else single if bare is None else bare
            value = words if words is not None else single_words
            if key in items or self._strings.mixed or not (value or "").isascii():
                break
            if number is not None:
                value = float(number) if "." in number else int(number)
            elif literal is not None:
                value = _LITERALS[literal]
                if literal[0] in "TFN":
                    log.add("literal", found.start(7), literal, json.dumps(value))
            if bare is not None:
                log.add("bare_key", pos, bare, f'"{bare}"')
            if single is not None or single_words is not None:
                log.add("quotes", pos, "''", '""')
            items[key] = value
            pos = found.end()
        return pos

    def _items(self, items: list[JsonValue], pos: int) -> int:
        """Take strings with everyday quotes; stop at any other item and at the last one."""
        while (found := _ITEM.match(self._text, pos)) is not None:
            double, single, number = found.groups()
            value = double if double is not None else single
            if self._strings.mixed or not (value or "").isascii():
                break
            if number is not None:
                value = float(number) if "." in number else int(number)
            elif single is not None:
                self._log.add("quotes", pos, "''", '""')
            items.append(value)
            pos = found.end()
        return pos

    # Values.

    def _scalar(self, pos: int) -> tuple[JsonValue, int]:
        if self._peek(pos) in CLOSERS and not self._text.startswith("```", pos):
            in_object = bool(self._stack) and self._stack[-1].is_object
            return self._strings.read(pos, is_key=False, in_object=in_object)
        found = _WORD.match(self._text, pos)
        word = found.group() if found else ""
        end = pos + len(word)
        if not word and self._gap(self._text, pos):
            raise self._cut(pos)
        if not word:
            near = self._text[pos : pos + 20]
            raise Refusal("bad_json", f"expected a value at {pos}, got {near!r}")
        if end >= len(self._text):
            raise self._cut(end)
        if word in _LITERALS:
            if not self._python and word not in {"true", "false", "null"}:
                self._log.add("literal", pos, word, json.dumps(_LITERALS[word]))
            return _LITERALS[word], end
        if word.lower() in _NOT_FINITE:
            raise Refusal("unsafe", f"{word} at {pos} is no JSON number")
        number = self._number(word, pos)
        return (number, end) if number is not None else self._bare(word, pos, end)

    def _number(self, word: str, pos: int) -> int | float | None:
        plain = word if word.isascii() else word.translate(_FULL_WIDTH)
        if not any("0" <= char <= "9" for char in plain[:3]):
            return None
        if not _NUMBER.fullmatch(plain):
            if not _LOOSE_NUMBER.fullmatch(plain):
                raise Refusal("bad_json", f"{snippet(word)!r} at {pos} is no number")
            self._log.add("number", pos, word, plain)
        if plain != word:
            self._log.add("full_width", pos, word, plain)
        if len(plain) > MAX_DIGITS:
            raise Refusal("too_large", f"the number at {pos} has {len(plain)} digits")
        if not set(plain) & set(".eE"):
            return int(plain)
        value = float(plain)
        if not math.isfinite(value):
            raise Refusal("unsafe", f"{snippet(word)!r} at {pos} is no finite number")
        return value

    def _bare(self, word: str, pos: int, end: int) -> tuple[JsonValue, int]:
        """A value without quotes is taken only where its end is beyond doubt."""
        found = _BARE_VALUE.match(self._text, pos)
        stop = found.end() if found else pos
        after = self.skip(stop)
        follows = self._text[after : after + 1]
        if self._python or follows in ("(", "（"):
            raise Refusal("unsafe", f"{snippet(word)!r} at {pos} is code, not a value")
        if not follows and found is not None:
            raise self._cut(after)
        parts = {part.lower() for part in word.split(".")} if found else set()
        if (
            found is None
            or not word[0].isalpha()
            or parts & _NO_VALUE
            or follows not in (*",，}｝]］",)
        ):
            raise Refusal("bad_json", f"expected a value at {pos}, got {snippet(word)!r}")
        self._log.add("bare_value", pos, found.group(), f'"{found.group()}"')
        return found.group(), stop

    def _attach(self, value: JsonValue) -> None:
        frame = self._stack[-1]
        if not frame.is_object:
            frame.items.append(value)
            return
        key = frame.key
        if key in frame.items:
            before = frame.items[key]
            if before != value or repr(before) != repr(value):
                raise Refusal("ambiguous", f"the key {key!r} stands twice with different values")
            self._log.add("duplicate_key", str(key), str(key), str(key))
        frame.items[key] = value

    # After a value.

    def _after(self, pos: int) -> tuple[_Frame | None, int]:
        """From the end of a value to the next one; or the outermost container, closed."""
        while True:
            at = pos
            if self._text[pos : pos + 1] not in _PLAIN_ENDS:
                space = _SPACE.match(self._text, pos)
                at = space.end() if space else pos
                if at < len(self._text) and self._gap(self._text, at):
                    return self._close_all(at)
                at = self.skip(pos)
            if at >= len(self._text):
                # A number is whole only after a delimiter, so it has to be followed by one.
                if self._ended and (at > pos or self._text[at - 1] not in "0123456789"):
                    return self._close_all(at)
                raise self._cut(at)
            if self._text[at] not in _CLOSE:
                at = self._separator(at)
                if self._text[at] not in _CLOSE:
                    pos, at_value = self._entry(at)
                    if at_value:
                        return None, pos
                    continue
            frame, pos = self._close(at)
            if not self._stack:
                return frame, pos
            self._attach(frame.items)

    def _separator(self, at: int) -> int:
        """Past the comma at `at`; one that is missing is added before a key."""
        char = self._text[at]
        if char not in ",，;；、":
            if self._stack[-1].is_object and starts_key(self._text, at):
                self._log.add("comma", at, "", ",")
                return at
            near = self._text[at : at + 20]
            raise Refusal("bad_json", f"expected ',' or a closer at {at}, got {near!r}")
        if char != ",":
            self._log.add("full_width" if char == "，" else "separator", at, char, ",")
        after = self.skip(at + 1)
        follows = self._peek(after)
        if follows in ",，":
            raise Refusal("bad_json", f"two commas at {at}")
        if follows in _CLOSE:
            self._log.add("comma", at, char, "")
        return after

    def _close(self, at: int) -> tuple[_Frame, int]:
        """Close the innermost container with the closer at `at`, right or wrong.

        A closer that fits a container further out closes the ones inside it too; one that fits
        none stands for the innermost one's.
        """
        closer = _CLOSE[self._text[at]]
        if self._stack[-1].closer != closer:
            if closer == ")":
                if not self._python:
                    raise Refusal("bad_json", f"expected ',' or a closer at {at}, got ')'")
                return self._close_all(at)
            self._log.add("bracket", at, self._text[at], self._stack[-1].closer)
            if any(frame.closer == closer for frame in self._stack):
                while self._stack[-1].closer != closer:
                    self._attach(self._stack.pop().items)
        frame = self._stack.pop()
        return frame, self._past_closer(frame, at)

    def _close_all(self, at: int) -> tuple[_Frame, int]:
        missing = "".join(frame.closer for frame in reversed(self._stack))
        self._log.add("closer", at, "", missing)
        while len(self._stack) > 1:
            self._attach(self._stack.pop().items)
        return self._stack.pop(), at


class JsonDamage(ValueError):
    """JSON that cannot be read without a guess. `code` says why, as in a `FormatError`."""

    def __init__(self, code: FormatErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def loads_tolerant(text: str, *, max_chars: int = MAX_CHARS, ended: bool = True) -> TolerantJson:
    """Read the JSON document in `text`, mending what can be mended without a guess.

    A fence round it is taken off; what follows it is not looked at.

    Args:
        text: for example a structured answer of a model.
        max_chars: longer texts are refused.
        ended: the text is known to be whole; otherwise closers that are missing at its very
            end are not added.

    Raises:
        JsonDamage: when no value can be read safely.
    """
    log = RepairLog()
    try:
        if len(text) > max_chars:
            raise Refusal("too_large", f"{len(text)} characters, at most {max_chars} are read")
        start = _FENCE.match(text)
        pos = start.end() if start else 0
        if start and start.group(1):
            log.add("fence", start.start(1), start.group(1), "")
        value, end = JsonReader(text, log, ended=ended).read(pos)
    except Refusal as refusal:
        raise JsonDamage(refusal.code, refusal.message) from None
    return TolerantJson(value, end, log.all())
