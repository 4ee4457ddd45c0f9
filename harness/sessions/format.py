"""The session file: a `session:` block, and below it a plain vcrpy cassette.

The block says who asked what of which model and what came of it; the cassette holds the
exchanges. Stock vcrpy loads the file and replays it; a stock cassette loads here and is a file
without the block. `FORMAT_VERSION` counts changes of the block that older readers would
misread.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from agent_core.messages import JsonObject, JsonValue, Language, Protocol, Role, ToolFailureKind
from harness.sessions.errors import SessionFormatError
from harness.sessions.exchange import Exchange, Headers, Request, Response, decoded_body
from harness.sessions.yamlfile import dump_yaml, load_yaml

FORMAT_VERSION = 1
_CASSETTE_VERSION = 1

Api = Literal["ollama", "openai"]
ErrorKind = Literal["refused", "connect_timeout", "timeout", "reset", "cut"]


class _Block(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AgentSource(_Block):
    """Where the agent comes from: `module:function`, and what the function is given."""

    factory: str
    language: Language = "en"
    protocol: Protocol = "react-json"
    parameters: JsonObject = Field(default_factory=dict)


class ModelSource(_Block):
    """How the model was reached."""

    api: Api = "ollama"
    name: str
    base_url: str | None = None
    stream: bool = False
    options: JsonObject = Field(default_factory=dict)


class SavedCall(_Block):
    """A tool call inside a saved message."""

    id: str | None = None
    name: str
    arguments: JsonValue = None


class SavedMessage(_Block):
    """A message of the history that a session began with."""

    role: Role
    content: str
    tool_calls: list[SavedCall] = Field(default_factory=list)
    tool_call_id: str | None = None
    name: str | None = None


class Turn(_Block):
    """One question. Each turn goes on from the one before; only the first has a `history`."""

    question: str
    history: list[SavedMessage] = Field(default_factory=list)


class Provenance(_Block):
    """Where the recording comes from.

    Attributes:
        derived: says what was done to a recording when it is not as the server sent it.
    """

    recorded_at: str | None = None
    agentrig: str | None = None
    server: str | None = None
    model_digest: str | None = None
    derived: str | None = None


class ToolDefinition(_Block):
    """A tool as the model was told of it."""

    name: str
    description: str = ""
    parameters: JsonObject = Field(default_factory=dict)


class Failure(_Block):
    """Why a tool gave no result."""

    kind: ToolFailureKind
    type: str
    message: str


class TapedCall(_Block):
    """What a tool gave, before cleaning and capping.

    Attributes:
        arguments: as the tool got them: coerced, validated, defaults filled in.
        at, seconds: when it ended, from the start of the session, and how long it ran.
    """

    tool: str
    arguments: JsonObject = Field(default_factory=dict)
    value: JsonValue = None
    failure: Failure | None = None
    at: float = 0.0
    seconds: float = 0.0


class TapedHit(_Block):
    """A passage that a search found."""

    id: str
    text: str
    source: str
    start: int
    end: int
    score: float
    metadata: JsonObject = Field(default_factory=dict)


class TapedSearch(_Block):
    """What the retriever gave."""

    query: str
    top_k: int
    hits: list[TapedHit] = Field(default_factory=list)
    at: float = 0.0


class ErrorTake(_Block):
    """A request that got no complete response.

    Attributes:
        kind: `refused` and `connect_timeout` before anything was sent; `timeout`, `reset` and
            `cut` after `after` bytes of the body (none if there is no `response`).
        request, response: as in the cassette; the response holds what arrived.
    """

    kind: ErrorKind
    after: int = 0
    request: JsonObject
    response: JsonObject | None = None


class Take(_Block):
    """One request as it happened, in the order of sending.

    Attributes:
        exchange: number of its interaction in the cassette, or None when it failed.
        at: when it was sent, in seconds from the start of the session.
        seconds: until the response was read whole, or failed.
        sizes, times: bytes of each chunk as it was read, and seconds after `at`.
        closed: the client stopped reading because it had all it wanted.
        within: number of the taped call during which the request was sent, if any.
    """

    exchange: int | None = None
    error: ErrorTake | None = None
    at: float = 0.0
    seconds: float = 0.0
    sizes: list[int] = Field(default_factory=list)
    times: list[float] = Field(default_factory=list)
    closed: bool = False
    within: int | None = None

    @model_validator(mode="after")
    def _one_outcome(self) -> Take:
        if (self.exchange is None) == (self.error is None):
            raise ValueError("a take has either an `exchange` or an `error`")
        return self


class GoldenAction(_Block):
    """An action the model asked for, with canonical arguments, and what came of it.

    `observation` is a digest of the text the model read, None if the action was never reached.
    """

    tool: str
    arguments: JsonObject = Field(default_factory=dict)
    observation: str | None = None
    ok: bool = True


class GoldenStep(_Block):
    """What one step decided: `actions`, `final_answer`, or the code of a format error."""

    decision: str
    actions: list[GoldenAction] = Field(default_factory=list)


class GoldenTurn(_Block):
    """How one turn went: what a replay has to repeat."""

    steps: list[GoldenStep] = Field(default_factory=list)
    stop_reason: str
    answer: str | None = None
    error: str | None = None


class Clocks(_Block):
    """Every reading of the wall clock, in order. Monotonic time is in takes and tape."""

    now: list[str] = Field(default_factory=list)


class Session(_Block):
    """The `session:` block."""

    version: int = FORMAT_VERSION
    agent: AgentSource
    model: ModelSource
    turns: list[Turn] = Field(min_length=1)
    provenance: Provenance = Provenance()
    clock: Clocks = Clocks()
    seed: int = 0
    tools: list[ToolDefinition] = Field(default_factory=list)
    tape: list[TapedCall] = Field(default_factory=list)
    searches: list[TapedSearch] = Field(default_factory=list)
    takes: list[Take] = Field(default_factory=list)
    trajectory: list[GoldenTurn] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """A session with its exchanges; `session` is None for a stock cassette."""

    session: Session | None
    exchanges: tuple[Exchange, ...]
    order: tuple[Take, ...] = ()

    @property
    def takes(self) -> Sequence[Take]:
        """Every request in the order of sending; those of a stock cassette just follow."""
        known = self.order or (self.session.takes if self.session is not None else ())
        return known or [Take(exchange=number) for number in range(len(self.exchanges))]


def load_session(path: str | Path) -> SessionFile:
    """Read a session file, or a stock vcrpy cassette (YAML or JSON).

    Raises:
        SessionFormatError: it is neither; the message says where and why.
        OSError: the file cannot be read.
    """
    path = Path(path)
    try:
        return parse_session(path.read_bytes().decode())
    except UnicodeDecodeError as error:
        raise SessionFormatError(f"{path}: expected UTF-8, {error}") from error
    except SessionFormatError as error:
        raise SessionFormatError(f"{path}: {error}") from error


def parse_session(text: str) -> SessionFile:
    """Read a session file from its text."""
    data = load_yaml(text)
    if isinstance(data, dict) and "http_interactions" in data:
        raise SessionFormatError("expected a vcrpy cassette, got one of Ruby's VCR; convert it")
    if not isinstance(data, dict) or not ("interactions" in data or "session" in data):
        kind = type(data).__name__
        raise SessionFormatError(f"expected `session:` or `interactions:` at the top, got {kind}")
    interactions = data.get("interactions") or []
    if not isinstance(interactions, list):
        raise SessionFormatError(f"expected a list of interactions, got {interactions!r:.80}")
    exchanges = tuple(
        exchange_of(each, f"interactions[{i}]") for i, each in enumerate(interactions)
    )
    session = _session_of(data["session"]) if data.get("session") is not None else None
    if session is not None:
        _check_takes(session, len(exchanges))
    return SessionFile(session, exchanges)


def render_session(file: SessionFile) -> str:
    """Write a session file as text: the block first, the cassette below."""
    data: dict[str, Any] = {}
    if file.session is not None:
        data["session"] = session_block(file.session)
    data["version"] = _CASSETTE_VERSION
    data["interactions"] = [interaction_of(each) for each in file.exchanges]
    return dump_yaml(data)


def session_block(session: Session) -> JsonObject:
    """The block without what is as it is unless said; how the agent was run is always said."""
    always = {"agent": session.agent.model_dump(), "model": session.model.model_dump()}
    return {
        "version": session.version,
        **always,
        **{
            key: value
            for key, value in session.model_dump(mode="json", exclude_defaults=True).items()
            if key not in always
        },
    }


def interaction_of(exchange: Exchange) -> JsonObject:
    """An exchange as vcrpy writes it."""
    return {
        "request": request_block(exchange.request),
        "response": response_block(exchange.response),
    }


def request_block(request: Request) -> JsonObject:
    """A request as vcrpy writes it; a body that is no UTF-8 stays bytes (`!!binary`)."""
    return {
        "method": request.method,
        "uri": request.url,
        "headers": request.headers,
        "body": _text_or_bytes(request.body) if request.body else None,
    }


def response_block(response: Response) -> JsonObject:
    """A response as vcrpy writes it."""
    return {
        "status": {"code": response.status, "message": response.reason},
        "headers": response.headers,
        "body": {"string": _text_or_bytes(response.body)},
    }


def exchange_of(interaction: Any, where: str = "interaction") -> Exchange:
    """Read one interaction of a cassette, as vcrpy and its relatives write it."""
    if not isinstance(interaction, dict):
        raise SessionFormatError(f"{where}: expected a mapping, got {interaction!r:.80}")
    return Exchange(
        read_request(interaction.get("request"), f"{where}.request"),
        read_response(interaction.get("response"), f"{where}.response"),
    )


def read_request(block: Any, where: str = "request") -> Request:
    """Read the request half of an interaction."""
    url = block.get("uri", block.get("url")) if isinstance(block, dict) else None
    if not isinstance(url, str):
        raise SessionFormatError(f"{where}: expected method, uri, headers and body")
    headers, body = decoded_body(_headers(block.get("headers")), _body(block, where))
    return Request(str(block.get("method", "GET")).upper(), url, headers, body)


def read_response(block: Any, where: str = "response") -> Response:
    """Read the response half of an interaction."""
    if not isinstance(block, dict):
        raise SessionFormatError(f"{where}: expected status, headers and body, got {block!r:.80}")
    status = block.get("status")
    code = status.get("code") if isinstance(status, dict) else block.get("status_code", status)
    if not isinstance(code, int):
        raise SessionFormatError(f"{where}.status: expected a code such as 200, got {status!r:.80}")
    reason = (status.get("message") if isinstance(status, dict) else None) or ""
    headers, body = decoded_body(_headers(block.get("headers")), _body(block, where))
    return Response(code, str(reason), headers, body)


def _session_of(block: Any) -> Session:
    version = block.get("version", FORMAT_VERSION) if isinstance(block, dict) else None
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise SessionFormatError(
            f"expected session version {FORMAT_VERSION} or older, got {version!r}: "
            "a newer agentrig wrote it, upgrade to read it"
        )
    try:
        return Session.model_validate(block)
    except ValidationError as error:
        lines = [
            f"session.{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)[:5]
        ]
        raise SessionFormatError("; ".join(lines)) from error


def _check_takes(session: Session, exchanges: int) -> None:
    named = [take.exchange for take in session.takes if take.exchange is not None]
    if session.takes and sorted(named) != list(range(exchanges)):
        raise SessionFormatError(
            f"session.takes: expected each of the {exchanges} interactions once, got {named!r:.80}"
        )


def _headers(block: Any) -> Headers:
    if not isinstance(block, Mapping):
        return {}
    return {
        str(name): [str(each) for each in values] if isinstance(values, list | tuple)
        else [str(values)]
        for name, values in block.items()
    }  # fmt: skip


def _body(block: Mapping[str, Any], where: str) -> bytes:
    if "parsed_body" in block:  # as pydantic-ai's serializer writes it
        return json.dumps(block["parsed_body"], ensure_ascii=False).encode()
    body = block.get("body", block.get("content"))
    if isinstance(body, dict):
        if "base64_string" in body:
            return base64.b64decode(str(body["base64_string"]))
        if "parsed_body" in body:
            return json.dumps(body["parsed_body"], ensure_ascii=False).encode()
        body = body.get("string")
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode(errors="surrogatepass")
    if isinstance(body, bytes):
        return body
    raise SessionFormatError(f"{where}.body: expected text or bytes, got {body!r:.80}")


def _text_or_bytes(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body
