"""A tiny embedder that is the same in every process, for tests of what is around one."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from agent_core.messages import Chunk


class LetterEmbedder:
    """Texts with the same letters are near; keeps what it was asked."""

    def __init__(self, name: str = "letters", dimension: int = 16) -> None:
        self.name = name
        self.dimension = dimension
        self.max_tokens: int | None = None
        self.asked: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row a text."""
        self.asked += texts
        rows = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for letter in text:
                row[sha256(letter.encode()).digest()[0] % self.dimension] += 1
        return rows

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """One vector."""
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row


def chunk(id: str, text: str, **metadata: object) -> Chunk:
    """A chunk that is its whole source."""
    return Chunk(id, text, f"{id}.md", 0, len(text), metadata)
