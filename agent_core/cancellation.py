"""Calling off a run: an event that everything which waits inside the run knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

_current: ContextVar[Event | None] = ContextVar("agent_core_cancellation", default=None)


@contextmanager
def cancelled_by(event: Event) -> Iterator[None]:
    """Let what waits inside the block give up when the event is set."""
    token = _current.set(event)
    try:
        yield
    finally:
        _current.reset(token)


def cancellation() -> Event | None:
    """The event that calls this code off, or None outside a run."""
    return _current.get()
