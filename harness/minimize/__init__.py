"""Minimize: shrink a failing session to the smallest that fails the same way."""

from __future__ import annotations

from pathlib import Path

from harness.minimize.failure import Failure, failure_of
from harness.minimize.output import write
from harness.minimize.shrink import Minimized, NothingToMinimize, minimize
from harness.sessions.cassette import load_session
from harness.sessions.sources import named_factory

__all__ = [
    "Failure",
    "Minimized",
    "NothingToMinimize",
    "failure_of",
    "failure_of_session",
    "minimize",
    "write",
]


def failure_of_session(
    path: Path, *, agent: str, check: str | None = None, rule: str | None = None
) -> Failure | None:
    """How a session file fails, or None: what the written tests ask.

    Args:
        agent: factory of the agent, as `module:function`; it is imported.
        check, rule: as for `failure_of`.

    Raises:
        SessionError: no session, no such agent or check.
        OSError: the file cannot be read.
    """
    return failure_of(load_session(path), named_factory(agent), check=check, rule=rule)
