"""The same retrieval on Qdrant (extra `qdrant`), for corpora that outgrow one process.

Local mode (`QdrantClient(":memory:")` or a path) and a server by URL share one API; the local
one is for tests and small sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from agent_core.errors import ConfigError, RetrievalError
from agent_core.events import RetrievalEnded, RetrievalStarted, scope
from agent_core.gears import Embedder
from agent_core.messages import Chunk, Hit, JsonValue
from agent_core.rag.embedding import CachedEmbedder
from agent_core.rag.lexical import searchable_text
from agent_core.rag.selection import checked_top_k

_BATCH = 256


class QdrantRetriever:
    """Finds passages by their vectors in a Qdrant collection, which is made if it is not there.

    Args:
        embedder: makes the vectors; wrapped in a `CachedEmbedder` unless it is one.
        collection: name of the collection.
        client: a `QdrantClient`; None makes one for `url`.
        url: the server, e.g. "http://127.0.0.1:6333"; None is an index in memory.
        api_key: for the server.
        name: said in traces; the collection's name unless told.

    Raises:
        RetrievalError: the collection holds vectors of another model or size.
    """

    def __init__(
        self,
        embedder: Embedder,
        collection: str,
        *,
        client: Any = None,
        url: str | None = None,
        api_key: str | None = None,
        name: str | None = None,
    ) -> None:
        try:
            import qdrant_client  # noqa: PLC0415 - optional, takes seconds
        except ImportError:
            raise RetrievalError(
                "qdrant-client is not here; install it with: pip install qdrant-client"
            ) from None
        if client is not None and url is not None:
            raise ConfigError("give either a client or a url, not both")
        self._models = qdrant_client.models
        self._client = client or (
            qdrant_client.QdrantClient(url=url, api_key=api_key)
            if url is not None
            else qdrant_client.QdrantClient(":memory:")
        )
        self.embedder = (
            embedder if isinstance(embedder, CachedEmbedder) else CachedEmbedder(embedder)
        )
        self._collection = collection
        self.name = name or collection
        self._prepare()

    def __len__(self) -> int:
        return int(self._client.count(self._collection, exact=True).count)

    def add(self, chunks: Iterable[Chunk]) -> list[str]:
        """Embed and add or replace chunks; gives the ids of those that were kept."""
        kept = [chunk for chunk in chunks if chunk.text.strip()]
        for at in range(0, len(kept), _BATCH):
            batch = kept[at : at + _BATCH]
            vectors = self.embedder.embed_documents([searchable_text(chunk) for chunk in batch])
            points = [
                self._models.PointStruct(
                    id=_point_id(chunk.id), vector=vector.tolist(), payload=self._payload(chunk)
                )
                for chunk, vector in zip(batch, vectors, strict=True)
            ]
            self._client.upsert(self._collection, points, wait=True)
        return [chunk.id for chunk in kept]

    def delete(self, ids: Iterable[str]) -> None:
        """Remove chunks; ids that are not there are ignored."""
        points = [_point_id(each) for each in ids]
        selector = self._models.PointIdsList(points=points)
        self._client.delete(self._collection, selector, wait=True)

    def retrieve(
        self, query: str, top_k: int = 5, *, where: Mapping[str, JsonValue] | None = None
    ) -> list[Hit]:
        """The chunks whose vectors are nearest to the query's, best first.

        `where` holds metadata that must be equal; a list means any of its values.
        """
        checked_top_k(top_k)
        with scope(RetrievalStarted(self.name, query, top_k)) as retrieval:
            hits: list[Hit] = []
            if query.strip():
                answer = self._client.query_points(
                    self._collection,
                    query=self.embedder.embed_query(query).tolist(),
                    limit=top_k,
                    query_filter=self._filter(where or {}),
                    with_payload=True,
                )
                hits = [Hit(_chunk(point.payload), float(point.score)) for point in answer.points]
            retrieval.end(RetrievalEnded(hits))
            return hits

    def _prepare(self) -> None:
        """Make the collection, or see that it is of this embedder's size and model."""
        models, size = self._models, self.embedder.dimension
        if not self._client.collection_exists(self._collection):
            self._client.create_collection(
                self._collection,
                vectors_config=models.VectorParams(size=size, distance=models.Distance.COSINE),
            )
            return
        have = self._client.get_collection(self._collection).config.params.vectors.size
        points, _ = self._client.scroll(self._collection, limit=1, with_payload=True)
        model = points[0].payload.get("model") if points else self.embedder.name
        if (have, model) != (size, self.embedder.name):
            raise RetrievalError(
                f"collection {self._collection!r} holds vectors of {model!r} with {have} numbers, "
                f"not of {self.embedder.name!r} with {size}; use another collection"
            )

    def _payload(self, chunk: Chunk) -> dict[str, JsonValue]:
        return {
            "model": self.embedder.name,
            "id": chunk.id,
            "text": chunk.text,
            "source": chunk.source,
            "start": chunk.start,
            "end": chunk.end,
            "metadata": dict(chunk.metadata),
        }

    def _filter(self, where: Mapping[str, JsonValue]) -> Any:
        models = self._models
        conditions = []
        for key, value in where.items():
            several = isinstance(value, list | tuple | set | frozenset)
            match = models.MatchAny(any=list(value)) if several else models.MatchValue(value=value)
            path = key if key in {"source", "id"} else f"metadata.{key}"
            conditions.append(models.FieldCondition(key=path, match=match))
        return models.Filter(must=conditions) if conditions else None


def _point_id(chunk_id: str) -> str:
    """Qdrant takes numbers and UUIDs for ids; the same chunk always gets the same."""
    return str(uuid5(NAMESPACE_URL, chunk_id))


def _chunk(payload: Mapping[str, Any]) -> Chunk:
    return Chunk(
        payload["id"],
        payload["text"],
        payload["source"],
        payload["start"],
        payload["end"],
        payload["metadata"],
    )
