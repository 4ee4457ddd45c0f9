"""What a server made of recordings says of itself: its version and its models.

A recorded answer comes first; what is made up here holds no more than provenance and requests
tell, and 404 for a model that no recording knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent_core.messages import JsonObject
from harness.faults import Received, Response
from harness.sessions.cursor import Cursor
from harness.sessions.exchange import json_body

_UNKNOWN_VERSION = "0.0.0"
_EPOCH = "1970-01-01T00:00:00Z"


def answer_fact(route: str, received: Received, cursors: Iterable[Cursor]) -> Response:
    """The answer to a request for one of `FACTS`."""
    if route == "/":
        return Response(200, "" if received.method == "HEAD" else "Ollama is running",
                        headers={"Content-Type": "text/plain; charset=utf-8"})  # fmt: skip
    models = _models(cursors)
    if route == "/api/show":
        asked = json_body(received.body)
        name = (asked.get("model") or asked.get("name")) if isinstance(asked, dict) else None
        if not isinstance(name, str) or not name:
            return Response(400, {"error": "model is required"})
        if name not in models:
            return Response(404, {"error": f"model '{name}' not found"})
        return Response(body=_shown(name, cursors))
    owned = {"object": "model", "created": 0, "owned_by": "library"}
    facts: dict[str, JsonObject] = {
        "/api/version": {"version": _version(cursors)},
        "/api/ps": {"models": []},
        "/api/tags": {"models": [_tag(name, digest) for name, digest in models.items()]},
        "/v1/models": {"object": "list", "data": [{"id": name, **owned} for name in models]},
    }
    return Response(body=facts[route])


def _version(cursors: Iterable[Cursor]) -> str:
    for cursor in cursors:
        origin = cursor.file.provenance
        if origin.server and origin.server.startswith("ollama "):
            return origin.server.removeprefix("ollama ")
    return _UNKNOWN_VERSION


def _models(cursors: Iterable[Cursor]) -> dict[str, str]:
    """Every model that is asked, with its digest where it is known."""
    models: dict[str, str] = {}
    for cursor in cursors:
        for request in cursor.requests:
            body = json_body(request.body)
            name = body.get("model") if isinstance(body, dict) else None
            if isinstance(name, str) and not models.get(name):
                models[name] = cursor.file.provenance.model_digest or ""
    return models


def _tag(name: str, digest: str) -> JsonObject:
    details = {"format": "gguf", "family": "", "families": [], "parameter_size": "",
               "quantization_level": "", "parent_model": ""}  # fmt: skip
    return {"name": name, "model": name, "modified_at": _EPOCH, "size": 0, "digest": digest,
            "details": details}  # fmt: skip


def _shown(name: str, cursors: Iterable[Cursor]) -> JsonObject:
    bodies = [json_body(request.body) for cursor in cursors for request in cursor.requests]
    mine = [each for each in bodies if isinstance(each, dict) and each.get("model") == name]
    capabilities = ["completion"]
    if any(each.get("tools") for each in mine):
        capabilities.append("tools")
    if any("think" in each for each in mine):
        capabilities.append("thinking")
    return {"modelfile": "", "parameters": "", "template": "", "model_info": {},
            "details": _tag(name, "")["details"], "modified_at": _EPOCH,
            "capabilities": capabilities}  # fmt: skip
