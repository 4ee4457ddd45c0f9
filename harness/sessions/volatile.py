"""Times, ids and the like differ from run to run and say nothing: they are told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

_EDGE = r"(?:\b|(?<=\\[nrt]))"  # a line of a JSON text may begin with it
_CLOCK = (
    r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?[AaPp]\.?[Mm]\b\.?)?"
    r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d))?"
)
_NAME = r"[A-Z][a-z]{2,8}"  # of a month or a weekday
_TH = "(?:st|nd|rd|th)?"
_DATE = (
    rf"(?:{_NAME}\.?,? )?(?:\d{{1,2}}{_TH}[ /-]{_NAME}\.?,?[ /-]\d{{4}}"
    rf"|{_NAME}\.? \d{{1,2}}{_TH},? \d{{4}}|\d{{1,4}}[/.]\d{{1,2}}[/.]\d{{1,4}}"
    r"|\d{4}-\d\d-\d\d)"
)
_WEEKDAY_ZH = "(?:[ ,，（(]*(?:星期|周|礼拜)[一二三四五六日天][)） ,，]*)?"
_DATE_ZH = rf"\d{{4}} ?[年/-] ?\d{{1,2}} ?[月/-] ?\d{{1,2}} ?[日号]?{_WEEKDAY_ZH}"
_CLOCK_ZH = (
    r"[ ,，]*(?:上午|下午|凌晨|早上|清晨|中午|傍晚|晚上|夜里)? ?"
    r"(?:\d{1,2}[:：]\d\d(?:[:：]\d\d)?|\d{1,2} ?[时点] ?\d{1,2} ?分(?: ?\d{1,2} ?秒)?)"
)
_SAYS_EPOCH = (
    r"(?:(?i:time|stamp|epoch|unix|now|时间|时间戳)[\"']?(?: ?[:=：] ?| is |为|是| )"
    r"|(?:\bts?|_at|_ms|date|created)[\"']? ?[:=] ?)"
)
_SAYS_TODAY = (
    r"(?:\b(?i:today(?:'s date)?|current date|it)(?:'s| is|:)? (?:now )?"
    r"|(?:今天|今日|当前日期|现在)(?:是|为|：|:)? ?)"
)
_VOLATILE = (  # a name, what no such text lacks (it is found soon), and the whole
    ("TIME", r"-\d\d[T ]\d\d:", re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
        r"(?: [AaPp][Mm]\b)?"
    )),
    ("TIME", r"\d:\d\d", re.compile(rf"{_DATE}(?:,? (?:at )?|[T:]) *{_CLOCK}")),
    ("TIME", r"\d:\d\d", re.compile(rf"(?<![\d:]){_CLOCK},? (?:on )?{_DATE}")),
    ("TIME", r"\d:\d\d", re.compile(
        rf"{_NAME} {_NAME} +\d{{1,2}} {_CLOCK}(?: [A-Z]{{3,4}})? \d{{4}}"
    )),
    ("TIME", r"\d ?[日号]|\d[/-]\d", re.compile(rf"{_DATE_ZH}{_CLOCK_ZH}")),
    ("TIME", r"\d:\d\d", re.compile(rf"(?<![\d:.])(?=\d{{1,2}}:\d\d:\d\d(?![\d:])){_CLOCK}")),
    ("TODAY", r"\d[./-]\d|\d{4}", re.compile(
        rf"{_SAYS_TODAY}(?:{_DATE}|{_WEEKDAY_ZH}{_DATE_ZH})"
    )),
    ("EPOCH", r"1[5-9]\d{8}", re.compile(
        rf"(?:{_SAYS_EPOCH}|(?<![\w.])(?=1[5-9]\d{{8}}\.\d{{3}}))"
        r"1[5-9]\d{8}(?:(?:\d{3}){1,3}|\.\d{1,9})?(?![\w])"
    )),
    ("UUID", "-[0-9a-fA-F]{4}-", re.compile(
        _EDGE + r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    )),
    ("UUID_HEX", "[0-9a-fA-F]{32}", re.compile(
        _EDGE + r"[0-9a-fA-F]{12}[47][0-9a-fA-F]{3}[89abAB][0-9a-fA-F]{15}\b"
    )),
    ("ADDRESS", "0x", re.compile(_EDGE + r"0x[0-9a-fA-F]{9,16}\b")),
    ("CALL_ID", "call_", re.compile(_EDGE + r"call_[A-Za-z0-9]{6,40}\b")),
    ("TEMP_PATH", "/", re.compile(r"/(?:tmp|var/folders)/[\w./\-]{1,200}")),
)  # fmt: skip
"""What differs from run to run. A date without a time of day is none of it unless it says that it
is today's: "the weather on 1 May" asks something else than "on 2 May". Nor is a number that only
might be a time or an id."""

_MOST_PAIRS = 4_000_000  # of lines that are compared: a second
_FRACTION = re.compile(r"(?<=:\d\d)[.,]\d+")
_LABEL = re.compile(_SAYS_TODAY)
_WORD = re.compile(r"[A-Za-z]+|[\u4e00-\u9fff]+|\d+")
_PIECES = re.compile(r"[A-Za-z]+|[\u4e00-\u9fff]+|\d+|\s+|.")
_KINDS = {"digits": r"\d+", "letters": "[A-Za-z]+", "characters": "[一-鿿]+", "space": " +"}
_TIMES = frozenset({"TIME", "TODAY"})


def hidden(text: str) -> str:
    """A text with a name in the place of everything volatile."""
    for name, sign, pattern in _VOLATILE:
        if re.search(sign, text):
            text = pattern.sub(_named(name), text)
    return text


def mask_of(before: str | None, after: str | None) -> str | None:
    """The expression that hides all that differs between two texts, or None if more differs."""
    if before is None or after is None or hidden(before) != hidden(after):
        return None
    needed: dict[str, None] = {}
    for name, _, pattern in _VOLATILE:
        for was, now in zip(pattern.finditer(before), pattern.finditer(after), strict=False):
            if was[0] != now[0]:
                needed[_mask(name, was)] = None
        before, after = (pattern.sub(_named(name), each) for each in (before, after))
        if before == after:
            return "|".join(needed)
    return None


def _named(name: str) -> Callable[[re.Match[str]], str]:
    """What stands in the place of one: times that are spelled in two ways are two things."""

    def replaced(found: re.Match[str]) -> str:
        label, value = _labelled(name, found[0])
        if name == "EPOCH":
            value = str(len(value.partition(".")[0]))
        elif name in _TIMES:  # a clock on the full second shows no fraction
            value = _WORD.sub(lambda each: _KINDS[_kind(each[0])], _FRACTION.sub("", value))
            value = " ".join(value.split())
        else:
            value = ""
        return f"{label}<{name} {value}>"

    return replaced


def _mask(name: str, found: re.Match[str]) -> str:
    """The expression for one and its like: short, so that it can be read."""
    label, value = _labelled(name, found[0])
    if name == "EPOCH":
        return rf"{re.escape(label)}\d{{{len(value.partition('.')[0])}}}(?:\.\d+)?"
    if name not in _TIMES:
        return found.re.pattern
    pieces = _PIECES.findall(_FRACTION.sub("", value))
    mask = "".join(_KINDS.get(_kind(each)) or re.escape(each) for each in pieces)
    return re.escape(label) + mask.replace(r":\d+:\d+", r":\d+:\d+(?:[.,]\d+)?")


def _labelled(name: str, text: str) -> tuple[str, str]:
    """The words that say what it is, where there have to be some, and the value."""
    label = ""
    if name == "EPOCH":
        label = text.rstrip("0123456789.")
    elif name == "TODAY" and (says := _LABEL.match(text)):
        label = says[0]
    return label, text[len(label) :]


def _kind(piece: str) -> str:
    """What a piece of a time consists of; a mark is of no kind."""
    if piece.isspace():
        return "space"
    if piece.isdecimal():
        return "digits"
    if piece.isalpha():
        return "letters" if piece.isascii() else "characters"
    return "mark"


def changed_lines(old: str, new: str) -> Iterator[tuple[str, str]]:
    """The lines that differ; apart from them those in which only times and ids do."""
    before, after = old.splitlines(), new.splitlines()
    plain = [hidden(each) for each in before], [hidden(each) for each in after]
    gone: list[str] = []
    come: list[str] = []
    volatile: list[tuple[str, str]] = []
    for tag, a, b, c, d in _opcodes(*plain):
        if tag != "equal":
            gone += before[a:b]
            come += after[c:d]
        else:
            pairs = zip(before[a:b], after[c:d], strict=True)
            volatile += [(was, now) for was, now in pairs if was != now]
    if gone or come:
        yield "\n".join(gone), "\n".join(come)
    if volatile:
        yield "\n".join(was for was, _ in volatile), "\n".join(now for _, now in volatile)


def changed_texts(old: str, new: str) -> Iterator[tuple[str, str]]:
    """A text that differs, whole; apart from it the lines in which only times and ids do."""
    if old != new:
        yield old, new
    plain = hidden(old), hidden(new)
    if plain[0] != plain[1] and plain != (old, new):
        yield from [each for each in changed_lines(old, new) if hidden(each[0]) == hidden(each[1])]


def _opcodes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """How one list of lines becomes the other, as `difflib` says it.

    To compare many lines that repeat each other takes the product of both numbers: beyond
    some length all between the common beginning and the common end has changed.
    """
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    a, c = len(old) - end, len(new) - end
    yield "equal", 0, start, 0, start
    if (a - start) * (c - start) > _MOST_PAIRS:
        yield "replace", start, a, start, c
    else:
        matcher = SequenceMatcher(None, old[start:a], new[start:c], autojunk=False)
        for tag, *places in matcher.get_opcodes():
            i, j, k, m = (start + each for each in places)
            yield tag, i, j, k, m
    yield "equal", a, len(old), c, len(new)


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many of their first lines are equal."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
