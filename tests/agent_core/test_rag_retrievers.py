"""Dense, hybrid and reranked retrieval, around embedders of every kind of quality."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agent_core.errors import ConfigError, RetrievalError
from agent_core.events import EmbeddingEnded, Ended, RerankEnded, RetrievalEnded, Started, watching
from agent_core.messages import Hit
from agent_core.rag import (
    CachedEmbedder,
    DenseRetriever,
    FusionWeights,
    HybridRetriever,
    LexicalRetriever,
    RerankingRetriever,
    chunk_text,
)
from agent_core.rag.hybrid import fuse, tune_weight
from tests.agent_core.rag_helpers import LetterEmbedder, chunk

TEXTS = [chunk("a", "aaab"), chunk("b", "bbba"), chunk("c", "cccc"), chunk("e", "ERR-4012 zz")]


def found(hits: Sequence[Hit]) -> list[str]:
    """Ids of the hits."""
    return [hit.chunk.id for hit in hits]


class Watcher:
    """Keeps how things ended."""

    def __init__(self) -> None:
        self.seen: list[Ended] = []

    def started(self, event: Started) -> None:
        """Nothing to keep."""

    def ended(self, token: object, event: Ended) -> None:
        """Keep it."""
        self.seen.append(event)


def test_importing_costs_no_heavy_library() -> None:
    """The first vector may, not the import."""
    code = (
        "import sys, agent_core.rag; heavy = {'torch', 'sklearn', 'sentence_transformers',"
        " 'transformers', 'onnxruntime', 'qdrant_client', 'langchain_core', 'llama_index'};"
        " sys.exit(' '.join(heavy & set(sys.modules)) or None)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_dense_retrieval_finds_what_is_near_and_can_cite_it() -> None:
    """Id, text, source, offsets and metadata come with a hit."""
    retriever = DenseRetriever(LetterEmbedder(), chunk_text("# T\n\naab bbb", source="x.md"))
    retriever.add(TEXTS)
    hit = retriever.retrieve("c", 1)[0]
    assert (hit.chunk, round(hit.score, 5)) == (TEXTS[2], 1.0)
    assert retriever.delete(["c"]) == 1
    assert "c" not in found(retriever.retrieve("c", 9))


def test_blank_chunks_and_questions_are_not_embedded() -> None:
    """There is nothing in them to find."""
    embedder = LetterEmbedder()
    retriever = DenseRetriever(embedder, [chunk("1", ""), chunk("2", " \n"), chunk("3", "x")])
    assert found(retriever.retrieve("x", 4)) == ["3"]
    assert retriever.retrieve("  ", 4) == []
    assert DenseRetriever(embedder).retrieve("x") == []
    assert embedder.asked == ["x", "x"]


def test_nothing_is_embedded_twice() -> None:
    """Documents by content, questions by their words; observers see the hits."""
    embedder, watcher = LetterEmbedder(), Watcher()
    cached = CachedEmbedder(embedder)
    with watching(watcher):
        first = cached.embed_documents(["x", "y", "x"])
        cached.embed_documents(["y", "z"])
        assert (cached.embed_query("x") == cached.embed_query("x")).all()
    assert embedder.asked == ["x", "y", "z", "x"]
    assert (first[0] == first[2]).all()
    assert [e.cached for e in watcher.seen if isinstance(e, EmbeddingEnded)] == [1, 1, 0, 1]
    assert (cached.hits, cached.misses) == (3, 4)


def test_the_cache_is_bounded_and_cannot_be_changed_from_outside() -> None:
    """The least recently used goes first; vectors are read-only."""
    embedder = LetterEmbedder()
    cached = CachedEmbedder(embedder, queries=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        vector = cached.embed_query(text)
    assert embedder.asked == ["a", "b", "c", "b"]
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 5


def test_errors_are_not_cached() -> None:
    """The next question asks again."""

    class Flaky(LetterEmbedder):
        def embed_query(self, text: str) -> NDArray[np.float32]:
            vector = super().embed_query(text)
            return vector * np.nan if len(self.asked) == 2 else vector

    retriever = DenseRetriever(Flaky(), [chunk("1", "x")])
    with pytest.raises(RetrievalError, match="not finite"):
        retriever.retrieve("x")
    assert found(retriever.retrieve("x")) == ["1"]


def test_an_empty_result_is_remembered_until_the_index_changes() -> None:
    """And only then is the question embedded again."""
    embedder = LetterEmbedder()
    retriever = DenseRetriever(
        CachedEmbedder(embedder, queries=0), [chunk("1", "x")], min_score=0.5
    )
    assert retriever.retrieve("y") == retriever.retrieve("y") == []
    assert embedder.asked == ["x", "y"]
    retriever.add([chunk("2", "y")])
    assert found(retriever.retrieve("y")) == ["2"]


def test_lone_surrogates_do_not_reach_an_embedder() -> None:
    """No tokenizer can encode them."""
    retriever = DenseRetriever(LetterEmbedder(), [chunk("1", "a\ud83d")])
    assert found(retriever.retrieve("\udc00a")) == ["1"]


def test_saving_and_loading_keeps_what_is_found(tmp_path: Path) -> None:
    """With the embedder that made it."""
    DenseRetriever(LetterEmbedder(), TEXTS).save(tmp_path)
    assert found(DenseRetriever.load(tmp_path, LetterEmbedder()).retrieve("c", 1)) == ["c"]
    with pytest.raises(RetrievalError, match="'letters', not of 'other'"):
        DenseRetriever.load(tmp_path, LetterEmbedder("other"))


class English(LetterEmbedder):
    """Knows ASCII and nothing else."""

    def unknown_share(self, text: str) -> float:
        """The share of other characters."""
        return sum(not letter.isascii() for letter in text) / len(text)


def hybrid(weights: FusionWeights | None = None) -> HybridRetriever:
    """Both indexes over the same texts."""
    weights = weights or FusionWeights()
    retriever = HybridRetriever(DenseRetriever(English()), LexicalRetriever(), weights=weights)
    retriever.add([*TEXTS, chunk("zh", "渡轮六点开"), chunk("near", "2104-RER ze")])
    return retriever


def test_words_have_a_say_only_where_they_are_right() -> None:
    """By default: identifiers, and languages that the embedder does not know."""
    retriever = hybrid()
    assert found(retriever.retrieve("zzaaab", 1)) == found(hybrid().retrieve("zzaaab", 1)) == ["a"]
    assert found(retriever.retrieve("ERR-4012", 2))[0] == "e"
    assert found(retriever.retrieve("渡轮几点开", 5)) == ["zh"]
    watcher = Watcher()
    with watching(watcher):
        retriever.retrieve("plain words", 1)
    assert len([event for event in watcher.seen if isinstance(event, RetrievalEnded)]) == 2


def test_deleting_reaches_both_indexes() -> None:
    """And so does the version."""
    retriever = hybrid(FusionWeights(words=1.0))
    before = retriever.version
    assert retriever.delete(["e"]) == 1
    assert "e" not in found(retriever.retrieve("ERR-4012", 9))
    assert retriever.version != before


def test_a_changed_document_leaves_nothing_of_its_old_self() -> None:
    """Whatever the spans of its chunks were; other documents stay."""
    retriever = hybrid(FusionWeights(words=1.0))
    retriever.add(chunk_text("zebra one. " * 40, source="z.md", chunk_size=50))
    retriever.replace("z.md", chunk_text("yak two.", source="z.md"))
    hits = retriever.retrieve("zebra yak", 60)
    assert [hit.chunk.text for hit in hits if hit.chunk.source == "z.md"] == ["yak two."]
    assert len(hits) == len(retriever) == 7


def test_fusion_weighs_ranks() -> None:
    """Weight 0 keeps the dense order; a heavy weight the lexical one; equals are stable."""
    dense = [Hit(each, 1.0) for each in TEXTS[:3]]
    lexical = [Hit(TEXTS[2], 9.0), Hit(TEXTS[3], 8.0)]
    assert found(fuse(dense, lexical, 0.0)) == ["a", "b", "c", "e"]
    assert found(fuse(dense, lexical, 5.0))[0] == "c"
    assert found(fuse(dense[:1], lexical[1:], 1.0)) == ["a", "e"]


def test_a_single_hit_is_the_first_of_many() -> None:
    """Each index is asked for more than is wanted, since neither knows the other's ranks."""
    texts = [chunk("dense", "aabz"), chunk("both", "aab zebra mmm"), chunk("words", "zebra")]
    retriever = HybridRetriever(
        DenseRetriever(English()), LexicalRetriever(), weights=FusionWeights(words=1.0)
    )
    retriever.add(texts)
    query = "aab zebra"
    assert found(retriever.retrieve(query, 3)) == ["both", "words", "dense"]
    assert found(retriever.retrieve(query, 1)) == ["both"]


