"""One HTTP exchange as data: its request, its response, and the keys it is found by."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from requests import PreparedRequest

from agent_core.messages import JsonValue

Headers = dict[str, list[str]]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - compared only
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_DECODED = 256 * 1024 * 1024  # bytes a compressed body may grow to
_EXACT_FLOAT = 2**53
_canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Request:
    """What was sent. `body` is decoded: no content encoding is left on it."""

    method: str
    url: str
    headers: Headers
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back. `body` is decoded: no content encoding is left on it."""

    status: int
    reason: str
    headers: Headers
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request with its whole response."""

    request: Request
    response: Response


def request_of(prepared: PreparedRequest) -> Request:
    """Describe a request of `requests`.

    A body that is a file or an iterator can be read only once: it is read here and put back
    as bytes, so that it can be hashed, kept and still be sent.
    """
    body = prepared.body
    if body is not None and not isinstance(body, str | bytes):
        prepared.body = body = _read_once(body)
        prepared.headers.pop("Transfer-Encoding", None)
        prepared.headers["Content-Length"] = str(len(body))
    headers = {key: [_as_text(value)] for key, value in prepared.headers.items()}
    body = _as_bytes(body or b"")
    if "Content-Encoding" in prepared.headers:
        headers, body = decoded_body(headers, body)
    return Request(prepared.method or "GET", prepared.url or "", headers, body)


def decoded_body(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    """Undo gzip or deflate; headers that only described the encoded bytes go with it."""
    encoding = ",".join(header(headers, "content-encoding")).strip().lower()
    if encoding in {"gzip", "x-gzip", "deflate"} and body:
        decoded = _inflate(body)
        if decoded is None:  # it was recorded decoded: only the header is stale
            decoded = body
        gone = {"content-encoding", "content-length"}
        return {k: v for k, v in headers.items() if k.lower() not in gone}, decoded
    return headers, body


def header(headers: Mapping[str, list[str]], name: str) -> list[str]:
    """The values of a header; its name counts in any case."""
    return [value for key, values in headers.items() if key.lower() == name for value in values]


def json_body(body: bytes) -> JsonValue:
    """The JSON value of a body, or None for an empty body and for one that is no JSON."""
    try:
        return json.loads(body) if body.strip() else None
    except (ValueError, RecursionError):
        return None


@lru_cache(maxsize=256)
def canonical_url(url: str) -> str:
    """One spelling for the same address: loopback names, default ports, order of the query."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # no address at all: only itself is the same
        return url
    scheme = parts.scheme.lower()
    host = (parts.hostname or "").lower()
    host = "localhost" if host in _LOOPBACK else f"[{host}]" if ":" in host else host
    netloc = host if port in {None, _DEFAULT_PORTS.get(scheme)} else f"{host}:{port}"
    query = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return urlunsplit((scheme, netloc, parts.path or "/", query, ""))


def canonical_json(value: JsonValue) -> str:
    """One spelling for the same value: key order, spacing and `1.0` for `1` do not count.

    The order of lists does, and so does the type: `7`, `"7"` and `true` are three values.
    """
    return _canonical.encode(_plain_numbers(value))


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values have the same canonical spelling; most are spelled the same anyway."""
    return repr(one) == repr(other) or canonical_json(one) == canonical_json(other)


def without_empty_defaults(body: JsonValue) -> JsonValue:
    """Leave out what some clients send and others do not, such as `"tools": []`."""
    if not isinstance(body, dict):
        return body
    return {key: value for key, value in body.items() if value not in (None, "", [], {})}


def raw_key(request: Request) -> bytes:
    """Identifies a request by the bytes of its body."""
    return _digest(request, request.body)


def canonical_key(request: Request) -> bytes:
    """Identifies a request by what its body says, however it is spelled."""
    value = json_body(request.body)
    if value is None:
        return _digest(request, request.body.strip())
    return _digest(request, canonical_json(without_empty_defaults(value)).encode(errors="replace"))


def _digest(request: Request, body: bytes) -> bytes:
    head = f"{request.method.upper()} {canonical_url(request.url)}\n".encode(errors="replace")
    return blake2b(head + body, digest_size=16).digest()


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT:
        return int(value)
    return value


def _inflate(body: bytes) -> bytes | None:
    for window_bits in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):  # gzip or zlib; raw deflate
        inflater = zlib.decompressobj(window_bits)
        try:
            decoded = inflater.decompress(body, _MAX_DECODED)
        except zlib.error:
            continue
        if inflater.eof and not inflater.unconsumed_tail:
            return decoded
    return None


def _read_once(body: Any) -> bytes:
    """All of a body that is a file, a buffer or yields its pieces."""
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    return _as_bytes(body.read()) if hasattr(body, "read") else b"".join(map(_as_bytes, body))


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _as_text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
