"""Fill in what a schema says is meant when an argument is absent."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from agent_core.messages import JsonValue
from agent_core.tools.schema import MAX_DEPTH, Node, Path, find
from agent_core.tools.validation import SchemaValidator


def fill_defaults(validator: SchemaValidator, value: JsonValue) -> JsonValue:
    """Give a copy with every absent property that has a `default`, nested ones included.

    A default that its own schema refuses (`"type": "string", "default": null`) means "none"
    and is not filled in. A default is no coercion: nothing the model said is changed.
    """
    return _Filler(validator).walk(Node(validator.schema, "#"), _copy(value), ())


class _Filler:
    """One pass over one value, which belongs to us and is filled in place."""

    def __init__(self, validator: SchemaValidator) -> None:
        self.validator = validator
        self.active: set[tuple[str, Path]] = set()

    def walk(self, node: Node, value: JsonValue, path: Path) -> JsonValue:
        key = (node.pointer, path)
        if not isinstance(node.schema, dict) or len(path) > MAX_DEPTH or key in self.active:
            return value
        if not isinstance(value, dict | list):
            return value
        self.active.add(key)
        for part in self._applied(node, value):
            self.walk(part, value, path)
        if isinstance(value, dict):
            self._properties(node, value, path)
        else:
            self._items(node, value, path)
        self.active.discard(key)
        return value

    def _applied(self, node: Node, value: JsonValue) -> list[Node]:
        """The schemas that apply to the same value; of a union, the first that fits."""
        reference = node.schema.get("$ref")
        target = find(self.validator.schema, reference) if isinstance(reference, str) else None
        parts = [] if target is None else [target]
        parts += [node.child("allOf", n) for n in range(len(node.schema.get("allOf", ())))]
        for union in ("anyOf", "oneOf"):
            branches = (node.child(union, n) for n in range(len(node.schema.get(union, ()))))
            parts += [each for each in branches if self.validator.fits(each, value)][:1]
        return parts

    def _properties(self, node: Node, value: dict[str, Any], path: Path) -> None:
        known = node.schema.get("properties", {})
        for name, schema in known.items():
            part = node.child("properties", name)
            fills = name not in value and isinstance(schema, dict) and "default" in schema
            if fills and self.validator.fits(part, schema["default"]):
                value[name] = deepcopy(schema["default"])
            if name in value:
                self.walk(part, value[name], (*path, name))
        if isinstance(node.schema.get("additionalProperties"), dict):
            for name in value.keys() - known.keys():
                self.walk(node.child("additionalProperties"), value[name], (*path, name))

    def _items(self, node: Node, value: list[Any], path: Path) -> None:
        prefix = len(node.schema.get("prefixItems", ()))
        rest = node.child("items") if isinstance(node.schema.get("items"), dict) else None
        for number, child in enumerate(value):
            part = node.child("prefixItems", number) if number < prefix else rest
            if part is not None:
                self.walk(part, child, (*path, number))


def _copy(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_copy(child) for child in value]
    return value
