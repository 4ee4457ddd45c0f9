"""Session files as text: written as vcrpy writes, read as vcrpy and its relatives write."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agent_core.messages import JsonObject
from harness.files import read_file
from harness.sessions.errors import SessionFormatError
from harness.sessions.exchange import Exchange, Headers, Request, Response, decoded_body
from harness.sessions.format import Session, SessionFile, Traffic
from harness.sessions.migrate import migrated
from harness.sessions.yamlfile import dump_yaml, load_yaml

_CASSETTE_VERSION = 1
_B = TypeVar("_B", Session, Traffic)


def load_session(path: str | Path) -> SessionFile:
    """Read a session file, or a stock vcrpy cassette (YAML or JSON).

    Raises:
        SessionFormatError: it is neither; the message says where and why.
        OSError: the file cannot be read.
    """
    path = Path(path)
    try:
        return parse_session(read_file(path).decode())
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
    session, traffic = _block_of(data, "session", Session), _block_of(data, "traffic", Traffic)
    for block in (session, traffic):
        if block is not None:
            _check_takes(block, len(exchanges))
    if "interactions" not in data:
        raise SessionFormatError("expected `interactions:` below the block: the file was cut")
    return SessionFile(session, exchanges, traffic=traffic)


def render_session(file: SessionFile) -> str:
    """Write a session file as text: the block first, the cassette below."""
    data: dict[str, Any] = {}
    if file.session is not None:
        data["session"] = session_block(file.session)
    elif file.traffic is not None:
        said = file.traffic.model_dump(mode="json", exclude_defaults=True)
        data["traffic"] = {"version": file.traffic.version, **said}
    data["version"] = _CASSETTE_VERSION
    data["interactions"] = [interaction_of(each) for each in file.exchanges]
    return dump_yaml(data)


def session_block(session: Session) -> JsonObject:
    """The block without what is as it is unless said; how the agent was run is always said."""
    always = {"agent": session.agent.model_dump(), "model": session.model.model_dump()}
    if session.agent.tools is None:
        del always["agent"]["tools"]
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


def _block_of(data: Mapping[str, Any], name: str, kind: type[_B]) -> _B | None:
    if name not in data:
        return None
    block = migrated(data[name], name)
    try:
        return kind.model_validate(block)
    except ValidationError as error:
        lines = [
            f"{name}.{'.'.join(map(str, each['loc']))}: {each['msg']}"
            for each in error.errors(include_url=False, include_input=False)[:5]
        ]
        raise SessionFormatError("; ".join(lines)) from error


def _check_takes(block: Session | Traffic, exchanges: int) -> None:
    named = [take.exchange for take in block.takes if take.exchange is not None]
    if block.takes and sorted(named) != list(range(exchanges)):
        raise SessionFormatError(
            f"takes: expected each of the {exchanges} interactions once, got {named!r:.80}"
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
