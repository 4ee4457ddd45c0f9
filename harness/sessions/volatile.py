"""Times, ids and the like: what differs from run to run and says nothing."""

from __future__ import annotations

import re

_VOLATILE = (
    ("TIME", re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    )),
    ("UUID", re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")),
    ("CALL_ID", re.compile(r"\bcall_[A-Za-z0-9]{6,40}\b")),
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
