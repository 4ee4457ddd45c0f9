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
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from agent_core.models import ScriptedModel
    from harness.sessions.proxy import RecordingProxy
    from harness.sessions.serve import SessionServer
    from harness.sessions.session_report import Report
    from harness.sessions.testing import RecordMode
    from harness.trace.memory import MemoryTraces
    from harness.trace.spans import Trace

_FOLDER = "cassettes"
_SUFFIXES = (".yaml", ".yml")
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?session:\s*\n(?:[^\S\n].*\n)*?[^\S\n]+agent:")
_OTHERS = (b"session:", b"interactions:", b"traffic:", b"version:")
_HEAD = 4096  # bytes in which a session file has told that it is one
_FAILED = Path(".agentrig", "failed")
_TRACES = pytest.StashKey[list["Callable[[], list[Trace]]"]]()
_ACCEPTED = "agentrig accepted"
_TOLD = "agentrig told"
_WRITTEN = pytest.StashKey[list[Path]]()
_PASSED = pytest.StashKey[bool]()
_SERVED = pytest.StashKey[list[tuple[Path, "SessionServer | RecordingProxy"]]]()
_RECORDED = pytest.StashKey[set[tuple[Path, bool]]]()


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
        with ExitStack() as stack:  # one that cannot be written does not keep the others
            for path, server in item.stash.setdefault(_SERVED, [])[::-1]:
                stack.callback(_settle, item, path, server, well=well)
        for path in [] if well else item.stash.get(_WRITTEN, []):
            words = f"recorded: {path.stem}, and written although its test did not end well"
            item.user_properties.append((_TOLD, words))
        item.stash[_SERVED], item.stash[_WRITTEN] = [], []  # a test may be run again
        item.stash[_PASSED] = False


@pytest.hookimpl(wrapper=True, tryfirst=True)  # what is expected to fail is known to those inside
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the agents of a red test did, and of our own errors what they say."""
    report = yield
    if call.when == "call":
        item.stash[_PASSED] = report.passed
    if report.failed and call.excinfo is not None and call.excinfo.errisinstance(SessionChanged):
        report.longrepr = str(call.excinfo.value)
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
        if name == _ACCEPTED:
            terminalreporter.write_line(f"accepted: {words}; the model was not asked again")
        elif name == _TOLD:
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
        _recorded(self, self.path, {})
        _replayed(self, self.path)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a failure is shown to be."""
        return self.path, None, f"session {self.path.stem}"


class SessionChanged(AssertionError):
    """A replay was not what it was; the message is the report."""


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
        _recorded(request.node, path, plan)
        return _replayed(request.node, path, **how)

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

    @contextmanager
    def serve_one(
        session: str | Path | None = None, **how: Any
    ) -> Iterator[SessionServer | RecordingProxy]:
        __tracebackhide__ = True
        _see_that_ours_is_found()
        path, config = _session_path(request, session), request.config
        mode, served = _mode(config), request.node.stash.setdefault(_SERVED, [])
        again = dict(served).get(path)  # this test has recorded it, or accepted what was sent
        records = again is None and (
            (mode == "once" and not path.exists())
            or (mode == "rewrite" and (path, True) not in _done(config))
        )
        if not records and again is None:
            _existing(path, config)
        from harness.sessions import testing  # noqa: PLC0415 - only when it is used

        with _in_words("record" if records else "serve", path, OSError):
            server = testing.server_for_test(path, mode, records=records, again=again, **how)
        try:
            with testing.serving(server):
                yield server
        except Exception as error:  # the agent failed: a refused request may be why
            for line in testing.told_of(server, path, **how):
                error.add_note(line)
            raise
        if not records and (lines := testing.told_of(server, path, **how)):
            lines = ["the agent sent other requests:", *lines, _told_mode(config)]
            raise SessionChanged("\n".join(lines))
        if records or mode == "accept":
            served.append((path, server))

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


def _settle(
    item: pytest.Item, path: Path, server: SessionServer | RecordingProxy, *, well: bool
) -> None:
    """Write what was recorded or accepted in a test that ended well; else say that it is not."""
    from harness.sessions import testing  # noqa: PLC0415 - only when it is used

    if not well:
        lost = testing.leave(server, path)
        lost[:1] = [f"{each}: its test did not end well" for each in lost[:1]]
        item.user_properties += [(_TOLD, each) for each in lost]
        return
    accepts = _mode(item.config) == "accept"
    with _in_words("accept what was sent for" if accepts else "record", path, OSError):
        causes = testing.write(server)
    _done(item.config).add((path, True))
    if causes:
        item.user_properties.append((_ACCEPTED, f"{path.stem}: {', '.join(causes)}"))


