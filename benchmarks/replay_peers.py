"""Replay beside other recorders: whole test suites, exchanges with the body matched, loading.

Usage:  python -m benchmarks.replay_peers [--rounds N] [--only suite|exchanges|steps|load]

Needs `pip install --group peers`, in an environment of its own: the pytest plugins of
pytest-recording and cassetter claim the same option. Each peer runs as its authors would have it:
vcrpy with libyaml's loader, cassetter on its own format. Times are of the CPU, medians of the
rounds, so that other programs on the machine count for little; a ratio is of two such times.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import requests
from rich.console import Console
from rich.table import Table

from benchmarks.bench_replay import URL, conversation
from benchmarks.replay_suites import JSON, Row, in_turn, suite
from harness.sessions.cassette import load_session, render_session
from harness.sessions.format import SessionFile
from harness.sessions.player import Player, replay_session

EXCHANGES, MEGABYTES = 200, 10
ENOUGH = 10.0  # seconds of measuring one recorder


def exchanges(rounds: int) -> Iterator[Row]:
    """One session of many exchanges: the file is open, every request is sent in order."""
    file = conversation(EXCHANGES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.yaml"
        path.write_text(render_session(file), encoding="utf-8")
        for name, opened in _recorders(path, file).items():
            yield "exchanges", name, _sent(file, opened, rounds)


def _recorders(path: Path, file: SessionFile) -> dict[str, Callable[[], object]]:
    """Ways to open a cassette; each gives a context manager of a session to send with."""

    @contextmanager
    def ours() -> Iterator[requests.Session]:
        with replay_session(Player(file)) as http:
            yield http

    @contextmanager
    def vcrpy(*match_on: str) -> Iterator[requests.Session]:
        import vcr

        with (
            vcr.use_cassette(str(path), record_mode="none", match_on=match_on),
            requests.Session() as http,
        ):
            yield http

    native = path.with_name("native.yaml")

    @contextmanager
    def cassetter() -> Iterator[requests.Session]:
        from cassetter import use_cassette

        if not native.exists():
            command = ["-c", "from cassetter.cli import main; main()", "convert", str(path)]
            subprocess.run([sys.executable, *command, str(native)], check=True, capture_output=True)
        with (
            use_cassette(
                native, record_mode="none", match_on=["method", "uri", "json_body"],
                intercept=["requests"],
            ),
            requests.Session() as http,
        ):  # fmt: skip
            yield http

    return {
        "agentrig, body and order": ours,
        "vcrpy, method and URI only": lambda: vcrpy("method", "uri"),
        "vcrpy, body": lambda: vcrpy("method", "uri", "body"),
        "cassetter, body": cassetter,
    }


def _sent(file: SessionFile, opened: Callable[[], object], rounds: int) -> float:
    """Median of the rounds; of fewer where a round takes long, as vcrpy's with bodies does."""
    times: list[float] = []
    while len(times) < rounds and sum(times) < ENOUGH:
        with opened() as http:  # type: ignore[attr-defined]
            began = time.process_time()
            for exchange in file.exchanges:
                answer = http.post(URL, data=exchange.request.body, headers=JSON)
                assert answer.content == exchange.response.body
            times.append(time.process_time() - began)
    return median(times)


def steps(rounds: int) -> Iterator[Row]:
    """One step among few and among many."""
    for count in (5, 50, 500):
        file = conversation(count)
        opened = _recorders(Path("unused"), file)["agentrig, body and order"]
        seconds = _sent(file, opened, rounds * max(1, 100 // count)) / count
        yield f"a step of {count}", "agentrig, body and order", seconds


def load(rounds: int) -> Iterator[Row]:
    """Reading a large cassette."""
    import cassetter
    from vcr.persisters.filesystem import FilesystemPersister
    from vcr.serializers import yamlserializer

    file = SessionFile(None, conversation(137 * MEGABYTES).exchanges)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "big.yaml"
        path.write_text(render_session(file), encoding="utf-8")
        readers: dict[str, Callable[[], object]] = {
            "agentrig": lambda: load_session(path),
            "vcrpy": lambda: FilesystemPersister.load_cassette(str(path), yamlserializer),
            "cassetter": lambda: _opened(cassetter.use_cassette(path, record_mode="none")),
        }
        size = path.stat().st_size / 1e6
        times = in_turn({name: partial(_timed, read) for name, read in readers.items()}, rounds)
    for name, seconds in times:
        yield f"load {size:.1f} MB", name, seconds


def _timed(job: Callable[[], object]) -> float:
    began = time.process_time()
    job()
    return time.process_time() - began


def _opened(cassette: object) -> None:
    with cassette:  # type: ignore[attr-defined]
        pass


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "suite": suite,
    "exchanges": exchanges,
    "steps": steps,
    "load": load,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=PARTS)
    asked = parser.parse_args()
    logging.getLogger("vcr").setLevel(logging.ERROR)
    names = ("agentrig", "vcrpy", "pytest-recording", "cassetter", "requests", "PyYAML", "pytest")
    out = Console()
    used = ", ".join(f"{each} {version(each)}" for each in names)
    out.print(f"Python {platform.python_version()}, {used}")
    out.print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    table = Table("", "who", "CPU seconds", "of ours", box=None, padding=(0, 2, 0, 0))
    for part in asked.only or PARTS:
        first: float | None = None
        for what, who, seconds in PARTS[part](asked.rounds):
            first = first or seconds
            table.add_row(what, who, f"{seconds:.4f}", f"{seconds / first:.2f} x")
    out.print(table)


if __name__ == "__main__":
    main()
