"""How a recorded reply is sent: streamed or whole, in chunks, at its pace, or failing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from threading import Event
from urllib.parse import urlsplit

from agent_core.messages import JsonObject, Reply
from harness import faults
from harness.faults.bodies import with_reply
from harness.faults.transport import spoiled
from harness.sessions.borders import Borders
from harness.sessions.cassette import read_request, read_response
from harness.sessions.conversion import (
    api_of,
    is_stream,
    pieces_of,
    records_of,
    stream,
    wants_stream,
    whole,
)
from harness.sessions.exchange import Headers, Request, Response, json_body
from harness.sessions.format import Api, ErrorKind, SessionFile, Take
from harness.sessions.pacing import duration, moments, recut

_NOT_SENT = {"transfer-encoding", "content-encoding", "content-length", "connection", "date"}
_JSON, _NDJSON, _EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
UNREACHED: frozenset[ErrorKind] = frozenset({"refused", "connect_timeout"})
"""How requests fail that reach no server."""

_RETRY_AFTER = 1  # second; who is tried here waits for it


@dataclass(frozen=True, slots=True)
class _Form:
    """A recorded reply in the form that a client asks for.

    Attributes:
        seconds: until it is there, for one that comes whole.
        pieces, times: the lines or events of one that is streamed, and when they came.
    """

    response: Response
    seconds: float = 0.0
    pieces: Sequence[bytes] = ()
    times: Sequence[float] = ()


class Delivery:
    """Sends recorded replies.

    Args:
        pace: 1.0 as slowly as they were recorded, 0.0 at once.
        borders: where streams are cut into chunks.
        stopping: ends what is being waited for.
    """

    def __init__(self, *, pace: float, borders: Borders, stopping: Event) -> None:
        self._pace = pace
        self._borders = borders
        self._stopping = stopping

    def reply(self, file: SessionFile, take: Take, asked: Request) -> faults.Response:
        """The reply of a take, or its failure."""
        if take.error is not None:
            kind, arrived = take.error.kind, take.error.response
            if file.traffic is not None and kind in UNREACHED:  # its client was told by the proxy
                return no_answer(read_request(take.error.request).url, kind)
            return failure(kind, read_response(arrived) if arrived else None, self._stopping)
        form = _form(file, take, asked)
        headers = _headers(form.response)
        if not form.pieces:
            delay = self._pace * form.seconds
            return faults.Response(form.response.status, form.response.body, headers, delay=delay)
        chunks, times = recut(form.pieces, form.times, self._borders)
        return faults.Response(headers=headers, chunks=self._paced(chunks, times))

    def fault(self, code: str, file: SessionFile, take: Take, asked: Request) -> faults.Response:
        """What comes instead of the reply of a take."""
        form = _form(file, take, asked)
        comes = spoiled(code, form.response, api_of(asked.url) or "ollama")
        if comes.response is None or comes.ended is not None:
            return failure(comes.ended or "reset", comes.response, self._stopping)
        headers = _headers(comes.response)
        if "Retry-After" in headers:
            headers["Retry-After"] = str(_RETRY_AFTER)
        return faults.Response(comes.response.status, comes.response.body, headers)

    def misspoken(
        self, reply: Reply, file: SessionFile, take: Take, asked: Request
    ) -> faults.Response:
        """Another reply instead of that of a take, in the form that is asked for."""
        form, api = _form(file, take, asked), api_of(asked.url) or "ollama"
        body = with_reply(form.response, reply, api, Random(0))  # noqa: S311 - where it is cut
        headers, status = _headers(form.response), form.response.status
        if not body.sizes:
            return faults.Response(status, body.response.body, headers)
        return faults.Response(status, headers=headers, chunks=body.chunks())

    def _paced(self, chunks: Sequence[bytes], times: Sequence[float]) -> Iterator[bytes]:
        passed = 0.0
        for chunk, moment in zip(chunks, times, strict=True):
            if self._stopping.wait(self._pace * (moment - passed)):
                raise ConnectionAbortedError("the server is stopped")
            passed = moment
            yield chunk


def failure(kind: ErrorKind, arrived: Response | None, stopping: Event) -> faults.Response:
    """A connection that fails, after what arrived. A timeout is for the client to notice."""
    if arrived is None:
        if kind in {"timeout", "connect_timeout"}:
            return faults.Response(silent=True)
        return faults.Response(raw=b"") if kind == "cut" else faults.Response(reset=True)
    body, headers = arrived.body, _headers(arrived)
    if kind == "reset":
        return faults.Response(
            arrived.status, headers=headers, chunks=[body], cut_after=len(body), reset=True
        )
    chunks = _broken(body, stopping if kind == "timeout" else None)
    return faults.Response(arrived.status, headers=headers, chunks=chunks)


def no_answer(url: str, kind: ErrorKind) -> faults.Response:
    """What a proxy says when it cannot reach the server of this address."""
    address = urlsplit(url)
    words = f"proxy: no answer from {address.scheme}://{address.netloc} ({kind})"
    return faults.Response(502, {"error": words})


def _broken(body: bytes, until: Event | None) -> Iterator[bytes]:
    yield body
    if until is not None:
        until.wait()
    raise ConnectionAbortedError("recorded so")


def _form(file: SessionFile, take: Take, asked: Request) -> _Form:
    """The reply of a take as it is asked for; nothing arrived where it failed."""
    if take.exchange is None:
        return _Form(Response(200, "OK", {}))
    recorded, api = file.exchanges[take.exchange].response, api_of(asked.url)
    records = None if api is None else records_of(api, recorded)
    if api is None or records is None:
        return _Form(recorded, duration(json_body(recorded.body), take))
    if wants_stream(api, json_body(asked.body)):
        return _streamed(api, recorded, records, take, asked)
    if not is_stream(api, recorded):
        return _Form(recorded, duration(records[0], take))
    record = whole(api, records)
    body = json.dumps(record, ensure_ascii=False).encode(errors="replace")
    response = replace(recorded, headers=_of_kind(_JSON, recorded), body=body)
    return _Form(response, duration(record, take))


def _streamed(
    api: Api, recorded: Response, records: Sequence[JsonObject], take: Take, asked: Request
) -> _Form:
    if is_stream(api, recorded):
        pieces = pieces_of(api, recorded.body)
        times = moments(pieces, take)
    else:
        pieces = stream(api, records[0], usage=_wants_usage(asked))
        total = duration(records[0], take)
        times = [total * (n + 1) / len(pieces) for n in range(len(pieces))]
    headers = _of_kind(_EVENTS if api == "openai" else _NDJSON, recorded)
    response = replace(recorded, headers=headers, body=b"".join(pieces))
    return _Form(response, pieces=pieces, times=times)


def _of_kind(kind: str, recorded: Response) -> Headers:
    others = {k: v for k, v in recorded.headers.items() if k.lower() != "content-type"}
    return {"Content-Type": [kind], **others}


def _headers(recorded: Response) -> dict[str, str]:
    headers = {
        name.title(): ", ".join(values)
        for name, values in recorded.headers.items()
        if name.lower() not in _NOT_SENT
    }
    return {"Content-Type": _JSON, **headers}


def _wants_usage(asked: Request) -> bool:
    body = json_body(asked.body)
    options = body.get("stream_options") if isinstance(body, dict) else None
    return isinstance(options, dict) and options.get("include_usage") is True
