"""Make a schema as pydantic writes it one that others can read, too.

Small models, and servers that know half of JSON Schema, stumble over titles and references.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_core.messages import JsonObject, JsonValue
from agent_core.tools.schema import DATA, NAMED

_FIRST = ("type", "description", "properties", "required")


def tidied(schema: JsonObject) -> JsonObject:
    """The same schema in a stable order: titles go, references that do not lead back to
    themselves are written out, and "this or null" becomes a list of types."""
    definitions = schema.get("$defs", {})
    tidier = _Tidier(definitions)
    result: JsonObject = tidier.part({k: v for k, v in schema.items() if k != "$defs"})
    if tidier.kept:
        result["$defs"] = {key: tidier.part(definitions[key]) for key in sorted(tidier.kept)}
    return result


class _Tidier:
    """Tidies the parts of one schema; `kept` names the definitions that they still refer to."""

    def __init__(self, definitions: Mapping[str, JsonObject]) -> None:
        self.definitions = definitions
        self.recursive = {name for name in definitions if self._reaches(name, name, set())}
        self.kept: set[str] = set()

    def part(self, schema: JsonValue) -> Any:
        if isinstance(schema, list):
            return [self.part(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        name = _referred(schema)
        if name in self.recursive:
            self._keep(name)
        elif name:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return self.part({**self.definitions[name], **rest})
        result = {key: self._value(key, value) for key, value in schema.items() if key != "title"}
        result = _flat_union(result)
        first = {key: result[key] for key in _FIRST if key in result}
        return {**first, **result}

    def _value(self, key: str, value: JsonValue) -> JsonValue:
        if key in DATA:
            return value
        if key in NAMED:
            return {name: self.part(each) for name, each in value.items()}
        return self.part(value)

    def _keep(self, name: str) -> None:
        if name not in self.kept:
            self.kept.add(name)
            self.part(self.definitions[name])  # for the recursive ones that it refers to

    def _reaches(self, start: str, goal: str, seen: set[str]) -> bool:
        for name in _references(self.definitions[start]):
            if name == goal:
                return True
            if name not in seen:
                seen.add(name)
                if self._reaches(name, goal, seen):
                    return True
        return False


def _referred(schema: JsonObject) -> str:
    reference = schema.get("$ref")
    return reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""


def _references(schema: JsonValue) -> Iterator[str]:
    """Names of the definitions that a schema refers to."""
    if isinstance(schema, list):
        for each in schema:
            yield from _references(each)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            yield _referred(schema)
        for value in schema.values():
            yield from _references(value)


def _flat_union(schema: JsonObject) -> JsonObject:
    """Write `anyOf` as a list of types where that says the same."""
    branches = schema.get("anyOf", [])
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if branches and all(each.keys() == {"type"} for each in branches):
        return {"type": [each["type"] for each in branches], **rest}
    if len(branches) == 2 and branches[1] == {"type": "null"}:
        only = branches[0]
        if isinstance(only.get("type"), str) and not only.keys() & {"const", "$ref"}:
            nullable = {**only, "type": [only["type"], "null"]}
            if "enum" in only:
                nullable["enum"] = [*only["enum"], None]
            return {**nullable, **rest}
    return schema
