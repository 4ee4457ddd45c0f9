"""Search time beside other libraries: one process each, one thread, all returning ids and texts.

Usage:  python -m benchmarks.retrieval_search [--rows 1200 10000] [--library ours …] [--json FILE]

Needs `pip install faiss-cpu chromadb lancedb sqlite-vec apsw qdrant-client scikit-learn` for
those that are asked for; what is missing is left out. Vectors are clustered, 384 numbers each.
Chroma is approximate by default (HNSW); `recall` says how much of the exact result is found.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIMENSION, TOP = 384, 5
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS",
     "TOKIO_WORKER_THREADS", "LANCE_CPU_THREADS"),
    "1",
)  # fmt: skip

Vectors = NDArray[np.float32]
Search = Callable[[Vectors], list[tuple[int, str]]]


def clustered(rows: int, queries: int, seed: int = 7) -> tuple[Vectors, Vectors]:
    """Unit vectors around common centres, as those of texts are."""
    random = np.random.default_rng(seed)
    mixing = random.normal(size=(48, DIMENSION))
    centres = random.normal(size=(int(rows**0.5), 48))
    hidden = centres[random.integers(0, len(centres), rows + queries)]
    hidden = hidden + 0.5 * random.normal(size=hidden.shape)
    vectors = hidden @ mixing + 0.3 * random.normal(size=(rows + queries, DIMENSION))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return vectors[:rows], vectors[rows:]


def ours(vectors: Vectors, texts: list[str], *, prefilter: bool = False) -> Search:
    """The index of agent_core."""
    from agent_core.messages import Chunk
    from agent_core.rag import VectorIndex

    index = VectorIndex("bench", prefilter=prefilter)
    index.add([Chunk(str(n), text, "s", 0, len(text)) for n, text in enumerate(texts)], vectors)
    return lambda query: [(int(hit.chunk.id), hit.chunk.text) for hit in index.search(query, TOP)]


def ours_signs(vectors: Vectors, texts: list[str]) -> Search:
    """The same with its first look by signs."""
    return ours(vectors, texts, prefilter=True)


def numpy_dot(vectors: Vectors, texts: list[str]) -> Search:
    """A bare dot product and argpartition."""

    def search(query: Vectors) -> list[tuple[int, str]]:
        scores = np.dot(vectors, query)
        best = np.argpartition(scores, -TOP)[-TOP:]
        return [(int(n), texts[n]) for n in best[np.argsort(-scores[best])]]

    return search


def sklearn_cosine(vectors: Vectors, texts: list[str]) -> Search:
    """What most tutorials do."""
    from sklearn.metrics.pairwise import cosine_similarity

    def search(query: Vectors) -> list[tuple[int, str]]:
        best = cosine_similarity(query[None], vectors)[0].argsort()[::-1][:TOP]
        return [(int(n), texts[n]) for n in best]

    return search


def faiss_flat(vectors: Vectors, texts: list[str]) -> Search:
    """Exact."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    return lambda query: [(int(n), texts[n]) for n in index.search(query[None], TOP)[1][0]]


def chroma(vectors: Vectors, texts: list[str]) -> Search:
    """In memory; approximate (HNSW) by default and without an exact mode."""
    import chromadb
    from chromadb.config import Settings

    client = chromadb.EphemeralClient(Settings(anonymized_telemetry=False))
    collection = client.create_collection("bench", configuration={"hnsw": {"space": "cosine"}})
    for at in range(0, len(texts), 5_000):
        part = slice(at, at + 5_000)
        ids = [str(n) for n in range(at, min(at + 5_000, len(texts)))]
        collection.add(ids=ids, embeddings=vectors[part], documents=texts[part])

    def search(query: Vectors) -> list[tuple[int, str]]:
        found = collection.query(query_embeddings=query[None], n_results=TOP, include=["documents"])
        documents: Any = found["documents"]
        return [(int(n), text) for n, text in zip(found["ids"][0], documents[0], strict=True)]

    return search


def lancedb(vectors: Vectors, texts: list[str]) -> Search:
    """On disk, flat."""
    import lancedb as library
    import pyarrow as pa

    table = pa.table({
        "id": np.arange(len(texts)),
        "text": texts,
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION),
    })
    folder = tempfile.mkdtemp()
    opened = library.connect(folder).create_table("bench", table)

    def search(query: Vectors) -> list[tuple[int, str]]:
        asked = opened.search(query).distance_type("cosine").select(["id", "text"]).limit(TOP)
        return [(row["id"], row["text"]) for row in asked.to_list()]

    return search


