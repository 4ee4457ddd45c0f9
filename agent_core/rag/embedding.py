"""What every embedder's output goes through: checks, a bounded cache, events."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agent_core.errors import ConfigError, RetrievalError
from agent_core.events import EmbeddingEnded, EmbeddingStarted, scope
from agent_core.gears import Embedder
from agent_core.rag.chunking import valid_unicode

Vectors = NDArray[np.float32]

UNKNOWN_SHARE = 0.1
"""From this share of unknown tokens on, an embedder does not know the language."""


class EmbeddingWarning(UserWarning):
    """Vectors are there, but they cannot mean what they should; the message says what to do."""


def checked_vectors(
    vectors: ArrayLike, count: int, *, name: str, dimension: int | None = None
) -> Vectors:
    """Give vectors as float32, or say what is wrong with them.

    Args:
        vectors: what an embedder returned.
        count: how many were asked for.
        name: the embedder's name, for the error.
        dimension: their size, if it is known already.

    Raises:
        RetrievalError: the number or the size is wrong, or one is zero or not finite.
    """
    try:
        with np.errstate(over="ignore"):  # what is too large for float32 is refused below
            array = np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError):
        raise RetrievalError(f"embedder {name!r} returned vectors of unequal size") from None
    expected = (count, dimension or (array.shape[1] if array.ndim == 2 else "dimension"))
    if array.shape != expected or 0 in array.shape[1:]:
        raise RetrievalError(
            f"embedder {name!r}: expected vectors of shape {expected}, got {array.shape}; "
            "an index and its queries need one and the same model"
        )
    lengths = np.linalg.norm(array.astype(np.float64), axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if bad.size:
        kind = "zero" if lengths[bad[0]] == 0 else "not finite"
        raise RetrievalError(
            f"embedder {name!r}: the vector of text {bad[0]} is {kind} ({bad.size} of {count} are "
            "unusable); leave blank texts out, or use another model"
        )
    return array


def warn_about_tokens(
    name: str, tokens: int, unknown: int, lengths: Sequence[int], limit: int | None
) -> None:
    """Warn when a tokenizer does not know the language, or when texts are cut at the limit."""
    if tokens and unknown / tokens > UNKNOWN_SHARE:
        _warn(
            f"embedder {name!r} does not know {unknown} of {tokens} tokens "
            f"({unknown / tokens:.0%}): its vectors are blind to them. Use a multilingual model, "
            "or LexicalRetriever, which reads Chinese"
        )
    cut = sum(length > limit for length in lengths) if limit else 0
    if cut:
        which = f"{cut} of {len(lengths)} texts, up to {max(lengths)} tokens long with {limit} read"
        warn_about_cut(name, which)


def warn_about_cut(name: str, which: str) -> None:
    """Warn that an embedder did not read the whole of some texts."""
    _warn(f"embedder {name!r} cut {which}: what was cut cannot be found. Use a smaller chunk_size")


def _warn(message: str) -> None:
    warnings.warn(message, EmbeddingWarning, stacklevel=4)


class CachedEmbedder:
    """An embedder that embeds nothing twice, lets no bad vector through, and tells observers.

    Args:
        embedder: what is asked on a miss.
        queries: vectors of questions that are kept, least recently used out first.
        documents: vectors of texts that are kept, by the hash of their content.

    Attributes:
        hits: texts answered from the cache so far.
        misses: texts that were embedded.
    """

    def __init__(
        self, embedder: Embedder, *, queries: int = 1_024, documents: int = 20_000
    ) -> None:
        if queries < 0 or documents < 0:
            raise ConfigError(f"cache sizes must not be negative, got {queries!r}, {documents!r}")
        self._embedder = embedder
        self._queries = _Lru(queries)
        self._documents = _Lru(documents)
        self.hits = self.misses = 0

    @property
    def name(self) -> str:
        """The embedder's."""
        return self._embedder.name

    @property
    def dimension(self) -> int:
        """The embedder's."""
        return self._embedder.dimension

    @property
    def max_tokens(self) -> int | None:
        """The embedder's."""
        return self._embedder.max_tokens

    def unknown_share(self, text: str) -> float | None:
        """The share of a text's tokens that the embedder does not know; None if it cannot tell."""
        ask = getattr(self._embedder, "unknown_share", None)
        return None if ask is None else float(ask(text))

    def embed_query(self, text: str) -> Vectors:
        """One vector, read-only."""
        with scope(EmbeddingStarted(self.name, 1, len(text))) as embedding:
            vector = self._queries.get(text)
            cached = vector is not None
            if vector is None:
                raw = self._embedder.embed_query(valid_unicode(text))
                vector = _frozen(checked_vectors([raw], 1, name=self.name)[0])
                self._queries.put(text, vector)
            self._count(cached, 1)
            embedding.end(EmbeddingEnded(len(vector), int(cached)))
            return vector

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in their order."""
        size = sum(map(len, texts))
        with scope(EmbeddingStarted(self.name, len(texts), size)) as embedding:
            clean = [valid_unicode(text) for text in texts]
            keys = [sha256(text.encode()).hexdigest() for text in clean]
            known = {key: self._documents.get(key) for key in dict.fromkeys(keys)}
            missing = {
                key: text for key, text in zip(keys, clean, strict=True) if known[key] is None
            }
            if missing:
                raw = self._embedder.embed_documents(list(missing.values()))
                rows = checked_vectors(raw, len(missing), name=self.name)
                for key, row in zip(missing, rows, strict=True):
                    known[key] = _frozen(row)
                    self._documents.put(key, known[key])
            self._count(True, len(texts) - len(missing))
            self._count(False, len(missing))
            vectors = np.array([known[key] for key in keys], dtype=np.float32)
            dimension = vectors.shape[1] if len(texts) else 0
            embedding.end(EmbeddingEnded(dimension, len(texts) - len(missing)))
            return vectors

    def _count(self, hit: bool, texts: int) -> None:
        if hit:
            self.hits += texts
        else:
            self.misses += texts


def _frozen(vector: Vectors) -> Vectors:
    """A copy of its own, so that a cached row keeps no batch alive and cannot be changed."""
    vector = vector.copy()
    vector.setflags(write=False)
    return vector


class _Lru:
    """The last so many values by key; safe under threads."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Vectors | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: str, value: Vectors | None) -> None:
        with self._lock:
            if value is not None:
                self._values[key] = value
                self._values.move_to_end(key)
            while len(self._values) > self._size:
                self._values.popitem(last=False)
