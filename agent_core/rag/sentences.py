"""Where running text may be cut: sentences, lines, clauses, words, user-perceived characters.

Each function gives the ends of the pieces, in code points, white space after a piece included.
The expressions match one mark at a time and never search past it, so that they stay linear.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_CLOSERS = "」』”’）】》〉〗］｝\"')\\]}»›"
_STOPS = "。！？；…｡⋯"
_SENTENCE_END = re.compile(
    rf"[{_STOPS}][{_STOPS}{_CLOSERS}!?]*\s*"  # Chinese marks end a sentence by themselves
    rf"|(?<![.!?])[.!?]++[{_CLOSERS}]*+(?:\s+|(?=[\u3040-\u30ff\u3400-\u9fff“「『]))"
    r"|(?:\r\n?|\n)(?=[ \t]*(?:[-*+•][ \t]|\d{1,3}[.)、][ \t]?|[（(]\d))"  # a list item begins
)
_CLAUSE_END = re.compile(rf"[，、：；—][{_CLOSERS}]*\s*|[,;:][{_CLOSERS}]*\s+")
_LINE_END = re.compile(r"\r\n?|\n")
_SPACE = re.compile(r"\s+")
_ABBREVIATIONS = frozenset({
    "mr", "mrs", "ms", "dr", "prof", "rev", "hon", "gen", "col", "capt", "lt", "sgt", "sr",
    "jr", "st", "mt", "ft", "vs", "etc", "cf", "al", "eg", "ie", "viz", "eds", "inc", "ltd",
    "co", "corp", "dept", "univ", "est", "approx", "ph.d", "resp", "tel", "ext",
})  # fmt: skip
_DATES = frozenset({
    "Jan", "Feb", "Mar", "Apr", "Jun", "Jul", "Aug", "Sep", "Sept", "Oct", "Nov", "Dec",
    "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun",
})  # fmt: skip
_BEFORE_NUMBERS = frozenset({
    "no", "nos", "p", "pp", "ch", "sec", "vol", "vols", "fig", "figs", "eq", "eqs", "ref",
    "refs", "art", "min", "max",
})  # fmt: skip
_NO_START = frozenset(_STOPS + "，、：」』”’）】》〉〗］｝!?,.;:)]}»›%％·～'")
_NO_END = frozenset("「『“‘（【《〈〖［｛([{«‹#")


def sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Ends of the sentences and list items of `text[start:end]`; the last is `end`."""
    for match in _SENTENCE_END.finditer(text, start, end):
        if match.end() < end and _ends_sentence(text, match, start):
            yield match.end()
    yield end


def line_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Ends of the lines of `text[start:end]`; the last is `end`."""
    return _ends(_LINE_END, text, start, end)


def clause_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Ends after commas, colons and the like; the last is `end`."""
    return _ends(_CLAUSE_END, text, start, end)