def sqlite_vec(vectors: Vectors, texts: list[str]) -> Search:
    """In memory, exact."""
    import apsw
    import sqlite_vec as extension

    connection = apsw.Connection(":memory:")
    connection.enable_load_extension(True)
    connection.load_extension(extension.loadable_path())
    connection.execute(
        f"create virtual table v using vec0(e float[{DIMENSION}] distance_metric=cosine, +t text)"
    )
    with connection:
        connection.executemany(
            "insert into v(rowid, e, t) values (?, ?, ?)",
            ((n, vector.tobytes(), texts[n]) for n, vector in enumerate(vectors)),
        )
    sql = "select rowid, t from v where e match ? and k = ?"
    return lambda query: list(connection.execute(sql, (query.tobytes(), TOP)))


def qdrant(vectors: Vectors, texts: list[str]) -> Search:
    """Local mode, exact."""
    import warnings

    from qdrant_client import QdrantClient, models

    warnings.simplefilter("ignore")
    client = QdrantClient(":memory:")
    config = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    client.create_collection("bench", vectors_config=config)
    client.upload_collection(
        "bench", vectors, payload=[{"text": text} for text in texts], ids=range(len(texts))
    )

    def search(query: Vectors) -> list[tuple[int, str]]:
        found = client.query_points("bench", query=query, limit=TOP).points
        return [(int(each.id), each.payload["text"]) for each in found]

    return search


LIBRARIES: dict[str, Callable[[Vectors, list[str]], Search]] = {
    each.__name__: each
    for each in (ours, ours_signs, numpy_dot, faiss_flat, sklearn_cosine, chroma, lancedb,
                 sqlite_vec, qdrant)
}  # fmt: skip


def run(name: str, rows: int, seconds: float) -> dict[str, float]:
    """Build, warm up, and ask distinct queries for so long."""
    vectors, queries = clustered(rows, 256)
    texts = [
        f"text of chunk {n}, some sixty characters long, as a sentence is" for n in range(rows)
    ]
    began = time.perf_counter()
    search = LIBRARIES[name](vectors, texts)
    built = time.perf_counter() - began
    exact = np.argsort(-(queries[:64] @ vectors.T), axis=1)[:, :TOP]
    same = sum(
        len({n for n, _ in search(query)} & set(right.tolist()))
        for query, right in zip(queries[:64], exact, strict=True)
    )
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(times) < 20:
        query = queries[len(times) % len(queries)]
        start = time.perf_counter()
        search(query)
        times.append(time.perf_counter() - start)
    p50, p95 = np.percentile(times, [50, 95]) * 1e6
    return {
        "p50_us": float(p50), "p95_us": float(p95), "queries": len(times),
        "recall": same / (64 * TOP), "build_s": built, "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Run each library in a process of its own and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_200, 10_000])
    parser.add_argument("--library", nargs="+", default=list(LIBRARIES), choices=list(LIBRARIES))
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--threads", choices=["one", "default"], default="one")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, rows = options.child
        print(json.dumps(run(name, int(rows), options.seconds)))
        return
    environment = {**os.environ, **(ONE_THREAD if options.threads == "one" else {})}
    results: dict[str, dict[str, float]] = {}
    for rows in options.rows:
        for name in options.library:
            command = [sys.executable, "-m", "benchmarks.retrieval_search",
                       "--seconds", str(options.seconds), "--child", name, str(rows)]  # fmt: skip
            done = subprocess.run(
                command, check=False, env=environment, capture_output=True, text=True
            )
            if done.returncode:
                print(f"{rows:7} {name:15} left out: {done.stderr.strip().splitlines()[-1][:90]}")
                continue
            result = json.loads(done.stdout.splitlines()[-1])
            results[f"{name}@{rows}"] = result
            print(
                f"{rows:7} {name:15} p50 {result['p50_us']:9.0f} us  p95 {result['p95_us']:9.0f} us"
                f"  recall {result['recall']:.3f}  build {result['build_s']:.2f} s"
                f"  load {result['load']:.1f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
