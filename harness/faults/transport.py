"""Faults of HTTP: what servers, proxies and networks do instead of answering."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import requests

from harness.faults.fault import SECRET, Fault
from harness.sessions.exchange import Response
from harness.sessions.format import Api, ErrorKind, ErrorTake, Take
from harness.sessions.responses import build_response, transport_error

_HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Sign in</body></html>"
_READ_TIMEOUT = 300.0  # seconds that pass before a silent server is given up


@dataclass(frozen=True, slots=True)
class Trouble:
    """A request, the reply it should have had, and the API that is spoken."""

    prepared: requests.PreparedRequest
    recorded: Response
    api: Api


@dataclass(frozen=True, slots=True)
class Spoiled:
    """What comes instead of a reply.

    Attributes:
        response: what arrives; None when nothing does.
        ended: how the connection fails after that; None when all is in order.
    """

    response: Response | None
    ended: ErrorKind | None = None


Happens = Callable[[Response, Api], Spoiled]


def spoiled(code: str, recorded: Response, api: Api) -> Spoiled:
    """What comes instead of the recorded reply."""
    return _HAPPENS[code](recorded, api)


def failed(code: str, trouble: Trouble) -> requests.Response:
    """The same as `requests` hands it out.

    Raises:
        requests.RequestException: the fault is that nothing comes.
    """
    comes = spoiled(code, trouble.recorded, trouble.api)
    if comes.response is None:
        raise transport_error(comes.ended or "reset", trouble.prepared)
    if comes.ended is None:
        return build_response(trouble.prepared, comes.response)
    error = ErrorTake(kind=comes.ended, after=len(comes.response.body), request={})
    return build_response(trouble.prepared, comes.response, take=Take(error=error))


def seconds_of(code: str) -> float:
    """Seconds that pass on the clock of the run before the fault is seen."""
    return _READ_TIMEOUT if code in {"timeout", "stall"} else 0.0


def _refused(status: int, reason: str, said: str, **headers: str) -> Happens:
    """A status with the error body of the API; it repeats a secret, as real ones do."""

    def happens(_recorded: Response, api: Api) -> Spoiled:
        message = f"{said} (Authorization: Bearer {SECRET})"
        error: object = message if api == "ollama" else {"message": message}
        named = {name.replace("_", "-"): [value] for name, value in headers.items()}
        return Spoiled(
            Response(
                status,
                reason,
                {"Content-Type": ["application/json"], **named},
                json.dumps({"error": error}).encode(),
            )
        )

    return happens


def _html(_recorded: Response, _api: Api) -> Spoiled:
    return Spoiled(Response(200, "OK", {"Content-Type": ["text/html; charset=utf-8"]}, _HTML))


def _wrong_type(recorded: Response, _api: Api) -> Spoiled:
    return Spoiled(replace(recorded, headers={"Content-Type": ["text/plain; charset=latin-1"]}))


def _half(recorded: Response) -> Response:
    return replace(recorded, body=recorded.body[: len(recorded.body) // 2])


def _short(recorded: Response, _api: Api) -> Spoiled:
    """Half of the body, of a stream whole records, and an end as if that were all."""
    half = _half(recorded)
    records = half.body[: half.body.rfind(b"\n") + 1]
    return Spoiled(replace(half, body=records or half.body))


def _cut(recorded: Response, _api: Api) -> Spoiled:
    """Half of the body, then the connection breaks."""
    return Spoiled(_half(recorded), "cut")


def _broken(recorded: Response, _api: Api) -> Spoiled:
    return Spoiled(_half(recorded), "reset")


def _stall(recorded: Response, _api: Api) -> Spoiled:
    """Half of the body, then nothing more, and no end."""
    return Spoiled(_half(recorded), "timeout")


def _reset(_recorded: Response, _api: Api) -> Spoiled:
    return Spoiled(None, "reset")


def _timeout(_recorded: Response, _api: Api) -> Spoiled:
    return Spoiled(None, "timeout")


_HAPPENS: Mapping[str, Happens] = {
    "404": _refused(404, "Not Found", "model 'm' not found"),
    "429": _refused(429, "Too Many Requests", "slow down", Retry_After="20"),
    "429-stays": _refused(429, "Too Many Requests", "slow down", Retry_After="20"),
    "500": _refused(500, "Internal Server Error", "llama runner process has terminated"),
    "500-stays": _refused(500, "Internal Server Error", "llama runner process has terminated"),
    "html": _html,
    "cut": _cut,
    "broken": _broken,
    "stall": _stall,
    "short": _short,
    "reset": _reset,
    "timeout": _timeout,
    "wrong-type": _wrong_type,
}
HTTP_FAULTS = (
    Fault("404", "http", "the model is not found", lasting=True),
    Fault("429", "http", "once too many requests, with Retry-After"),
    Fault("429-stays", "http", "too many requests, again and again", lasting=True),
    Fault("500", "http", "once an error of the server"),
    Fault("500-stays", "http", "an error of the server, again and again", lasting=True),
    Fault("html", "http", "a page instead of the API"),
    Fault("cut", "http", "the connection breaks within the body"),
    Fault("broken", "http", "the connection is reset within the body"),
    Fault("stall", "http", "nothing more comes within the body, until the read timeout"),
    Fault("short", "http", "the body ends halfway, as if it were whole"),
    Fault("reset", "http", "the connection is reset before a response"),
    Fault("timeout", "http", "no response within the read timeout"),
    Fault("wrong-type", "http", "the right body under a wrong content type"),
)
"""Every fault of HTTP."""
