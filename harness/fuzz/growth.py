"""Families of hostile replies, and the check that time grows no faster than they do."""

from __future__ import annotations

import time
from collections.abc import Callable

from harness.fuzz.examples import Example
from harness.fuzz.oracles import Fault, crash
from harness.fuzz.targets import Target

_CALL = "Thought: x\nAction: find_ferry\nAction Input: "

FAMILIES: dict[str, Callable[[int], str]] = {
    "labels": lambda n: "Action:\n" * (n // 8),
    "action lines": lambda n: "Action: find_ferry\n" * (n // 19),
    "blanks": lambda n: "Action" + " " * n,
    "blank lines": lambda n: "Thought: x" + "\n" * n,
    "open braces": lambda n: _CALL + "{" * n,
    "open objects": lambda n: _CALL + '{"a":' * (n // 5),
    "open brackets": lambda n: _CALL + "[" * n,
    "open thinking": lambda n: "<think>" * (n // 7),
    "closed thinking": lambda n: "</think>" * (n // 8),
    "labels in thinking": lambda n: "Action: none of them\n</think>\n" * (n // 30),
    "quotes": lambda n: _CALL + '{"a": ' + '"' * n,
    "single quotes": lambda n: _CALL + "{'a': " + "'" * n,
    "inner quotes": lambda n: _CALL + '{"a": "' + 'x "y" ' * (n // 6),
    "backslashes": lambda n: _CALL + '{"a": "' + "\\" * n,
    "fences": lambda n: "```\n" * (n // 4),
    "open tags": lambda n: "<tool_call>" * (n // 11),
    "tags and blanks": lambda n: "<tool_call>" + " " * n,
    "full width": lambda n: _CALL + "｛＂：" * (n // 3),
    "digits": lambda n: _CALL + '{"a": ' + "9" * n,
    "keys": lambda n: _CALL + "{" + '"k": 1, ' * (n // 8),
    "same keys": lambda n: _CALL + "{" + ", ".join(f'"k{each % 7}": 1' for each in range(n // 9)),
    "comments": lambda n: _CALL + "{" + "/* " * (n // 3),
    "keywords": lambda n: "[find_ferry(" + "a=1, " * (n // 5),
    "zero width": lambda n: "A\u200bction: " + "\u200b" * n,
    "bold": lambda n: "**" * (n // 2) + "Action:** find_ferry",
    "objects in prose": lambda n: '{"name": "x"} and ' * (n // 18),
    "mixed": lambda n: 'Action: {"a": [```<think>\n' * (n // 26),
}  # fmt: skip
"""Name to a function that builds about so many characters."""

_FIRST, _LAST = 4_000, 128_000
_NOISE = 0.02  # seconds below which a time says nothing
_MOST = 3.0  # times the time for twice the text; quadratic is 4
_SPARE = 1.5  # seconds at which nothing longer is tried


def check_growth(target: Target, family: str) -> Fault | None:
    """Read replies of doubling length; quadratic time twice in a row is a fault."""
    before, steep, size = 0.0, 0, _FIRST
    while size <= _LAST:
        try:
            seconds = _seconds(target, family, size)
        except Exception as error:
            return crash(error)
        steep = steep + 1 if before > _NOISE and seconds > _MOST * before else 0
        if steep == 2 or (steep and seconds > _SPARE):
            detail = f"{size // 2} characters {before:.2f} s, {size} characters {seconds:.2f} s"
            return Fault("growth", None, detail)
        if seconds > _SPARE:
            return None
        before, size = seconds, 2 * size
    return None


def _seconds(target: Target, family: str, size: int) -> float:
    """CPU time, the better of two where it is short enough to be disturbed."""
    example = Example(FAMILIES[family](size), {"find_ferry": {"type": "object"}})
    best = float("inf")
    for _ in range(2):
        started = time.process_time()
        target.read(example)
        best = min(best, time.process_time() - started)
        if best > 0.5:
            break
    return best
