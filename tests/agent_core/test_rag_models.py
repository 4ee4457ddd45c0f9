"""Real models: the packaged MiniLM, its export, and a tiny cross-encoder made here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_core.errors import RetrievalError
from agent_core.messages import Hit
from agent_core.rag import (
    CrossEncoderReranker,
    DenseRetriever,
    EmbeddingWarning,
    HybridRetriever,
    LexicalRetriever,
    RerankingRetriever,
    SentenceTransformerEmbedder,
)
from agent_core.rag.onnx import OnnxEmbedder, export_onnx
from tests.agent_core.rag_helpers import chunk

DOCS = [
    chunk("boat", "The ferry to the island leaves the harbour at six in the morning."),
    chunk("rent", "Tenants pay on the first day of each month."),
    chunk("cake", "Beat the eggs with sugar and add the flour."),
    chunk("灯塔", "港口的灯塔建于一九零三年，高四十一米。"),
]


@pytest.fixture(scope="module")
def minilm() -> SentenceTransformerEmbedder:
    """The packaged MiniLM, loaded once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries while they are imported
        embedder = SentenceTransformerEmbedder()
        assert embedder.dimension == 384
    return embedder


@pytest.fixture(scope="module")
def exported(minilm: SentenceTransformerEmbedder, tmp_path_factory: Any) -> OnnxEmbedder:
    """The same weights on ONNX Runtime."""
    return OnnxEmbedder(export_onnx(tmp_path_factory.mktemp("minilm")))


def test_a_question_finds_what_it_means(minilm: SentenceTransformerEmbedder) -> None:
    """Without a word in common."""
    retriever = DenseRetriever(minilm, DOCS[:3])
    assert retriever.retrieve("when does the boat depart?")[0].chunk.id == "boat"
    assert retriever.retrieve("how do I bake something sweet")[0].chunk.id == "cake"


def test_unknown_tokens_and_cut_texts_are_warned_about(
    minilm: SentenceTransformerEmbedder, exported: OnnxEmbedder
) -> None:
    """By either path, each with what to do."""
    for embedder in (minilm, exported):
        with pytest.warns(EmbeddingWarning, match="multilingual"):
            embedder.embed_documents([DOCS[3].text])
        with pytest.warns(EmbeddingWarning, match=r"1 of 2 texts.*chunk_size"):
            embedder.embed_documents(["short", "word " * 300])
        assert embedder.unknown_share("ferry times") == 0
        assert embedder.unknown_share(DOCS[3].text) > 0.3


def test_the_export_gives_the_same_vectors(
    minilm: SentenceTransformerEmbedder, exported: OnnxEmbedder
) -> None:
    """In the order of the texts, whatever their lengths; and it is not made again."""
    texts = ["ferry", "a b c " * 40, "x", *(doc.text for doc in DOCS[:3])]
    expected = minilm.embed_documents(texts)
    assert np.abs(exported.embed_documents(texts) - expected).max() < 1e-5
    assert np.abs(exported.embed_query("ferry") - expected[0]).max() < 1e-5
    assert (exported.name, exported.dimension, exported.max_tokens) == (
        minilm.name,
        minilm.dimension,
        minilm.max_tokens,
    )


def test_the_fast_path_needs_no_torch(exported: OnnxEmbedder, tmp_path: Path) -> None:
    """And gives the same vectors in every process."""
    folder = exported.directory
    code = (
        "import sys, json; from agent_core.rag.onnx import OnnxEmbedder;"
        f"v = OnnxEmbedder({str(folder)!r}).embed_query('ferry');"
        "assert 'torch' not in sys.modules; print(json.dumps(v.tolist()))"
    )
    outputs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", code],
                check=True,
                timeout=60,
                capture_output=True,
                env={**os.environ, "PYTHONHASHSEED": seed},
            ).stdout
        )
        for seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0] == pytest.approx(exported.embed_query("ferry").tolist(), abs=1e-6)
    with pytest.raises(RetrievalError, match="export_onnx"):
        OnnxEmbedder(tmp_path)


def test_a_question_in_a_language_that_the_model_cannot_read_goes_to_the_words(
    exported: OnnxEmbedder,
) -> None:
    """So that Chinese works with an English model too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmbeddingWarning)
        retriever = HybridRetriever(DenseRetriever(exported, DOCS), LexicalRetriever(DOCS))
    assert [hit.chunk.id for hit in retriever.retrieve("灯塔有多高？")] == ["灯塔"]
    assert retriever.retrieve("when does the boat depart?")[0].chunk.id == "boat"


def test_a_cross_encoder_reranks(tmp_path: Path) -> None:
    """A tiny model, made here: what matters is that it is loaded and asked rightly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries while they are imported
        make_cross_encoder(tmp_path)
        reranker = CrossEncoderReranker(tmp_path, device="cpu", max_length=32)
        reranker.load()
    first = [Hit(doc, 0.0) for doc in DOCS]
    ranked = reranker.rerank("ferry", first)
    assert sorted(hit.chunk.id for hit in ranked) == sorted(doc.id for doc in DOCS)
    scores = [hit.score for hit in ranked]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    again = reranker.rerank("ferry", first[::-1])
    assert [hit.chunk.id for hit in again] == [hit.chunk.id for hit in ranked]
    assert reranker.rerank("ferry", []) == []
    retriever = RerankingRetriever(LexicalRetriever(DOCS[:3]), reranker, budget=60)
    found = retriever.retrieve("the ferry, flour and tenants")
    assert found == reranker.rerank("the ferry, flour and tenants", first[:3])


def make_cross_encoder(folder: Path) -> None:
    """Save an untrained BERT of a few thousand weights with a WordPiece vocabulary."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    words = sorted({word.strip(".,").lower() for doc in DOCS for word in doc.text.split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64, num_labels=1, initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
