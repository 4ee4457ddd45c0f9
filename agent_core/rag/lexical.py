"""Passages found by their words; numpy is loaded by the first search."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent_core.events import RetrievalEnded, RetrievalStarted, scope
from agent_core.messages import Chunk, Hit
from agent_core.rag.selection import Where, checked_top_k, matching_rows

if TYPE_CHECKING:
    from agent_core.rag.bm25 import Bm25


def searchable_text(chunk: Chunk) -> str:
    """What an index reads of a chunk: its text, after the headings that it does not show."""
    headings = chunk.metadata.get("headings") or ()
    missing = [str(title) for title in headings if str(title) not in chunk.text]
    return "\n".join([" > ".join(missing), chunk.text]) if missing else chunk.text


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
        self._chunks: dict[str, Chunk] = {}
        self._counts: dict[str, Counter[str]] = {}  # their terms, as far as they were searched
        self._built: tuple[list[Chunk], Bm25] | None = None
        self._changes = 0
        self._lock = threading.Lock()
        self.add(chunks)

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def version(self) -> str:
        """Changes with every change of what is in the index."""
        return str(self._changes)

    def add(self, chunks: Iterable[Chunk]) -> list[str]:
        """Add or replace chunks; gives the ids of those that were kept."""
        new = {chunk.id: chunk for chunk in chunks if chunk.text.strip()}
        with self._lock:
            self._chunks.update(new)
            self._changed(new)
        return list(new)

    def replace(self, source: str, chunks: Iterable[Chunk]) -> list[str]:
        """Put chunks in place of all that came from a source, for a document that changed."""
        with self._lock:
            old = [each for each, chunk in self._chunks.items() if chunk.source == source]
        kept = list(chunks)
        self.delete(set(old) - {chunk.id for chunk in kept})
        return self.add(kept)

    def delete(self, ids: Iterable[str]) -> int:
        """Remove chunks; ids that are not there are ignored. Gives how many were removed."""
        with self._lock:
            removed = [each for each in ids if self._chunks.pop(each, None) is not None]
            self._changed(removed)
        return len(removed)

    def retrieve(self, query: str, top_k: int = 5, *, where: Where | None = None) -> list[Hit]:
        """The best chunks that share a term with the query; fewer than `top_k`, or none."""
        from agent_core.rag.terms import query_terms  # noqa: PLC0415 - for searches only

        checked_top_k(top_k)
        with scope(RetrievalStarted(self.name, query, top_k)) as retrieval:
            chunks, index, version = self._index()
            rows = None if where is None else matching_rows(chunks, where)
            best = index.best(query_terms(query), top_k, rows)
            hits = [Hit(chunks[row], score) for row, score in best]
            retrieval.end(RetrievalEnded(hits, version))
            return hits

    def _changed(self, ids: Iterable[str]) -> None:
        for each in ids:
            self._counts.pop(each, None)
        self._built = None
        self._changes += 1

    def _index(self) -> tuple[list[Chunk], Bm25, str]:
        with self._lock:
            if self._built is None:
                from agent_core.rag.bm25 import Bm25  # noqa: PLC0415 - brings numpy
                from agent_core.rag.terms import terms  # noqa: PLC0415

                for each, chunk in self._chunks.items():
                    if each not in self._counts:
                        self._counts[each] = Counter(terms(searchable_text(chunk)))
                counts = [self._counts[each] for each in self._chunks]
                self._built = list(self._chunks.values()), Bm25(counts, k1=self._k1, b=self._b)
            return *self._built, self.version
