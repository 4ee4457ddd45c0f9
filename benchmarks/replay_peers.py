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
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median

import requests
from rich.console import Console
from rich.table import Table

from benchmarks.bench_replay import URL, conversation
from harness.sessions.cassette import load_session, render_session
from harness.sessions.format import SessionFile
from harness.sessions.player import Player, replay_session

SESSION = Path(__file__).parents[1] / "cassettes" / "fahrenheit-en.yaml"
SESSIONS, EXCHANGES, MEGABYTES = 200, 200, 10
ENOUGH = 10.0  # seconds of measuring one recorder
PLUGINS = ("cassetter", "recording")
JSON = {"Content-Type": "application/json"}

Row = tuple[str, str, float]  # what was done, by whom, seconds
Send = Callable[[requests.Session], None]

_SUITE = '''\
"""The requests of the sessions, as a test suite of pytest-recording sends them."""
from pathlib import Path
import pytest, requests
from vcr.serializers.yamlserializer import deserialize

SENT = [
    (each["request"]["method"], each["request"]["uri"], each["request"]["body"])
    for each in deserialize(Path(__file__).with_name("cassettes").joinpath("0.yaml").read_text())
    ["interactions"]
]


@pytest.fixture(scope="module")
def vcr_config():
    return {{"match_on": {match_on!r}}}


@pytest.mark.parametrize("number", range({sessions}))
def test_session(number, vcr, request):
    with requests.Session() as http:
        for method, url, body in SENT:
            assert http.request(method, url, data=body.encode(), headers={json!r}).json()
    assert vcr.all_played


@pytest.fixture
def default_cassette_name(number):
    return str(number)


pytestmark = pytest.mark.vcr
'''

_AGENT = '''\
"""The agent that was recorded, as a test suite of pytest-recording runs it."""
import pytest
from agent_core import OllamaChat, SystemClock
from harness.demo.agents import assistant


@pytest.fixture(scope="module")
def vcr_config():
    return {{"match_on": {match_on!r}}}


@pytest.mark.parametrize("number", range({sessions}))
def test_session(number, vcr):
    clock = SystemClock()
    model = OllamaChat({model!r}, base_url={url!r}, options={options!r}, clock=clock)
    result = assistant(model, clock=clock).run({question!r})
    assert result.answer == {answer!r}
    assert vcr.all_played


@pytest.fixture
def default_cassette_name(number):
    return str(number)


pytestmark = pytest.mark.vcr
'''


def suite(rounds: int) -> Iterator[Row]:
    """Sessions of three exchanges as tests, in a process of pytest each time."""
    file = load_session(SESSION)
    assert len(file.exchanges) == 3
    whole = SESSION.read_text(encoding="utf-8")
    stock = render_session(SessionFile(None, file.exchanges))
    with tempfile.TemporaryDirectory() as folder:
        ours = _written(Path(folder) / "ours" / "cassettes", whole)
        # Hypothesis comes with us; its plugin, which neither suite uses, loads it in each run
        runs = {
            "agentrig": _pytest(ours.parent, ["cassettes", *_ALONE]),
            "agentrig, with Hypothesis's plugin": _pytest(ours.parent, ["cassettes"]),
        }
        for words, text in _suites(file).items():
            theirs = _written(Path(folder) / words / "cassettes" / "test_suite", stock)
            where = theirs.parents[1]
            (where / "test_suite.py").write_text(text, encoding="utf-8")
            # our plugin is not there where pytest-recording is used without us
            arguments = ["--record-mode=none", "-p", "no:agentrig", *_ALONE]
            runs[f"pytest-recording, {words}"] = _pytest(where, arguments, "recording")
        for run in runs.values():  # does not count: it compiles what is installed editable
            run()
        for who, seconds in _in_turn(runs, rounds):
            yield "suite", who, seconds


_ALONE = ("-p", "no:hypothesispytest")
_MATCHED = {
    "default matching": ["method", "scheme", "host", "port", "path", "query"],
    "body matched": ["method", "scheme", "host", "port", "path", "query", "body"],
}


def _suites(file: SessionFile) -> dict[str, str]:
    """Ours sends what the agent sends, and runs the agent; a suite of theirs may do either."""
    assert file.session is not None
    source, (turn,) = file.session.model, file.session.turns
    suites = {
        f"the requests alone, {words}": _SUITE.format(
            match_on=match_on, sessions=SESSIONS, json=JSON
        ).replace('"cassettes")', '"cassettes").joinpath("test_suite")')
        for words, match_on in _MATCHED.items()
    }
    for words, match_on in _MATCHED.items():
        suites[f"the agent, {words}"] = _AGENT.format(
            match_on=match_on,
            sessions=SESSIONS,
            model=source.name,
            url=source.base_url,
            options=source.options,
            question=turn.question,
            answer=file.session.trajectory[0].answer,
        )
    return suites


def _written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    for number in range(SESSIONS):
        (folder / f"{number}.yaml").write_text(text, encoding="utf-8")
    return folder


def _pytest(folder: Path, arguments: Sequence[str], wanted: str = "") -> Callable[[], float]:
    """A run that gives its CPU time, children included; it must have passed every test."""
    compiled = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
    without = [each for name in PLUGINS if name != wanted for each in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *without, *arguments]

    def run() -> float:
        before = _children()
        done = subprocess.run(
            command, cwd=folder, env=os.environ | compiled, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if f"{SESSIONS} passed" not in done.stdout:
            raise SystemExit(f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return _children() - before

    return run


def _in_turn(runs: Mapping[str, Callable[[], float]], rounds: int) -> list[tuple[str, float]]:
    """The median of each; they take turns, so that a busy minute hits all of them.

    Each round begins with another one: what runs first pays for what the round before left.
    """
    names, times = [*runs], []
    for number in range(rounds):
        first = number % len(names)
        times.append({name: runs[name]() for name in names[first:] + names[:first]})
    return [(name, median(each[name] for each in times)) for name in runs]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
        times = _in_turn({name: partial(_timed, read) for name, read in readers.items()}, rounds)
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
