"""Retrieval: documents to chunks, chunks to an index, questions to passages that can be cited.

The names below are imported when they are first used: numpy is loaded only for what counts with
it, and torch or any other heavy library before the first vector is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_core.rag.chunking import chunk_text as chunk_text
    from agent_core.rag.dense import DenseRetriever as DenseRetriever
    from agent_core.rag.embedding import CachedEmbedder as CachedEmbedder
    from agent_core.rag.embedding import EmbeddingWarning as EmbeddingWarning
    from agent_core.rag.hybrid import FusionWeights as FusionWeights
    from agent_core.rag.hybrid import HybridRetriever as HybridRetriever
    from agent_core.rag.index import VectorIndex as VectorIndex
    from agent_core.rag.lexical import LexicalRetriever as LexicalRetriever
    from agent_core.rag.local import SentenceTransformerEmbedder as SentenceTransformerEmbedder
    from agent_core.rag.onnx import OnnxEmbedder as OnnxEmbedder
    from agent_core.rag.onnx import export_onnx as export_onnx
    from agent_core.rag.passages import citation as citation
    from agent_core.rag.passages import render_passages as render_passages
    from agent_core.rag.passages import search_knowledge_tool as search_knowledge_tool
    from agent_core.rag.qdrant import QdrantRetriever as QdrantRetriever
    from agent_core.rag.remote import OllamaEmbedder as OllamaEmbedder
    from agent_core.rag.remote import OpenAIEmbedder as OpenAIEmbedder
    from agent_core.rag.reranking import CrossEncoderReranker as CrossEncoderReranker
    from agent_core.rag.reranking import RerankingRetriever as RerankingRetriever

_HOMES = {
    "CachedEmbedder": "embedding",
    "CrossEncoderReranker": "reranking",
    "DenseRetriever": "dense",
    "EmbeddingWarning": "embedding",
    "FusionWeights": "hybrid",
    "HybridRetriever": "hybrid",
    "LexicalRetriever": "lexical",
    "OllamaEmbedder": "remote",
    "OnnxEmbedder": "onnx",
    "OpenAIEmbedder": "remote",
    "QdrantRetriever": "qdrant",
    "RerankingRetriever": "reranking",
    "SentenceTransformerEmbedder": "local",
    "VectorIndex": "index",
    "chunk_text": "chunking",
    "citation": "passages",
    "export_onnx": "onnx",
    "render_passages": "passages",
    "search_knowledge_tool": "passages",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agent_core.rag' has no attribute {name!r}")
    return getattr(import_module(f"agent_core.rag.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
