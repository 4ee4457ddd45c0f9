"""BM25 over the terms of `agent_core.rag.terms`, with numpy alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from agent_core.errors import ConfigError
from agent_core.rag.selection import best_rows


class Bm25:
    """An immutable index: for each term the rows that have it and what each is worth.

    Args:
        documents: the terms of each row, counted.
        k1: how fast a repeated term stops counting.
        b: how much a long text is held against it, from 0 to 1.
    """

    def __init__(
        self, documents: Sequence[Counter[str]], *, k1: float = 1.2, b: float = 0.75
    ) -> None:
        if k1 < 0 or not 0 <= b <= 1:
            raise ConfigError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, got k1={k1!r}, b={b!r}")
        self._size = len(documents)
        self._slots: dict[str, int] = {}
        slots = [
            self._slots.setdefault(term, len(self._slots)) for each in documents for term in each
        ]
        term_of = np.array(slots, dtype=np.int32)
        count = np.array([n for each in documents for n in each.values()], dtype=np.float32)
        row = np.repeat(np.arange(self._size, dtype=np.int32), [len(each) for each in documents])
        length = np.array([each.total() for each in documents], dtype=np.float32)
        order = np.argsort(term_of, kind="stable")
        found_in = np.bincount(term_of, minlength=len(self._slots))
        self._starts = np.concatenate(([0], np.cumsum(found_in)))
        self._rows = row[order]
        rarity = np.log1p((self._size - found_in + 0.5) / (found_in + 0.5)).astype(np.float32)
        norm = k1 * (1 - b + b * length / max(float(length.mean()), 1.0)) if self._size else length
        worth = count * (k1 + 1) / (count + norm[row])
        self._weights = (worth * rarity[term_of])[order]

    def best(
        self, weights: Mapping[str, float], top_k: int, only: NDArray[np.intp] | None = None
    ) -> list[tuple[int, float]]:
        """Rows in which a weighted term occurs, with their scores, best first.

        Args:
            only: the rows that count; None for all.
        """
        scores = self._scores(weights)
        if only is not None:
            kept = np.zeros_like(scores)
            kept[only] = scores[only]
            scores = kept
        return [(row, score) for row, score in best_rows(scores, top_k) if score > 0]

    def _scores(self, weights: Mapping[str, float]) -> NDArray[np.float32]:
        """The score of every row; 0 where no term occurs."""
        scores = np.zeros(self._size, dtype=np.float32)
        for term, weight in weights.items():
            slot = self._slots.get(term)
            if slot is not None:
                here = slice(self._starts[slot], self._starts[slot + 1])
                scores[self._rows[here]] += self._weights[here] * np.float32(weight)
        return scores
