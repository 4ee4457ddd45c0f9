"""Retrieval: documents to chunks, chunks to an index, questions to passages that can be cited."""

from agent_core.rag.chunking import chunk_text
from agent_core.rag.lexical import LexicalRetriever
from agent_core.rag.passages import citation, render_passages, search_knowledge_tool

__all__ = [
    "LexicalRetriever",
    "chunk_text",
    "citation",
    "render_passages",
    "search_knowledge_tool",
]
