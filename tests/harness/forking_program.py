"""A traced program that forks; tests run it on its own: `DIRECTORY COLLECTOR HOW`."""

from __future__ import annotations

import os
import sys
import threading
import time
from multiprocessing import get_context
from pathlib import Path

from harness import telemetry
from tests.harness.event_script import PlannedStep, drive


def run(watch: telemetry.Watch, agent: str) -> None:
    """One run of one step: five spans."""
    drive(watch.observer, [PlannedStep()], agent=agent)


def main(directory: str, collector: str, how: str) -> None:
    """Run an agent before a fork, in both processes, and after it."""
    with telemetry.session(otlp=collector, directory=Path(directory)) as watch:
        run(watch, "before")
        if how == "while sending":
            watch.observer._provider.force_flush()  # type: ignore[union-attr]
        if how == "multiprocessing":
            process = get_context("fork").Process(target=run, args=(watch, "child"))
            process.start()
            process.join(30)
            assert process.exitcode == 0
        elif how == "among threads":
            _fork_often(watch)
        elif _fork(watch, inside=how == "inside a tool") == 0:
            run(watch, "child")
            return
        run(watch, "after")


def _fork(watch: telemetry.Watch, *, inside: bool) -> int:
    pid = -1

    def fork() -> None:
        nonlocal pid
        pid = os.fork()
        if pid:
            assert os.waitpid(pid, 0)[1] == 0

    if inside:
        drive(watch.observer, [PlannedStep(in_tool=fork), PlannedStep()], agent="forking")
    else:
        fork()
    return pid


def _fork_often(watch: telemetry.Watch) -> None:
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            run(watch, "other thread")
            time.sleep(0.005)

    thread = threading.Thread(target=work)
    thread.start()
    children = [get_context("fork").Process(target=run, args=(watch, "child")) for _ in range(8)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    done.set()
    thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
