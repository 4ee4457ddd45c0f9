"""Retrieval by meaning: an embedder, a vector index, and the chunks they stand for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from agent_core.events import RetrievalEnded, RetrievalStarted, scope
from agent_core.gears import Embedder
from agent_core.messages import Chunk, Hit
from agent_core.rag.embedding import UNKNOWN_SHARE, CachedEmbedder
from agent_core.rag.index import VectorIndex
from agent_core.rag.lexical import searchable_text
from agent_core.rag.selection import Where, checked_top_k
from agent_core.rag.storage import load_index, save_index

_EMPTY_RESULTS = 1_024


class DenseRetriever:
    """Finds passages by their vectors.

    A chunk with an id that is already there replaces the old one; blank chunks are not kept.

    Args:
        embedder: makes the vectors; wrapped in a `CachedEmbedder` unless it is one.
        chunks: what to begin with.
        index: an index that is there already, of the same model.
        name: said in traces; the embedder's name unless told.
        min_score: hits below this cosine are left out. What it should be depends on the model:
            unrelated texts come to about 0.1 with one and to 0.8 with another.
    """

    def __init__(
        self,
        embedder: Embedder,
        chunks: Iterable[Chunk] = (),
        *,
        index: VectorIndex | None = None,
        name: str | None = None,
        min_score: float | None = None,
    ) -> None:
        self.embedder = (
            embedder if isinstance(embedder, CachedEmbedder) else CachedEmbedder(embedder)
        )
        self.index = VectorIndex(embedder.name) if index is None else index
        self.name = name or embedder.name
        self._min_score = min_score
        self._empty: OrderedDict[tuple[str, int, str], None] = OrderedDict()
        self.add(chunks)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def version(self) -> str:
        """Changes with every change of what is in the index."""
        return self.index.version

    def add(self, chunks: Iterable[Chunk]) -> list[str]:
        """Embed and add chunks; gives the ids of those that were kept."""
        kept = [chunk for chunk in chunks if chunk.text.strip()]
        if kept:
            vectors = self.embedder.embed_documents([searchable_text(chunk) for chunk in kept])
            self.index.add(kept, vectors)
        return [chunk.id for chunk in kept]

    def replace(self, source: str, chunks: Iterable[Chunk]) -> list[str]:
        """Put chunks in place of all that came from a source, for a document that changed."""
        new = self.add(chunks)
        old = {chunk.id for chunk in self.index.chunks() if chunk.source == source}
        self.delete(old - set(new))
        return new

    def delete(self, ids: Iterable[str]) -> int:
        """Remove chunks; ids that are not there are ignored. Gives how many were removed."""
        return self.index.delete(ids)

    def retrieve(self, query: str, top_k: int = 5, *, where: Where | None = None) -> list[Hit]:
        """The chunks whose vectors are nearest to the query's, best first."""
        checked_top_k(top_k)
        with scope(RetrievalStarted(self.name, query, top_k)) as retrieval:
            version = self.version
            hits = (
                []
                if self._known_empty(query, top_k, version)
                else self._search(query, top_k, where)
            )
            if not hits and where is None:
                self._remember_empty(query, top_k, version)
            retrieval.end(RetrievalEnded(hits, version))
            return hits

    def reads(self, query: str) -> bool:
        """Whether the embedder knows the query's language, as far as it can tell."""
        share = self.embedder.unknown_share(query)
        return share is None or share <= UNKNOWN_SHARE

    def save(self, directory: str | Path) -> None:
        """Write the index to disk; `load` opens it again."""
        save_index(self.index, directory)

    @classmethod
    def load(
        cls, directory: str | Path, embedder: Embedder, *, prefilter: bool = False
    ) -> DenseRetriever:
        """Open what `save` wrote, with the embedder that made it.

        Raises:
            RetrievalError: there is no index, it is damaged, or another model made it.
        """
        index = load_index(directory, embedder.name, prefilter=prefilter)
        return cls(embedder, index=index)

    def _search(self, query: str, top_k: int, where: Where | None) -> list[Hit]:
        if not len(self.index) or not query.strip():
            return []
        hits = self.index.search(self.embedder.embed_query(query), top_k, where=where)
        low = self._min_score
        return hits if low is None else [hit for hit in hits if hit.score >= low]

    def _known_empty(self, query: str, top_k: int, version: str) -> bool:
        return (query, top_k, version) in self._empty

    def _remember_empty(self, query: str, top_k: int, version: str) -> None:
        self._empty[query, top_k, version] = None
        while len(self._empty) > _EMPTY_RESULTS:
            self._empty.popitem(last=False)
