"""Arguments are brought to their declared types: what is changed, what is left alone."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import pytest

from agent_core.errors import ConfigError
from agent_core.messages import Coercion
from agent_core.tools import SchemaValidator, coerce
from agent_core.tools.defaults import fill_defaults

INTEGERS = {"type": "array", "items": {"type": "integer"}}
STRINGS = {"type": "array", "items": {"type": "string"}}
UNITS = {"enum": ["celsius", "fahrenheit"]}


@pytest.mark.parametrize(
    ("schema", "before", "after"),
    [
        ({"type": "number"}, "75.5", 75.5),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "number"}, "12", 12),
        ({"type": "number"}, "-.5", -0.5),
        ({"type": "integer"}, "10", 10),
        ({"type": "integer"}, " 42 ", 42),
        ({"type": "integer"}, "１２", 12),
        ({"type": "integer"}, "－３", -3),
        ({"type": "integer"}, "0042", 42),
        ({"type": "integer"}, "3.0", 3),
        ({"type": "integer"}, "\u22123", -3),
        ({"type": "number"}, "1.000", 1.0),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, "123456789012345678901234567890", 123456789012345678901234567890),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "boolean"}, "no", False),
        ({"type": "boolean"}, "是", True),
        ({"type": "boolean"}, "否", False),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["integer", "null"]}, "None", None),
        ({"type": "string"}, 7, "7"),
        ({"type": "string"}, 1.50, "1.5"),
        ({"type": ["string", "null"]}, 12, "12"),
        (INTEGERS, "[1, 2]", [1, 2]),
        (INTEGERS, '["1", "2"]', [1, 2]),
        (INTEGERS, 5, [5]),
        (INTEGERS, "5", [5]),
        (STRINGS, "x", ["x"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        (UNITS, "Celsius", "celsius"),
        (UNITS, " FAHRENHEIT ", "fahrenheit"),
        ({"enum": [1, 2]}, "2", 2),
        ({"enum": ["1", "2"]}, 2, "2"),
        ({"type": "string", "enum": ["1", "2"]}, 1, "1"),
        ({"const": "on"}, "ON", "on"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "null", None),
        ({"anyOf": [{"type": "integer"}, INTEGERS]}, "[1]", [1]),
        ({"anyOf": [INTEGERS, {"type": "integer"}]}, "1", 1),
        ({"type": ["array", "integer"], "items": {"type": "integer"}}, "1", 1),
        ({"anyOf": [INTEGERS, {"type": "null"}]}, "1", [1]),
        ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, "7", 7),
        ({"allOf": [{"type": "integer"}, {"minimum": 3}]}, "5", 5),
        ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "5", 5),
        ({"properties": {"a": {"properties": {"b": INTEGERS}}}}, {"a": {"b": ["1"]}},
         {"a": {"b": [1]}}),
        ({"prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}}, ["1", "true"],
         [1, True]),
        ({"additionalProperties": {"type": "integer"}}, {"x": "1"}, {"x": 1}),
        ({"properties": {"limit": {"type": "integer"}}}, {"limit": None}, {}),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_is_brought_to_its_declared_type(schema: Any, before: Any, after: Any) -> None:
    """What the model plainly meant is what the tool gets, and the change is recorded."""
    original = deepcopy(before)
    value, changes = coerce(schema, before)
    assert value == after
    assert type(value) is type(after)
    assert changes
    assert before == original, "the arguments themselves are not modified"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "007"),
        ({"type": "string"}, '["a"]'),
        ({"type": "string"}, True),
        ({"type": "string"}, None),
        ({"type": "string"}, ["a"]),
        ({"type": "string"}, math.inf),
        ({"type": "integer"}, True),
        ({"type": "integer"}, "3.14"),
        ({"type": "integer"}, 3.5),
        ({"type": "integer"}, "1e3"),
        ({"type": "integer"}, "1,000"),
        ({"type": "integer"}, "1.000"),
        ({"type": "integer"}, "１．０００"),
        ({"type": "integer"}, ""),
        ({"type": "integer"}, "3²"),
        ({"type": "number"}, "2½"),
        ({"type": "integer"}, None),
        ({"type": "integer"}, [1]),
        ({"type": "integer"}, "9" * 2000),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "Infinity"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "3.14159265358979323846"),
        ({"type": "number"}, False),
        ({"type": "boolean"}, "maybe"),
        ({"type": "boolean"}, 1),
        ({"type": "boolean"}, "1"),
        ({"type": "null"}, ""),
        (INTEGERS, "[1, 2"),
        (INTEGERS, "1, 2"),
        (INTEGERS, {"0": 1}),
        (INTEGERS, None),
        (STRINGS, "[not json"),
        (STRINGS, "alpha, beta"),
        (STRINGS, "甲、乙"),
        (STRINGS, ["[not json", "x"]),
        ({"type": "object"}, '{"a": 1, "a": 2}'),
        ({"type": "object"}, '{"a": NaN}'),
        ({"type": "object"}, "[1]"),
        ({"type": "object"}, "[" * 5000),
        ({"enum": ["A", "a"]}, " a "),
        ({"enum": [1, "one"]}, True),
        ({"type": ["integer", "string"]}, "0042"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "5"),
        ({"properties": {"n": {"type": "integer"}}, "required": ["n"]}, {"n": None}),
        ({"properties": {"n": {"type": ["integer", "null"]}}}, {"n": None}),
        (True, "x"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_what_is_valid_or_unclear_stays_as_it_came(schema: Any, value: Any) -> None:
    """No guess, no loss: what cannot be brought to the type is left for validation to refuse."""
    schema = schema if isinstance(schema, dict) else {"items": schema}
    assert coerce(schema, value) == (value, ())


def test_a_union_of_same_looking_options_is_not_decided() -> None:
    """Two options that differ only in case leave no unique choice."""
    assert coerce({"enum": ["A", "a"]}, "Ａ") == ("Ａ", ())


def test_changes_carry_paths_and_both_values() -> None:
    """The record says where, what came, and what it became."""
    schema = {
        "properties": {
            "rows": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}},
            "a b": {"type": "boolean"},
        }
    }
    _, changes = coerce(schema, {"rows": [{"n": 1}, {"n": "2"}], "a b": "true"})
    assert changes == (
        Coercion("$.rows[1].n", "2", 2),
        Coercion('$["a b"]', "true", True),
    )


def test_a_schema_that_refers_to_itself_ends() -> None:
    """Circles in the schema and deep data cost no more than the data has nodes."""
    tree = {
        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}],
        "allOf": [{"$ref": "#"}],
    }
    value: Any = "1"
    for _ in range(60):
        value = [value]
    result, changes = coerce(tree, value)
    assert [change.after for change in changes] == [1]
    assert result != value


def test_nested_unions_are_tried_once_each() -> None:
    """Two branches that both lead down do not double the work at every level."""
    branch = {"type": "array", "items": {"$ref": "#"}}
    tree = {"anyOf": [{**branch, "minItems": 2}, {**branch, "maxItems": 1}, {"type": "integer"}]}
    value: Any = "1"
    for _ in range(14):
        value = [value]
    result, _ = coerce(tree, value)
    for _ in range(14):
        [result] = result
    assert result == 1


def test_every_schema_is_read_as_2020_12() -> None:
    """Servers write another `$schema` and mean nothing by it; one reading has to do for all."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "anyOf": [{"prefixItems": [{"type": "integer"}]}, {"type": "null"}],
    }
    assert coerce(schema, ["1"])[0] == [1]


def test_a_broken_schema_is_a_config_error() -> None:
    """It is told when the tool is defined, not when it is called."""
    with pytest.raises(ConfigError, match="JSON Schema"):
        coerce({"type": "nonsense"}, 1)


def test_defaults_are_filled_in_at_every_level() -> None:
    """Absent properties get their default, fresh each time, through references and unions."""
    schema = {
        "properties": {
            "n": {"type": "integer", "default": 3},
            "options": {"$ref": "#/$defs/options", "default": {}},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/options"}},
            "maybe": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/options"}]},
            "none": {"type": "string", "default": None},
            "plain": {"type": "string"},
        },
        "$defs": {"options": {"type": "object", "properties": {"deep": {"default": []}}}},
    }
    validator = SchemaValidator(schema)
    given = {"rows": [{}, {"deep": [1]}], "maybe": {}}
    filled = fill_defaults(validator, given)
    assert filled == {
        "n": 3,
        "options": {"deep": []},
        "rows": [{"deep": []}, {"deep": [1]}],
        "maybe": {"deep": []},
    }
    assert given == {"rows": [{}, {"deep": [1]}], "maybe": {}}
    filled["options"]["deep"].append("x")
    assert fill_defaults(validator, {})["options"] == {"deep": []}
