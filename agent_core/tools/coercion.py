"""Bring arguments towards their declared types, and record every change.

Models write `"10"` for 10 and `"[1, 2]"` for a list. What can be turned into the declared type
without losing anything is; whatever else is wrong stays as it came, for validation to refuse.
A value that is valid already is never touched (3.0 for an integer becomes 3, which equals it).
"""

from __future__ import annotations

import re
from typing import Any

from agent_core.messages import Coercion, JsonObject, JsonValue
from agent_core.tools.conversions import KEEP, SCALARS, choose_option, from_json_text
from agent_core.tools.schema import (
    MAX_DEPTH,
    Node,
    Path,
    find,
    is_type,
    json_path,
    types_of,
)
from agent_core.tools.validation import SchemaValidator

# Text that is not one item of a list: nothing, a list that went wrong, or several items.
_NO_ITEM = re.compile(r"\A\s*+(?:[\[{]|\Z)|[,，、;；\n]")
_SHOWN = 1_000  # characters of a string that a record keeps


def coerce(
    schema: JsonObject | SchemaValidator, value: JsonValue
) -> tuple[JsonValue, tuple[Coercion, ...]]:
    """Give a value nearer to its schema, and what was changed. The value itself is not modified.

    Doing it twice changes nothing more. Data nested deeper than `MAX_DEPTH` is left as it is.

    Raises:
        ConfigError: the schema is no valid JSON Schema.
    """
    validator = schema if isinstance(schema, SchemaValidator) else SchemaValidator(schema)
    coercer = _Coercer(validator)
    changed: list[Coercion] = []
    result = coercer.walk(Node(validator.schema, "#"), value, (), changed)
    return result, tuple(changed)


