"""A request with what made one request of another done to it: a merge of three.

It goes as deep as it must: keys of objects, messages of a list, lines of a text, words of a
line. What cannot be placed is left out, and shows as a difference when the result is replayed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, TypeVar

from harness.sessions.exchange import Request, Response, canonical_json, json_body

M = TypeVar("M", Request, Response)

_MISSING: Any = object()
_WORD = re.compile(r"[A-Za-z0-9_]+|\s+|.", re.DOTALL)


def carried_over(before: Request, after: Request, request: Request) -> Request:
    """`request`, with what made `after` of `before` done to it."""
    url = request.url if before.url == after.url else after.url
    body = request.body
    if before.body != after.body:
        values = [json_body(each.body) for each in (before, after, request)]
        merged = merge(*values)
        body = after.body if merged == values[1] else dumped(merged)
    return with_body(Request(after.method, url, after.headers), body)


def with_body(message: M, body: bytes) -> M:
    """A request or a response with another body, and the length of it."""
    headers = {
        key: [str(len(body))] if key.lower() == "content-length" else list(values)
        for key, values in message.headers.items()
    }
    return replace(message, headers=headers, body=body)


def dumped(value: Any) -> bytes:
    """JSON as our model clients write it."""
    return json.dumps(value, ensure_ascii=False).encode(errors="replace")


def merge(before: Any, after: Any, value: Any) -> Any:
    """`value`, with what made `after` of `before` done to it."""
    if value == before:
        return after
    if after == before:
        return value
    kinds = {type(each) for each in (before, after, value)}
    if kinds == {dict}:
        return _merge_objects(before, after, value)
    if kinds == {list}:
        return _merge_lists(before, after, value)
    if kinds == {str}:
        return _merge_texts(before, after, value)
    return value


def _merge_objects(before: dict[str, Any], after: dict[str, Any], value: dict[str, Any]) -> Any:
    keys = dict.fromkeys([*value, *after])
    merged = {
        key: merge(*(each.get(key, _MISSING) for each in (before, after, value))) for key in keys
    }
    return {key: each for key, each in merged.items() if each is not _MISSING}


def _merge_texts(before: str, after: str, value: str) -> str:
    texts = before, after, value
    pieces = [each.splitlines(keepends=True) for each in texts]
    if max(map(len, pieces)) < 2:
        pieces = [_WORD.findall(each) for each in texts]
    if max(map(len, pieces)) < 2:
        return value  # both changed the same word
    return "".join(_merge_lists(*pieces))


def _merge_lists(before: Sequence[Any], after: Sequence[Any], value: Sequence[Any]) -> list[Any]:
    kept = _partners(before, after)
    came_from = {place: number for number, place in _partners(before, value).items()}
    partners = set(kept.values())
    merged: list[Any] = _inserted(after, 0, partners)
    for place, each in enumerate(value):
        number = came_from.get(place)
        if number is None:
            merged.append(each)
        elif number in kept:
            merged.append(merge(before[number], after[kept[number]], each))
            merged += _inserted(after, kept[number] + 1, partners)
    return merged


def _inserted(after: Sequence[Any], start: int, partners: set[int]) -> list[Any]:
    """What `after` has from here on that comes from nowhere."""
    end = start
    while end < len(after) and end not in partners:
        end += 1
    return list(after[start:end])


def _partners(one: Sequence[Any], other: Sequence[Any]) -> dict[int, int]:
    """Which element became which: the equal ones, and those exchanged one for one."""
    was, now = (
        [each if isinstance(each, str) else canonical_json(each) for each in side]
        for side in (one, other)
    )
    found: dict[int, int] = {}
    for tag, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if tag == "equal" or (tag == "replace" and b - a == d - c):
            found |= zip(range(a, b), range(c, d), strict=True)
    return found
