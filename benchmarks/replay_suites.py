"""Sessions as whole test suites: `pytest cassettes`, and suites of pytest-recording beside it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from harness.sessions.cassette import load_session, render_session
from harness.sessions.format import SessionFile

SESSION = Path(__file__).parents[1] / "cassettes" / "fahrenheit-en.yaml"
SESSIONS = 200
PLUGINS = ("cassetter", "recording")
JSON = {"Content-Type": "application/json"}

Row = tuple[str, str, float]  # what was done, by whom, seconds

_ALONE = ("-p", "no:hypothesispytest")
_MATCHED = {
    "default matching": ["method", "scheme", "host", "port", "path", "query"],
    "body matched": ["method", "scheme", "host", "port", "path", "query", "body"],
}

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
        for who, seconds in in_turn(runs, rounds):
            yield "suite", who, seconds


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


def in_turn(runs: Mapping[str, Callable[[], float]], rounds: int) -> list[tuple[str, float]]:
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
