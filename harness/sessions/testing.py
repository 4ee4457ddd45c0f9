"""Sessions in tests, apart from pytest: record them, and show where one went wrong."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from rich.console import Console

from agent_core.messages import JsonObject, Language, Protocol
from harness.plain import one_line
from harness.redact import redactor, register_environment
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionBusy, SessionError
from harness.sessions.format import AgentSource, Api, ModelSource, Turn
from harness.sessions.plan import Plan, plan_of
from harness.sessions.proxy import RecordingProxy
from harness.sessions.record import record
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.show import show_report
from harness.sessions.sources import (
    Factory,
    allowed_factory,
    named_factory,
    reachable,
    resolved,
)
from harness.trace.html import page
from harness.trace.memory import MemoryTraces
from harness.trace.spans import Trace
from harness.trace.tree import print_trace

RecordMode = Literal["none", "once", "rewrite"]

_PATIENCE = 600.0  # seconds that another worker may take to record the same session
_POLL = 0.5
_WIDTH, _UNBROKEN = 120, 100_000


def plan_of_marker(
    *,
    factory: str,
    questions: str | Sequence[str],
    model: str,
    api: Api = "ollama",
    base_url: str | None = None,
    stream: bool = False,
    options: JsonObject | None = None,
    language: Language = "en",
    protocol: Protocol = "react-json",
    parameters: JsonObject | None = None,
) -> Plan:
    """What the marker of a test says is to be recorded; its arguments are these."""
    agent = AgentSource(
        factory=factory, language=language, protocol=protocol, parameters=parameters or {}
    )
    source = ModelSource(
        api=api, name=model, base_url=base_url, stream=stream, options=options or {}
    )
    asked = [questions] if isinstance(questions, str) else questions
    return Plan(agent, resolved(source), tuple(Turn(question=each) for each in asked))


def record_for_test(
    path: Path, mode: RecordMode, marker: Mapping[str, Any], *, allow: Sequence[str] = ()
) -> None:
    """Record the session of a test against the live server, if the mode asks for it.

    Args:
        mode: `once` records a session that is not there, `rewrite` every one.
        marker: arguments of `plan_of_marker`; none leaves it to the session itself, which says
            how it was made.
        allow: modules whose factories a session may name.

    Raises:
        SessionError: neither says what to record.
        ConnectionFailed: the server cannot be reached.
    """
    register_environment(os.environ)
    deadline = time.monotonic() + _PATIENCE
    while mode == "rewrite" or (mode == "once" and not path.exists()):
        plan, factory = _to_record(path, marker, allow)
        reachable(plan.model)
        try:
            record(plan, factory, path, mode="rewrite")
        except SessionBusy:  # a worker beside this one records the same session
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL)
        else:
            return


def proxy_for_test(path: Path) -> RecordingProxy:
    """A proxy that records a foreign agent, before the server of `$OLLAMA_HOST`.

    Raises:
        ConnectionFailed: the server cannot be reached.
    """
    register_environment(os.environ)
    source = resolved(ModelSource(name=path.stem))
    reachable(source)
    return RecordingProxy(source.base_url or "", path.parent, path.stem, mode="rewrite")


def _to_record(path: Path, marker: Mapping[str, Any], allow: Sequence[str]) -> tuple[Plan, Factory]:
    if marker:
        try:
            plan = plan_of_marker(**marker)
        except (TypeError, ValidationError) as error:
            raise SessionError(f"the marker agentrig does not say how: {error}") from error
        return plan, named_factory(plan.agent.factory)
    session = load_session(path).session if path.exists() else None
    if session is None:
        raise SessionError(
            "nothing says what agent to ask; give the test the marker "
            "`agentrig(session, factory=…, questions=…, model=…)`"
        )
    return plan_of(session), allowed_factory(session.agent.factory, allow)


def traced_replay(session: Path, **how: Any) -> list[Trace]:
    """The traces of a replay that was red, from doing it once more; those of a crash too."""
    memory = MemoryTraces()
    with suppress(Exception):  # it failed before, and that is what is being reported
        replay(session, observers=[memory.observer], **how)
    return memory.traces()


def drift_report(report: Report) -> str:
    """What a replay found, with what was there before and is now; the first line says most."""
    text = io.StringIO()
    show_report(Console(file=text, width=_UNBROKEN, highlight=False), report)
    _, *lines = text.getvalue().splitlines()
    return f"session {report.name} changed: " + "\n".join(line[4:] for line in lines)


def show_failed(traces: Sequence[Trace], output: Path) -> str:
    """The last trace as a tree, for a terminal without colours; its page is written."""
    if not traces:
        return "no agent ran, so there is no trace"
    text = io.StringIO()
    if len(traces) > 1:
        text.write(f"the last of {len(traces)} runs:\n")
    print_trace(traces[-1], Console(file=text, width=_WIDTH, highlight=False))
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page(traces[-1]), encoding="utf-8")
        text.write(f"page: {output}")
    except OSError as error:
        text.write(f"no page: {one_line(redactor.text(str(error)))}")
    return text.getvalue()
