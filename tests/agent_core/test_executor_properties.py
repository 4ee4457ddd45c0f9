"""What holds for the executor whatever the schema, the signature and the arguments are."""

from __future__ import annotations

import dataclasses
import inspect
import json
import unicodedata
from copy import deepcopy
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from agent_core.messages import Action
from agent_core.tools import (
    FunctionCallExecutor,
    FunctionDefinition,
    SchemaValidator,
    coerce,
    define,
)

Case = tuple[dict[str, Any], Any]  # a schema, and a value that is valid for it

NAMES = st.sampled_from(["a", "b", "城市", "with space", "x/y~z"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTEGERS = st.integers(-(10**20), 10**20)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXT)
LOOKALIKES = st.sampled_from(
    ["1", " 2.0", "-3.5", "１２", "007", "1e2", "true", "No", "null", "NaN", "[1, 2]", '["1"]',
     '{"a": "1"}', "[[", '"x"', "A", 0, 1, 1.0, -0.0]
)  # fmt: skip
JSON = st.recursive(
    SCALARS | LOOKALIKES,
    lambda child: st.lists(child, max_size=3) | st.dictionaries(NAMES, child, max_size=3),
    max_leaves=8,
)


@st.composite
def bounded(draw: st.DrawFn) -> Case:
    """A number between bounds."""
    low, value, high = sorted(draw(st.tuples(INTEGERS, INTEGERS, INTEGERS)))
    return {"type": "integer", "minimum": low, "maximum": high}, value


@st.composite
def chosen(draw: st.DrawFn) -> Case:
    """One of some options, or the only one."""
    options = draw(st.lists(SCALARS, min_size=1, max_size=3, unique_by=repr))
    value = draw(st.sampled_from(options))
    return draw(st.sampled_from([{"enum": options}, {"const": value}])), value


LEAVES: st.SearchStrategy[Case] = st.one_of(
    bounded(),
    chosen(),
    st.tuples(st.just({"type": "integer"}), INTEGERS),
    st.tuples(st.just({"type": "number"}), FLOATS | INTEGERS),
    st.tuples(st.just({"type": "boolean"}), st.booleans()),
    st.tuples(st.just({"type": "string"}), TEXT),
    st.tuples(st.just({"type": ["integer", "null"]}), st.none() | INTEGERS),
    st.tuples(st.just({"type": ["integer", "string"]}), TEXT | INTEGERS),
    st.tuples(
        st.just({"type": "string", "format": "date"}), st.dates().map(lambda day: day.isoformat())
    ),
    st.tuples(st.just({}), JSON),
)


@st.composite
def lists(draw: st.DrawFn, child: st.SearchStrategy[Case]) -> Case:
    """Several items of one schema: copies of a value that is valid for it."""
    schema, value = draw(child)
    return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 3))


@st.composite
def tuples(draw: st.DrawFn, child: st.SearchStrategy[Case]) -> Case:
    """Each item with its own schema."""
    cases = draw(st.lists(child, min_size=1, max_size=3))
    schema = {"type": "array", "prefixItems": [schema for schema, _ in cases], "items": False}
    return schema, [value for _, value in cases]


@st.composite
def objects(draw: st.DrawFn, child: st.SearchStrategy[Case]) -> Case:
    """Known keys, some required, some absent with a default; unknown ones by chance."""
    cases = draw(st.dictionaries(NAMES, child, max_size=4))
    properties = {name: schema for name, (schema, _) in cases.items()}
    value = {name: value for name, (_, value) in cases.items()}
    required = draw(st.lists(st.sampled_from(sorted(cases)), unique=True)) if cases else []
    for name in sorted(cases.keys() - set(required)):
        if draw(st.booleans()):
            default = value.pop(name)
            if draw(st.booleans()):
                properties[name] = {**properties[name], "default": default}
    schema = {"type": "object", "properties": properties, "required": required}
    return {**schema, **draw(st.sampled_from([{}, {"additionalProperties": False}]))}, value


