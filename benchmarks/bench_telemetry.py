"""What watching costs, beside the bare SDK with structlog and beside opentelemetry-util-genai.

A run of five steps has 20 spans and 21 records. The bare side writes the same spans and records
from a list that was made beforehand. All sides share the sinks: a batch processor with an
exporter that does nothing, and JSON lines in memory. None writes content.

    pytest benchmarks/bench_telemetry.py      # one after the other
    python -m benchmarks.bench_telemetry      # taking turns in one process, and the ratios

Time is the processor time of the thread that runs the agent; the least of many turns counts.
"""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from benchmarks.telemetry_sides import (
    Task,
    bare,
    bare_call,
    call_attributes,
    observed,
    our_call,
    own,
    plans,
    script_alone,
    to_nowhere,
    util_call,
    watched_run,
)
from harness.content import Capture
from harness.observer import RunObserver
from tests.harness.event_script import drive


# --- With pytest-benchmark ------------------------------------------------------------------------
@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    return to_nowhere()


@pytest.mark.parametrize("steps", [5, 200])
@pytest.mark.parametrize("side", ["script alone", "ours", "bare"])
@pytest.mark.benchmark(group="a run", timer=time.thread_time, disable_gc=True)
def test_run(benchmark: Any, provider: TracerProvider, side: str, steps: int) -> None:
    """Four spans and four records a step."""
    sides = {
        "script alone": script_alone(steps),
        "ours": observed(provider, steps),
        "bare": bare(provider, steps),
    }
    benchmark(sides[side])


@pytest.mark.benchmark(group="a run", timer=time.thread_time, disable_gc=True)
def test_run_that_nobody_takes(benchmark: Any) -> None:
    """Instrumented, but there is neither a provider nor a logger."""
    benchmark(drive, RunObserver(None, None, Capture("none")), plans(5))


@pytest.mark.parametrize("side", ["ours", "bare", "util-genai", "util-genai, same attributes"])
@pytest.mark.benchmark(group="a model call", timer=time.thread_time, disable_gc=True)
def test_model_call(benchmark: Any, provider: TracerProvider, side: str) -> None:
    """One span; no records."""
    attributes = call_attributes()
    sides = {
        "ours": our_call(),
        "bare": bare_call(provider, attributes),
        "util-genai": util_call(provider),
        "util-genai, same attributes": util_call(provider, own(attributes)),
    }
    with watched_run(provider):
        benchmark(sides[side])


# --- Taking turns ---------------------------------------------------------------------------------
def least_microseconds(tasks: dict[str, Task], turns: int, calls: int) -> dict[str, float]:
    """The least processor time of each task, a call; the tasks take turns.

    As with `timeit` the garbage collector waits meanwhile: its time depends on how many spans
    of whichever side the batch processor holds.
    """
    least = dict.fromkeys(tasks, float("inf"))
    for _ in range(turns):
        for name, task in tasks.items():
            gc.collect()
            gc.disable()
            before = time.thread_time()
            for _ in range(calls):
                task()
            least[name] = min(least[name], (time.thread_time() - before) / calls * 1e6)
            gc.enable()
    return least


def main() -> None:
    """Print what each side takes, and how many times the other."""
    provider = to_nowhere()
    attributes = call_attributes()
    with watched_run(provider):
        calls = least_microseconds(
            {
                "ours": our_call(),
                f"bare SDK, the same {len(attributes)} attributes": bare_call(provider, attributes),
                "util-genai": util_call(provider),
                "util-genai, the same attributes": util_call(provider, own(attributes)),
            },
            turns=60,
            calls=100,
        )
    print("a model call")
    for name, taken in calls.items():
        print(f"  {name:<40} {taken:8.1f} us  {taken / calls['util-genai']:.2f} x util-genai")
    for steps, turns, times in ((5, 40, 10), (200, 8, 1)):
        runs = least_microseconds(
            {
                "script": script_alone(steps),
                "ours": observed(provider, steps),
                "bare SDK and structlog": bare(provider, steps),
            },
            turns,
            times,
        )
        script = runs.pop("script")
        runs["ours"] -= script
        print(f"a run of {steps} steps, {4 * steps} spans, {4 * steps + 1} records")
        for name, taken in runs.items():
            ratio = taken / runs["bare SDK and structlog"]
            print(
                f"  {name:<40} {taken:8.0f} us  {taken / steps:6.0f} us a step  {ratio:.2f} x bare"
            )


if __name__ == "__main__":
    main()
