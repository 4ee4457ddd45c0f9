"""A document that is nothing but JSON, such as a structured answer, read tolerantly."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_core.messages import FormatErrorCode, JsonValue, Repair
from agent_core.parsing.json_reader import JsonReader
from agent_core.parsing.json_strict import MAX_CHARS
from agent_core.parsing.outcome import Refusal, RepairLog

_FENCE = re.compile(r"[\s\ufeff]*+(```[ \t]*+\w*+)?+[\s\ufeff]*+")


def no_gap(text: str, pos: int) -> bool:
    """Only a closing fence ends a document that is nothing but JSON."""
    return text.startswith("```", pos)


@dataclass(frozen=True, slots=True)
class TolerantJson:
    """A value read from damaged JSON.

    Attributes:
        value: what was read.
        end: offset after it in the text; anything that follows was not looked at.
        repairs: what was mended; empty when the text was strict JSON.
    """

    value: JsonValue
    end: int
    repairs: tuple[Repair, ...] = ()


class JsonDamage(ValueError):
    """JSON that cannot be read without a guess. `code` says why, as in a `FormatError`."""

    def __init__(self, code: FormatErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def loads_tolerant(text: str, *, max_chars: int = MAX_CHARS, ended: bool = True) -> TolerantJson:
    """Read the JSON document in `text`, mending what can be mended without a guess.

    A fence round it is taken off; what follows it is not looked at.

    Args:
        text: for example a structured answer of a model.
        max_chars: longer texts are refused.
        ended: the text is known to be whole; otherwise closers that are missing at its very
            end are not added.

    Raises:
        JsonDamage: when no value can be read safely.
    """
    log = RepairLog()
    try:
        if len(text) > max_chars:
            raise Refusal("too_large", f"{len(text)} characters, at most {max_chars} are read")
        start = _FENCE.match(text)
        pos = start.end() if start else 0
        if start and start.group(1):
            log.add("fence", start.start(1), start.group(1), "")
        value, end = JsonReader(text, log, ended=ended, gap=no_gap).read(pos)
    except Refusal as refusal:
        raise JsonDamage(refusal.code, refusal.message) from None
    return TolerantJson(value, end, log.all())