def _load_ours_as_it_is(manager: pytest.PytestPluginManager) -> None:
    """Have no asserts rewritten in our packages: none of them is a test's.

    pytest would compile every module of an installed distribution that has a plugin, which takes
    a second in each run that cannot keep the result, and in the first one of those that can.
    """
    marked = getattr(manager.rewrite_hook, "_must_rewrite", None)  # there is no public way
    if isinstance(marked, set):
        marked -= {"agent_core", "harness"}


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


def _mode(config: pytest.Config) -> RecordMode:
    mode: RecordMode = config.getoption("--agentrig-record")
    return mode


def _done(config: pytest.Config) -> set[tuple[Path, bool]]:
    """Sessions that were recorded in this run, each with whether a test said how."""
    return config.stash.setdefault(_RECORDED, set())


def _told_mode(config: pytest.Config) -> str:
    """The mode that was in force, for the text of a failure."""
    return f"record mode: --agentrig-record={_mode(config)}"


def _existing(path: Path, config: pytest.Config) -> Path:
    __tracebackhide__ = True
    if not path.exists():
        from harness.sessions.testing import left_behind  # noqa: PLC0415 - only when it is red

        advice = f"there is no {path}; record it with --agentrig-record=once"
        _fail(advice, *left_behind(path), _told_mode(config))
    return path


def _recorded(item: pytest.Item, path: Path, plan: dict[str, Any]) -> None:
    """See that there is a session: ask the live server, if the command line says so."""
    __tracebackhide__ = True
    _see_that_ours_is_found()
    config = item.config
    mode, done = _mode(config), _done(config)
    if mode != "none" and (path, bool(plan)) not in done:  # several tests may share one
        from harness.sessions.testing import record_for_test  # noqa: PLC0415 - only when it is used

        with _in_words("record", path):  # an OSError may be the agent's own
            if record_for_test(path, mode, plan, allow=config.getini("agentrig_allow")):
                item.stash.setdefault(_WRITTEN, []).append(path)
        done.add((path, bool(plan)))
    _existing(path, config)


@contextmanager
def _in_words(does: str, path: Path, *also: type[Exception]) -> Iterator[None]:
    """Have our own errors fail a test with what they say."""
    __tracebackhide__ = True
    from agent_core.errors import AgentError  # noqa: PLC0415 - only when it is used
    from harness.sessions.errors import SessionError  # noqa: PLC0415
    from harness.sessions.testing import left_behind  # noqa: PLC0415

    ours: tuple[type[Exception], ...] = (AgentError, SessionError, *also)
    try:
        yield
    except ours as error:
        _fail(f"cannot {does} {path.name}: {_advice(error)}", *left_behind(path))


def _fail(*lines: str) -> NoReturn:
    """Fail with these lines: where in our own code it was found helps nobody."""
    from harness.sessions.show import visible  # noqa: PLC0415 - only when it is red

    raise pytest.fail.Exception(visible("\n".join(lines)), pytrace=False) from None


def _advice(error: Exception) -> str:
    if type(error).__name__ in {"FactoryRefused", "ServerRefused"}:
        return f"{error}\n(with pytest: list it in the ini option agentrig_allow)"
    return str(error)


def _replayed(item: pytest.Item, path: Path, **how: Any) -> Report:
    """Replay; what has changed is raised. How to see it again is kept for the report of that."""
    __tracebackhide__ = True
    from harness.sessions.errors import SessionError  # noqa: PLC0415 - only when it is used
    from harness.sessions.replay import replay as run  # noqa: PLC0415

    how.setdefault("allow", item.config.getini("agentrig_allow"))

    def again() -> list[Trace]:
        from harness.sessions.failed import traced_replay  # noqa: PLC0415 - only when it is red

        return traced_replay(path, **how)

    item.stash.setdefault(_TRACES, []).append(again)
    try:
        report = run(path, **how)
    except SessionError as error:
        _fail(_advice(error))
    if not report.ok:
        from harness.sessions.failed import drift_report, way_on  # noqa: PLC0415 - only when red

        lines = [drift_report(report), *way_on(report, how.get("factory")), _told_mode(item.config)]
        raise SessionChanged("\n".join(lines))
    if not report.judged:
        pytest.skip(report.note)
    return report
