"""Values in disguise: escaped, percent-encoded, as entities, with invisible characters inside.

What writes a text may spell any of its characters out (`\\u0073`, `%73`, `&#115;`), once or twice
over. Here they are read, so that a known value is found whichever of them were.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

_SHORTEST = 4  # less is found in ordinary texts
_HIDDEN = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff"


def find_spelled(text: str, values: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where one of these values stands when what is spelled out is read."""
    spelled = _spelled(frozenset("".join(values))) if values else None
    if spelled is None or spelled.search(text) is None:
        return
    plain = _Plain(text, spelled)
    for value in values:
        wanted = _Plain(value, spelled).text  # it may hold what looks like an escape itself
        if len(wanted) < _SHORTEST:
            continue
        start = plain.text.find(wanted)
        while start >= 0:
            end = start + len(wanted)
            yield plain.start(start), plain.end(end)
            start = plain.text.find(wanted, end)


@lru_cache(maxsize=64)
def _spelled(chars: frozenset[str]) -> re.Pattern[str]:
    """One of these characters spelled out, or one that cannot be seen.

    Other characters are not read, since most texts are full of `\\n` and `\\"`.
    """
    from html.entities import html5  # noqa: PLC0415 - a large table

    def codes(form: str, limit: int = 0x10000) -> str:
        return _one_of(format(ord(each), form) for each in chars if ord(each) < limit)

    names = _one_of(name for name, each in html5.items() if each in chars)
    marks = re.escape("".join(each for each in chars if not each.isalnum() and each != "\\"))
    return re.compile(
        rf"""
        \\{{1,8}} (?: u(?P<unit>{codes("04x")}) | x(?P<byte>{codes("02x", 256)}) | (?=[{marks}_]) )
        | % (?:25){{0,4}} (?P<percent>{codes("02x", 256)})
        | & (?:amp;){{0,4}}
          (?P<entity> \#0{{0,4}}(?:{codes("d")});? | \#x0{{0,4}}(?:{codes("x")});? | (?:{names}) )
        | [{_HIDDEN}]
        """,
        re.VERBOSE | re.IGNORECASE,
    )


def _one_of(words: Iterable[str]) -> str:
    """An expression for any of these, the longest first; for none, one that never matches."""
    return "|".join(sorted(words, key=len, reverse=True)) or "(?!)"


class _Plain:
    """A text with what was spelled out read, and where each character stood before."""

    def __init__(self, text: str, spelled: re.Pattern[str]) -> None:
        parts: list[str] = []
        self._here, self._there = [0], [0]  # offsets in it, and what they are in the other text
        here = there = 0
        for found in spelled.finditer(text):
            char = _read(found)
            parts += (text[there : found.start()], char)
            here += found.start() - there
            self._here += (here, here + len(char))
            self._there += found.span()
            here, there = here + len(char), found.end()
        self.text = "".join([*parts, text[there:]])

    def start(self, offset: int) -> int:
        """Where the character at an offset begins."""
        mark = bisect_right(self._here, offset) - 1
        return self._there[mark] + offset - self._here[mark]

    def end(self, offset: int) -> int:
        """Where the character before an offset ends."""
        mark = bisect_left(self._here, offset)
        if mark < len(self._here) and self._here[mark] == offset:
            return self._there[mark]
        return self._there[mark - 1] + offset - self._here[mark - 1]


def _read(found: re.Match[str]) -> str:
    digits = found["unit"] or found["byte"] or found["percent"]
    if digits:
        return chr(int(digits, 16))
    if found["entity"]:
        import html  # noqa: PLC0415

        return html.unescape("&" + found["entity"])
    return ""  # what cannot be seen
