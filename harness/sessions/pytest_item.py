"""What a pytest test does with sessions: it records, replays and serves them.

`pytest_agentrig` imports this when a test first uses a session. What only some tests need, such
as a server, is imported when they do: most sessions are replayed, and that has to start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from agent_core.errors import AgentError
from harness.sessions.errors import FactoryRefused, ServerRefused, SessionError
from harness.sessions.replay import replay

if TYPE_CHECKING:
    from harness.sessions.proxy import RecordingProxy
    from harness.sessions.serve import SessionServer
    from harness.sessions.session_report import Report
    from harness.sessions.testing import RecordMode
    from harness.trace.spans import Trace

_DONE = pytest.StashKey[set[tuple[Path, bool]]]()


class SessionChanged(pytest.fail.Exception, AssertionError):  # type: ignore[misc,name-defined]
    """A session is not what it was; the message is the report, and pytest shows nothing else."""

    __module__ = "builtins"  # as of pytest's own: the short summary is of the report, not of names

    def __init__(self, *lines: str) -> None:
        pytest.fail.Exception.__init__(self, "\n".join(lines), pytrace=False)


class ItemSessions:
    """The sessions that one test uses.

    Args:
        traces: gets what makes the traces of each replay once more, to be shown if it is red.
        tell: takes a line for the summary at the end of all tests.
    """

    def __init__(
        self,
        item: pytest.Item,
        traces: list[Callable[[], list[Trace]]],
        tell: Callable[[str], None],
    ) -> None:
        self._mode: RecordMode = item.config.getoption("--agentrig-record")
        self._allow: list[str] = item.config.getini("agentrig_allow")
        # Those recorded in this run, each with whether a test said how: several may share one.
        self._done = item.config.stash.setdefault(_DONE, set())
        self._traces = traces
        self._tell = tell
        self._recorded: list[Path] = []
        self._served: list[tuple[Path, SessionServer | RecordingProxy]] = []

    def replay(self, path: Path, plan: Mapping[str, Any], **how: Any) -> Report:
        """Replay a session, recorded before if the command line says so; fail if it changed.

        Args:
            plan: how it is recorded, as the test's marker says; the session itself, if empty.
            how: arguments of `harness.sessions.replay.replay`.
        """
        __tracebackhide__ = True
        self._record(path, plan)
        how.setdefault("allow", self._allow)

        def again() -> list[Trace]:
            from harness.sessions.failed import traced_replay  # noqa: PLC0415 - only when red

            return traced_replay(path, **how)

        self._traces.append(again)
        try:
            report = replay(path, **how)
        except SessionError as error:
            _fail(_advice(error))
        if not report.ok:
            from harness.sessions.failed import drift_report, way_on  # noqa: PLC0415 - only when red

            ways = way_on(report, how.get("factory"))
            raise SessionChanged(drift_report(report), *ways, self._told_mode())
        if not report.judged:
            pytest.skip(report.note)
        return report

    @contextmanager
    def serve(self, path: Path, **how: Any) -> Iterator[SessionServer | RecordingProxy]:
        """Serve a session, or record it, to an agent that is not ours; fail for other requests.

        Args:
            how: arguments of `harness.sessions.serve.serve`.
        """
        __tracebackhide__ = True
        again = dict(self._served).get(path)  # this test has recorded it, or accepted what came
        records = again is None and (
            (self._mode == "once" and not path.exists())
            or (self._mode == "rewrite" and (path, True) not in self._done)
        )
        if not records and again is None:
            self._see_that_it_exists(path)
        from harness.sessions import testing  # noqa: PLC0415 - replays need no server

        with _in_words("record" if records else "serve", path, OSError):
            server = testing.server_for_test(path, self._mode, records=records, again=again, **how)
        try:
            with testing.serving(server):
                yield server
        except Exception as error:  # the agent failed: a refused request may be why
            for line in testing.told_of(server, path, **how):
                error.add_note(line)
            raise
        if not records and (lines := testing.told_of(server, path, **how)):
            raise SessionChanged("the agent sent other requests:", *lines, self._told_mode())
        if records or self._mode == "accept":
            self._served.append((path, server))

    def settle(self, *, well: bool) -> None:
        """Write what was served and recorded or accepted, if the test has ended well."""
        recorded, served = self._recorded, self._served
        self._recorded, self._served = [], []  # a test may be run again
        for path in [] if well else recorded:
            self._tell(f"recorded: {path.stem}, and written although its test did not end well")
        with ExitStack() as stack:  # one that cannot be written does not keep the others
            for path, server in reversed(served):
                stack.callback(self._write if well else self._leave, path, server)

    def _write(self, path: Path, server: SessionServer | RecordingProxy) -> None:
        from harness.sessions import testing  # noqa: PLC0415 - only after a server

        does = "accept what was sent for" if self._mode == "accept" else "record"
        with _in_words(does, path, OSError):
            causes = testing.write(server)
        self._done.add((path, True))
        if causes:
            accepted = f"accepted: {path.stem}: {', '.join(causes)}"
            self._tell(f"{accepted}; the model was not asked again")

    def _leave(self, path: Path, server: SessionServer | RecordingProxy) -> None:
        from harness.sessions import testing  # noqa: PLC0415 - only after a server

        lost = testing.leave(server, path)
        for line in [f"{each}: its test did not end well" for each in lost[:1]] + lost[1:]:
            self._tell(line)

    def _record(self, path: Path, plan: Mapping[str, Any]) -> None:
        """See that there is a session: ask the live server, if the command line says so."""
        __tracebackhide__ = True
        if self._mode != "none" and (path, bool(plan)) not in self._done:
            from harness.sessions.testing import record_for_test  # noqa: PLC0415 - asks a server

            with _in_words("record", path):  # an OSError may be the agent's own
                if record_for_test(path, self._mode, plan, allow=self._allow):
                    self._recorded.append(path)
            self._done.add((path, bool(plan)))
        self._see_that_it_exists(path)

    def _see_that_it_exists(self, path: Path) -> None:
        if not path.exists():
            words = f"there is no {path}; record it with --agentrig-record=once"
            _fail(words, *_left_behind(path), self._told_mode())

    def _told_mode(self) -> str:
        """The mode that was in force, for the text of a failure."""
        return f"record mode: --agentrig-record={self._mode}"


@contextmanager
def _in_words(does: str, path: Path, *also: type[Exception]) -> Iterator[None]:
    """Have our own errors fail a test with what they say."""
    __tracebackhide__ = True
    ours: tuple[type[Exception], ...] = (AgentError, SessionError, *also)
    try:
        yield
    except ours as error:
        _fail(f"cannot {does} {path.name}: {_advice(error)}", *_left_behind(path))


def _left_behind(path: Path) -> list[str]:
    from harness.sessions.testing import left_behind  # noqa: PLC0415 - only when it is red

    return left_behind(path)


def _advice(error: Exception) -> str:
    if isinstance(error, FactoryRefused | ServerRefused):
        return f"{error}\n(with pytest: list it in the ini option agentrig_allow)"
    return str(error)


def _fail(*lines: str) -> NoReturn:
    """Fail with these lines: where in our own code it was found helps nobody."""
    from harness.output import safe_text  # noqa: PLC0415 - only when it is red

    raise pytest.fail.Exception(safe_text("\n".join(lines)), pytrace=False) from None
