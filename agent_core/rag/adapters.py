"""Our retrievers inside LangChain and LlamaIndex, which are imported when one is made.

What they find carries id, source, offsets, score and metadata.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from agent_core.gears import Retriever
from agent_core.messages import Chunk, Hit, JsonObject
from agent_core.rag.chunking import valid_unicode
from agent_core.rag.dense import DenseRetriever


def langchain_retriever(retriever: Retriever, *, top_k: int = 5) -> Any:
    """Make a LangChain `BaseRetriever`; needs langchain-core."""
    from langchain_core.retrievers import BaseRetriever  # noqa: PLC0415 - optional

    class AgentrigRetriever(BaseRetriever):  # type: ignore[misc, unused-ignore]
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Any]:
            return [_document(hit) for hit in retriever.retrieve(query, top_k)]

    return AgentrigRetriever()


def langchain_vector_store(retriever: DenseRetriever) -> Any:
    """Make a LangChain `VectorStore` over a dense retriever; needs langchain-core."""
    from langchain_core.vectorstores import VectorStore  # noqa: PLC0415 - optional

    class AgentrigVectorStore(VectorStore):  # type: ignore[misc, unused-ignore]
        def add_texts(
            self,
            texts: Any,
            metadatas: Any = None,
            *,
            ids: Any = None,
            **_: Any,
        ) -> list[str]:
            texts = list(texts)
            chunks = [
                _chunk(text, metadata, own)
                for text, metadata, own in zip(
                    texts, metadatas or [{}] * len(texts), ids or [None] * len(texts), strict=True
                )
            ]
            return retriever.add(chunks)

        def delete(self, ids: Any = None, **_: Any) -> bool:
            return retriever.delete(ids or ()) > 0

        def similarity_search_with_score(
            self, query: str, k: int = 4, *, filter: Any = None, **_: Any
        ) -> list[tuple[Any, float]]:
            hits = retriever.retrieve(query, k, where=filter)
            return [(_document(hit), hit.score) for hit in hits]

        def similarity_search(self, query: str, k: int = 4, **options: Any) -> list[Any]:
            return [each for each, _ in self.similarity_search_with_score(query, k, **options)]

        @classmethod
        def from_texts(
            cls, texts: Any, embedding: Any, metadatas: Any = None, **options: Any
        ) -> Any:
            raise NotImplementedError(
                "build a DenseRetriever and pass it to langchain_vector_store: its embedder says "
                "what its index is good for"
            )

    return AgentrigVectorStore()


def llama_index_retriever(retriever: Retriever, *, top_k: int = 5) -> Any:
    """Make a LlamaIndex `BaseRetriever`; needs llama-index-core."""
    from llama_index.core.base.base_retriever import BaseRetriever  # noqa: PLC0415 - optional
    from llama_index.core.schema import NodeWithScore, TextNode  # noqa: PLC0415

    class AgentrigRetriever(BaseRetriever):  # type: ignore[misc, unused-ignore]
        def _retrieve(self, query_bundle: Any) -> list[Any]:
            return [
                NodeWithScore(
                    node=TextNode(
                        id_=hit.chunk.id,
                        text=hit.chunk.text,
                        metadata=_metadata(hit.chunk),
                        start_char_idx=hit.chunk.start,
                        end_char_idx=hit.chunk.end,
                    ),
                    score=hit.score,
                )
                for hit in retriever.retrieve(query_bundle.query_str, top_k)
            ]

    return AgentrigRetriever()


def _metadata(chunk: Chunk) -> JsonObject:
    return {**chunk.metadata, "source": chunk.source, "start": chunk.start, "end": chunk.end}


def _document(hit: Hit) -> Any:
    from langchain_core.documents import Document  # noqa: PLC0415 - optional

    metadata = {**_metadata(hit.chunk), "score": hit.score}
    return Document(id=hit.chunk.id, page_content=hit.chunk.text, metadata=metadata)


def _chunk(text: str, metadata: JsonObject, own_id: str | None) -> Chunk:
    text = valid_unicode(text)
    source = str(metadata.get("source", "text"))
    start = int(metadata.get("start", 0))
    end = int(metadata.get("end", start + len(text)))
    name = own_id or f"{source}#{sha256(text.encode()).hexdigest()[:16]}"
    return Chunk(name, text, source, start, end, metadata)
