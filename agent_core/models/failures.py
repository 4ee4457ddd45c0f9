"""What an error response means: status and body become one error of the tree."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError

from agent_core.errors import (
    AuthenticationFailed,
    BadRequest,
    BadResponse,
    ConnectionFailed,
    ContextOverflow,
    ModelError,
    ModelNotFound,
    RateLimited,
    ServerError,
    StreamError,
)
from agent_core.messages import JsonValue
from agent_core.models.wire import NotJson, decode_json
from agent_core.scrub import scrub

_QUOTED_CHARS = 300
_SCRUBBED_CHARS = 65_536
_OVERFLOW = re.compile(
    r"context[ _]?(length|window|size)|maximum context|exceeds? the (available )?context"
    r"|too many (input )?tokens|prompt is too long|input is too long|token limit",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model\b.{0,200}?\b(not found|does not exist|doesn't exist|not exist)"
    r"|not found.{0,40}\bmodel\b|model_not_found|no such model|unknown model|invalid model"
    r"|not a valid model|not found, try pulling",
    re.IGNORECASE | re.DOTALL,
)
# Ollama answers 500 to some requests that it will never accept
_REQUEST_AT_FAULT = re.compile(
    r"must be of type|invalid (format|option|argument|json|message|role|schema|duration|image)"
    r"|does not support|not supported|unsupported|cannot unmarshal|failed to parse grammar"
    r"|is required|unknown (field|option|parameter)",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes, as errors name it.

    Attributes:
        url: the URL of the request, without credentials.
        model: the model's name.
        ollama: it is Ollama's own API, so that its commands help.
    """

    url: str
    model: str
    ollama: bool


def excerpt(body: str | bytes) -> str:
    """The first characters of a text, on one line, scrubbed, without control characters."""
    body = body[:_SCRUBBED_CHARS]
    text = scrub(body.decode("utf-8", "replace") if isinstance(body, bytes) else body)
    # a terminal must not obey what a server says
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= _QUOTED_CHARS else line[:_QUOTED_CHARS] + "…"


def message_of(value: JsonValue) -> str | None:
    """The words of an error in any of the shapes that servers use, or None."""
    if isinstance(value, str):
        return value.strip() or None
    if isinstance(value, list):
        found = [text for text in (message_of(each) for each in value[:3]) if text]
        return "; ".join(found) or None
    if isinstance(value, dict):
        for key in ("error", "message", "msg", "detail", "errors"):
            text = message_of(value.get(key))
            if text:
                return text
    return None


def response_error(
    status: int, body: bytes, target: Target, *, retry_after: float | None = None
) -> tuple[ModelError, bool]:
    """The error of a response that is not 200, and whether trying again may help."""
    try:
        told = message_of(decode_json(body))
    except NotJson:
        told = None
    everything = body[:4096].decode("utf-8", "replace")  # error codes stand beside the message
    said = excerpt(told or body) or "an empty body"
    what = f"{target.url} answered {status}: {said}"
    refusal = _refusal(status, everything, what, target)
    if refusal is not None:
        return refusal, False
    if status == 429:
        worth = not _NO_CREDIT.search(everything)
        return RateLimited(what, status=status, retry_after=retry_after), worth
    if status >= 500 and told and _REQUEST_AT_FAULT.search(told):
        return BadRequest(f"{what}. The server refuses the request itself", status=status), False
    return ServerError(what, status=status, retry_after=retry_after), True


def _refusal(status: int, body: str, what: str, target: Target) -> ModelError | None:
    """The error of a status, if asking again cannot help; None for 408, 429 and 5xx."""
    if _OVERFLOW.search(body) and status in {400, 413, 422, 500}:
        hint = "The prompt is longer than the context window; raise it or keep less history"
        return ContextOverflow(f"{what}. {hint}", status=status)
    if status in {408, 429} or status >= 500:
        return None
    if status in {401, 403}:
        hint = "The API key is missing, wrong, or not allowed to do this"
        return AuthenticationFailed(f"{what}. {hint}", status=status)
    if status in {400, 404} and _NO_MODEL.search(body):
        return _model_not_found(what, status, target)
    return BadRequest(what + (_path_hint(target) if status in {404, 405} else ""), status=status)