def word_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Ends after white space; the last is `end`."""
    return _ends(_SPACE, text, start, end)


def _ends(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[int]:
    for match in pattern.finditer(text, start, end):
        if match.end() < end and not joins(text, match.end()):
            yield match.end()
    yield end


def _ends_sentence(text: str, match: re.Match[str], start: int) -> bool:
    """Tell a full stop from one in an abbreviation, an initial, a number or a list mark."""
    mark, following = match[0], text[match.end()]
    if mark[0] in "\r\n":
        return True
    if joins(text, match.end()):
        return False
    if mark[0] in "!?":
        return not (following.islower() and mark.rstrip()[-1] not in "!?")  # "Why?" she asked
    if following.islower():
        return mark[0] in _STOPS and mark[0] not in "…⋯"
    if mark[0] != "." or mark.startswith(".."):
        return True
    return not _is_abbreviation(text, start, match.start(), following)


def _is_abbreviation(text: str, start: int, dot: int, following: str) -> bool:
    begin = dot
    while begin > max(start, dot - 12) and (text[begin - 1].isalnum() or text[begin - 1] == "."):
        begin -= 1
    word = text[begin:dot]
    if word.isdigit():  # "1. First": the mark of a list item
        before = text[max(start, begin - 8) : begin].rstrip(" \t")
        return before.endswith(("\n", "\r")) or (not before and begin - 8 <= start)
    last = word.rpartition(".")[2]
    if len(last) == 1 and last.isalpha() and (last.isupper() or last != word):
        return True  # J. Smith, U.S., e.g.
    lower = word.lower()
    if lower in _BEFORE_NUMBERS:
        return following.isdigit()
    return lower in _ABBREVIATIONS or word in _DATES


def joins(text: str, at: int, floor: int = 0) -> bool:
    """Whether a cut at `at` would go through a user-perceived character.

    Follows Unicode's extended grapheme clusters for combining marks, joiners, conjuncts, emoji
    modifiers and tags, flags, Hangul and CR LF; where in doubt it keeps characters together.
    `floor` is a place known to lie between two of them.
    """
    if not floor < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    if after <= "~" and before <= "~":
        return before == "\r" and after == "\n"
    if after.isspace() or {unicodedata.category(before), unicodedata.category(after)} & _CONTROL:
        return False
    return (
        _extends(after)
        or before in _JOINERS
        or _conjunct(text, at, floor)
        or (_is_flag(before) and _is_flag(after) and _splits_flag(text, at, floor))
        or _hangul_joins(before, after)
    )


def _conjunct(text: str, at: int, floor: int) -> bool:
    """Whether a virama, marks after it aside, ties a letter to the one before."""
    if not text[at].isalpha():
        return False
    place = at - 1
    while place >= floor and _extends(text[place]):
        if unicodedata.combining(text[place]) == _VIRAMA:
            return True
        place -= 1
    return False


def _splits_flag(text: str, at: int, floor: int) -> bool:
    run = at
    while run > floor and _is_flag(text[run - 1]):
        run -= 1
    return (at - run) % 2 == 1


_CONTROL = frozenset({"Cc", "Zl", "Zp"})
_JOINERS = frozenset("\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2\U000110bd")
_VIRAMA = 9


def _extends(character: str) -> bool:
    return (
        unicodedata.category(character) in {"Mn", "Me", "Mc"}
        or character in "\u200c\u200d"
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or "\U000e0020" <= character <= "\U000e007f"
        or character in "\u0e33\u0eb3\uff9e\uff9f"
    )


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _hangul_joins(before: str, after: str) -> bool:
    leading = "\u1100" <= before <= "\u115f" or "\ua960" <= before <= "\ua97c"
    syllable = "\uac00" <= before <= "\ud7a3"
    vowel = "\u1160" <= before <= "\u11a7" or "\ud7b0" <= before <= "\ud7c6"
    trailing = "\u11a8" <= before <= "\u11ff" or "\ud7cb" <= before <= "\ud7fb"
    if leading:
        return (
            "\u1100" <= after <= "\u11a7"
            or "\ua960" <= after <= "\ua97c"
            or "\uac00" <= after <= "\ud7a3"
            or "\ud7b0" <= after <= "\ud7c6"
        )
    if vowel or (syllable and (ord(before) - 0xAC00) % 28 == 0):
        return "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7fb"
    return (syllable or trailing) and (
        "\u11a8" <= after <= "\u11ff" or "\ud7cb" <= after <= "\ud7fb"
    )


def hard_cut(text: str, start: int, limit: int, floor: int) -> tuple[int, bool]:
    """The best place in `(start, limit]` for a cut without any mark to go by.

    `floor`, at or before `start`, is a place known to lie between two characters.

    Latin words stay whole and no piece begins with a closing mark, if the second half of the
    room allows it. A user-perceived character is cut only when it does not fit at all; then
    the second value is True.
    """
    if limit >= len(text):
        return len(text), False
    for at in range(limit, (start + limit) // 2, -1):
        if reads_well(text, at, floor):
            return at, False
    for at in range(limit, start, -1):
        if not joins(text, at, floor):
            return at, False
    return limit, True


def reads_well(text: str, at: int, floor: int) -> bool:
    """Whether a cut here leaves words, brackets and user-perceived characters whole."""
    before, after = text[at - 1], text[at]
    return (
        after not in _NO_START
        and before not in _NO_END
        and not (_is_word(before) and _is_word(after))
        and not joins(text, at, floor)
    )


def _is_word(character: str) -> bool:
    return character.isalnum() and character < "\u2e80"
