"""Turn whatever a tool returns into a JSON value: always, in bounded memory, the same each time.

Nothing here raises for a value: an object that cannot be shown is named instead. What is cut,
circular or too deep is marked where it stood.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import date, datetime, time
from enum import Enum
from pathlib import PurePath
from typing import Any

from agent_core.messages import JsonObject, JsonValue
from agent_core.scrub import mask, scrub
from agent_core.tools.schema import json_path

MAX_CHARS = 1_000_000
"""Characters of a result that are kept; more would only be cut later."""

CIRCULAR = "<circular reference>"
TOO_DEEP = "<nested too deep>"
CUT = "<cut: too long>"

_MAX_DEPTH = 50
_ERROR_CHARS = 2_000  # of the message of an exception
_HEAD = 0.7  # of a text that is cut, this part is its beginning
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,1000}(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_NEWLINES = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Characters that reorder or hide text; those that shape emoji and scripts stay.
_INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def jsonable(value: object, *, max_chars: int = MAX_CHARS) -> JsonValue:
    """Give a JSON value for anything.

    Text loses control characters and registered secrets. Dates become ISO 8601, sets are
    sorted, bytes are UTF-8 text or base64, enums their value, dataclasses and pydantic models
    objects, iterators lists; NaN and the infinities become text, since JSON has no word for
    them. `max_chars` bounds the size of the whole.
    """
    return _Converter(max_chars).convert(value, frozenset())


def clean_text(text: str) -> str:
    """Text without terminal escapes, control and invisible characters, with plain newlines."""
    text = _ESCAPE_SEQUENCE.sub("", text)
    text = _NEWLINES.sub("\n", text)
    return _CONTROL.sub("�", _INVISIBLE.sub("", text))


def describe_exception(error: BaseException) -> str:
    """An exception's message: scrubbed, bounded, without refused input and without traceback."""
    try:
        if hasattr(error, "errors") and type(error).__name__ == "ValidationError":
            message = _validation_message(error)
        else:
            message = str(error)
    except Exception as broken:  # the tool's exception may be as broken as the tool
        message = f"<its message raised {type(broken).__name__}>"
    return cut_middle(scrub(clean_text(message[: 10 * _ERROR_CHARS])), _ERROR_CHARS)


def cut_middle(text: str, limit: int, marker: str = "…") -> str:
    """Keep head and tail of a text that is longer than `limit`, the marker counted."""
    if len(text) <= limit:
        return text
    room = limit - len(marker)
    if room <= 0:
        return text[:limit]
    head = math.ceil(room * _HEAD)
    return text[:head] + marker + text[len(text) - (room - head) :]


def describe_refusal(error: BaseException) -> str:
    """Why the types of a function refuse its arguments: a line for each place, as for a schema."""
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return describe_exception(error)
    details = error.errors(include_input=False, include_url=False, include_context=False)
    lines = (
        f"- {json_path(each['loc'])}: {each['msg'].removeprefix('Value error, ')}"
        for each in details
    )
    return cut_middle(scrub(clean_text("\n".join(lines)[:_ERROR_CHARS])), _ERROR_CHARS)


def _validation_message(error: Any) -> str:
    """Pydantic repeats the refused input in its message; this does not."""
    details = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(
        ".".join(str(step) for step in each["loc"]) + ": " + each["msg"] for each in details
    )


