"""The pytest plugin: session files are tests, and fixtures for tests of your own.

A YAML file under a folder `cassettes/` that begins with a `session:` block is replayed and fails
when the agent does not do what it did; so does a file there that is empty or no YAML. A red test
shows the trace of its agents as a tree and names the page of it, under `.agentrig/failed`.

Nothing else happens, and nothing of `harness` is imported before one of these is used: the
plugin is a top-level file because an entry point inside a package called `harness` would break
every project that has a `harness/` folder of its own.

The agents of session files are imported only from the packages listed in the ini option
`agentrig_allow` (and from `harness.demo`). No server is asked for anything unless
`--agentrig-record` says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agent_core.models import ScriptedModel
    from harness.sessions.proxy import RecordingProxy
    from harness.sessions.pytest_item import ItemSessions
    from harness.sessions.serve import SessionServer
    from harness.sessions.session_report import Report
    from harness.trace.memory import MemoryTraces
    from harness.trace.spans import Trace

_FOLDER = "cassettes"
_SUFFIXES = (".yaml", ".yml")
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?session:\s*\n(?:[^\S\n].*\n)*?[^\S\n]+agent:")
_OTHERS = (b"session:", b"interactions:", b"traffic:", b"version:")
_HEAD = 4096  # bytes in which a session file has told that it is one
_FAILED = Path(".agentrig", "failed")
_TOLD = "agentrig"
_PASSED = pytest.StashKey[bool]()
_SESSIONS = pytest.StashKey["ItemSessions"]()
_TRACES = pytest.StashKey[list["Callable[[], list[Trace]]"]]()


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options."""
    _load_ours_as_it_is(pluginmanager)
    parser.getgroup("agentrig").addoption(
        "--agentrig-record",
        choices=["none", "once", "rewrite", "accept"],
        default="none",
        help="ask live servers for: no session (none), those that are not there (once), "
        "all that are used (rewrite); or take over, offline, what agents of serve_session send "
        "otherwise than recorded (accept)",
    )
    parser.addini(
        "agentrig_allow",
        "modules and packages whose agent factories a session file may name, and addresses of "
        "servers that may be asked when it is recorded again",
        type="linelist",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "agentrig(session, *, factory, questions, model, …): the session of this test, and how "
        "--agentrig-record makes it",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SessionFile | None:
    """Collect session files."""
    if file_path.suffix in _SUFFIXES and _FOLDER in file_path.parts and _is_test(file_path):
        collector: SessionFile = SessionFile.from_parent(parent, path=file_path)
        return collector
    return None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Write what was recorded or accepted in a test that ended well, its fixtures included."""
    well = False
    try:
        yield
        well = item.stash.get(_PASSED, False)
    finally:
        item.stash[_PASSED] = False  # a test may be run again
        if (sessions := item.stash.get(_SESSIONS, None)) is not None:
            sessions.settle(well=well)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # what is expected to fail is known to those inside
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the agents of a red test did."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    kept = item.stash.get(_TRACES, None)
    if report.failed and kept:
        from harness.sessions.failed import show_failed  # noqa: PLC0415 - only when it is used

        name = re.sub(r"[^\w.\-]+", "-", item.nodeid).strip("-")[-120:]
        output = item.config.rootpath / _FAILED / f"{name}.html"
        traces = [trace for take in kept for trace in take()]
        shown = show_failed(traces, output, "" if call.excinfo is None else call.excinfo.exconly())
        report.sections.append(("agentrig trace", shown))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was taken over, and what became of the recordings of red tests."""
    ended = [*terminalreporter.getreports(""), *terminalreporter.getreports("error")]
    reports = (each for each in ended if getattr(each, "when", None) == "teardown")
    for name, words in (each for report in reports for each in report.user_properties):
        if name == _TOLD:
            terminalreporter.write_line(words)


class SessionFile(pytest.File):
    """A session file: one test."""

    def collect(self) -> Iterator[SessionItem]:
        """The replay of the session."""
        yield SessionItem.from_parent(self, name="replay")


class SessionItem(pytest.Item):
    """The replay of one session."""

    def runtest(self) -> None:
        """Replay; fail when something changed."""
        _sessions(self).replay(self.path, {})

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a failure is shown to be."""
        return self.path, None, f"session {self.path.stem}"


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """Replay a session by its name under `cassettes/`, or by its path; fail if it changed.

    Without a name it is that of the test's marker. Further arguments are those of
    `harness.sessions.replay.replay`, such as `factory`.
    """

    def replay_session(session: str | Path | None = None, **how: Any) -> Report:
        __tracebackhide__ = True
        path, plan = _session_path(request, session), {}
        if session is None:
            plan = dict(request.node.get_closest_marker("agentrig").kwargs)
            how.setdefault("factory", plan.get("factory"))
        return _sessions(request.node).replay(path, plan, **how)

    return replay_session


@pytest.fixture
def serve_session(
    request: pytest.FixtureRequest,
) -> Callable[..., AbstractContextManager[SessionServer | RecordingProxy]]:
    """Serve a session, by its name under `cassettes/` or its path, to an agent that is not ours.

    It makes a context manager whose `url` the agent is pointed at. When the block ends,
    everything recorded has to have been asked for, in its order, and nothing else. Further
    arguments are those of `harness.sessions.serve.serve`, such as `pace`. With
    `--agentrig-record` the agent is recorded instead, before the server of `$OLLAMA_HOST`, or
    (`accept`) what it sends otherwise than recorded is taken over: once the test has ended well.
    """

    def serve_one(
        session: str | Path | None = None, **how: Any
    ) -> AbstractContextManager[SessionServer | RecordingProxy]:
        __tracebackhide__ = True
        return _sessions(request.node).serve(_session_path(request, session), **how)

    return serve_one


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Make a model that gives the given replies: `scripted_model("Final Answer: 4")`."""

    def make(*replies: Any, **settings: Any) -> ScriptedModel:
        __tracebackhide__ = True
        _see_that_ours_is_found()
        from agent_core.models import ScriptedModel  # noqa: PLC0415 - only when it is used

        return ScriptedModel(replies, **settings)

    return make


@pytest.fixture
def agent_trace(request: pytest.FixtureRequest) -> MemoryTraces:
    """Watch agents: `agent_trace.watch(agent)` is the agent, `agent_trace.last` what it did."""
    _see_that_ours_is_found()
    from harness.trace.memory import MemoryTraces  # noqa: PLC0415 - only when it is used

    memory = MemoryTraces()
    request.node.stash.setdefault(_TRACES, []).append(memory.traces)
    return memory


def _sessions(item: pytest.Item) -> ItemSessions:
    """What a test does with sessions; it is imported with the first one."""
    __tracebackhide__ = True
    if (sessions := item.stash.get(_SESSIONS, None)) is None:
        _see_that_ours_is_found()
        from harness.sessions.pytest_item import ItemSessions  # noqa: PLC0415 - only when used

        def tell(words: str) -> None:
            item.user_properties.append((_TOLD, words))

        sessions = ItemSessions(item, item.stash.setdefault(_TRACES, []), tell)
        item.stash[_SESSIONS] = sessions
    return sessions


def _load_ours_as_it_is(manager: pytest.PytestPluginManager) -> None:
    """Have no asserts rewritten in our packages: none of them is a test's.

    pytest would compile every module of an installed distribution that has a plugin, which takes
    a second in each run that cannot keep the result, and in the first one of those that can.
    """
    marked = getattr(manager.rewrite_hook, "_must_rewrite", None)  # there is no public way
    if isinstance(marked, set):
        marked -= {"agent_core", "harness"}


@cache  # whoever finds ours imports it, and no other one after that
def _see_that_ours_is_found() -> None:
    """A project may have a `harness` of its own, but then it has no use of ours."""
    __tracebackhide__ = True
    for name in ("harness", "agent_core"):
        spec = find_spec(name)
        ours = Path(__file__).with_name(name) / "__init__.py"
        if spec is not None and spec.origin is not None and not ours.samefile(spec.origin):
            words = (
                f"the module `{name}` of {spec.origin} hides agentrig's: rename it, or keep its "
                "folder out of sys.path (`pytest --import-mode=importlib`, not `python -m pytest`)"
            )
            raise pytest.fail.Exception(words, pytrace=False)


def _is_test(path: Path) -> bool:
    """Whether a file is a session, or damaged so that it may have been one: its test tells."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if _BEGINNING.match(head):
        return True
    if head.removeprefix(b"\xef\xbb\xbf").startswith(_OTHERS):
        return False
    try:
        from harness.sessions.discovery import kind_of  # noqa: PLC0415 - only for odd files
    except ImportError:  # the project has a `harness` of its own, and so no sessions of ours
        return False
    return kind_of(path) == "damaged"


def _session_path(request: pytest.FixtureRequest, session: str | Path | None) -> Path:
    if session is None:
        marker = request.node.get_closest_marker("agentrig")
        if marker is None or not marker.args:
            raise pytest.UsageError(
                "no session: expected its name, or a test with the marker agentrig(session)"
            )
        session = marker.args[0]
    path = Path(session)
    return path if path.suffix in _SUFFIXES else request.config.rootpath / _FOLDER / f"{path}.yaml"
