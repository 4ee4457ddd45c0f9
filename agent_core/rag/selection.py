"""Which chunks a search may return, and the best of them in a stable order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent_core.errors import ConfigError
from agent_core.messages import Chunk, JsonValue

if TYPE_CHECKING:  # where there are rows or scores, numpy has been loaded
    import numpy as np
    from numpy.typing import NDArray

Where = Mapping[str, JsonValue] | Callable[[Chunk], bool]
"""A filter: metadata that must be equal (a list means any of its values; `source` and `id`
are the chunk's own), or a function."""

_FEW = 16


def matching_rows(chunks: Sequence[Chunk], where: Where) -> NDArray[np.intp]:
    """Rows of the chunks that pass a filter, ascending."""
    import numpy as np  # noqa: PLC0415

    accepts = where if callable(where) else _equality(where)
    return np.array([row for row, chunk in enumerate(chunks) if accepts(chunk)], dtype=np.intp)


def _equality(where: Mapping[str, JsonValue]) -> Callable[[Chunk], bool]:
    wanted = {
        key: list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
        for key, value in where.items()
    }

    def accepts(chunk: Chunk) -> bool:
        own = {"source": chunk.source, "id": chunk.id}
        return all(
            (own[key] if key in own else chunk.metadata.get(key)) in values
            for key, values in wanted.items()
        )

    return accepts


def best_rows(scores: NDArray[np.float32], top_k: int) -> list[tuple[int, float]]:
    """Rows with the highest scores, best first; equal scores in the order of the rows.

    The array may be used up: what was found is struck out.
    """
    import numpy as np  # noqa: PLC0415

    count = scores.shape[0]
    if top_k <= _FEW:
        return _few_best(scores, min(top_k, count))
    rows = np.arange(count)
    if top_k < count:
        border = np.partition(scores, count - top_k)[count - top_k]
        rows = np.flatnonzero(scores >= border)
    best = rows[np.argsort(-scores[rows], kind="stable")[:top_k]]
    return list(zip(best.tolist(), scores[best].tolist(), strict=True))


def _few_best(scores: NDArray[np.float32], top_k: int) -> list[tuple[int, float]]:
    """To look for the highest again and again is quicker than to sort out the rest."""
    found: list[tuple[int, float]] = []
    for _ in range(top_k):
        row = int(scores.argmax())
        found.append((row, scores.item(row)))
        scores[row] = -math.inf
    return found


def checked_top_k(top_k: int) -> int:
    """Refuse a number of hits that makes no sense."""
    if top_k < 1:
        raise ConfigError(f"top_k must be at least 1, got {top_k!r}")
    return top_k
