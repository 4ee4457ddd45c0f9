"""Sessions in tests, apart from pytest: record them, and serve them to other agents."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from agent_core.clock import SystemClock
from agent_core.messages import JsonObject, Language, Protocol
from harness.output import safe_line, safe_text
from harness.redact import register_environment
from harness.sessions.accept import causes_of
from harness.sessions.accepting import AcceptingServer
from harness.sessions.cassette import load_session, parse_session, render_session
from harness.sessions.errors import SessionBusy, SessionError, SessionExists
from harness.sessions.format import AgentSource, Api, ModelSource, Turn
from harness.sessions.journal import journal_path
from harness.sessions.plan import Plan, plan_of
from harness.sessions.proxy import RecordingProxy
from harness.sessions.record import record
from harness.sessions.serve import SessionServer, serve
from harness.sessions.servers import Servers
from harness.sessions.sources import (
    Factory,
    allowed_factory,
    named_factory,
    reachable,
    resolved,
)

RecordMode = Literal["none", "once", "rewrite", "accept"]
REWRITE = "pytest --agentrig-record=rewrite asks the live server and records it again"

_ACCEPT = "pytest --agentrig-record=accept takes it over, offline"
_PATIENCE = 600.0  # seconds that another worker may take to record the same session
_POLL = 0.5


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
) -> bool:
    """Record the session of a test against the live server, if the mode asks for it, and it did.

    Args:
        mode: `once` records a session that is not there, `rewrite` every one.
        marker: arguments of `plan_of_marker`; none leaves it to the session itself, which says
            how it was made.
        allow: modules whose factories, and addresses of servers, that a session may name.

    Raises:
        SessionError: neither says what to record, or may not; the model failed where that is
            not what was recorded before.
        ConnectionFailed: the server cannot be reached.
    """
    register_environment(os.environ)
    deadline = time.monotonic() + _PATIENCE
    again = mode == "rewrite"
    while mode == "rewrite" or (mode == "once" and not path.exists()):
        plan, factory = _to_record(path, marker, allow)
        servers = None if marker else allow
        if servers is not None:
            Servers(servers).check_model(plan.model)
        reachable(plan.model)
        is_new = not path.exists()
        try:
            done = record(plan, factory, path, mode="rewrite" if again else "new", servers=servers)
        except SessionBusy:  # a worker beside this one records the same session
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL)
        except SessionExists:  # such a worker was quicker, or an interrupted recording lies there
            again = True
        else:
            if is_new and done.failure is not None:
                raise SessionError(
                    f"the model failed ({type(done.failure).__name__}: {done.failure}). That is "
                    f"what {path} holds and replays from now on; where it is not meant, "
                    "--agentrig-record=rewrite asks again"
                ) from done.failure
            return True
    return False


def server_for_test(
    path: Path,
    mode: RecordMode,
    *,
    records: bool,
    again: SessionServer | RecordingProxy | None = None,
    repeat: bool = False,
    faults: Sequence[str] = (),
    unreadable: Callable[[Path, Exception], None] | None = None,
    **how: Any,
) -> SessionServer | RecordingProxy:
    """What an agent that is not ours is pointed at.

    Args:
        records: a proxy before the server of `$OLLAMA_HOST`; else a server of its session, which
            with the mode `accept` takes over what is changed. With faults, or requests that may
            come again, what is sent is not what would be recorded: that is judged as ever. So is
            a session of an agent of ours, which has a trajectory to lose.
        again: what has served the same session to this test; what it recorded is served.
        repeat, faults, unreadable, how: arguments of `serve`.

    Raises:
        ConnectionFailed: the live server cannot be reached.
        SessionError, ConfigError: there is nothing to serve, or not in this way.
    """
    if records:
        if path.exists() and _is_ours(path):
            raise SessionError(f"it has an agent of ours; {_way_of_ours(path)}")
        register_environment(os.environ)
        source = resolved(ModelSource(name=path.stem))
        reachable(source)
        return RecordingProxy(source.base_url or "", path.parent, path.stem, mode="rewrite")
    if isinstance(again, RecordingProxy):
        file = parse_session(render_session(again.session()))  # as it will be read
        return SessionServer({path.stem: file}, repeat=repeat, faults=faults, **how)
    if mode == "accept" and _can_accept(path, repeat=repeat, faults=faults):
        return AcceptingServer(path, **how)
    return serve([path], repeat=repeat, faults=faults, unreadable=unreadable, **how)


def told_of(server: SessionServer | RecordingProxy, path: Path, **how: Any) -> list[str]:
    """What is wrong with what an agent sent, and the way on; of a proxy what it leaves behind.

    Args:
        how: the server's own arguments.
    """
    if isinstance(server, RecordingProxy):
        return left_behind(path)
    verdict = server.verdict()
    if verdict.ok:
        return []
    lines = list(map(safe_text, verdict.in_words()))
    if isinstance(server, AcceptingServer):
        ways = map(safe_text, server.drift().in_words())
        return [*lines, *ways, f"this cannot be accepted: {REWRITE}"]
    if _is_ours(path):
        return [*lines, f"if this is meant: {_way_of_ours(path)}"]
    has_drift = any(each.drift is not None for each in verdict.refused)
    accept = f"{_ACCEPT}; " if has_drift and _can_accept(path, **how) else ""
    return [*lines, f"if this is meant: {accept}{REWRITE}"]


@contextmanager
def serving(server: SessionServer | RecordingProxy) -> Iterator[None]:
    """Serve in a block. What a proxy has recorded when it ends well, `write` or `leave` is for."""
    with ExitStack() as stack:
        stack.enter_context(server)
        yield
        if isinstance(server, RecordingProxy):
            stack.pop_all()
            server.stop()


def write(server: SessionServer | RecordingProxy) -> tuple[str, ...]:
    """Write what was recorded, or take over what is changed: the causes of that drift."""
    if isinstance(server, RecordingProxy):
        server.finish()
    deadline = time.monotonic() + _PATIENCE
    while isinstance(server, AcceptingServer):
        try:
            return tuple(map(safe_line, server.accept(SystemClock())))
        except SessionBusy:  # a worker beside this one does the same
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL)
    return ()


def leave(server: SessionServer | RecordingProxy, path: Path) -> list[str]:
    """Write nothing; what is not written, and what is left behind of it."""
    if isinstance(server, RecordingProxy):
        server.leave()
        return [f"not recorded: {path.stem}", *left_behind(path)]
    causes = causes_of(server.drift()) if isinstance(server, AcceptingServer) else []
    names = ", ".join(safe_line(each.part) for each in causes)
    return [f"not accepted: {path.stem}: {names}"] if names else []


def left_behind(path: Path) -> list[str]:
    """Of a recording that was interrupted, as by a test that failed."""
    journal = journal_path(path)
    if not journal.exists():
        return []
    return [
        f"{journal} is left of a recording that did not end, and no session was written; "
        f"--agentrig-record={'rewrite' if path.exists() else 'once'} begins anew, "
        "`agentrig record … --resume` goes on"
    ]


def quoted(text: str) -> str:
    """One argument, for shells of either kind as long as there is nothing special in it."""
    is_plain = re.fullmatch(r"[\w ./:,()+-]+", text) is not None
    return f'"{text}"' if is_plain and " " in text else shlex.quote(text)


def _is_ours(path: Path) -> bool:
    with suppress(SessionError, OSError):  # damaged: serving it says so
        return load_session(path).session is not None
    return False


def _way_of_ours(path: Path) -> str:
    return f"agentrig replay {quoted(str(path))} takes --accept CAUSE, offline, and --rewrite"


def _can_accept(
    path: Path, *, repeat: bool = False, faults: Sequence[str] = (), **_how: Any
) -> bool:
    """Whether what is sent to a server of this session could have been recorded in its place."""
    return not (repeat or faults or _is_ours(path))


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
