"""A second, closer look at the first hits, within a time budget."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from contextvars import copy_context
from functools import cached_property
from pathlib import Path
from typing import Any

from agent_core.errors import ConfigError, RetrievalError
from agent_core.events import (
    RerankEnded,
    RerankStarted,
    RetrievalEnded,
    RetrievalStarted,
    scope,
)
from agent_core.gears import Reranker, Retriever
from agent_core.messages import Hit


class CrossEncoderReranker:
    """Scores question and passage together, by a sentence-transformers CrossEncoder.

    A pair costs some 10 to 80 ms on a CPU; keep the candidates few and the chunks short.

    Args:
        model: a directory or a hub name, e.g. "cross-encoder/ms-marco-MiniLM-L6-v2".
        device: e.g. "cpu" or "cuda"; None lets torch choose.
        batch_size: pairs that go through the model together.
        max_length: tokens of a pair that are read; None takes the model's.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        device: str | None = None,
        batch_size: int = 16,
        max_length: int | None = None,
    ) -> None:
        self._source = str(model)
        self._device = device
        self._batch_size = batch_size
        self._max_length = max_length
        self._lock = threading.Lock()
        self.name = Path(self._source).name

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The hits with the model's scores, best first; equals keep their order.

        Raises:
            RetrievalError: a score is not finite.
        """
        if not hits:
            return []
        pairs = [(query, hit.chunk.text) for hit in hits]
        with self._lock:
            raw = self._model.predict(
                pairs, batch_size=self._batch_size, show_progress_bar=False, convert_to_numpy=True
            )
        scores = [float(score) for score in raw.reshape(len(hits))]
        if not all(map(math.isfinite, scores)):
            raise RetrievalError(f"reranker {self.name!r} gave a score that is not finite")
        ranked = [Hit(hit.chunk, score) for hit, score in zip(hits, scores, strict=True)]
        return sorted(ranked, key=lambda hit: -hit.score)

    def load(self) -> None:
        """Load the model now, so that the first question does not wait for it."""
        with self._lock:
            _ = self._model

    @cached_property
    def _model(self) -> Any:
        try:
            from sentence_transformers import CrossEncoder  # noqa: PLC0415 - takes seconds
        except ImportError:
            raise RetrievalError(
                "sentence-transformers is not here; "
                "install it with: pip install sentence-transformers"
            ) from None
        return CrossEncoder(
            self._source,
            device=self._device,
            max_length=self._max_length,
            local_files_only=Path(self._source).is_dir(),
        )


class RerankingRetriever:
    """A retriever whose first hits are put into a better order, if that is ready in time.

    When the budget is over, the order of the first stage is kept; the reranker finishes in the
    background, and questions that come meanwhile are not reranked either.

    Args:
        retriever: the first stage.
        reranker: what looks closer.
        candidates: hits of the first stage that it looks at.
        budget: seconds it may take.
    """

    def __init__(
        self,
        retriever: Retriever,
        reranker: Reranker,
        *,
        candidates: int = 10,
        budget: float = 0.5,
    ) -> None:
        if candidates < 1 or budget <= 0:
            raise ConfigError(
                f"candidates and budget must be positive, got {candidates!r} and {budget!r} s"
            )
        self.name = retriever.name
        self._retriever = retriever
        self._reranker = reranker
        self._candidates = candidates
        self._budget = budget
        self._busy = threading.Lock()

    def retrieve(self, query: str, top_k: int = 5) -> list[Hit]:
        """The best hits; those behind the candidates keep their place."""
        with scope(RetrievalStarted(self.name, query, top_k)) as retrieval:
            hits = list(self._retriever.retrieve(query, max(top_k, self._candidates)))
            first, rest = hits[: self._candidates], hits[self._candidates :]
            with scope(RerankStarted(self._reranker.name, len(first))) as reranking:
                better = self._in_time(query, first)
                ranked = [*(first if better is None else better), *rest][:top_k]
                reranking.end(RerankEnded(ranked, in_time=better is not None))
            retrieval.end(RetrievalEnded(ranked))
            return ranked

    def _in_time(self, query: str, hits: list[Hit]) -> list[Hit] | None:
        """The reranked hits, or None when the budget is over."""
        if not hits:
            return []
        if not self._busy.acquire(blocking=False):
            return None
        outcome: list[list[Hit] | BaseException] = []
        done = threading.Event()

        def work() -> None:
            try:
                outcome.append(list(self._reranker.rerank(query, hits)))
            except BaseException as error:  # raised again where the question was asked
                outcome.append(error)
            finally:
                self._busy.release()
                done.set()

        context = copy_context()
        threading.Thread(target=context.run, args=(work,), name="rerank", daemon=True).start()
        if not done.wait(self._budget):
            return None
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]
