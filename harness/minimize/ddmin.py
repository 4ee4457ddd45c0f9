"""Delta debugging: the smallest part of a list that still fails.

The algorithm is `ddmin` of A. Zeller and R. Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", IEEE Transactions on Software Engineering 28(2), 2002: what is left is
1-minimal, so that no single element can be taken out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

T = TypeVar("T")


def ddmin(items: Sequence[T], fails: Callable[[list[T]], bool]) -> list[T]:
    """The smallest sublist found that fails; `items` themselves are known to.

    Args:
        fails: asked once for each sublist; the empty one comes first.
    """
    current = list(items)
    if not current or fails([]):
        return []
    seen: dict[tuple[int, ...], bool] = {}
    numbers = list(range(len(current)))

    def tried(chosen: list[int]) -> bool:
        key = tuple(chosen)
        if key not in seen:
            seen[key] = fails([items[number] for number in chosen])
        return seen[key]

    parts = 2
    while len(numbers) > 1:
        chunks = _split(numbers, parts)
        subset = next((each for each in chunks if tried(each)), None)
        if subset is not None:
            numbers, parts = subset, 2
            continue
        rests = ([n for n in numbers if n not in set(chunk)] for chunk in chunks)
        rest = next((each for each in rests if tried(each)), None)
        if rest is not None:
            numbers, parts = rest, max(parts - 1, 2)
        elif parts < len(numbers):
            parts = min(2 * parts, len(numbers))
        else:
            break
    return [items[number] for number in numbers]


def _split(numbers: list[int], parts: int) -> list[list[int]]:
    """Consecutive parts of almost equal length."""
    bounds = [len(numbers) * part // parts for part in range(parts + 1)]
    return [numbers[a:b] for a, b in pairwise(bounds)]
