"""Regular expressions mean the same on every Python that is supported."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

import agent_core


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Those that modules of agent_core hold."""
    for each in pkgutil.walk_packages(agent_core.__path__, "agent_core."):
        module = importlib.import_module(each.name)
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{each.name}.{name}", value


def within(code: int, argument: Any) -> Iterator[Any]:
    """The sequences that a part of an expression holds."""
    if code in {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}:
        yield argument[2]
    elif code == op.SUBPATTERN:
        yield argument[3]
    elif code == op.ATOMIC_GROUP:
        yield argument
    elif code == op.BRANCH:
        yield from argument[1]
    elif code in {op.ASSERT, op.ASSERT_NOT}:
        yield argument[1]


def backtracks(sequence: Any) -> bool:
    """Whether it may match the same text in several ways."""
    for code, argument in sequence:
        if code in {op.ATOMIC_GROUP, op.POSSESSIVE_REPEAT}:
            continue
        varies = code in {op.MAX_REPEAT, op.MIN_REPEAT} and argument[0] != argument[1]
        if varies or code in {op.BRANCH, op.GROUPREF_EXISTS}:
            return True
        if code not in {op.ASSERT, op.ASSERT_NOT} and any(map(backtracks, within(code, argument))):
            return True
    return False


def misread(sequence: Any) -> bool:
    """Whether something is repeated possessively that backtracks inside."""
    return any(
        (code == op.POSSESSIVE_REPEAT and backtracks(argument[2]))
        or any(map(misread, within(code, argument)))
        for code, argument in sequence
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (r"(?:ab?c)*+", True),
        (r"x(?=(?:a|bc)++)", True),
        (r"(?>ab?c)*+", False),
        (r"(?:a[bc]{2})*+d*+", False),
    ],
)
def test_what_repeats_possessively_and_backtracks_is_seen(expression: str, expected: bool) -> None:
    """The check of all patterns tells the one from the other."""
    assert misread(_parser.parse(expression)) == expected


def test_no_pattern_is_misread_by_an_older_python() -> None:
    """Before 3.11.5 such a repeat loses its place (python/cpython#106052): it has to be atomic."""
    found = dict(patterns())
    assert len(found) > 100
    assert [
        name for name, each in found.items() if misread(_parser.parse(each.pattern, each.flags))
    ] == []
