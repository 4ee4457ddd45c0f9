"""A process that forks goes on tracing on both sides: nothing twice, nothing lost, no deadlock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.trace.spans import trace_files
from tests.harness.otlp_receiver import Receiver, otlp_receiver

ROOT = Path(__file__).parents[2]
RUN = 5  # spans of a run of one step

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")


def fork(tmp_path: Path, receiver: Receiver, how: str) -> str:
    """Let the program run; what it says at its end."""
    program = [sys.executable, "-W", "error", "-W", "ignore:This process", "-m"]
    arguments = ["tests.harness.forking_program", str(tmp_path), receiver.url, how]
    done = subprocess.run(
        [*program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def spans_of(receiver: Receiver) -> Counter[str]:
    """How often each span arrived, by its id."""
    return Counter(
        span.span_id.hex()
        for request in receiver.accepted
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    )


@pytest.mark.parametrize(
    "how", ["while spans wait", "while sending", "inside a tool", "multiprocessing"]
)
def test_both_processes_go_on_tracing(tmp_path: Path, how: str) -> None:
    """The collector gets every span once, in whole trees; each process has its own file."""
    with otlp_receiver() as receiver:
        said = fork(tmp_path, receiver, how)
        arrived = spans_of(receiver)
        runs = {trace.root.name: len(trace.spans()) for trace in receiver.traces()}
    expected = {f"invoke_agent {name}": RUN for name in ("before", "child", "after")}
    if how == "inside a tool":  # each process has the second step; the first is the parent's
        expected["invoke_agent forking"] = 10 + 4
    assert runs == expected
    assert set(arrived.values()) == {1}
    files = trace_files(tmp_path)
    assert len(files) == 2
    assert sum(path.read_text("utf-8").count('"spanId"') for path in files) == len(arrived)
    assert "lost" not in said


def test_a_fork_among_threads_that_trace(tmp_path: Path) -> None:
    """No lock is left behind in a child, and no span is sent by two processes."""
    with otlp_receiver() as receiver:
        said = fork(tmp_path, receiver, "among threads")
        arrived = spans_of(receiver)
        names = Counter(trace.root.name for trace in receiver.traces())
    assert set(arrived.values()) == {1}
    assert names["invoke_agent child"] == 8
    assert len(trace_files(tmp_path)) == 9
    written = "".join(path.read_text("utf-8") for path in trace_files(tmp_path))
    assert written.count('"spanId"') == len(arrived)
    assert "lost" not in said
