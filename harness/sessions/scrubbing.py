"""Take secrets out of an exchange before it is kept, and out of a request before it is matched.

A reply that arrives in pieces is put together, scrubbed, and cut again at the same places: a
key that the model spells out over ten lines of a stream stands whole in none of them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from agent_core.messages import JsonValue
from agent_core.secret_names import is_secret_name
from agent_core.secret_shapes import MASK
from harness.redact import redactor
from harness.sessions.exchange import Headers, Request, Response

_EVENT = "data:"  # what a line of a server-sent event begins with
_Path = tuple[str | int, ...]


def scrub_request(request: Request) -> Request:
    """The request without credentials in address, headers and body."""
    return Request(
        request.method,
        scrub_url(request.url),
        scrub_headers(request.headers),
        scrub_body(request.body),
    )


def scrub_response(response: Response) -> Response:
    """The response without credentials in headers and body."""
    headers, body = scrub_headers(response.headers), scrub_body(response.body)
    return Response(response.status, redactor.text(response.reason), headers, body)


def scrub_headers(headers: Headers) -> Headers:
    """Mask the headers that carry credentials by their name, and what looks like one."""
    return {
        name: [MASK if is_secret_name(name) else redactor.text(value) for value in values]
        for name, values in headers.items()
    }


def scrub_url(url: str) -> str:
    """Drop user and password of an address, mask its secret query parameters."""
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return redactor.text(url)
    query = parts.query
    secret = [name for name, _ in pairs if is_secret_name(name) or name == "key"]
    if secret:
        masked = [(name, MASK if name in secret else value) for name, value in pairs]
        query = urlencode(masked, safe="*")
    host = parts.netloc.rpartition("@")[2]
    return redactor.text(urlunsplit((parts.scheme, host, parts.path, query, parts.fragment)))


def scrub_body(body: bytes) -> bytes:
    """Scrub a body; one that holds no secret comes back byte for byte."""
    if not body:
        return body
    try:
        text, encoding = body.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = body.decode("latin-1"), "latin-1"
    value = _parsed(text)
    if value is not None:
        clean = redactor.value(value)
        return body if clean == value else _dumped(clean).encode(errors="replace")
    clean_text = _scrub_lines(text)
    return body if clean_text == text else clean_text.encode(encoding, errors="replace")


def recut(before: bytes, after: bytes, sizes: Sequence[int]) -> list[int]:
    """Sizes of the chunks of a scrubbed body, cut where the chunks of the original were."""
    if before == after:
        return list(sizes)
    old, new = before.split(b"\n"), after.split(b"\n")
    if len(old) != len(new):
        old, new = [before], [after]
    old_starts = [0, *accumulate(len(line) + 1 for line in old)]
    new_starts = [0, *accumulate(len(line) + 1 for line in new)]
    cuts, line = [0], 0
    for cut in accumulate(sizes):
        while line + 1 < len(old) and old_starts[line + 1] <= cut:
            line += 1
        inside = _moved(old[line], new[line], cut - old_starts[line])
        cuts.append(max(cuts[-1], min(new_starts[line] + inside, len(after))))
    return [end - start for start, end in pairwise(cuts)]


def _scrub_lines(text: str) -> str:
    """Scrub NDJSON, server-sent events or plain text."""
    lines = text.split("\n")
    values = [_parsed(line.strip().removeprefix(_EVENT)) for line in lines]
    if not any(isinstance(value, dict) for value in values):
        return redactor.text(text)
    # What the lines say together comes first: the beginning of a key may look like a key.
    clean = [redactor.value(value) for value in _scrub_channels(values)]
    return "\n".join(
        redactor.text(line) if value is None else line if value == new else _line_with(line, new)
        for line, value, new in zip(lines, values, clean, strict=True)
    )


def _scrub_channels(values: list[JsonValue]) -> list[JsonValue]:
    """Scrub what the same field of consecutive lines spells out together."""
    channels: defaultdict[_Path, list[tuple[int, str]]] = defaultdict(list)
    for line, value in enumerate(values):
        for path, text in _texts(value):
            channels[path].append((line, text))
    changed: dict[tuple[int, _Path], str] = {}
    for path, found in channels.items():
        clean = redactor.pieces([text for _, text in found])
        changed |= {
            (line, path): new
            for (line, old), new in zip(found, clean, strict=True)
            if old != new
        }  # fmt: skip
    if not changed:
        return values
    return [_with_texts(value, line, (), changed) for line, value in enumerate(values)]


def _texts(value: JsonValue, path: _Path = ()) -> list[tuple[_Path, str]]:
    if isinstance(value, str):
        return [(path, value)]
    return [found for key, each in _items(value) for found in _texts(each, (*path, key))]


def _items(value: JsonValue) -> list[tuple[str | int, JsonValue]]:
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _with_texts(
    value: JsonValue, line: int, path: _Path, changed: Mapping[tuple[int, _Path], str]
) -> JsonValue:
    if isinstance(value, str):
        return changed.get((line, path), value)
    items = [(key, _with_texts(each, line, (*path, key), changed)) for key, each in _items(value)]
    if isinstance(value, dict):
        return dict(items)
    return [each for _, each in items] if isinstance(value, list) else value


def _line_with(line: str, value: JsonValue) -> str:
    start = f"{_EVENT} " if line.lstrip().startswith(_EVENT) else ""
    return start + _dumped(value) + ("\r" if line.endswith("\r") else "")


def _moved(before: bytes, after: bytes, cut: int) -> int:
    """Where a cut inside `before` falls in `after`, which differs in one region."""
    prefix = _common(before, after)
    if cut <= prefix:
        return cut
    suffix = _common(before[prefix:][::-1], after[prefix:][::-1])
    return len(after) - min(suffix, max(0, len(before) - cut))


def _common(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)


def _parsed(text: str) -> JsonValue:
    try:
        return json.loads(text) if text.strip()[:1] in {"{", "["} else None
    except (ValueError, RecursionError):
        return None


def _dumped(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
