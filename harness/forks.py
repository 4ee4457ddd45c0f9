"""What is different in a forked child: it has its parent's memory, but not its parent's work."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakMethod


def in_child(method: Callable[[], None]) -> None:
    """Call this bound method in every child that is forked while its object lives."""
    if not hasattr(os, "register_at_fork"):  # a system that cannot fork
        return
    weak = WeakMethod(method)

    def call() -> None:
        alive = weak()
        if alive is not None:
            alive()

    os.register_at_fork(after_in_child=call)
