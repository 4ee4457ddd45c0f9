"""When the pieces of a recorded stream came, in seconds from the sending of the request.

A recording of ours knows the moment of each chunk. For any other, every line of Ollama holds the
moment of its making (`created_at`); an event of `/v1` has whole seconds only, which say nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate

from agent_core.messages import JsonObject, JsonValue
from agent_core.models.wire import as_count
from harness.sessions.borders import Borders, cut
from harness.sessions.exchange import json_body
from harness.sessions.format import Take

_NANOSECONDS = 1e9


def moments(pieces: Sequence[bytes], take: Take) -> list[float]:
    """One moment for each piece, never earlier than the one before; zeros where nothing is known.

    Args:
        pieces: the whole recorded body, in pieces.
    """
    if take.times and len(take.times) == len(take.sizes):
        known = regrouped(pieces, take.sizes, take.times)
    else:
        known = _of_lines([json_body(piece) for piece in pieces])
    return list(accumulate(known, max))


def recut(
    pieces: Sequence[bytes], times: Sequence[float], borders: Borders
) -> tuple[list[bytes], list[float]]:
    """Lines or events, and when they came, as chunks with other borders."""
    chunks = cut(pieces, borders)
    return chunks, regrouped(chunks, [len(each) for each in pieces], times)


def regrouped(pieces: Sequence[bytes], sizes: Sequence[int], times: Sequence[float]) -> list[float]:
    """Moments of the same bytes in other pieces: one is there when that is in which it ends."""
    found, place = [], 0
    ends = list(accumulate(sizes))
    for end in accumulate(map(len, pieces)):
        while place + 1 < len(ends) and ends[place] < end:
            place += 1
        found.append(times[place])
    return found


def duration(record: JsonValue, take: Take) -> float:
    """Seconds that a reply took which came whole."""
    if take.seconds or not isinstance(record, dict):
        return take.seconds
    return (as_count(record.get("total_duration")) or 0) / _NANOSECONDS


def _of_lines(records: Sequence[JsonValue]) -> list[float]:
    lines = [each if isinstance(each, dict) else {} for each in records]
    made = [_moment(each.get("created_at")) for each in lines]
    first = next((each for each in made if each is not None), None)
    if first is None:
        return [0.0] * len(lines)
    lead = _before_first(lines[-1])
    return [0.0 if each is None else lead + (each - first).total_seconds() for each in made]


def _before_first(last: JsonObject) -> float:
    """Loading the model and reading the prompt, as the last line counts them."""
    counters = (last.get("load_duration"), last.get("prompt_eval_duration"))
    return sum(as_count(each) or 0 for each in counters) / _NANOSECONDS


def _moment(text: JsonValue) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo is not None else None
