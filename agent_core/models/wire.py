"""JSON as it goes over the wire: sent so that it cannot fail, read as it really comes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from math import isinf
from typing import Any

from agent_core.messages import JsonObject, JsonValue, Message, ToolCall

_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANKS = re.compile(r"[ \t\r\n]*")


class NotJson(ValueError):
    """Bytes that are not one JSON text."""


def clean_text(text: str) -> str:
    """Join surrogate pairs and replace lone ones, so that the text can be encoded."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encode_json(value: JsonObject) -> bytes:
    """One JSON text in UTF-8, Chinese as Chinese.

    Raises:
        ValueError, TypeError: an option or a schema holds what JSON cannot.
    """
    return clean_text(json.dumps(value, ensure_ascii=False, allow_nan=False)).encode()


def _refuse_constant(name: str) -> None:
    raise NotJson(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if isinf(value):  # it could not be sent back
        raise NotJson("a number that is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def decode_json(data: bytes | str) -> JsonValue:
    """One JSON text. It is UTF-8 whatever a header says; a byte order mark is skipped.

    Raises:
        NotJson: it is no JSON, or nested too deeply.
    """
    values = decode_sequence(data)
    if len(values) != 1:
        raise NotJson(f"{len(values)} JSON texts")
    return values[0]


def decode_sequence(data: bytes | str) -> list[JsonValue]:
    """JSON texts one after another, with or without blanks between them.

    Raises:
        NotJson: one of them is no JSON, or nested too deeply.
    """
    text = data.decode("utf-8-sig", "replace") if isinstance(data, bytes) else data
    values: list[JsonValue] = []
    pos = _past_blanks(text, 0)
    try:
        while pos < len(text):
            value, end = _DECODER.raw_decode(text, pos)
            values.append(value)
            pos = _past_blanks(text, end)
        return values
    except NotJson:
        raise
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
    raise NotJson(reason)


def _past_blanks(text: str, pos: int) -> int:
    found = _BLANKS.match(text, pos)
    return found.end() if found else pos


def as_count(value: JsonValue) -> int | None:
    """A token count: a whole number, also as text; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    if isinstance(value, int | float) and value >= 0 and value == value // 1:
        return int(value)
    return None


def as_text(value: JsonValue) -> str | None:
    """Text that may be null or a list of parts; None for anything else."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [each.get("text") if isinstance(each, dict) else each for each in value]
        return "".join(each for each in parts if isinstance(each, str))
    return None


def read_calls(value: JsonValue) -> list[ToolCall]:
    """Tool calls as a server reports them. Damage stays visible to the parser, which refuses it.

    An entry without a usable name has the name "", arguments of any shape are kept as they came.
    """
    if not value:
        return []
    entries = value if isinstance(value, list) else [value]
    return [_read_call(each) for each in entries]


def _read_call(entry: JsonValue) -> ToolCall:
    if not isinstance(entry, dict):
        return ToolCall(None, "", entry)
    function = entry.get("function")
    body: JsonObject = function if isinstance(function, dict) else entry
    name = body.get("name")
    call_id = entry.get("id")
    arguments = body.get("arguments", body.get("parameters"))  # some name them as in the schema
    return ToolCall(
        call_id if isinstance(call_id, str) and call_id else None,
        name if isinstance(name, str) else "",
        {} if arguments is None or arguments == "" else arguments,
    )


def with_ids(calls: Iterable[ToolCall], messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Give every call an id that no other call of the conversation has.

    Made-up ids are counted, not random, so that a replayed conversation has the same ones.
    """
    used = {call.id for message in messages for call in message.tool_calls}
    named: list[ToolCall] = []
    for call in calls:
        call_id = call.id
        number = len(used)
        while call_id is None or call_id in used:
            number += 1
            call_id = f"call_{number}"
        used.add(call_id)
        named.append(ToolCall(call_id, call.name, call.arguments))
    return tuple(named)


def arguments_object(arguments: JsonValue) -> JsonObject:
    """Arguments as an object, for servers that take nothing else.

    What a model garbled is wrapped, so that it still sees what it wrote.
    """
    value: Any = arguments
    if isinstance(arguments, str):
        try:
            value = decode_json(arguments)
        except NotJson:
            value = None
    return value if isinstance(value, dict) else {"raw": arguments}


def arguments_text(arguments: JsonValue) -> str:
    """Arguments as the JSON text of an object; text that is one already stays as it is."""
    value = arguments_object(arguments)
    if isinstance(arguments, str) and "raw" not in value:
        return arguments
    return json.dumps(value, ensure_ascii=False)
