"""Minimize: shrink a failing session to the smallest that fails the same way."""

from __future__ import annotations

from pathlib import Path

from harness.minimize.failure import Failure, failure_of
from harness.minimize.output import write
from harness.minimize.shrink import Minimized, NothingToMinimize, minimize
from harness.plain import visible
from harness.sessions.cassette import load_session
from harness.sessions.sources import named_factory

__all__ = [
    "Failure",
    "Minimized",
    "NothingToMinimize",
    "assert_mended",
    "failure_of",
    "minimize",
    "write",
]


def assert_mended(
    session: Path, *, agent: str, check: str | None = None, rule: str | None = None
) -> None:
    """Fail as long as a session file fails: what the written tests call.

    Args:
        agent: factory of the agent, as `module:function`; it is imported.
        check, rule: as for `failure_of`.

    Raises:
        AssertionError: it fails; the message is how.
        SessionError: no session, no such agent or check.
        OSError: the file cannot be read.
    """
    __tracebackhide__ = True
    factory = named_factory(agent)
    failure = failure_of(load_session(session), factory, check=check, rule=rule)
    if failure is not None:
        words = failure.in_words()
        if failure.check == "replay":
            words += "\nif the change was meant and is accepted, remove this test and its session"
        raise AssertionError(visible(words))
