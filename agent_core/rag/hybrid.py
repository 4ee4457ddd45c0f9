"""Words and meaning together, where that helps.

Fusing two rankings is no free win: the weaker one pulls the better one down. So the words have
no say in a question by default, except where they are right: when it names an identifier, and
when the embedder does not know its language.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_core.errors import ConfigError
from agent_core.events import RetrievalEnded, RetrievalStarted, scope
from agent_core.messages import Chunk, Hit
from agent_core.rag.dense import DenseRetriever
from agent_core.rag.lexical import LexicalRetriever
from agent_core.rag.selection import Where, checked_top_k
from agent_core.rag.terms import identifiers

_RANK_OFFSET = 60  # of reciprocal rank fusion: how little it matters to be first and not second
_CANDIDATES = 50
_TRIED = (0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # weights of words
_FOLDS = 5  # parts of a labelled set; each is scored with the weight of the others


@dataclass(frozen=True, slots=True)
class FusionWeights:
    """What a rank in the lexical result counts, where one in the dense result counts 1.

    Attributes:
        words: in an ordinary question; 0 leaves the lexical index alone.
        identifiers: in a question with an identifier in it, such as `ERR-4012` or `max_tokens`.
    """

    words: float = 0.0
    identifiers: float = 1.0

    def __post_init__(self) -> None:
        if min(self.words, self.identifiers) < 0:
            raise ConfigError(f"fusion weights must not be negative, got {self!r}")


class HybridRetriever:
    """A dense and a lexical index over the same chunks, fused by weighted ranks.

    The score of a hit is its fused rank: it orders the hits of one question and says nothing
    about how good they are.

    Args:
        dense: finds by meaning.
        lexical: finds by words.
        weights: what the words count; `tune_weight` learns `words` from labelled questions.
        name: said in traces.
    """

    def __init__(
        self,
        dense: DenseRetriever,
        lexical: LexicalRetriever,
        *,
        weights: FusionWeights = FusionWeights(),
        name: str = "hybrid",
    ) -> None:
        self.name = name
        self.weights = weights
        self._dense = dense
        self._lexical = lexical

    def __len__(self) -> int:
        return len(self._dense)

    @property
    def version(self) -> str:
        """Changes with every change of what is in either index."""
        return f"{self._dense.version}.{self._lexical.version}"

    def add(self, chunks: Iterable[Chunk]) -> list[str]:
        """Add or replace chunks in both indexes; gives the ids of those that were kept."""
        kept = list(chunks)
        self._dense.add(kept)
        return self._lexical.add(kept)

    def replace(self, source: str, chunks: Iterable[Chunk]) -> list[str]:
        """Put chunks in place of all that came from a source, for a document that changed."""
        kept = list(chunks)
        self._dense.replace(source, kept)
        return self._lexical.replace(source, kept)

    def delete(self, ids: Iterable[str]) -> int:
        """Remove chunks from both indexes. Gives how many were removed."""
        gone = list(ids)
        self._dense.delete(gone)
        return self._lexical.delete(gone)

    def retrieve(self, query: str, top_k: int = 5, *, where: Where | None = None) -> list[Hit]:
        """The best chunks of both, or of the one that can read the question."""
        checked_top_k(top_k)
        with scope(RetrievalStarted(self.name, query, top_k)) as retrieval:
            weight = self.weights.identifiers if identifiers(query) else self.weights.words
            if not self._dense.reads(query):
                hits = self._lexical.retrieve(query, top_k, where=where)
            elif weight == 0:
                hits = self._dense.retrieve(query, top_k, where=where)
            else:
                many = max(_CANDIDATES, top_k)
                hits = fuse(
                    self._dense.retrieve(query, many, where=where),
                    self._lexical.retrieve(query, many, where=where),
                    weight,
                )[:top_k]
            retrieval.end(RetrievalEnded(hits, self.version))
            return hits


def fuse(dense: Sequence[Hit], lexical: Sequence[Hit], weight: float) -> list[Hit]:
    """Weighted reciprocal rank fusion; of equals, what the dense result has comes first."""
    scores: dict[str, float] = {}
    chunks: dict[str, Chunk] = {}
    for hits, share in ((dense, 1.0), (lexical, weight)):
        for rank, hit in enumerate(hits, 1):
            chunks.setdefault(hit.chunk.id, hit.chunk)
            scores[hit.chunk.id] = scores.get(hit.chunk.id, 0.0) + share / (_RANK_OFFSET + rank)
    ranked = sorted(scores, key=lambda each: -scores[each])
    return [Hit(chunks[each], scores[each]) for each in ranked]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What a small labelled set says about the weight of words.

    Attributes:
        weight: the one that is best on the whole set.
        mrr: mean reciprocal rank that each weight reaches on the whole set.
        held_out: mean reciprocal rank on questions that the weight was not chosen on.
        held_out_zero: the same questions, words left out.
    """

    weight: float
    mrr: Mapping[float, float]
    held_out: float
    held_out_zero: float


def tune_weight(
    cases: Sequence[tuple[Sequence[Hit], Sequence[Hit], frozenset[str]]],
) -> Tuning:
    """Choose the weight of words on labelled questions, with cross-validated scores.

    Args:
        cases: for each question the dense hits, the lexical hits, and the ids of right chunks.

    Raises:
        ConfigError: these are too few.
    """
    if len(cases) < _FOLDS:
        raise ConfigError(f"tuning needs at least {_FOLDS} questions, got {len(cases)}")
    ranks = [
        [_reciprocal_rank(fuse(dense, lexical, weight), right) for weight in _TRIED]
        for dense, lexical, right in cases
    ]

    def best(rows: Sequence[Sequence[float]]) -> int:
        totals = [sum(row[n] for row in rows) for n in range(len(_TRIED))]
        return totals.index(max(totals))

    held_out = 0.0
    for fold in range(_FOLDS):
        chosen = best([row for number, row in enumerate(ranks) if number % _FOLDS != fold])
        held_out += sum(row[chosen] for row in ranks[fold::_FOLDS])
    count = len(cases)
    means = {weight: sum(row[n] for row in ranks) / count for n, weight in enumerate(_TRIED)}
    zero = _mean([_reciprocal_rank(dense, right) for dense, _, right in cases])
    return Tuning(_TRIED[best(ranks)], means, held_out / count, zero)


def _reciprocal_rank(hits: Sequence[Hit], right: frozenset[str]) -> float:
    ranks = (1 / rank for rank, hit in enumerate(hits, 1) if hit.chunk.id in right)
    return next(ranks, 0.0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
