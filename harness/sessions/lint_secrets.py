"""Secrets in recorded files: where they are, never what they are; and the file without them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_core.messages import JsonValue
from harness.files import write_atomically
from harness.redact import redactor
from harness.sessions.cassette import (
    read_request,
    read_response,
    render_session,
    request_block,
    response_block,
)
from harness.sessions.exchange import Exchange
from harness.sessions.format import ErrorTake, Session, SessionFile, Take, Traffic
from harness.sessions.scrubbing import recut, scrub_request, scrub_response


def secret_findings(file: SessionFile) -> Iterator[tuple[str, str]]:
    """Where a secret stands, and in what."""
    clean = scrubbed(file)
    for number, (old, new) in enumerate(zip(file.exchanges, clean.exchanges, strict=True), start=1):
        yield from _in_message(f"request {number}", old.request, new.request)
        yield from _in_message(f"reply {number}", old.response, new.response)
    before, after = file.session or file.traffic, clean.session or clean.traffic
    if before is not None and after is not None and before != after:
        for place in _changed(before.model_dump(mode="json"), after.model_dump(mode="json"), ""):
            yield place, "a value that looks like a credential"


def write_scrubbed(path: Path, file: SessionFile) -> None:
    """Write a file that was made of another one, which may be older than the masks of today.

    Raises:
        OSError: it cannot be written; what was there is untouched.
    """
    write_atomically(path, render_session(scrubbed(file)))


def scrubbed(file: SessionFile) -> SessionFile:
    """The file without secrets. Chunks of a stream stay cut at the same places."""
    exchanges = tuple(
        Exchange(scrub_request(each.request), scrub_response(each.response))
        for each in file.exchanges
    )
    takes = [_scrubbed_take(take, file, exchanges) for take in file.takes]
    return replace(
        file,
        session=None if file.session is None else _scrubbed_block(file.session, takes),
        traffic=None if file.traffic is None else _scrubbed_block(file.traffic, takes),
        exchanges=exchanges,
    )


def _scrubbed_block(block: Any, takes: list[Take]) -> Any:
    kind: type[Session | Traffic] = type(block)
    plain = block.model_dump(mode="json")
    clean = kind.model_validate({**redactor.value(plain), "takes": plain["takes"]})
    return clean.model_copy(update={"takes": takes if block.takes else []})


def _scrubbed_take(take: Take, file: SessionFile, exchanges: tuple[Exchange, ...]) -> Take:
    if take.exchange is not None:
        before = file.exchanges[take.exchange].response.body
        after = exchanges[take.exchange].response.body
        fits = sum(take.sizes) == len(before)
        sizes = recut(before, after, take.sizes) if fits and before != after else take.sizes
        return take.model_copy(update={"sizes": sizes})
    assert take.error is not None
    return take.model_copy(update={"error": _scrubbed_error(take.error)})


def _scrubbed_error(error: ErrorTake) -> ErrorTake:
    request = read_request(error.request)
    clean = scrub_request(request)
    changes: dict[str, Any] = {}
    if clean != request:
        changes["request"] = request_block(clean)
    if error.response is not None:
        response = read_response(error.response)
        without = scrub_response(response)
        if without != response:
            changes |= {"response": response_block(without), "after": len(without.body)}
    return error.model_copy(update=changes)


def _in_message(where: str, old: Any, new: Any) -> Iterator[tuple[str, str]]:
    for name, values in old.headers.items():
        if new.headers[name] != values:
            yield where, f"header {name} holds a credential"
    if getattr(old, "url", "") != getattr(new, "url", ""):
        yield where, "the address holds a credential"
    if old.body != new.body:
        yield where, "the body holds what looks like a credential"


def _changed(old: JsonValue, new: JsonValue, path: str) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        for key, value in old.items():
            yield from _changed(value, new[key], f"{path}.{key}" if path else str(key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (was, now) in enumerate(zip(old, new, strict=True)):
            yield from _changed(was, now, f"{path}[{number}]")
    else:
        yield path or "the block"
