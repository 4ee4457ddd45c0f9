"""Strings of damaged JSON: which quote ends one, and what its escapes mean.

A string is never ended where the reply is cut, and never at a guess: a quote that stands
inside a value unescaped is accepted only where all the quotes pair up and the real end is
followed by structure.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_core.parsing.labels import announces
from agent_core.parsing.outcome import Refusal, RepairLog, snippet

QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”“\"",
    "”": "”“\"",
    "‘": "’‘'",
    "’": "’‘'",
    "＂": "＂",
    "「": "」",
    "`": "`",
}  # fmt: skip

_RUNS = {quote: re.compile(rf"[^\\\x00-\x1f{re.escape(ends)}]*+") for quote, ends in QUOTES.items()}
_SPACE = re.compile(r"[\s\ufeff\u200b-\u200f\u2060]*+")
_QUOTED_KEY = re.compile(
    r"""(?:"[^"\\\n]{0,200}+"|'[^'\\\n]{0,200}+'|[“”][^“”"\\\n]{1,200}+[“”"]|＂[^＂\n]{1,200}+＂"""
    r"""|[‘’][^‘’'\\\n]{1,200}+[‘’'])"""
    r"[ \t]*+(?:[:：]|(=))"
)
_BARE_KEY = re.compile(r"[^\W\d][\w$-]{0,100}+[ \t]*+[:：=]")
_PLAIN_KEY = re.compile(r'"([^"\\\x00-\x1f]*+)"(?=[ \t]*+:)')
_PLAIN_VALUE = re.compile(r'"([^"\\\x00-\x1f]*+)"(?=[ \t\r\n]*+[}\]])')
_MAX_ESCAPES = 50_000
_MAX_INNER = 100  # quotes in one value that were not escaped
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_PYTHON_ESCAPE = re.compile(r"x([0-9a-fA-F]{2})|U(000[0-9a-fA-F]{5}|0010[0-9a-fA-F]{4})")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:[\x08\t\n\x0c\r]")
_ESCAPES = {
    '"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip
_CODE_ESCAPES = frozenset("xuUN01234567")

Gap = Callable[[str, int], bool]
"""Whether at this visible character the reply goes on after the JSON (label, fence, tag)."""


def skip_blank(text: str, pos: int) -> int:
    """The next visible character."""
    found = _SPACE.match(text, pos)
    return found.end() if found else pos


def never(_text: str, _pos: int) -> bool:
    """The gap of a text that is nothing but JSON: there is none."""
    return False


def starts_key(text: str, pos: int, *, equals: bool = False) -> bool:
    """Whether a key and its colon stand at `pos`; with `equals`, a quoted key may have `=`."""
    if text[pos : pos + 1] not in QUOTES:
        return _BARE_KEY.match(text, pos) is not None
    found = _QUOTED_KEY.match(text, pos)
    return found is not None and (equals or found[1] is None)


def is_sound_text(value: str) -> bool:
    """Whether a decoded string can be meant as it is: no half surrogate pair, no broken path."""
    return _SURROGATE.search(value) is None and _DRIVE.match(value) is None


def refuse_bad_text(value: str, pos: int) -> None:
    """Refuse what cannot be meant: half a surrogate pair, a control character after `C:`."""
    if _SURROGATE.search(value):
        raise Refusal("unsafe", f"half of a surrogate pair in the string at {pos}")
    if _DRIVE.match(value):
        raise Refusal("ambiguous", f"the path at {pos} has single backslashes: {value!r}")


class StringReader:
    """Reads one quoted string at a time from `text`."""

    def __init__(self, text: str, log: RepairLog, gap: Gap, *, in_call: bool = False) -> None:
        self._text = text
        self._log = log
        self._gap = gap
        self._escapes = 0
        self.mixed = False
        self.equals = False  # keys are followed by `=` here
        self._in_call = in_call
        self._structure = "}]｝］)）" if in_call else "}]｝］"

    def read(self, pos: int, *, is_key: bool, in_object: bool) -> tuple[str, int]:
        """The string that opens at `pos` and the offset after its closing quote."""
        text, quote = self._text, self._text[pos]
        if quote == '"' and not self.mixed:
            plain = (_PLAIN_KEY if is_key else _PLAIN_VALUE).match(text, pos)
            if plain is not None and plain[1].isascii():
                return plain[1], plain.end()
        run = _RUNS["“" if self.mixed and quote == '"' else quote]
        parts: list[str] = []
        inner: list[int] = []
        escapes = ""
        labelled = False
        at = pos + 1
        while True:
            found = run.match(text, at)
            end = found.end() if found else at
            parts.append(text[at:end])
            if end >= len(text):
                return self._unclosed(pos, is_key=is_key, in_object=in_object)
            char = text[end]
            if char == "\\":
                piece, at, kind = self._escape(end)
                parts.append(piece)
                escapes += "" if kind in escapes else kind
            elif char < " ":
                labelled = self._control(end, pos) or labelled
                parts.append(char)
                at = end + 1
            elif self._closes(end, is_key=is_key, in_object=in_object):
                break
            else:
                parts.append(char)
                at = end + 1
                if not self._apostrophe(end):
                    inner.append(end)
                if len(inner) > _MAX_INNER:
                    raise Refusal("bad_json", f"the string at {pos} is full of bare quotes")
        value = "".join(parts)
        if inner:
            self._judge_inner(pos, end, inner, is_key=is_key, labelled=labelled)
        self._judge(pos, end, value, escapes)
        return value, end + 1

    def _unclosed(self, pos: int, *, is_key: bool, in_object: bool) -> tuple[str, int]:
        """Read once more, for a reply in which a curly quote may close a straight one."""
        if self._text[pos] == '"' and not self.mixed and self._text.find("”", pos) >= 0:
            self.mixed = True
            return self.read(pos, is_key=is_key, in_object=in_object)
        raise Refusal("truncated", f"the reply ends inside the string at {pos}")

    def _judge_inner(
        self, pos: int, end: int, inner: list[int], *, is_key: bool, labelled: bool
    ) -> None:
        """Quotes that stand inside a string are part of it only where nothing speaks against."""
        if is_key:
            raise Refusal("bad_json", f"quotes inside the key at {pos}")
        at_end = skip_blank(self._text, end + 1) >= len(self._text)
        if labelled or (len(inner) % 2 and at_end):
            raise Refusal("truncated", f"the string at {pos} may be cut, or runs on over a label")
        self._pair_up(pos, inner)
        self._log.add("inner_quotes", pos, self._text[pos : end + 1], self._text[pos + 1 : end])

    def _judge(self, pos: int, end: int, value: str, escapes: str) -> None:
        if "kept" in escapes and "letter" in escapes:
            raise Refusal(
                "ambiguous", f"single backslashes in the string at {pos} can be read in two ways"
            )
        if self._text[pos] != '"' or self._text[end] != '"':
            self._log.add("quotes", pos, self._text[pos] + self._text[end], '""')
        if not value.isascii() or "letter" in escapes or "unicode" in escapes:
            refuse_bad_text(value, pos)

    def _pair_up(self, pos: int, inner: list[int]) -> None:
        """Quotes inside a value must come in pairs that open and close like quotes."""
        text = self._text
        opens = all(
            not text[i + 1 : i + 2].isspace()
            and not (text[i - 1].isascii() and text[i - 1].isalnum())
            for i in inner[0::2]
        )
        closes = all(not text[i - 1].isspace() for i in inner[1::2])
        if len(inner) % 2 or not opens or not closes:
            raise Refusal(
                "bad_json",
                f"quotes inside the string at {pos} are not escaped: "
                f"{snippet(text[pos : inner[-1] + 1])!r}",
            )

    def _apostrophe(self, at: int) -> bool:
        around = self._text[at - 1 : at] + self._text[at + 1 : at + 2]
        return self._text[at] in "'’‘" and len(around) == 2 and around.isalnum()

    def _control(self, at: int, pos: int) -> bool:
        """Keep a raw control character; tells whether a line with a label follows.

        An observation never ends up inside a value: there the string was left open.
        """
        char = self._text[at]
        self._log.add("raw_control", at, repr(char), repr(char))
        if char != "\n":
            return False
        found = _SPACE.match(self._text, at)
        visible = found.end() if found else at
        if announces(self._text, visible, "observation"):
            raise Refusal("truncated", f"the string at {pos} is open where an observation begins")
        return announces(self._text, visible)

    def _escape(self, at: int) -> tuple[str, int, str]:
        """The text of the escape at `at`, the offset after it, and what kind it is."""
        text = self._text
        self._escapes += 1
        if self._escapes > _MAX_ESCAPES:
            raise Refusal("too_large", f"more than {_MAX_ESCAPES} escapes in damaged JSON")
        char = text[at + 1 : at + 2]
        if not char:
            raise Refusal("truncated", f"the reply ends inside the escape at {at}")
        if char in _ESCAPES:
            return _ESCAPES[char], at + 2, "letter" if char in "bfnrt" else "plain"
        if char == "u" and _HEX.match(text, at + 2):
            code = int(text[at + 2 : at + 6], 16)
            follows = text[at + 6 : at + 8] == "\\u" and _HEX.match(text, at + 8)
            if 0xD800 <= code < 0xDC00 and follows:
                low = int(text[at + 8 : at + 12], 16)
                if 0xDC00 <= low < 0xE000:
                    return chr(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), at + 12, "unicode"
            return chr(code), at + 6, "unicode"
        code_point = _PYTHON_ESCAPE.match(text, at + 1) if self._in_call else None
        if code_point is not None:
            digits = code_point[1] or code_point[2]
            return chr(int(digits, 16)), code_point.end(), "unicode"
        if char in _CODE_ESCAPES:
            raise Refusal("bad_json", f"unknown escape {text[at : at + 6]!r} at {at}")
        if char in QUOTES or char in "”’」`":
            self._log.add("escape", at, "\\" + char, char)
            return char, at + 2, "plain"
        self._log.add("escape", at, "\\" + char, "\\\\" + char)
        return "\\" + char, at + 2, "kept"

    def _closes(self, at: int, *, is_key: bool, in_object: bool) -> bool:
        """Whether the quote at `at` is followed by what may follow a whole string."""
        text = self._text
        found = _SPACE.match(text, at + 1)
        after = found.end() if found else at + 1
        if after >= len(text):
            return True
        char = text[after]
        if is_key:
            return char in ":：="
        if char in self._structure or self._gap(text, after):
            return True
        if char in ",，;；、":
            return not in_object or self._separator(after)
        if char in "/#":
            return char == "#" or text[after + 1 : after + 2] in ("/", "*")
        return in_object and starts_key(text, after, equals=self.equals)

    def _separator(self, at: int) -> bool:
        """Whether the comma at `at` separates two members rather than two words."""
        text = self._text
        found = _SPACE.match(text, at + 1)
        after = found.end() if found else at + 1
        if after >= len(text) or text[after] in self._structure or text[after] in "/#,，":
            return True
        return starts_key(text, after, equals=self.equals) or self._gap(text, after)
