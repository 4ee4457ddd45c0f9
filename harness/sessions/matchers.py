"""Functions that say whether a value is the expected one, and what they tell when it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Matcher = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class _Containing:
    """A matcher that can say what it looks for."""

    texts: tuple[str, ...]

    def __call__(self, value: Any) -> bool:
        return isinstance(value, str) and all(text in value for text in self.texts)

    def __str__(self) -> str:
        return f"a text containing {' and '.join(map(repr, self.texts))}"


def containing(*texts: str) -> Matcher:
    """A matcher of a text that holds all of these."""
    return _Containing(texts)


def wanted(expected: Any) -> str:
    """What is expected, in words: a value, or what a matcher looks for if it can say so."""
    if isinstance(expected, _Containing):
        return str(expected)
    return "a value its matcher accepts" if callable(expected) else repr(expected)


def accepts(matcher: Matcher, value: Any) -> tuple[bool, str]:
    """Whether a matcher takes a value; one that raises does not, and the words say what came."""
    try:
        return bool(matcher(value)), ""
    except Exception as error:  # of the user's code, told with the value it was given
        return False, f" (its matcher raised {error!r})"
