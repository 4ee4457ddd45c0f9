"""Finding one's way in a JSON Schema and in the data it describes."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

from agent_core.messages import JsonValue

MAX_DEPTH = 64
"""Arguments nested deeper than this are refused: no tool needs them and validators break."""

NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords that hold schemas by name."""

DATA = frozenset({"default", "const", "enum", "examples"})
"""Keywords that hold data, whatever its keys."""

_MAX_REFS = 100  # `$ref` to `$ref`: longer chains are circles

Path = tuple[str | int, ...]


class Node(NamedTuple):
    """A part of a schema, and the JSON pointer (`#/properties/a`) at which it stands."""

    schema: JsonValue
    pointer: str

    def child(self, *steps: str | int) -> Node:
        """Go down; the steps must exist."""
        schema, pointer = self.schema, self.pointer
        for step in steps:
            schema = schema[step]
            pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
        return Node(schema, pointer)


def modern(schema: JsonValue) -> Any:
    """A copy in the words of JSON Schema 2020-12.

    OpenAPI's `nullable` becomes a type, and a keyword that is null, as some servers write an
    absent one, goes.
    """
    if isinstance(schema, list):
        return [modern(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            result[key] = {name: modern(each) for name, each in value.items()}
        elif key in DATA or value is not None:
            result[key] = value if key in DATA else modern(value)
    if isinstance(result.get("nullable"), bool) and result.pop("nullable"):
        return _nullable(result)
    return result


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """The same or null."""
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = [each for each in types_of(schema) if each != "null"]
    nullable = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema and None not in schema["enum"]:
        nullable["enum"] = [*schema["enum"], None]
    return nullable


def find(root: JsonValue, pointer: str) -> Node | None:
    """Give the part that a local reference such as `#/$defs/Span` names, or None."""
    if pointer != "#" and not pointer.startswith("#/"):
        return None
    node = Node(root, "#")
    for step in unquote(pointer).split("/")[1:]:
        key: str | int = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node.schema, list) and str(key).isdigit():
            key = int(key)
        try:
            node = node.child(key)
        except (KeyError, IndexError, TypeError):
            return None
    return node


def follow(root: JsonValue, node: Node) -> Node:
    """Follow `$ref` until a schema that says something itself."""
    for _ in range(_MAX_REFS):
        reference = node.schema.get("$ref") if isinstance(node.schema, dict) else None
        target = find(root, reference) if isinstance(reference, str) else None
        if target is None:
            return node
        node = target
    return node


def types_of(schema: JsonValue) -> tuple[str, ...]:
    """The declared types, as a tuple whether one or several are named."""
    declared = schema.get("type", ()) if isinstance(schema, dict) else ()
    return (declared,) if isinstance(declared, str) else tuple(declared)


def is_type(value: JsonValue, name: str) -> bool:  # noqa: PLR0911 - one line for each type
    """Whether JSON Schema calls this value a `name`; true is no integer, 3.0 is one."""
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if name == "string":
        return isinstance(value, str)
    if name == "array":
        return isinstance(value, list)
    if name == "object":
        return isinstance(value, dict)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return name == "number" or isinstance(value, int) or value.is_integer()


def json_path(path: Path) -> str:
    """Write a path for people: `$.items[0].name`, `$["with space"]`."""
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("-", "_").isidentifier():
            text += f".{step}"
        else:
            text += f'["{step}"]'
    return text
