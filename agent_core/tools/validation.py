"""Validate arguments against a JSON Schema 2020-12: every error, with path, expected and got."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time
from functools import cached_property
from typing import TYPE_CHECKING

from agent_core.errors import ConfigError
from agent_core.messages import JsonObject, JsonValue, Language
from agent_core.tools.schema import MAX_DEPTH, Node, Path, json_path, modern
from agent_core.tools.wording import ArgumentError, Wording

if TYPE_CHECKING:
    from jsonschema_rs import ValidatorMap

_MAX_INT_DIGITS = 1_000  # beyond, numeric bounds are no longer checked exactly


class SchemaValidator:
    """A compiled schema.

    Args:
        schema: a JSON Schema; it is read as 2020-12 whatever it calls itself, and its
            references must be local.

    Raises:
        ConfigError: it is no valid schema, or refers to something that is not there.
    """

    def __init__(self, schema: JsonObject) -> None:
        import jsonschema_rs  # noqa: PLC0415 - 40 ms that only tools need

        schema = {key: value for key, value in modern(schema).items() if key != "$schema"}
        try:
            self._validator = jsonschema_rs.Draft202012Validator(
                schema, validate_formats=True, formats=_FORMATS, offline=True
            )
        except ValueError as error:
            reason = getattr(error, "message", str(error))
            raise ConfigError(f"expected a JSON Schema 2020-12: {reason}") from error
        self.schema = schema

    @cached_property
    def _parts(self) -> ValidatorMap:
        import jsonschema_rs  # noqa: PLC0415

        return jsonschema_rs.validator_map_for(
            self.schema, validate_formats=True, formats=_FORMATS, offline=True
        )

    def fits(self, node: Node, value: JsonValue) -> bool:
        """Whether a value is valid for one part of the schema."""
        part = self._parts.get(node.pointer)
        return part is None or part.is_valid(value)

    def unsafe(self, value: JsonValue, language: Language = "en") -> tuple[ArgumentError, ...]:
        """What no JSON text can hold, or is nested so deep that nothing can bear it."""
        return tuple(_unsafe(value, Wording(self.schema, language)))

    def errors(self, value: JsonValue, language: Language = "en") -> tuple[ArgumentError, ...]:
        """Everything that is wrong with a value, in the order of the schema."""
        unsafe = self.unsafe(value, language)
        if unsafe:  # the validator would misread such values, or crash on them
            return unsafe
        words = Wording(self.schema, language)
        found = [each for error in self._validator.iter_errors(value) for each in words.tell(error)]
        return tuple(dict.fromkeys(found))


def _unsafe(value: JsonValue, words: Wording) -> Iterator[ArgumentError]:
    """What no JSON text can hold, or no validator can bear."""
    stack: list[tuple[Path, JsonValue]] = [((), value)]
    while stack:
        path, each = stack.pop()
        if len(path) > MAX_DEPTH:
            yield ArgumentError(
                json_path(path[:3]) + "…", words.word("depth"), words.word("deeper")
            )
            return
        problem = _problem(each)
        if problem:
            yield ArgumentError(json_path(path), words.word("json"), problem)
        elif isinstance(each, dict):
            stack.extend(((*path, key), child) for key, child in reversed(each.items()))
        elif isinstance(each, list):
            stack.extend(((*path, n), each[n]) for n in range(len(each) - 1, -1, -1))


def _problem(value: JsonValue) -> str | None:
    """Why one value cannot stand in JSON, or None."""
    if value is None or isinstance(value, bool | list):
        return None
    if isinstance(value, int):
        digits = value.bit_length() * 0.30103
        return f"integer ({digits:.0f} digits)" if digits > _MAX_INT_DIGITS else None
    if isinstance(value, float):
        return None if value - value == 0 else str(value)
    if isinstance(value, str):
        return "lone surrogate" if _has_surrogate(value) else None
    if isinstance(value, dict):
        wrong = [key for key in value if not isinstance(key, str) or _has_surrogate(key)]
        return f"key {wrong[0]!a}" if wrong else None
    return type(value).__name__


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _is_datetime(text: str) -> bool:
    """RFC 3339, with or without a zone: models and Python's own `datetime` often have none."""
    if len(text) < 16 or text[4:5] != "-" or text[10] not in "Tt ":
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    if text[2:3] != ":":
        return False
    try:
        time.fromisoformat(text)
    except ValueError:
        return False
    return True


_FORMATS = {"date-time": _is_datetime, "time": _is_time}
