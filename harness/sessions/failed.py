"""What a red test shows: what changed and how it is accepted, and the trace of its agents."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.output import safe_line
from harness.redact import redactor
from harness.sessions.accept import acceptable
from harness.sessions.cassette import load_session
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.show import show_report
from harness.sessions.sources import ALWAYS_ALLOWED, Factory
from harness.sessions.testing import REWRITE, quoted
from harness.trace.html import page
from harness.trace.memory import MemoryTraces
from harness.trace.spans import Trace
from harness.trace.tree import print_trace

_NEEDS_NO_WORD = tuple(f"{each}." for each in ALWAYS_ALLOWED)
_WIDTH, _UNBROKEN = 120, 100_000


def traced_replay(session: Path, **how: Any) -> list[Trace]:
    """The traces of a replay that was red, from doing it once more; those of a crash too."""
    memory = MemoryTraces(replayed=True)
    with suppress(Exception):  # it failed before, and that is what is being reported
        replay(session, observers=[memory.observer], **how)
    return memory.traces()


def drift_report(report: Report) -> str:
    """What a replay found, with what was there before and is now; the first line says most."""
    text = io.StringIO()
    show_report(Console(file=text, width=_UNBROKEN, highlight=False), report)
    _, *lines = text.getvalue().splitlines()
    return f"session {report.name} changed: " + "\n".join(line[4:] for line in lines)


def way_on(report: Report, factory: Factory | str | None) -> list[str]:
    """How a change that is meant becomes what is expected.

    Args:
        factory: the agent's, where it is not the session's own.
    """
    agent = factory if factory is None or isinstance(factory, str) else _name_of(factory)
    causes = acceptable(report)
    if report.path is None or agent == "" or not causes:
        return [f"if this is meant: {REWRITE}"]
    options = [f"--agent {agent}"] if agent else _allowed(report.path)
    options += [f"--accept {quoted(each)}" for each in causes]
    path = str(report.path)
    with suppress(ValueError):  # on another drive
        path = os.path.relpath(path)
    return [f"if this is meant: agentrig replay {quoted(path)} {' '.join(options)}"]


def show_failed(traces: Sequence[Trace], output: Path, failure: str) -> str:
    """The last trace as a tree, for a terminal without colours; its page is written.

    Args:
        failure: what the test says; its first line stands on the page.
    """
    if not traces:
        return "no agent ran, so there is no trace"
    text = io.StringIO()
    if len(traces) > 1:
        text.write(f"the last of {len(traces)} runs:\n")
    print_trace(traces[-1], Console(file=text, width=_WIDTH, highlight=False))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        trouble = redactor.text(failure.partition("\n")[0])
        output.write_text(page(traces[-1], trouble=trouble), encoding="utf-8")
        text.write(f"page: {output}")
    except OSError as error:
        text.write(f"no page: {safe_line(str(error))}")
    return text.getvalue()


def _name_of(factory: Factory) -> str:
    """`module:function`, empty for a function that cannot be found by its name."""
    name = getattr(factory, "__qualname__", "")
    return f"{factory.__module__}:{name}" if name.isidentifier() else ""


def _allowed(path: Path) -> list[str]:
    """The option without which the command would refuse the session's own agent."""
    session = load_session(path).session
    module = "" if session is None else session.agent.factory.partition(":")[0]
    return [] if f"{module}.".startswith(_NEEDS_NO_WORD) else [f"--allow {module}"]
