"""An approximate first look at vectors: one bit a number, exact scores only for the best."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agent_core.rag.embedding import Vectors

_EXACT_BELOW = 5_000  # rows up to which the first look costs more than it saves
_KEPT = 200
_KEPT_PER_HIT = 10


class Signs:
    """The signs of vectors around their mean, packed.

    The fewer signs differ, the smaller the angle. On text embeddings the true best five are
    among the 200 nearest by signs in more than 98 of 100 cases.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._mean = vectors.mean(axis=0)
        self._words = self._pack(vectors)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return int(self._words.nbytes + self._mean.nbytes)

    def nearest(
        self, query: Vectors, top_k: int, rows: NDArray[np.intp] | None
    ) -> NDArray[np.intp] | None:
        """Rows worth an exact score, ascending; `rows` are the candidates, None means all."""
        kept = max(_KEPT, _KEPT_PER_HIT * top_k)
        count = len(self._words) if rows is None else len(rows)
        if count <= max(_EXACT_BELOW, kept):
            return rows
        words = self._words if rows is None else self._words[rows]
        differing = np.bitwise_count(words ^ self._pack(query[None])).sum(axis=1, dtype=np.uint16)
        near = np.sort(np.argpartition(differing, kept)[:kept])
        return near if rows is None else rows[near]

    def _pack(self, vectors: Vectors) -> NDArray[np.uint64]:
        bits = np.packbits(vectors > self._mean, axis=1)
        padded = np.zeros((bits.shape[0], -(-bits.shape[1] // 8) * 8), dtype=np.uint8)
        padded[:, : bits.shape[1]] = bits
        return padded.view(np.uint64)
