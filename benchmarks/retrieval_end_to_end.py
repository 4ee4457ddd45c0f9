"""From the question's text to chunks with theirs: the usual tutorial way beside ours.

Usage:  python -m benchmarks.retrieval_end_to_end [--chunks 1200] [--rounds 60]

The same MiniLM weights everywhere, one thread, caches off, distinct questions, the ways taken in
turn within each round. Needs the extras `rag` and `onnx`, and scikit-learn.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np


def texts(count: int) -> list[str]:
    """Passages of some 130 characters, all different."""
    random.seed(5)
    words = (
        *("ferry", "harbour", "island", "tenant", "rent", "month", "sugar", "flour", "oven"),
        *("storm", "lighthouse", "museum", "key", "ticket", "bridge", "market", "river"),
    )
    return [f"{n}: " + " ".join(random.choices(words, k=18)) + "." for n in range(count)]


def ways(passages: list[str], cache: Path) -> dict[str, Callable[[str], list[str]]]:
    """Each way as a function from a question to five passages."""
    from sentence_transformers import SentenceTransformer
    from sklearn.metrics.pairwise import cosine_similarity

    from agent_core.messages import Chunk
    from agent_core.rag import (
        CachedEmbedder,
        DenseRetriever,
        OnnxEmbedder,
        SentenceTransformerEmbedder,
        export_onnx,
    )
    from agent_core.rag.local import packaged_minilm

    model = SentenceTransformer(str(packaged_minilm()), device="cpu", local_files_only=True)
    matrix = model.encode(passages, show_progress_bar=False)
    chunks = [Chunk(str(n), text, "s", 0, len(text)) for n, text in enumerate(passages)]

    def tutorial(question: str) -> list[str]:
        scores = cosine_similarity(model.encode([question]), matrix)[0]
        return [passages[n] for n in np.argsort(scores)[::-1][:5]]

    plain = DenseRetriever(CachedEmbedder(SentenceTransformerEmbedder(), queries=0), chunks)
    quick = DenseRetriever(CachedEmbedder(OnnxEmbedder(export_onnx(cache)), queries=0), chunks)
    return {
        "SentenceTransformer + sklearn": tutorial,
        "ours, sentence-transformers": lambda q: [h.chunk.text for h in plain.retrieve(q)],
        "ours, ONNX Runtime": lambda q: [hit.chunk.text for hit in quick.retrieve(q)],
    }


def main() -> None:
    """Print medians and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=1_200)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--cache", type=Path, default=Path(".agentrig/minilm-onnx"))
    options = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    each_way = ways(texts(options.chunks), options.cache)
    times: dict[str, list[float]] = {name: [] for name in each_way}
    same = 0
    for number in range(options.rounds):
        question = f"what about the {number}th storm at the harbour and ticket {number}"
        answers = []
        for name in random.sample(list(each_way), len(each_way)):
            began = time.perf_counter()
            answers.append(each_way[name](question))
            times[name].append(time.perf_counter() - began)
        same += all(set(each) == set(answers[0]) for each in answers)
    first = next(iter(times))
    for name, taken in times.items():
        ratio = float(np.median(np.array(times[first]) / np.array(taken)))
        p50, p95 = np.percentile(taken, [50, 95]) * 1e3
        print(f"{name:32} p50 {p50:7.2f} ms  p95 {p95:7.2f} ms  {ratio:5.2f} x as fast")
    print(f"the same five passages in {same} of {options.rounds} questions; no vector was cached; "
          f"load {os.getloadavg()[0]:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