class _Coercer:
    """One pass over one value. Each method returns the value itself when it changes nothing."""

    def __init__(self, validator: SchemaValidator) -> None:
        self.validator = validator
        self.active: set[tuple[str, Path]] = set()
        self.may_wrap = True  # one item as a list of one: never twice, and only as a last resort
        self.tried: dict[tuple[Any, ...], tuple[JsonValue, JsonValue, list[Coercion]]] = {}

    def walk(self, node: Node, value: JsonValue, path: Path, out: list[Coercion]) -> JsonValue:
        key = (node.pointer, path)
        if not isinstance(node.schema, dict) or len(path) > MAX_DEPTH or key in self.active:
            return value  # the last: a schema that refers to itself without going down
        self.active.add(key)
        try:
            value = self._applied(node, value, path, out)
            value = self._typed(node, value, path, out)
            if isinstance(value, dict):
                return self._properties(node, value, path, out)
            if isinstance(value, list):
                return self._items(node, value, path, out)
            return value
        finally:
            self.active.discard(key)

    def _applied(self, node: Node, value: JsonValue, path: Path, out: list[Coercion]) -> JsonValue:
        """Follow the schemas that apply to the same value: `$ref`, `allOf`, unions."""
        reference = node.schema.get("$ref")
        target = find(self.validator.schema, reference) if isinstance(reference, str) else None
        if target is not None:
            value = self.walk(target, value, path, out)
        for number in range(len(node.schema.get("allOf", ()))):
            value = self.walk(node.child("allOf", number), value, path, out)
        for union in ("anyOf", "oneOf"):
            if union in node.schema:
                branches = [node.child(union, n) for n in range(len(node.schema[union]))]
                value = self._union(branches, value, path, out)
        return value

    def _union(
        self, branches: list[Node], value: JsonValue, path: Path, out: list[Coercion]
    ) -> JsonValue:
        """A value that fits a branch stays; else the first branch that it can be made to fit."""
        for branch in branches:
            if self._fits(branch, value):
                return self.walk(branch, value, path, out)
        for may_wrap in (False, True) if self.may_wrap else (False,):
            for branch in branches:
                result, changes = self._try(branch, value, path, may_wrap=may_wrap)
                if changes and self._fits(branch, result):
                    out.extend(changes)
                    return result
        return value

    def _fits(self, node: Node, value: JsonValue) -> bool:
        try:
            return self.validator.fits(node, value)
        except (ValueError, OverflowError):  # not JSON; validation names it
            return False

    def _try(
        self, node: Node, value: JsonValue, path: Path, *, may_wrap: bool
    ) -> tuple[JsonValue, list[Coercion]]:
        """Coerce towards one branch; remembered, since nested unions ask again and again."""
        key = (node.pointer, path, id(value), may_wrap)
        if key not in self.tried:
            changes: list[Coercion] = []
            before, self.may_wrap = self.may_wrap, may_wrap
            result = self.walk(node, value, path, changes)
            self.may_wrap = before
            self.tried[key] = (value, result, changes)  # keeps `value` alive, so its id is its own
        return self.tried[key][1:]

    def _typed(self, node: Node, value: JsonValue, path: Path, out: list[Coercion]) -> JsonValue:
        types = types_of(node.schema)
        result = value
        if "integer" in types and "number" not in types and _is_whole_float(value):
            result = int(value)
        elif types and not any(is_type(value, each) for each in types):
            # last what takes almost anything
            for each in sorted(types, key=lambda name: name in {"array", "string"}):
                result = self._towards(each, node, value, path)
                if result is not KEEP:
                    break
            else:
                result = value
        result = choose_option(node.schema, result)
        if result is not value:
            out.append(Coercion(json_path(path), _brief(value), _brief(result)))
        return result

    def _towards(self, name: str, node: Node, value: JsonValue, path: Path) -> JsonValue:
        if name == "array":
            return self._to_array(node, value, path)
        if name == "object":
            return from_json_text(value, dict, MAX_DEPTH - len(path))
        return SCALARS[name](value)

    def _to_array(self, node: Node, value: JsonValue, path: Path) -> JsonValue:
        decoded = from_json_text(value, list, MAX_DEPTH - len(path))
        if decoded is not KEEP:
            return decoded
        if value is None or isinstance(value, dict) or not self.may_wrap:
            return KEEP
        if isinstance(value, str) and _NO_ITEM.search(value):
            return KEEP
        first = ("prefixItems", 0) if node.schema.get("prefixItems") else ("items",)
        if first[0] not in node.schema:
            return KEEP
        item = node.child(*first)
        result, _ = self._try(item, value, (*path, 0), may_wrap=False)
        return [value] if self._fits(item, result) else KEEP

    def _properties(
        self, node: Node, value: JsonObject, path: Path, out: list[Coercion]
    ) -> JsonObject:
        known = node.schema.get("properties", {})
        other = None if "patternProperties" in node.schema else "additionalProperties"
        result = dict(value)
        for key, child in value.items():
            if key in known:
                part = node.child("properties", key)
            elif other and isinstance(node.schema.get(other), dict):
                part = node.child(other)
            else:
                continue
            if child is None and key in known and self._omits(node, part, key):
                del result[key]
                out.append(Coercion(json_path(path), {key: None}, {}))
            else:
                result[key] = self.walk(part, child, (*path, key), out)
        unchanged = len(result) == len(value) and all(result[k] is value[k] for k in value)
        return value if unchanged else result

    def _omits(self, node: Node, part: Node, key: str) -> bool:
        """Null for something that may be left out, and may not be null, means: left out."""
        return key not in node.schema.get("required", ()) and not self._fits(part, None)

    def _items(self, node: Node, value: list[Any], path: Path, out: list[Coercion]) -> list[Any]:
        prefix = len(node.schema.get("prefixItems", ()))
        rest = node.child("items") if isinstance(node.schema.get("items"), dict) else None
        result = list(value)
        for number, child in enumerate(value):
            part = node.child("prefixItems", number) if number < prefix else rest
            if part is not None:
                result[number] = self.walk(part, child, (*path, number), out)
        return value if all(a is b for a, b in zip(result, value, strict=True)) else result


def _is_whole_float(value: JsonValue) -> bool:
    return isinstance(value, float) and value.is_integer()


def _brief(value: JsonValue) -> JsonValue:
    """A value as a record keeps it: long text shortened."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return value[:_SHOWN] + "…"
    return value
