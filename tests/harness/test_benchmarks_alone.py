"""Benchmarks are not timed beside each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_under_xdist_benchmarks_are_skipped_and_say_so() -> None:
    """After ionelmc/pytest-benchmark#293: they passed without a word, and measured nothing."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "benchmarks/bench_loop.py", "-n", "1", "-q",
         "-p", "no:cacheprovider"],
        cwd=ROOT, capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 skipped" in done.stdout
    assert "benchmarks run alone: leave out -n" in done.stdout
