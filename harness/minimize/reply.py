"""A reply that the fuzzer has found, as a session of one step.

It is derived: no model gave the reply, and what the session has recorded is what our own agent
does with it on the day it is written. From then on it is a session like any other: replayed,
linted, swept, served to an agent that is not ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

from agent_core.messages import Language, Protocol, Reply, ToolCall
from harness.demo.described import described
from harness.faults.bodies import with_reply
from harness.minimize.draft import end_of
from harness.redact import redactor
from harness.sessions.exchange import Exchange, Request, Response, canonical_json
from harness.sessions.format import (
    AgentSource,
    GoldenTurn,
    ModelSource,
    Provenance,
    Session,
    SessionFile,
    Take,
    TapedCall,
    ToolDefinition,
    Turn,
)
from harness.sessions.lint_secrets import write_scrubbed
from harness.sessions.replay import replay
from harness.sessions.storage import session_path
from harness.sessions.trajectory import golden_turn

_FACTORY = "harness.demo.described:described"
_SERVER = "http://localhost:11434"
_QUESTION = {"en": "What does this reply ask for?", "zh": "这个回复要求做什么？"}
_ENDLESS = frozenset({"killed", "slow", "growth"})
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


def session_of_reply(case: Mapping[str, Any]) -> SessionFile:
    """The session in which an agent with the tools of a case gets its reply.

    Args:
        case: a finding of `agentrig fuzz parser` with `text` or `native`, and `tools`.

    Raises:
        ConfigError: its tools cannot be those of an agent.
    """
    request = Request("POST", f"{_SERVER}/api/chat", {"Content-Type": ["application/json"]})
    exchanges = (
        Exchange(request, _response(_reply(case))),
        Exchange(request, end_of(request)),
    )
    session = _session(case)
    live = replay(SessionFile(session, exchanges), factory=described, mode="lenient", tools="live")
    tape = [
        TapedCall(tool=seen.tool, arguments=seen.arguments, value=seen.arguments)
        for step in live.results[0].steps
        for seen in step.observations
        if seen.arguments is not None
    ]
    session = session.model_copy(update={"tape": tape})
    taped = replay(SessionFile(session, exchanges), factory=described, mode="lenient")
    asked = tuple(
        replace(exchange, request=request)
        for exchange, request in zip(exchanges, taped.asked, strict=False)
    )
    changes = {
        "takes": [Take(exchange=number) for number in range(len(asked))],
        "trajectory": [golden_turn(taped.results[0])],
    }
    return SessionFile(session.model_copy(update=changes), asked)


def write_replies(cases: Iterable[Mapping[str, Any]], folder: Path) -> list[Path]:
    """Write a session for each case that has a reply.

    Left out are replies on which a parser hangs or dies, ours perhaps, and tools that no agent
    can have.

    Raises:
        OSError: the folder cannot be written.
    """
    written = []
    for case in cases:
        has_reply = "tools" in case and bool(case.get("text") or case.get("native"))
        if not has_reply or case["kind"] in _ENDLESS:
            continue
        try:
            file = session_of_reply(case)
        except Exception:  # noqa: S112 - our parser's, on a hostile reply: the finding has it
            continue
        folder.mkdir(parents=True, exist_ok=True)
        path = session_path(folder, str(case["id"]))
        write_scrubbed(path, file)
        written.append(path)
    return written


def _session(case: Mapping[str, Any]) -> Session:
    language: Language = "zh" if _CHINESE.search(case.get("text") or "") else "en"
    protocol: Protocol = "native" if case.get("native") else case.get("protocol") or "react-json"
    tools = dict(case["tools"])
    return Session(
        agent=AgentSource(
            factory=_FACTORY, language=language, protocol=protocol, parameters={"tools": tools}
        ),
        model=ModelSource(name="fuzz", base_url=_SERVER),
        turns=[Turn(question=_QUESTION[language])],
        provenance=Provenance(agentrig=version("agentrig"), derived=_origin(case)),
        tools=[ToolDefinition(name=name, parameters=tools[name]) for name in tools],
        takes=[Take(exchange=0), Take(exchange=1)],
        trajectory=[GoldenTurn(stop_reason="not yet run")],
    )


def _origin(case: Mapping[str, Any]) -> str:
    right = case.get("expect_any")
    expected = f"; right is {canonical_json(right)}" if right else ""
    return redactor.text(
        f"made of a reply that `agentrig fuzz` found ({case['id']}, {case['kind']}), recorded as "
        f"this agentrig reads it{expected}"
    )


def _reply(case: Mapping[str, Any]) -> Reply:
    native = case.get("native")
    calls = (ToolCall(None, native["name"], native["arguments"]),) if native else ()
    return Reply(case.get("text") or "", calls, finish_reason=case.get("finish_reason"))


def _response(reply: Reply) -> Response:
    empty = Response(200, "OK", {"Content-Type": ["application/json"]})
    return with_reply(empty, reply, "ollama", Random(0)).response  # noqa: S311 - nothing is cut
