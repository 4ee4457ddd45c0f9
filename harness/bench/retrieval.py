"""How well and how fast a retriever answers a user's own questions about their own documents.

A question names the span of the source that answers it, never a chunk: so chunkers can be
compared. Larger chunks find more merely by returning more; the figures to go by are those at
an equal budget of characters.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from agent_core.events import (
    EmbeddingStarted,
    Ended,
    RerankStarted,
    RetrievalStarted,
    Started,
    watching,
)
from agent_core.gears import Embedder
from agent_core.messages import Chunk, Hit, JsonObject
from agent_core.rag import (
    CrossEncoderReranker,
    DenseRetriever,
    EmbeddingWarning,
    LexicalRetriever,
    RerankingRetriever,
)
from agent_core.rag.documents import Document
from agent_core.rag.hybrid import Tuning, tune_weight
from harness.bench.questions import Question
from harness.bench.setups import build, chunk_with

DEPTH = 50
"""Hits that are asked for; the budget of characters cuts them."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one retriever over one way of chunking reached.

    Attributes:
        recall_at_1: share of the answer's characters in the first hit, on average.
        recall_at_5: the same for the first five.
        recall_at_budget: the same for as many hits as the budget holds.
        mrr: of the first hit in the budget that touches the answer.
        embed_ms: p50 and p95 of embedding a question.
        search_ms: p50 and p95 of everything else but reranking.
        rerank_ms: p50 and p95, or None.
        in_time: share of questions that were reranked within the budget of time, or None.
        index_seconds: for chunking, embedding and indexing the documents.
        vector_megabytes: of all vectors.
        peak_megabytes: of the process so far.
        cache_hits: questions whose vector was cached already.
        warnings: what the embedder warned about.
    """

    retriever: str
    chunker: str
    questions: int
    chunks: int
    recall_at_1: float
    recall_at_5: float
    recall_at_budget: float
    mrr: float
    embed_ms: tuple[float, float] | None
    search_ms: tuple[float, float]
    rerank_ms: tuple[float, float] | None
    in_time: float | None
    index_seconds: float
    vector_megabytes: float
    peak_megabytes: float
    cache_hits: int
    warnings: tuple[str, ...] = ()


def measure(
    name: str,
    chunker: str,
    documents: Sequence[Document],
    questions: Sequence[Question],
    *,
    embedder: Callable[[str], Embedder],
    budget: int,
    reranker: CrossEncoderReranker | None = None,
    rerank_seconds: float = 0.5,
) -> Result:
    """Index the documents, ask the questions, and say how it went."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EmbeddingWarning)
        began = time.perf_counter()
        chunks = chunk_with(chunker, documents)
        retriever = build(name, chunks, embedder)
        seconds = time.perf_counter() - began
        if reranker is not None:
            reranker.load()
            retriever = RerankingRetriever(retriever, reranker, budget=rerank_seconds)
        retriever.retrieve("warm up", 1)  # loads what is loaded when first used
        watch = Stopwatch()
        with watching(watch):
            answers = [retriever.retrieve(question.query, DEPTH) for question in questions]
    scores = [
        score(question, hits, budget) for question, hits in zip(questions, answers, strict=True)
    ]
    recall_1, recall_5, recall_budget, reciprocal = (
        sum(column) / len(questions) for column in zip(*scores, strict=True)
    )
    return Result(
        retriever=name if reranker is None else f"{name} + {reranker.name}",
        chunker=chunker,
        questions=len(questions),
        chunks=len(chunks),
        recall_at_1=recall_1,
        recall_at_5=recall_5,
        recall_at_budget=recall_budget,
        mrr=reciprocal,
        embed_ms=percentiles(watch.embed) if watch.embed else None,
        search_ms=percentiles(watch.search),
        rerank_ms=percentiles(watch.rerank) if watch.rerank else None,
        in_time=sum(watch.in_time) / len(watch.in_time) if watch.in_time else None,
        index_seconds=seconds,
        vector_megabytes=len(chunks) * watch.dimension * 4 / 1e6,
        peak_megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        cache_hits=watch.cached,
        warnings=tuple(dict.fromkeys(str(each.message) for each in caught)),
    )


