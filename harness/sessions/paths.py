"""Where two JSON values differ: `properties.unit.default: "celsius"` in place of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from agent_core.messages import JsonValue
from harness.sessions.exchange import canonical_json, same_json

_Lines = Iterator[tuple[str | None, str | None]]


def changed_paths(old: JsonValue, new: JsonValue) -> tuple[str | None, str | None]:
    """What was and what is at each place that differs, a line each; None where nothing is."""
    lines = list(_lines(old, new, ""))
    before = "\n".join(line for line, _ in lines if line is not None)
    after = "\n".join(line for _, line in lines if line is not None)
    return before or None, after or None


def _lines(old: JsonValue, new: JsonValue, path: str) -> _Lines:
    if same_json(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            place = f"{path}.{key}" if path else str(key)
            if key in old and key in new:
                yield from _lines(old[key], new[key], place)
            else:
                yield (
                    _line(place, old[key]) if key in old else None,
                    _line(place, new[key]) if key in new else None,
                )
    elif isinstance(old, list) and isinstance(new, list):
        yield from _items(old, new, path)
    else:
        yield _line(path, old), _line(path, new)


def _items(old: list[JsonValue], new: list[JsonValue], path: str) -> _Lines:
    """Items that are on one side only; of lists with the same ones, another order, both lists."""
    was, now = ([canonical_json(each) for each in side] for side in (old, new))
    if len(old) == len(new) and all(isinstance(each, dict | list) for each in [*old, *new]):
        for number, pair in enumerate(zip(old, new, strict=True)):
            yield from _lines(*pair, f"{path}[{number}]")
        return
    gone, come = Counter(was) - Counter(now), Counter(now) - Counter(was)
    if not gone and not come:
        yield _line(path, old), _line(path, new)
    for number, text in enumerate(was):
        if text in gone:
            yield f"{path}[{number}]: {text}", None
    for number, text in enumerate(now):
        if text in come:
            yield None, f"{path}[{number}]: {text}"


def _line(path: str, value: JsonValue) -> str:
    return f"{path}: {canonical_json(value)}" if path else canonical_json(value)
