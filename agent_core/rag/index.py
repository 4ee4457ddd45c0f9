"""Vectors in memory: exact search by cosine, filters, changes by id. Safe under threads.

A reader takes the current state and works on it without a lock; a writer makes the next state
beside it. Rows are only ever appended; a replaced or deleted one is dead until it is swept out.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_core.errors import ConfigError, RetrievalError
from agent_core.messages import Chunk, Hit
from agent_core.rag.embedding import Vectors, checked_vectors
from agent_core.rag.selection import Where, best_rows, checked_top_k, matching_rows
from agent_core.rag.signs import Signs

_SPARE = 64  # of so many rows one is spare: memory counts for more than copying now and then
_PLAIN = 1e-12  # lengths from here to its inverse keep products within float32


@dataclass(frozen=True, slots=True)
class _State:
    """What a search sees: rows below `size` never change. `alive` is None when all are."""

    chunks: list[Chunk]
    vectors: Vectors
    size: int
    alive: NDArray[np.bool_] | None
    version: int

    def living(self) -> NDArray[np.intp]:
        if self.alive is None:
            return np.arange(self.size)
        return np.flatnonzero(self.alive)


class VectorIndex:
    """Chunks with their vectors.

    Args:
        model: the embedder's name; an index is only good for vectors of one model.
        prefilter: rank by the signs of the vectors first, and score only the best of those
            exactly. It finds at least 98 % of what exact search does, for a 32nd of the memory
            of the vectors, and pays from about ten thousand rows on.
    """

    def __init__(self, model: str, *, prefilter: bool = False) -> None:
        self.model = model
        self._prefilter = prefilter
        self._signs: tuple[int, Signs] | None = None
        self._rows: dict[str, int] = {}
        self._state = _State([], np.zeros((0, 0), dtype=np.float32), 0, None, 0)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def dimension(self) -> int:
        """Numbers in a vector; 0 as long as there is none."""
        return int(self._state.vectors.shape[1])

    @property
    def version(self) -> str:
        """Changes with every change of what is in the index."""
        return str(self._state.version)

    def chunks(self) -> list[Chunk]:
        """Every chunk, in the order of adding."""
        state = self._state
        return [state.chunks[row] for row in state.living()]

    def contents(self) -> tuple[list[Chunk], Vectors]:
        """The chunks and their unit vectors, row by row."""
        state = self._state
        if state.alive is None:
            return state.chunks[: state.size], state.vectors[: state.size]
        rows = state.living()
        return [state.chunks[row] for row in rows], state.vectors[rows]

    def add(self, chunks: Sequence[Chunk], vectors: ArrayLike) -> None:
        """Add chunks, replacing those whose ids are there already.

        Raises:
            RetrievalError: the vectors are zero, not finite, too few or of another size.
        """
        latest = {chunk.id: number for number, chunk in enumerate(chunks)}
        if not chunks:
            return
        new = checked_vectors(
            vectors, len(chunks), name=self.model, dimension=self.dimension or None
        )
        new = _units(new)
        with self._lock:
            rest = self._without(self._state, latest)
            order = list(latest.values())
            self._state = self._with(rest, [chunks[number] for number in order], new[order])

    def adopt(self, chunks: Sequence[Chunk], vectors: Vectors) -> None:
        """Take unit vectors as they are, without a copy, into an empty index (to load one)."""
        with self._lock:
            if self._state.size:
                raise ConfigError("only an empty index can adopt vectors")
            self._rows = {chunk.id: row for row, chunk in enumerate(chunks)}
            if len(self._rows) < len(chunks):
                raise RetrievalError("two chunks of the index have the same id")
            self._state = _State(list(chunks), vectors, len(chunks), None, 1)

    def delete(self, ids: Iterable[str]) -> int:
        """Remove chunks; ids that are not there are ignored. Gives how many were removed."""
        with self._lock:
            before = len(self._rows)
            self._state = self._without(self._state, ids)
            return before - len(self._rows)

    def search(self, vector: ArrayLike, top_k: int = 5, *, where: Where | None = None) -> list[Hit]:
        """The nearest chunks by cosine, best first; equal ones in the order of adding.

        Raises:
            RetrievalError: the vector is zero, not finite or of another size.
        """
        checked_top_k(top_k)
        state = self._state
        if not state.size:
            return []
        query, length = _measured(vector, state.vectors.shape[1], self.model)
        rows = self._candidates(state, where)
        if self._prefilter:
            unit = query / np.float32(length)
            rows = self._current_signs(state).nearest(unit, top_k, rows)
        vectors = state.vectors[: state.size] if rows is None else state.vectors[rows]
        # BLAS starts threads even for a small product, and waits for the slowest: on a busy
        # machine that costs milliseconds. `vecdot` never does, is bound by memory just as well,
        # and rounds alike in every row: equal vectors have equal scores.
        scores = np.vecdot(vectors, query)
        if rows is None and state.alive is not None:
            scores[~state.alive] = -np.inf
            top_k = min(top_k, int(np.count_nonzero(state.alive)))
        best = best_rows(scores, top_k)
        if rows is not None:
            best = [(int(rows[row]), score) for row, score in best]
        return [Hit(state.chunks[row], score / length) for row, score in best]

    def _candidates(self, state: _State, where: Where | None) -> NDArray[np.intp] | None:
        """Rows that may be looked at, ascending; None when those are all that are alive."""
        if where is not None:
            rows = matching_rows(state.chunks[: state.size], where)
            return rows if state.alive is None else rows[state.alive[rows]]
        return state.living() if self._prefilter and state.alive is not None else None

    def _without(self, state: _State, ids: Iterable[str]) -> _State:
        """Mark rows dead; sweep when most are."""
        dead = [self._rows.pop(each) for each in ids if each in self._rows]
        if not dead:
            return state
        alive = np.ones(state.size, dtype=bool) if state.alive is None else state.alive.copy()
        alive[dead] = False
        state = replace(state, alive=alive, version=state.version + 1)
        if len(self._rows) >= state.size // 2:
            return state
        rows = state.living()
        chunks = [state.chunks[row] for row in rows]
        self._rows = {chunk.id: row for row, chunk in enumerate(chunks)}
        return _State(chunks, state.vectors[rows], len(chunks), None, state.version)

    def _with(self, state: _State, chunks: list[Chunk], vectors: Vectors) -> _State:
        """Write rows behind the last one, where no reader looks yet."""
        size = state.size + len(chunks)
        buffer = state.vectors
        if size > buffer.shape[0] or not buffer.flags.writeable:
            room = max(size, state.size + state.size // _SPARE)
            buffer = np.empty((room, vectors.shape[1]), dtype=np.float32)
            buffer[: state.size] = state.vectors[: state.size] if state.size else 0
        buffer[state.size : size] = vectors
        self._rows.update((chunk.id, state.size + n) for n, chunk in enumerate(chunks))
        state.chunks.extend(chunks)
        alive = state.alive
        if alive is not None:
            alive = np.concatenate((alive, np.ones(len(chunks), dtype=bool)))
        return _State(state.chunks, buffer, size, alive, state.version + 1)

    def _current_signs(self, state: _State) -> Signs:
        known = self._signs
        if known is None or known[0] != state.version:
            known = state.version, Signs(state.vectors[: state.size])
            self._signs = known
        return known[1]


def _measured(vector: ArrayLike, dimension: int, model: str) -> tuple[Vectors, float]:
    """A query and its length; what is wrong with it is looked into only when something is."""
    query = np.asarray(vector, dtype=np.float32)
    wide = query.astype(np.float64)
    length = math.sqrt(wide.dot(wide)) if query.shape == (dimension,) else 0.0
    if _PLAIN < length < 1 / _PLAIN:
        return query, length
    query = checked_vectors(np.atleast_2d(query), 1, name=model, dimension=dimension)[0]
    return _units(query), 1.0


def _units(vectors: Vectors) -> Vectors:
    """Each vector by its length, whose square may be out of the range of float32."""
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=-1, keepdims=True)
    return wide.astype(np.float32)