@st.composite
def unions(draw: st.DrawFn, child: st.SearchStrategy[Case]) -> Case:
    """One of two schemas, through a reference or not, or both at once."""
    first, second = draw(child), draw(child)
    wrapped = draw(st.sampled_from(["anyOf", "allOf"]))
    branches = [first[0], second[0]] if wrapped == "anyOf" else [first[0], {}]
    return {wrapped: branches}, first[1]


CASES = st.recursive(
    LEAVES,
    lambda child: st.one_of(lists(child), tuples(child), objects(child), unions(child)),
    max_leaves=6,
)
SCHEMAS = CASES.map(lambda case: case[0])


def strict(value: Any) -> str:
    """A value as text, so that True, 1 and 1.0 differ."""
    return json.dumps(value, sort_keys=True)


def without_whole_floats(value: Any) -> Any:
    """The one change that a valid value may undergo: 3.0 becomes the integer that it equals."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [without_whole_floats(each) for each in value]
    if isinstance(value, dict):
        return {key: without_whole_floats(each) for key, each in value.items()}
    return value


@given(CASES)
@settings(deadline=None, max_examples=100)
def test_a_valid_value_is_unchanged(case: Case) -> None:
    """Whatever the schema is, what fits it already is not touched."""
    schema, value = case
    result, changes = coerce(schema, value)
    assert strict(without_whole_floats(result)) == strict(without_whole_floats(value))
    assert all(change.before == change.after for change in changes)


@given(SCHEMAS, JSON)
@settings(deadline=None, max_examples=100)
def test_coercion_is_idempotent_recorded_and_works_on_a_copy(schema: Any, value: Any) -> None:
    """A second pass changes nothing; a change is recorded exactly when there is one."""
    original = deepcopy(value)
    result, changes = coerce(schema, value)
    assert strict(value) == strict(original)
    assert (strict(result) != strict(value)) == bool(changes)
    assert coerce(schema, result) == (result, ())


@given(SCHEMAS, JSON)
@settings(deadline=None, max_examples=100)
def test_coercion_loses_nothing(schema: Any, value: Any) -> None:
    """From each record the value that came can be told, up to width, case and spaces."""
    for change in coerce(schema, value)[1]:
        before, after = change.before, change.after
        if isinstance(before, str) and isinstance(after, int | float | bool):
            plain = unicodedata.normalize("NFKC", before).strip()
            if isinstance(after, bool):
                assert plain.casefold() in {"true", "yes"} if after else {"false", "no"}
            else:
                assert Decimal(plain) == Decimal(str(after))
        elif isinstance(before, int | float) and isinstance(after, str):
            assert json.loads(after) == before
        elif isinstance(before, int | float) and not isinstance(before, bool):
            assert after in (before, [before])
        else:
            assert not isinstance(before, bool) or after == [before]


def spoiled(value: Any) -> Any:
    """The value as a careless model writes it: numbers, truth and containers as text."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return value


@given(
    st.recursive(
        st.one_of(
            st.tuples(st.just({"type": "integer"}), INTEGERS),
            st.tuples(st.just({"type": "number"}), FLOATS),
            st.tuples(st.just({"type": "boolean"}), st.booleans()),
        ),
        lambda child: st.one_of(lists(child), tuples(child)),
        max_leaves=4,
    )
)
@settings(deadline=None, max_examples=100)
def test_what_was_written_as_text_comes_back(case: Case) -> None:
    """JSON text of a number, a truth value or a list is read as what it says."""
    schema, value = case
    result, _ = coerce(schema, spoiled(value))
    assert result == value


