"""BM25 over the terms of `agent_core.rag.terms`, with numpy alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from agent_core.errors import ConfigError
from agent_core.events import RetrievalEnded, RetrievalStarted, scope
from agent_core.messages import Chunk, Hit
from agent_core.rag.selection import Where, best_rows, checked_top_k, matching_rows
from agent_core.rag.terms import query_terms, terms


def searchable_text(chunk: Chunk) -> str:
    """What an index reads of a chunk: its text, after the headings that it does not show."""
    headings = chunk.metadata.get("headings") or ()
    missing = [str(title) for title in headings if str(title) not in chunk.text]
    return "\n".join([" > ".join(missing), chunk.text]) if missing else chunk.text


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

    def scores(self, weights: dict[str, float]) -> NDArray[np.float32]:
        """The score of every row for weighted terms; 0 where none occurs."""
        scores = np.zeros(self._size, dtype=np.float32)
        for term, weight in weights.items():
            slot = self._slots.get(term)
            if slot is not None:
                here = slice(self._starts[slot], self._starts[slot + 1])
                scores[self._rows[here]] += self._weights[here] * np.float32(weight)
        return scores


class LexicalRetriever:
    """Finds passages by their words. Adding and searching from several threads is safe.

    A chunk with an id that is already there replaces the old one; blank chunks are not kept.
    The index is built at the first search after a change.

    Args:
        chunks: what to begin with.
        name: said in traces.
        k1: see `Bm25`.
        b: see `Bm25`.
    """

    def __init__(
        self,
        chunks: Iterable[Chunk] = (),
        *,
        name: str = "bm25",
        k1: float = 1.2,
        b: float = 0.75,
    ) -> None:
        self.name = name
        self._k1, self._b = k1, b
        self._documents: dict[str, tuple[Chunk, Counter[str]]] = {}
        self._built: tuple[list[Chunk], Bm25] | None = None
        self._changes = 0
        self._lock = threading.Lock()
        self.add(chunks)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def version(self) -> str:
        """Changes with every change of what is in the index."""
        return str(self._changes)

    def add(self, chunks: Iterable[Chunk]) -> list[str]:
        """Add or replace chunks; gives the ids of those that were kept."""
        new = {
            chunk.id: (chunk, Counter(terms(searchable_text(chunk))))
            for chunk in chunks
            if chunk.text.strip()
        }
        with self._lock:
            self._documents.update(new)
            self._changed()
        return list(new)

    def replace(self, source: str, chunks: Iterable[Chunk]) -> list[str]:
        """Put chunks in place of all that came from a source, for a document that changed."""
        with self._lock:
            old = [each for each, (chunk, _) in self._documents.items() if chunk.source == source]
        kept = list(chunks)
        self.delete(set(old) - {chunk.id for chunk in kept})
        return self.add(kept)

    def delete(self, ids: Iterable[str]) -> int:
        """Remove chunks; ids that are not there are ignored. Gives how many were removed."""
        with self._lock:
            removed = sum(self._documents.pop(each, None) is not None for each in ids)
            self._changed()
        return removed

    def retrieve(self, query: str, top_k: int = 5, *, where: Where | None = None) -> list[Hit]:
        """The best chunks that share a term with the query; fewer than `top_k`, or none."""
        checked_top_k(top_k)
        with scope(RetrievalStarted(self.name, query, top_k)) as retrieval:
            chunks, index, version = self._index()
            scores = index.scores(query_terms(query))
            if where is not None:
                rows = matching_rows(chunks, where)
                kept = np.zeros_like(scores)
                kept[rows] = scores[rows]
                scores = kept
            best = best_rows(scores, top_k)
            hits = [Hit(chunks[row], score) for row, score in best if score > 0]
            retrieval.end(RetrievalEnded(hits, version))
            return hits

    def _changed(self) -> None:
        self._built = None
        self._changes += 1

    def _index(self) -> tuple[list[Chunk], Bm25, str]:
        with self._lock:
            if self._built is None:
                chunks = [chunk for chunk, _ in self._documents.values()]
                counts = [count for _, count in self._documents.values()]
                self._built = chunks, Bm25(counts, k1=self._k1, b=self._b)
            return *self._built, self.version
