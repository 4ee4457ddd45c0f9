"""Work in shares: the same results whoever does it, and whatever becomes of a worker."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli import main
from harness.faults.sweep import Plan, sweep
from harness.fuzz import Plan as Examples
from harness.fuzz.parser import ParserCampaign
from harness.fuzz.pool import run
from harness.workers import WorkError, map_ordered
from tests.harness.sessions_support import three_steps
from tests.harness.shares import FAR_FUTURE, Interrupted, Numbers

pytestmark = pytest.mark.usefixtures("importable_tests")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workers", [1, 3])
def test_results_come_in_the_order_of_the_shares(workers: int) -> None:
    """Whoever is done first."""
    shares = [Numbers(start) for start in range(0, 50, 10)]
    assert list(map_ordered(shares, workers=workers)) == [
        [n, n + 1, n + 2] for n in range(0, 50, 10)
    ]


def test_a_check_that_kills_its_process_is_left_out() -> None:
    """The checks after it are made, and how the process died is known."""
    assert list(map_ordered([Numbers(0, "SIGABRT"), Numbers(10)])) == [
        [0, "SIGABRT", 2],
        [10, 11, 12],
    ]


def test_ctrl_c_while_a_process_loads_is_left_to_its_parent() -> None:
    """A terminal sends it to all of them: a worker prints no traceback and goes on until told."""
    assert list(map_ordered([Interrupted(0)])) == [[0, 1, 2]]


def test_a_process_killed_from_outside_is_no_fault_of_its_check(tmp_path: Path) -> None:
    """Its share is run again; when it is killed again, the check is left out."""
    once = Numbers(0, "SIGKILL", tmp_path / "killed")
    always = Numbers(10, "SIGKILL")
    assert list(map_ordered([once, always], workers=2)) == [[0, 1, 2], [10, "SIGKILL", 12]]


def test_a_folder_too_long_for_a_socket_is_none_too_long_for_the_work(tmp_path: Path) -> None:
    """Some systems keep temporary files far down, and a Unix socket has a hundred bytes at most."""
    deep = tmp_path / ("临时 " * 30)
    deep.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "from harness.cli import main; main()", "fuzz", "parser",
         "--only=J4", "--examples=9"],
        cwd=ROOT, env=os.environ | {"TMPDIR": str(deep)}, capture_output=True, timeout=300,
        encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "J4" in done.stdout


def test_an_exception_ends_the_work() -> None:
    """A share that cannot be run says why, by the class and words of what it raised."""
    with pytest.raises(WorkError, match="LookupError: no such thing"):
        list(map_ordered([Numbers(0, "raise")]))


def test_nobody_waits_for_what_is_not_wanted_any_more() -> None:
    """Closing the results ends the processes."""
    began = time.monotonic()
    with closing(map_ordered([Numbers(0), Numbers(10, "sleep")], workers=2)) as results:
        assert next(results) == [0, 1, 2]
    assert time.monotonic() - began < FAR_FUTURE


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two workers of Dask on this machine, one process each; one that is lost is lost for good."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as started:
        for nanny in started.workers.values():
            nanny.auto_restart = False
        yield started


def test_a_cluster_that_loses_a_worker_gives_the_same_report(cluster: Any, tmp_path: Path) -> None:
    """A worker is killed while it has work to do, and what it had is done by the other."""
    session = three_steps(tmp_path / "three.yaml").path
    plan = Plan(("http",), seed=7)
    victims: list[int] = []

    def kill(done: int, _all: int) -> None:
        if done == 1:
            victims.append(next(iter(cluster.workers.values())).pid)
            os.kill(victims[0], signal.SIGKILL)

    here = sweep([session], plan)
    there = sweep([session], plan, dask=cluster.scheduler_address, progress=kill)
    assert len(victims) == 1
    assert here.made > 0
    assert there.as_json() == here.as_json()

    parser = (ParserCampaign, ("harness.fuzz.targets:ours", Examples(), 1, 300), 300)
    assert run(*parser, dask=cluster.scheduler_address) == run(*parser)


def test_a_scheduler_that_is_not_there_is_unreachable(tmp_path: Path) -> None:
    """Exit code 3, and one line that says what was expected."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    for *command, asked in (
        ["fuzz", "parser", "--examples", "1", "tcp://no address"],
        ["sweep", str(three_steps(tmp_path / "a.yaml").path), address],
    ):
        result = CliRunner().invoke(main, [*command, "--dask", asked])
        assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
        assert "Error: no Dask scheduler" in result.stderr