def test_weights_are_learned_and_scored_on_other_questions() -> None:
    """A set where the words are right says so; one where they are wrong gives 0."""
    dense = [Hit(each, 1.0) for each in TEXTS]
    right = [(dense, [Hit(TEXTS[n % 4], 1.0)], frozenset([TEXTS[n % 4].id])) for n in range(12)]
    tuning = tune_weight(right)
    assert tuning.weight > 0
    assert tuning.held_out == 1.0 > tuning.held_out_zero
    wrong = [(dense, [Hit(TEXTS[3], 1.0)], frozenset(["a"])) for _ in range(12)]
    assert tune_weight(wrong).weight == 0
    # The first fold is of the other kind: no question may choose the weight it is scored with.
    last = (dense, [Hit(TEXTS[3], 1.0)], frozenset([TEXTS[3].id]))
    mixed = [wrong[0] if n % 5 == 0 else last for n in range(10)]
    assert tune_weight(mixed).held_out == pytest.approx(0.9)
    with pytest.raises(ConfigError, match="questions"):
        tune_weight(right[:2])


class Backwards:
    """Turns the order around, after waiting for an event if there is one."""

    name = "backwards"

    def __init__(self, wait: threading.Event | None = None, error: Exception | None = None) -> None:
        self.wait, self.error = wait, error

    def rerank(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The last first."""
        if self.wait is not None:
            self.wait.wait(30)
        if self.error is not None:
            raise self.error
        return [Hit(hit.chunk, float(n)) for n, hit in enumerate(hits)][::-1]


def test_reranking_reorders_the_first_candidates() -> None:
    """Those behind keep their place."""
    first = LexicalRetriever([chunk(str(n), "same") for n in range(6)])
    reranking = RerankingRetriever(first, Backwards(), candidates=3, budget=30)
    assert found(reranking.retrieve("same", 5)) == ["2", "1", "0", "3", "4"]
    assert reranking.retrieve("other") == []


def test_a_late_reranker_changes_nothing() -> None:
    """The first order is kept, observers are told, and so it is while the reranker is busy."""
    first = LexicalRetriever([chunk(str(n), "same") for n in range(4)])
    gate, watcher = threading.Event(), Watcher()
    reranking = RerankingRetriever(first, Backwards(gate), budget=0.05)
    with watching(watcher):
        assert found(reranking.retrieve("same", 4)) == ["0", "1", "2", "3"]
        assert found(reranking.retrieve("same", 4)) == ["0", "1", "2", "3"]
    gate.set()
    assert [e.in_time for e in watcher.seen if isinstance(e, RerankEnded)] == [False, False]


def test_an_error_of_the_reranker_reaches_the_caller() -> None:
    """It is not taken for lateness."""
    first = LexicalRetriever([chunk("1", "same")])
    reranking = RerankingRetriever(first, Backwards(error=RetrievalError("broken")), budget=30)
    for _ in range(2):
        with pytest.raises(RetrievalError, match="broken"):
            reranking.retrieve("same")