@given(objects(CASES), st.dictionaries(NAMES, JSON, max_size=4))
@settings(deadline=None, max_examples=100)
def test_a_tool_gets_valid_arguments_or_is_not_run(case: Case, arguments: dict[str, Any]) -> None:
    """Either the tool was called with arguments its schema accepts, or errors name paths."""
    schema, _ = case
    received: list[dict[str, Any]] = []
    tool = FunctionDefinition(
        "tool", parameters=schema, function=lambda **given: received.append(given)
    )
    observation = FunctionCallExecutor([tool]).execute(Action("tool", arguments))
    if observation.ok:
        assert SchemaValidator(schema).errors(received[0]) == ()
        assert observation.arguments == received[0]
        for name, part in schema["properties"].items():
            assert name in received[0] or "default" not in part
    else:
        assert observation.error is not None
        assert observation.error.kind == "invalid_arguments"
        assert "$" in observation.text
        assert received == []


class Color(Enum):
    """An enumeration as a parameter."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """A dataclass as a parameter."""

    x: int
    y: float = 0.5


class Place(BaseModel):
    """A pydantic model as a parameter."""

    name: str
    point: Point | None = None


ANNOTATIONS: list[tuple[Any, st.SearchStrategy[Any], Any]] = [
    (int, INTEGERS, 1),
    (float, st.floats(-1e9, 1e9), 0.5),
    (bool, st.booleans(), False),
    (str, TEXT, "x"),
    (int | None, st.none() | INTEGERS, None),
    (list[int], st.lists(INTEGERS, max_size=3), [1]),
    (dict[str, bool], st.dictionaries(TEXT, st.booleans(), max_size=2), {}),
    (Literal["a", "b"], st.sampled_from(["a", "b"]), "a"),
    (Color, st.sampled_from(["red", "blue"]), Color.RED),
    (Point, st.fixed_dictionaries({"x": INTEGERS}), Point(1)),
    (Place, st.fixed_dictionaries({"name": TEXT, "point": st.just({"x": 1})}), Place(name="n")),
]


@st.composite
def signatures(draw: st.DrawFn) -> tuple[inspect.Signature, dict[str, Any]]:
    """A signature, and arguments that fit it."""
    parameters, arguments = [], {}
    for number in range(draw(st.integers(0, 4))):
        annotation, values, default = draw(st.sampled_from(ANNOTATIONS))
        optional = draw(st.booleans())
        name = f"p{number}"
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=default if optional else inspect.Parameter.empty,
            )
        )
        if not optional or draw(st.booleans()):
            arguments[name] = draw(values)
    return inspect.Signature(parameters), arguments


@given(signatures())
@settings(deadline=None, max_examples=60)
def test_a_function_gets_the_types_it_declares(
    case: tuple[inspect.Signature, dict[str, Any]],
) -> None:
    """JSON that fits the signature arrives as its Python types, defaults included."""
    signature, arguments = case
    received: dict[str, Any] = {}

    def function(**given: Any) -> None:
        bound = signature.bind(**given)
        bound.apply_defaults()
        received.update(bound.arguments)

    function.__signature__ = signature  # type: ignore[attr-defined]
    definition = define(function)
    assert list(definition.parameters["properties"]) == list(signature.parameters)
    observation = FunctionCallExecutor([definition]).execute(Action("function", arguments))
    assert observation.ok, observation.text
    for name, parameter in signature.parameters.items():
        kind = parameter.annotation
        if kind in (int, float, bool, str, Color, Point, Place):
            assert type(received[name]) is kind
        elif name in arguments:
            assert received[name] == arguments[name]


@pytest.mark.parametrize("arguments", ["text", 5, [1], None], ids=repr)
def test_arguments_that_are_no_object_are_refused_or_empty(arguments: Any) -> None:
    """Native calls can carry anything in the place of an object."""
    tool = FunctionDefinition(
        "tool", parameters={"required": ["a"]}, function=lambda **given: given
    )
    observation = FunctionCallExecutor([tool]).execute(Action("tool", arguments))
    assert observation.error is not None
    assert observation.error.kind == "invalid_arguments"
