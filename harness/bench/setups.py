"""Retrievers, embedders and chunkers by the names that the command line takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from agent_core.errors import ConfigError
from agent_core.gears import Embedder, Retriever
from agent_core.messages import Chunk
from agent_core.rag import (
    DenseRetriever,
    HybridRetriever,
    LexicalRetriever,
    OllamaEmbedder,
    OnnxEmbedder,
    OpenAIEmbedder,
    SentenceTransformerEmbedder,
    chunk_text,
    export_onnx,
)
from agent_core.rag.documents import Document


def chunk_with(name: str, documents: Iterable[Document]) -> list[Chunk]:
    """Cut documents by a chunker's name: `structure:500`, `fixed:500`, `structure:500+50`.

    Raises:
        ConfigError: there is no such chunker.
    """
    kind, _, sizes = name.partition(":")
    size, _, overlap = sizes.partition("+")
    if (
        kind not in {"structure", "fixed"}
        or not size.isdecimal()
        or not (overlap or "0").isdecimal()
    ):
        raise ConfigError(
            f"expected a chunker such as 'structure:500' or 'fixed:500', got {name!r}"
        )
    if not int(overlap or 0) < int(size):
        raise ConfigError(f"the overlap must be smaller than the size, got {name!r}")
    cut = _fixed if kind == "fixed" else _structure
    return [chunk for each in documents for chunk in cut(each, int(size), int(overlap or 0))]


def _structure(document: Document, size: int, overlap: int) -> list[Chunk]:
    return chunk_text(document.text, source=document.source, chunk_size=size, overlap=overlap)


def _fixed(document: Document, size: int, overlap: int) -> list[Chunk]:
    """Every so many characters, whatever is there: what all others are compared with."""
    chunks = []
    for start in range(0, len(document.text), size - overlap):
        end = min(start + size, len(document.text))
        name = f"{document.source}#{start}-{end}"
        chunks.append(Chunk(name, document.text[start:end], document.source, start, end))
    return chunks


def embedder_named(name: str, *, base_url: str | None = None, cache: Path) -> Embedder:
    """Make an embedder from its name.

    Args:
        name: `minilm` (packaged), `minilm-onnx`, `ollama:MODEL`, `openai:MODEL`, or a path or
            hub name for sentence-transformers.
        base_url: of the server, for the last but one.
        cache: directory for exported models.
    """
    kind, _, model = name.partition(":")
    if kind == "ollama" and model:
        return OllamaEmbedder(model, base_url=base_url)
    if kind == "openai" and model:
        if base_url is None:
            raise ConfigError(f"{name!r} needs --base-url, e.g. https://api.openai.com/v1")
        return OpenAIEmbedder(model, base_url=base_url)
    if name == "minilm-onnx":
        return OnnxEmbedder(export_onnx(cache / "minilm-onnx"))
    return SentenceTransformerEmbedder(None if name == "minilm" else name)


def build(name: str, chunks: Sequence[Chunk], embedder: Callable[[str], Embedder]) -> Retriever:
    """Make a retriever from its name: `bm25`, an embedder's name, or `hybrid:` before one."""
    if name == "bm25":
        return LexicalRetriever(chunks)
    hybrid = name.startswith("hybrid:")
    dense = DenseRetriever(embedder(name.removeprefix("hybrid:")), chunks)
    return HybridRetriever(dense, LexicalRetriever(chunks)) if hybrid else dense
