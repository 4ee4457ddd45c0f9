"""The pytest plugin: session files are tests, and fixtures for tests of your own.

A YAML file under a folder `cassettes/` that begins with `session:` is replayed and fails when
the agent does not do what it did. Nothing else happens, and nothing of `harness` is imported
before one of these is used: the plugin is a top-level file because an entry point inside a
package called `harness` would break every project that has a `harness/` folder of its own.

The agents of session files are imported only from the packages listed in the ini option
`agentrig_allow` (and from `harness.demo`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from agent_core.models import ScriptedModel
    from harness.sessions.replay import Report
    from harness.sessions.serve import SessionServer

_FOLDER = "cassettes"
_SUFFIXES = (".yaml", ".yml")
_BEGINNING = b"session:"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini(
        "agentrig_allow",
        "modules and packages whose agent factories a session file may name",
        type="linelist",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> SessionFile | None:
    """Collect session files."""
    if file_path.suffix in _SUFFIXES and _FOLDER in file_path.parts:
        with file_path.open("rb") as file:
            if file.read(len(_BEGINNING)) == _BEGINNING:
                collector: SessionFile = SessionFile.from_parent(parent, path=file_path)
                return collector
    return None


class SessionFile(pytest.File):
    """A session file: one test."""

    def collect(self) -> Iterator[SessionItem]:
        """The replay of the session."""
        yield SessionItem.from_parent(self, name="replay")


class SessionItem(pytest.Item):
    """The replay of one session."""

    def runtest(self) -> None:
        """Replay; fail when something changed."""
        _checked(_replay(self.config, self.path))

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        """The report instead of a traceback."""
        from harness.sessions.errors import (  # noqa: PLC0415 - only when it is used
            FactoryRefused,
            SessionError,
        )

        if isinstance(excinfo.value, FactoryRefused):
            return f"{excinfo.value}\n(with pytest: list it in the ini option agentrig_allow)"
        if isinstance(excinfo.value, SessionChanged | SessionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where a failure is shown to be."""
        return self.path, None, f"session {self.path.stem}"


class SessionChanged(AssertionError):
    """A replay was not what it was; the message is the report."""


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Callable[..., Report]:
    """Replay a session by its name under `cassettes/`, or by its path; fail if it changed.

    Further arguments are those of `harness.sessions.replay.replay`, such as `factory`.
    """

    def replay_session(session: str | Path, **how: Any) -> Report:
        return _checked(_replay(request.config, _session_path(request, session), **how))

    return replay_session


@pytest.fixture
def serve_session(
    request: pytest.FixtureRequest,
) -> Callable[..., AbstractContextManager[SessionServer]]:
    """Serve a session, by its name under `cassettes/` or its path, to an agent that is not ours.

    It makes a context manager whose `url` the agent is pointed at. When the block ends,
    everything recorded has to have been asked for, in its order, and nothing else. Further
    arguments are those of `harness.sessions.serve.serve`, such as `pace`.
    """

    @contextmanager
    def serve_one(session: str | Path, **how: Any) -> Iterator[SessionServer]:
        __tracebackhide__ = True
        from harness.sessions.serve import serve  # noqa: PLC0415 - only when it is used

        with serve([_session_path(request, session)], **how) as server:
            try:
                yield server
            except Exception as error:  # the agent failed: a refused request may be why
                for line in server.verdict().in_words():
                    error.add_note(line)
                raise
            verdict = server.verdict()
        if not verdict.ok:
            raise SessionChanged("\n".join(["the agent sent other requests:", *verdict.in_words()]))

    return serve_one


@pytest.fixture
def scripted_model() -> Callable[..., ScriptedModel]:
    """Make a model that gives the given replies: `scripted_model("Final Answer: 4")`."""

    def make(*replies: Any, **settings: Any) -> ScriptedModel:
        from agent_core.models import ScriptedModel  # noqa: PLC0415 - only when it is used

        return ScriptedModel(replies, **settings)

    return make


def _session_path(request: pytest.FixtureRequest, session: str | Path) -> Path:
    path = Path(session)
    return path if path.suffix in _SUFFIXES else request.config.rootpath / _FOLDER / f"{path}.yaml"


def _replay(config: pytest.Config, path: Path, **how: Any) -> Report:
    from harness.sessions.replay import replay as run  # noqa: PLC0415 - only when it is used

    how.setdefault("allow", config.getini("agentrig_allow"))
    return run(path, **how)


def _checked(report: Report) -> Report:
    __tracebackhide__ = True
    if not report.ok:
        raise SessionChanged("\n".join([f"session {report.name} changed:", *report.in_words()]))
    return report