def _model_not_found(what: str, status: int, target: Target) -> ModelNotFound:
    if target.ollama or "pulling" in what:
        return ModelNotFound(f"{what}. Get it with: ollama pull {target.model}", status=status)
    models = target.url.removesuffix("/chat/completions") + "/models"
    return ModelNotFound(
        f"{what}. {models} lists what there is; on Ollama: ollama pull {target.model}",
        status=status,
    )


def _path_hint(target: Target) -> str:
    if target.ollama:
        return ". Nothing answers at this path: is base_url an Ollama server, without /api or /v1?"
    return ". Nothing answers at this path: does base_url end as the server wants it, e.g. in /v1?"


def redirect_error(status: int, location: str | None, target: Target) -> BadResponse:
    """A redirect is not followed: it would carry the prompt, or a key, to another place."""
    where = f" to {excerpt(location)!r}" if location else ""
    return BadResponse(
        f"{target.url} redirects{where} ({status}); requests with a prompt and credentials do not "
        "follow redirects. Set base_url to the final address",
        status=status,
    )


def error_inside(value: JsonValue, target: Target) -> ModelError:
    """The error that a server reports inside a response of status 200."""
    said = excerpt(message_of(value) or repr(value))
    what = f"{target.url} reported an error inside a 200 response: {said}"
    if _OVERFLOW.search(said):
        return ContextOverflow(what, status=200)
    return StreamError(what, status=200)


def connection_error(broken: Exception, target: Target) -> tuple[ModelError, str | None]:
    """What went wrong before a response arrived, and why it may be tried again."""
    base = "{0.scheme}://{0.netloc}".format(urlsplit(target.url))
    causes = list(_causes(broken))
    reason = excerpt(_reason(causes))
    if isinstance(broken, requests.exceptions.InvalidURL | requests.exceptions.InvalidSchema):
        return BadRequest(f"{base} is no address to send to ({reason})"), None
    if isinstance(broken, requests.exceptions.SSLError):
        return ConnectionFailed(
            f"no secure connection to {base} ({reason}); is the certificate trusted, and is it "
            "https that the server speaks?"
        ), None
    if isinstance(broken, requests.exceptions.ProxyError):
        return ConnectionFailed(f"the proxy for {base} cannot be used ({reason})"), "connection"
    if any(isinstance(each, NewConnectionError | ConnectionRefusedError) for each in causes):
        server = "`ollama serve`" if target.ollama else "the server"
        return ConnectionFailed(
            f"nothing answers at {base} ({reason}); is {server} running there?"
        ), "connection"
    return ConnectionFailed(
        f"the connection to {base} broke before a response arrived ({reason})"
    ), "connection"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it wraps, the innermost last."""
    seen: set[int] = set()
    inner: object = error
    while isinstance(inner, BaseException) and id(inner) not in seen:
        yield inner
        seen.add(id(inner))
        wrapped = [getattr(inner, "reason", None), *inner.args, inner.__cause__, inner.__context__]
        fresh = (each for each in wrapped if isinstance(each, BaseException))
        inner = next((each for each in fresh if id(each) not in seen), None)


def _reason(causes: Sequence[BaseException]) -> str:
    """The operating system's word, e.g. "Connection refused", else that of the innermost."""
    for each in reversed(causes):
        if isinstance(each, OSError) and each.strerror:
            return each.strerror
    return f"{type(causes[-1]).__name__}: {causes[-1]}"


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a `Retry-After` header asks for, never negative; None when it is unreadable.

    Args:
        value: a number of seconds or an HTTP date.
        now: wall time, with its zone.
    """
    if value is None:
        return None
    try:
        seconds = float(value.partition(",")[0])  # a header that came twice is joined
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
            if moment.tzinfo is None:
                moment = moment.replace(tzinfo=now.tzinfo)
            seconds = (moment - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if isfinite(seconds) else None
