"""Pytest in this process, with the plugin and a model server that is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

# What pytest imports in this process is forgotten after each run, and numpy loads only once.
import harness.demo.agents  # noqa: F401
import harness.sessions.failed  # noqa: F401
from harness.faults import FaultServer


def asked(live: FaultServer) -> int:
    """How many questions its model was asked."""
    return sum(each.path == "/api/chat" for each in live.requests)


def changed(session: Path) -> str:
    """The text of a session that was recorded with another description of a tool."""
    return session.read_text(encoding="utf-8").replace("Current weather", "Weather")


def run_here(pytester: pytest.Pytester, *arguments: str) -> tuple[dict[str, int], str]:
    """Run pytest in this process, which is quicker: the counts of outcomes, and the output."""
    without = ["-p", "no:cacheprovider", "-p", "no:langsmith_plugin"]  # pytester drops ADDOPTS
    done = pytester.runpytest_inprocess("-q", *without, *arguments)
    return done.parseoutcomes(), done.stdout.str() + done.stderr.str()
