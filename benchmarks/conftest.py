"""Benchmarks run alone: beside others on the same cores their times mean nothing."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under pytest-xdist they are skipped, and say so; pytest-benchmark would time nothing."""
    if hasattr(config, "workerinput"):
        alone = pytest.mark.skip(reason="benchmarks run alone: leave out -n")
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(alone)
