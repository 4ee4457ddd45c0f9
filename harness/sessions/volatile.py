"""Times, ids and the like differ from run to run and say nothing: they are told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

_EDGE = r"(?:\b|(?<=\\[nrt]))"  # a line of a JSON text may begin with it
_VOLATILE = (
    ("TIME", re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    )),
    ("UUID", re.compile(_EDGE + r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")),
    ("CALL_ID", re.compile(_EDGE + r"call_[A-Za-z0-9]{6,40}\b")),
    ("TEMP_PATH", re.compile(r"/(?:tmp|var/folders)/[\w./\-]{1,200}")),
)  # fmt: skip


def hidden(text: str) -> str:
    """A text with a name in the place of everything volatile."""
    for name, pattern in _VOLATILE:
        text = pattern.sub(f"<{name}>", text)
    return text


def mask_of(before: str | None, after: str | None) -> str | None:
    """The expression that hides all that differs between two texts, or None if more differs."""
    if before is None or after is None:
        return None
    needed = []
    for name, pattern in _VOLATILE:
        if pattern.findall(before) != pattern.findall(after):
            needed.append(pattern.pattern)
        before, after = pattern.sub(f"<{name}>", before), pattern.sub(f"<{name}>", after)
        if before == after:
            return "|".join(needed)
    return None


def changed_lines(old: str, new: str) -> Iterator[tuple[str, str]]:
    """The lines that differ; apart from them those in which only times and ids do."""
    before, after = old.splitlines(), new.splitlines()
    matcher = SequenceMatcher(
        None, [hidden(each) for each in before], [hidden(each) for each in after], autojunk=False
    )
    gone: list[str] = []
    come: list[str] = []
    volatile: list[tuple[str, str]] = []
    for tag, a, b, c, d in matcher.get_opcodes():
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
    if hidden(old) != hidden(new):
        yield from [each for each in changed_lines(old, new) if hidden(each[0]) == hidden(each[1])]