def score(
    question: Question, hits: Sequence[Hit], budget: int
) -> tuple[float, float, float, float]:
    """Recall of the answer's characters in 1 hit, in 5, in the budget; reciprocal rank there."""
    spans: list[tuple[int, int]] = []
    left, reciprocal = budget, 0.0
    for rank, hit in enumerate(hits, 1):
        if left <= 0:
            break
        end = min(hit.chunk.end, hit.chunk.start + left)
        left -= len(hit.chunk.text)
        if hit.chunk.source == question.source:
            spans.append((hit.chunk.start, end))
            if not reciprocal and hit.chunk.start < question.end and end > question.start:
                reciprocal = 1 / rank
    own = [
        [
            (hit.chunk.start, hit.chunk.end)
            for hit in hits[:top]
            if hit.chunk.source == question.source
        ]
        for top in (1, 5)
    ]
    first, five, all_ = (_covered(question, each) for each in (*own, spans))
    return first, five, all_, reciprocal


def _covered(question: Question, spans: Iterable[tuple[int, int]]) -> float:
    """The share of the answer that the spans hold together."""
    at, found = question.start, 0
    for start, end in sorted(spans):
        fresh = min(end, question.end) - max(start, at)
        if fresh > 0:
            found += fresh
            at = min(end, question.end)
    return found / (question.end - question.start)


def tune(
    name: str,
    chunker: str,
    documents: Sequence[Document],
    questions: Sequence[Question],
    *,
    embedder: Callable[[str], Embedder],
) -> Tuning:
    """Learn what words should count beside an embedder, from labelled questions."""
    chunks = chunk_with(chunker, documents)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)  # `measure` has told them
        return _tune(embedder(name), chunks, questions)


def _tune(embedder: Embedder, chunks: Sequence[Chunk], questions: Sequence[Question]) -> Tuning:
    dense, lexical = DenseRetriever(embedder, chunks), LexicalRetriever(chunks)
    cases = []
    for question in questions:
        right = frozenset(
            chunk.id
            for chunk in chunks
            if chunk.source == question.source
            and chunk.start < question.end
            and chunk.end > question.start
        )
        query = question.query
        cases.append((dense.retrieve(query, DEPTH), lexical.retrieve(query, DEPTH), right))
    return tune_weight(cases)


class Stopwatch:
    """An observer that takes the times of embedding, searching and reranking apart."""

    def __init__(self) -> None:
        self.embed: list[float] = []
        self.search: list[float] = []
        self.rerank: list[float] = []
        self.in_time: list[bool] = []
        self.cached = self.dimension = 0
        self._depth = 0
        self._inner = 0.0

    def started(self, event: Started) -> tuple[Started, float]:
        """Note when it began."""
        if isinstance(event, RetrievalStarted):
            if not self._depth:
                self._inner = 0.0
            self._depth += 1
        return event, time.perf_counter()

    def ended(self, token: tuple[Started, float], event: Ended) -> None:
        """Note how long it took, in seconds."""
        began, start = token
        seconds = time.perf_counter() - start
        if isinstance(began, EmbeddingStarted):
            self.embed.append(seconds)
            self._inner += seconds
            self.cached += getattr(event, "cached", 0)
            self.dimension = getattr(event, "dimension", 0)
        elif isinstance(began, RerankStarted):
            self.rerank.append(seconds)
            self._inner += seconds
            self.in_time.append(getattr(event, "in_time", False))
        elif isinstance(began, RetrievalStarted):
            self._depth -= 1
            if not self._depth:
                self.search.append(seconds - self._inner)


def percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p95 in milliseconds."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return ordered[round(last * 0.5)] * 1e3, ordered[round(last * 0.95)] * 1e3


def as_json(results: Sequence[Result], tunings: dict[str, Tuning], budget: int) -> JsonObject:
    """Everything, for machines."""
    return {
        "budget_characters": budget,
        "results": [asdict(result) for result in results],
        "tunings": {name: asdict(tuning) for name, tuning in tunings.items()},
    }
