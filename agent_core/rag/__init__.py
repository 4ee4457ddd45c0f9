"""Retrieval: documents to chunks, chunks to an index, questions to passages that can be cited.

Nothing here imports torch or any other heavy library before the first vector is asked for.
"""

from agent_core.rag.chunking import chunk_text
from agent_core.rag.dense import DenseRetriever
from agent_core.rag.embedding import CachedEmbedder, EmbeddingWarning
from agent_core.rag.hybrid import FusionWeights, HybridRetriever
from agent_core.rag.index import VectorIndex
from agent_core.rag.lexical import LexicalRetriever
from agent_core.rag.local import SentenceTransformerEmbedder
from agent_core.rag.onnx import OnnxEmbedder, export_onnx
from agent_core.rag.passages import citation, render_passages, search_knowledge_tool
from agent_core.rag.qdrant import QdrantRetriever
from agent_core.rag.remote import OllamaEmbedder, OpenAIEmbedder
from agent_core.rag.reranking import CrossEncoderReranker, RerankingRetriever

__all__ = [
    "CachedEmbedder",
    "CrossEncoderReranker",
    "DenseRetriever",
    "EmbeddingWarning",
    "FusionWeights",
    "HybridRetriever",
    "LexicalRetriever",
    "OllamaEmbedder",
    "OnnxEmbedder",
    "OpenAIEmbedder",
    "QdrantRetriever",
    "RerankingRetriever",
    "SentenceTransformerEmbedder",
    "VectorIndex",
    "chunk_text",
    "citation",
    "export_onnx",
    "render_passages",
    "search_knowledge_tool",
]
