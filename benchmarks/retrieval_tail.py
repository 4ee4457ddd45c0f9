"""The slow tail of a search at 1,200 rows while every other core is busy, beside a bare dot.

Usage:  python -m benchmarks.retrieval_tail [--rows 1200] [--queries 4000] [--threads one]

The two take turns in one process, in blocks, so that each is measured hot. `--threads default`
leaves BLAS its threads: then the bare dot waits for a core that another program has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

from benchmarks.retrieval_search import ONE_THREAD, TOP, clustered, ours

BLOCK = 100
SPIN = "import time\nend = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def measure(rows: int, queries: int) -> None:
    """Print p50, p95 and p99 of both, and the ratios."""
    vectors, asked = clustered(rows, 256)
    search = ours(vectors, [f"text {n}" for n in range(rows)])
    ways = {"bare np.dot": lambda query: np.dot(vectors, query), "ours, ids and texts": search}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(0, queries, BLOCK):
        for name, way in ways.items():
            for query in asked[:10]:
                way(query)
            for n in range(number, number + BLOCK):
                query = asked[n % len(asked)]
                began = time.perf_counter()
                way(query)
                times[name].append((time.perf_counter() - began) * 1e6)
    percentiles = {name: np.percentile(taken, [50, 95, 99]) for name, taken in times.items()}
    for name, (p50, p95, p99) in percentiles.items():
        print(f"{name:20} p50 {p50:8.1f} us  p95 {p95:8.1f} us  p99 {p99:8.1f} us")
    bare, own = percentiles.values()
    print(
        f"ratio {own[0] / bare[0]:.2f} at p50, {own[1] / bare[1]:.2f} at p95; {rows} rows, best "
        f"{TOP} of them, {len(times['bare np.dot'])} queries each, load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Keep the other cores busy and measure in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_200)
    parser.add_argument("--queries", type=int, default=4_000)
    parser.add_argument("--threads", choices=["one", "default"], default="one")
    parser.add_argument("--busy", type=int, default=(os.cpu_count() or 2) - 1)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        measure(options.rows, options.queries)
        return
    spinners = [subprocess.Popen([sys.executable, "-c", SPIN.format(60)]) for _ in
                range(options.busy)]  # fmt: skip
    try:
        subprocess.run(
            [sys.executable, "-m", "benchmarks.retrieval_tail", "--child",
             "--rows", str(options.rows), "--queries", str(options.queries)],
            check=True, env={**os.environ, **(ONE_THREAD if options.threads == "one" else {})},
        )  # fmt: skip
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


if __name__ == "__main__":
    main()
