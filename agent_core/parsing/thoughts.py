"""The reason inside a thought."""

from __future__ import annotations

import re

_WORDS = ("because", "因为", "因為")
_SENTENCE = re.compile(r"[^.。!！?？;；\n]*+(?>\.(?=\S)[^.。!！?？;；\n]*+)*+")
_LIMIT = 400  # characters of a reason


def reason_in(thought: str | None) -> str | None:
    """What follows "because" or 因为 in a thought, up to the end of its sentence."""
    if not thought:
        return None
    lower = thought.lower()
    for word in _WORDS:
        at = lower.find(word)
        if at >= 0:
            rest = thought[at + len(word) : at + len(word) + _LIMIT].lstrip(" ,，:：")
            found = _SENTENCE.match(rest)
            return (found.group() if found else rest).strip() or None
    return None
