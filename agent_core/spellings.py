"""Values in disguise: escaped, percent-encoded, as entities, with invisible characters inside.

What writes a text may spell any of its characters out (`\\u0073`, `%73`, `&#115;`), once or twice
over. Here they are read, so that a known value is found whichever of them were.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

_SPELLED = re.compile(
    r"""
    \\{1,8} (?: u(?P<unit>[0-9a-f]{4}) | x(?P<byte>[0-9a-f]{2}) | (?=[^a-z0-9\s\\]) )
    | % (?:25){0,4} (?P<percent>[0-9a-f]{2})
    | & (?:amp;){0,4} (?P<entity> \#[0-9]{1,7};? | \#x[0-9a-f]{1,6};? | [a-z]{2,6}; )
    | [\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff]
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SHORTEST = 4  # less is found in ordinary texts


def find_spelled(text: str, values: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Where one of these values stands when what is spelled out is read."""
    if _SPELLED.search(text) is None:
        return
    plain = _Plain(text)
    for value in values:
        wanted = _Plain(value).text  # it may hold what looks like an escape itself
        if len(wanted) < _SHORTEST:
            continue
        start = plain.text.find(wanted)
        while start >= 0:
            end = start + len(wanted)
            yield plain.start(start), plain.end(end)
            start = plain.text.find(wanted, end)


class _Plain:
    """A text with what was spelled out read, and where each character stood before."""

    def __init__(self, text: str) -> None:
        parts: list[str] = []
        self._here, self._there = [0], [0]  # offsets in it, and what they are in the other text
        here = there = 0
        for found in _SPELLED.finditer(text):
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
    return html.unescape("&" + found["entity"]) if found["entity"] else ""
