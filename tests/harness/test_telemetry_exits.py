"""However a process ends, its spans are closed and sent, and its end is not held up."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.trace.spans import read_traces, trace_files
from tests.harness.otlp_receiver import otlp_receiver
from tests.harness.telemetry_support import DEAD, SPANS, run_once

pytestmark = pytest.mark.usefixtures("no_otel_variables")


@pytest.mark.parametrize("silent", [True, False])
def test_a_dead_or_silent_collector_does_not_hold_up_the_exit(tmp_path: Path, silent: bool) -> None:
    """The spans are lost and counted; the file has them."""
    with otlp_receiver(silent=True) as receiver:
        began = time.monotonic()
        watch, said = run_once(tmp_path, otlp=receiver.url if silent else DEAD)
        assert time.monotonic() - began < 6  # 3 s by design; the rest is slack
    assert watch.deliveries[1].lost == SPANS
    assert "5 lost" in said[1]
    assert watch.path is not None
    assert len(read_traces(watch.path)[0].spans()) == SPANS


SCRIPT = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from harness import telemetry
from tests.harness.event_script import PlannedStep, drive
how, url, directory = sys.argv[1:]
def tool():
    print("ready", flush=True)
    if how == "wait":
        time.sleep(60)
    if how == "raise":
        raise SystemExit(7)
    if how == "die":
        os._exit(9)
with telemetry.session(otlp=url, directory=Path(directory)) as watch:
    drive(watch.observer, [PlannedStep(in_tool=tool), PlannedStep()])
"""


def _child(how: str, url: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how, url, str(directory)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("how", "send", "status", "error"),
    [
        ("end", None, 0, None),
        ("raise", None, 7, "SystemExit"),
        ("wait", signal.SIGTERM, 143, "SystemExit"),
        ("wait", signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"),
    ],
)
def test_every_way_out_of_the_process_closes_and_sends_the_spans(
    tmp_path: Path, how: str, send: signal.Signals | None, status: int, error: str | None
) -> None:
    """A normal end, an exit, SIGTERM and Ctrl-C: one whole tree arrives."""
    with otlp_receiver() as receiver:
        child = _child(how, receiver.url, tmp_path)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        if send:
            child.send_signal(send)
        _, said = child.communicate(timeout=30)
        (trace,) = receiver.traces()
    assert child.returncode == status, said
    assert trace.complete
    assert trace.root.attributes.get("error.type") == error
    assert f"{len(trace.spans())} spans to {receiver.url}/v1/traces" in said


def test_a_process_that_dies_leaves_what_had_ended_in_its_file(tmp_path: Path) -> None:
    """Spans are written as they end; `explain` says that the rest is missing."""
    child = _child("die", DEAD, tmp_path)
    child.communicate(timeout=30)
    assert child.returncode == 9
    (path,) = trace_files(tmp_path)
    (trace,) = read_traces(path)
    assert [span.name for span in trace.spans()] == ["chat qwen", "POST", "harness.parse"]
    assert not trace.complete