class _Converter:
    """One conversion, with what is left of its budget of characters."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def convert(self, value: object, parents: frozenset[int]) -> JsonValue:
        try:
            return self._convert(value, parents)
        except Exception as error:  # any method of a foreign object may raise
            return f"<{type(value).__name__} cannot be shown: {type(error).__name__}>"

    def _convert(  # noqa: PLR0911 - one line for each kind of scalar
        self, value: Any, parents: frozenset[int]
    ) -> JsonValue:
        if value is None or isinstance(value, bool):
            self.budget -= 5
            return value
        if isinstance(value, Enum):
            return self.convert(value.value, parents)
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, int):
            return self._integer(int(value))
        if isinstance(value, float):
            self.budget -= 20
            return float(value) if math.isfinite(value) else str(float(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value)
        if isinstance(value, datetime | date | time):
            return self._text(value.isoformat())
        if isinstance(value, PurePath):
            return self._text(str(value))
        if isinstance(value, BaseException):
            return self._text(f"{type(value).__name__}: {describe_exception(value)}")
        if isinstance(value, type):
            return self._text(value.__qualname__)
        if id(value) in parents:
            return CIRCULAR
        if len(parents) >= _MAX_DEPTH:
            return TOO_DEEP
        return self._container(value, parents | {id(value)})

    def _container(  # noqa: PLR0911 - one line for each kind of container
        self, value: Any, parents: frozenset[int]
    ) -> JsonValue:
        if isinstance(value, Mapping):
            return self._object(value.items(), parents)
        if hasattr(type(value), "model_dump"):
            return self._convert(value.model_dump(warnings=False), parents)
        if dataclasses.is_dataclass(value):
            names = [each.name for each in dataclasses.fields(value) if hasattr(value, each.name)]
            return self._object(((name, getattr(value, name)) for name in names), parents)
        if hasattr(value, "_asdict"):
            return self._object(value._asdict().items(), parents)
        if isinstance(value, Set):
            return sorted(self._list(value, parents), key=repr)
        if isinstance(value, Sequence | Iterator) or _is_collection(value):
            return self._list(value, parents)
        if _is_array(value):
            return self._list(value, parents) if value.ndim else self.convert(value.item(), parents)
        return self._text(_shown(value))

    def _object(self, items: Iterable[tuple[Any, Any]], parents: frozenset[int]) -> JsonObject:
        result: JsonObject = {}
        for key, value in items:
            if self.budget <= 0:
                result["…"] = CUT
                break
            result[self._key(key, result)] = self.convert(value, parents)
        return result

    def _key(self, key: object, taken: JsonObject) -> str:
        """A key as text; two that look alike (1 and "1") stay apart."""
        if isinstance(key, bool) or key is None:
            name = {None: "null", True: "true", False: "false"}[key]
        else:
            shown = self.convert(key, frozenset())
            name = shown if isinstance(shown, str) else str(shown)
        self.budget -= 4
        unique = (f"{name} ({n})" for n in itertools.count(2))
        return name if name not in taken else next(n for n in unique if n not in taken)

    def _list(self, items: Iterable[Any], parents: frozenset[int]) -> list[JsonValue]:
        result: list[JsonValue] = []
        for each in items:
            if self.budget <= 0:
                result.append(CUT)
                break
            self.budget -= 2
            result.append(self.convert(each, parents))
        return result

    def _text(self, text: str) -> str:
        """Cut first, so that cleaning costs no more than what is kept."""
        room = max(self.budget, 0)
        kept = cut_middle(text, max(room, len(CUT)), CUT)
        self.budget -= len(kept) + 2
        return mask(clean_text(kept))  # cleaning may put a secret together

    def _integer(self, value: int) -> JsonValue:
        if value.bit_length() > 10_000:  # Python refuses to write it out
            return self._text(f"<integer of {value.bit_length()} bits>")
        self.budget -= value.bit_length() // 3 + 1
        return value

    def _bytes(self, value: bytes | bytearray | memoryview) -> JsonValue:
        room = max(self.budget, len(CUT))
        kept = bytes(value[:room])
        try:
            return self._text(kept.decode("utf-8"))
        except UnicodeDecodeError:
            return self._text("base64:" + base64.b64encode(kept).decode("ascii"))


def _is_array(value: Any) -> bool:
    """A numpy array or scalar, or a tensor; none of the libraries has to be there."""
    library = type(value).__module__.partition(".")[0]
    return library in {"numpy", "torch"} and hasattr(value, "ndim") and hasattr(value, "item")


def _is_collection(value: Any) -> bool:
    """Dictionary views, deques and the like; tables (`DataFrame`) show themselves better."""
    return type(value).__module__ in {"builtins", "collections"} and isinstance(value, Iterable)


def _shown(value: object) -> str:
    """An object in its own words, without the address that differs in every run."""
    plain = type(value).__str__ is object.__str__ and type(value).__repr__ is object.__repr__
    return f"<{type(value).__name__}>" if plain else _ADDRESS.sub("", str(value))
