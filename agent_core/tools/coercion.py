"""Bring arguments towards their declared types, and record every change.

Models write `"10"` for 10 and `"[1, 2]"` for a list. What can be turned into the declared type
without losing anything is; whatever else is wrong stays as it came, for validation to refuse.
A value that is valid already is never touched (3.0 for an integer becomes 3, which equals it).
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Any

from agent_core.messages import Coercion, JsonObject, JsonValue
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

_INTEGER = re.compile(r"[+-]?[0-9]{1,1000}(?:\.0{1,20})?")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,1000}(?:\.[0-9]{0,1000})?|\.[0-9]{1,1000})(?:[eE][+-]?[0-9]{1,3})?"
)
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_SHOWN = 1_000  # characters of a string that a record keeps

_KEEP: Any = object()  # "cannot be turned into that"


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
                if result is not _KEEP:
                    break
            else:
                result = value
        result = _choose(node.schema, result)
        if result is not value:
            out.append(Coercion(json_path(path), _brief(value), _brief(result)))
        return result

    def _towards(self, name: str, node: Node, value: JsonValue, path: Path) -> JsonValue:
        if name == "array":
            return self._to_array(node, value, path)
        if name == "object":
            return _decoded(value, dict, path)
        return _SCALARS[name](value)

    def _to_array(self, node: Node, value: JsonValue, path: Path) -> JsonValue:
        decoded = _decoded(value, list, path)
        if decoded is not _KEEP:
            return decoded
        if value is None or isinstance(value, dict) or not self.may_wrap:
            return _KEEP
        if isinstance(value, str) and value.lstrip()[:1] in {"[", "{", ""}:
            return _KEEP  # a list that went wrong, not one item
        first = ("prefixItems", 0) if node.schema.get("prefixItems") else ("items",)
        if first[0] not in node.schema:
            return _KEEP
        item = node.child(*first)
        result, _ = self._try(item, value, (*path, 0), may_wrap=False)
        return [value] if self._fits(item, result) else _KEEP

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


def _plain(text: str) -> str:
    """Full-width digits and signs as ASCII ones, without spaces around."""
    return unicodedata.normalize("NFKC", text).strip()


def _to_integer(value: JsonValue) -> JsonValue:
    text = _plain(value) if isinstance(value, str) else ""
    return int(text.partition(".")[0]) if _INTEGER.fullmatch(text) else _KEEP


def _to_number(value: JsonValue) -> JsonValue:
    whole = _to_integer(value)
    if whole is not _KEEP and "." not in _plain(value):
        return whole
    text = _plain(value) if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text):
        return _KEEP
    number = float(text)
    try:
        exact = math.isfinite(number) and Decimal(text) == Decimal(repr(number))
    except InvalidOperation:
        return _KEEP
    return number if exact else _KEEP  # digits that a float cannot hold would be lost


def _to_boolean(value: JsonValue) -> JsonValue:
    return _TRUTH.get(_plain(value).casefold(), _KEEP) if isinstance(value, str) else _KEEP


def _to_null(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and _plain(value).casefold() in {"null", "none"}:
        return None
    return _KEEP


def _to_string(value: JsonValue) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _KEEP
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:  # not finite, or more digits than Python writes
        return _KEEP


_SCALARS = {
    "integer": _to_integer,
    "number": _to_number,
    "boolean": _to_boolean,
    "null": _to_null,
    "string": _to_string,
}


def _decoded(value: JsonValue, kind: type, path: Path) -> JsonValue:
    """A list or object that came as its JSON text."""
    if not isinstance(value, str) or value.lstrip()[:1] not in {"[", "{"}:
        return _KEEP
    try:
        decoded = json.loads(value, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _KEEP
    fits = isinstance(decoded, kind) and not _deeper(decoded, MAX_DEPTH - len(path))
    return decoded if fits else _KEEP


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonObject:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


def _refuse(constant: str) -> JsonValue:
    raise ValueError(f"{constant} is no JSON")


def _deeper(value: JsonValue, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            child
            for each in layer
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not layer:
            return False
    return True


def _choose(schema: JsonObject, value: JsonValue) -> JsonValue:
    """The one option of `enum` or `const` that differs only in case, width, spaces or type."""
    options = [schema["const"]] if "const" in schema else schema.get("enum")
    if not options or isinstance(value, dict | list) or any(_same(value, o) for o in options):
        return value
    if isinstance(value, str):
        wanted = _plain(value).casefold()
        like = [o for o in options if isinstance(o, str) and _plain(o).casefold() == wanted]
        if len(like) == 1:
            return like[0]
    if not types_of(schema):
        for convert in _SCALARS.values():
            result = convert(value)
            if result is not _KEEP and any(_same(result, o) for o in options):
                return result
    return value


def _same(a: JsonValue, b: JsonValue) -> bool:
    """Equality as JSON knows it: true is not 1."""
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _brief(value: JsonValue) -> JsonValue:
    """A value as a record keeps it: long text shortened."""
    if isinstance(value, str) and len(value) > _SHOWN:
        return value[:_SHOWN] + "…"
    return value
