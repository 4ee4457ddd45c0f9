"""Arguments that a tool cannot take are refused, with all that is wrong told at once."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from agent_core.messages import Action, Language
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, define
from tests.agent_core.tools_support import execute, weather


class Place(BaseModel):
    """A parameter with parts."""

    name: str
    floor: int


class Even(BaseModel):
    """A parameter whose type knows more than its schema says."""

    n: int

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        """Refuse odd numbers."""
        if n % 2:
            raise ValueError("must be even")
        return n


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        (
            "en",
            [
                "arguments of weather are not valid",
                '- $.days: expected integer, got string "two"',
                "- $.town: expected only city, days, got an unknown key",
                "- $.city: expected string, got nothing",
            ],
        ),
        (
            "zh",
            [
                "weather 的参数无效",
                '- $.days：应为 integer，实际 string "two"',
                "- $.town：应为 仅限 city, days，实际 未知的键",
                "- $.city：应为 string，实际 未提供",
            ],
        ),
    ],
)
def test_every_error_is_told_with_path_expected_and_got(
    language: Language, lines: list[str]
) -> None:
    """One refusal is enough for the model to get all of it right."""
    executor = FunctionCallExecutor([weather], language=language)
    observation = executor.execute(Action("weather", {"town": "Oslo", "days": "two"}))
    assert observation.error is not None
    assert observation.error.kind == "invalid_arguments"
    assert observation.arguments is None
    for line in lines:
        assert line in observation.text


def test_an_error_deep_in_a_union_names_the_deep_path() -> None:
    """Where only one branch is meant, its own errors are told, not the list of branches."""

    def go(to: Place | list[int]) -> None:
        """Go somewhere."""

    observation = execute(go, {"to": {"name": "x", "floor": "top"}})
    assert '$.to.floor: expected integer, got string "top"' in observation.text
    observation = execute(go, {"to": True})
    assert "$.to: expected object or array of integer, got boolean true" in observation.text


def _shape(kind: str, *needed: str) -> dict[str, Any]:
    properties = {"kind": {"const": kind}, **{key: {"type": "number"} for key in needed}}
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"kind": "square"}, "- $.s.side: expected number, got nothing"),
        ({"kind": "circle", "r": "big"}, '- $.s.r: expected number, got string "big"'),
        ({"kind": "line", "r": 1}, '- $.s.kind: expected "circle", got string "line"'),
        ({"kind": "line"}, '- $.s.kind: expected "circle" or "square", got string "line"'),
        ({"kind": 1}, '- $.s.kind: expected "circle" or "square", got integer 1'),
    ],
)
def test_the_nearest_branch_of_a_union_is_told(given: dict[str, Any], line: str) -> None:
    """With the fewest errors; where several are as near, what tells them apart."""
    schema = {
        "properties": {"s": {"oneOf": [_shape("circle", "r"), _shape("square", "side")]}},
        "required": ["s"],
    }
    tool = FunctionDefinition("tool", parameters=schema, function=lambda **given: None)
    text = FunctionCallExecutor([tool]).execute(Action("tool", {"s": given})).text
    assert text.splitlines()[1:] == [line]


@pytest.mark.parametrize(
    ("union", "given", "line"),
    [
        ("oneOf", {"a": 1, "b": 2}, "- $: expected only one of a, b, got object (2)"),
        ("oneOf", {}, "- $.a: expected integer, got nothing"),
        ("anyOf", {}, "- $.a: expected integer, got nothing"),
    ],
)
def test_arguments_that_exclude_each_other_are_named(
    union: str, given: dict[str, Any], line: str
) -> None:
    """The branches name only keys; what the keys hold stands in the schema around them."""
    schema = {
        "properties": {key: {"type": "integer"} for key in "ab"},
        union: [{"required": [key]} for key in "ab"],
    }
    tool = FunctionDefinition("tool", parameters=schema, function=lambda **given: None)
    text = FunctionCallExecutor([tool]).execute(Action("tool", given)).text
    assert text.splitlines()[1] == line


def test_an_unknown_key_is_told_without_secrets() -> None:
    """A key that is a credential, or a whole page, does not reach the prompt."""
    keys = ("sk-test-ABCDEFGHIJKLMNOPQRST", "y" * 500)
    text = execute(weather, {"city": "Oslo", **dict.fromkeys(keys, "x")}).text
    assert "expected only city, days, got an unknown key" in text
    assert keys[0] not in text
    assert keys[1] not in text


@pytest.mark.parametrize(
    ("part", "given", "value"),
    [
        ({"type": "integer", "nullable": True}, None, None),
        ({"type": "integer", "nullable": True}, "5", 5),
        ({"type": "string", "enum": ["a"], "nullable": True}, None, None),
        ({"$ref": "#/$defs/n", "nullable": True}, None, None),
        ({"type": "array", "items": {"type": "integer", "nullable": True}}, ["1", None], [1, None]),
        ({"type": "object", "properties": None, "required": None}, {}, {}),
        ({"type": "object", "properties": {"nullable": {"type": "integer"}}}, {"nullable": "1"},
         {"nullable": 1}),
    ],
)  # fmt: skip
def test_schemas_of_other_dialects_mean_what_they_say(part: Any, given: Any, value: Any) -> None:
    """OpenAPI's word for "or null", and null where a keyword is absent."""
    schema = {"properties": {"x": part}, "required": ["x"], "$defs": {"n": {"type": "integer"}}}
    got: list[Any] = []
    tool = FunctionDefinition("tool", parameters=schema, function=lambda **each: got.append(each))
    assert FunctionCallExecutor([tool]).execute(Action("tool", {"x": given})).ok
    assert got == [{"x": value}]


def test_not_nullable_is_not_nullable() -> None:
    """The word itself is no permission."""
    schema = {"properties": {"x": {"type": "integer", "nullable": False}}, "required": ["x"]}
    tool = FunctionDefinition("tool", parameters=schema, function=lambda x: x)
    assert not FunctionCallExecutor([tool]).execute(Action("tool", {"x": None})).ok


def test_options_and_bounds_are_named() -> None:
    """What is expected says enough to write it."""
    schema = {
        "properties": {
            "unit": {"enum": ["c", "f"]},
            "n": {"type": "integer", "minimum": 1},
            "day": {"type": "string", "format": "date"},
            "code": {"pattern": "^[A-Z]$"},
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        }
    }
    tool = FunctionDefinition("tool", parameters=schema, function=lambda **given: None)
    given = {"unit": "k", "n": 0, "day": "2023-02-29", "code": "zz", "list": []}
    text = FunctionCallExecutor([tool]).execute(Action("tool", given)).text
    for expected in (
        'one of "c", "f"', "a number of at least 1", "a valid date such as 2026-12-24", "text that matches ^[A-Z]$",
        "at least 1 items",
    ):  # fmt: skip
        assert expected in text


@pytest.mark.parametrize("name", ["password", "api_key", "accessToken", "密码"])
def test_a_refused_secret_is_not_repeated(name: str) -> None:
    """Neither to the model nor in the record: by name, whatever it looks like."""
    part = {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/box"}]}
    box = {"type": "object", "properties": {"value": {"type": "integer"}}}
    schema = {"properties": {name: part}, "$defs": {"box": box}}
    tool = FunctionDefinition("tool", parameters=schema, function=lambda **given: None)
    for value in ("open sesame", {"value": "open sesame"}, ["open sesame"]):
        observation = FunctionCallExecutor([tool]).execute(Action("tool", {name: value}))
        assert not observation.ok
        assert "sesame" not in repr(observation)
        assert name in observation.text


def test_a_validator_of_the_tools_own_types_is_heard() -> None:
    """What pydantic checks beyond the schema is a refusal of the arguments too."""

    def halve(value: Even) -> float:
        """Halve an even number."""
        return value.n / 2

    assert execute(halve, {"value": {"n": 4}}).text == "2.0"
    observation = execute(halve, {"value": {"n": 3}})
    assert observation.error is not None
    assert observation.error.kind == "invalid_arguments"
    assert "value.n" in observation.text
    assert "must be even" in observation.text


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"x": float("nan")}, "JSON value"),
        ({"x": "\ud800"}, "lone surrogate"),
        ({1: "x"}, "key 1"),
        ({"x": 10**2000}, "digits"),
        ({"x": object()}, "object"),
    ],
    ids=["nan", "surrogate", "key", "digits", "object"],
)
def test_arguments_that_are_no_json_are_refused(arguments: Any, word: str) -> None:
    """The validator behind would misread them, or crash on them."""
    observation = execute(lambda x=None: x, arguments)
    assert observation.error is not None
    assert observation.error.kind == "invalid_arguments"
    assert word in observation.text


def test_bottomless_and_circular_arguments_are_refused() -> None:
    """In the text of a list, too."""
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    circular: list[Any] = []
    circular.append(circular)

    def take(x: list[Any]) -> int:
        """Take a list."""
        return len(x)

    for x in (deep, circular, "[" * 100_000, "[" * 900 + "]" * 900):
        observation = execute(take, {"x": x})
        assert observation.error is not None
        assert observation.error.kind == "invalid_arguments"
    while isinstance(deep, list):  # or freeing it would overflow the interpreter's own stack
        [deep] = deep


@pytest.mark.parametrize(("language", "word"), [("en", "between"), ("zh", "之间")])
def test_an_integer_beyond_every_float_is_refused_with_its_path(language: Any, word: str) -> None:
    """Where an integer is declared it is fine; where a float is, the model is told the bounds."""

    def measure(count: int, height: float = 1.0, others: list[float] | None = None) -> str:
        """Measure."""
        return str(count)

    executor = FunctionCallExecutor([measure], language=language)
    assert executor.execute(Action("measure", {"count": 10**400})).ok
    large = {"count": 1, "height": 10**400, "others": [2, -(10**309)]}
    seen = executor.execute(Action("measure", large))
    assert seen.error is not None
    assert seen.error.kind == "invalid_arguments"
    assert seen.arguments is None
    assert "$.height" in seen.text
    assert "$.others[1]" in seen.text
    assert "401" in seen.text
    assert word in seen.text


def test_what_a_type_of_the_tool_refuses_has_its_path() -> None:
    """A validator's own words, where they belong; the tool is not said to have been called."""

    def greet(people: list[Even]) -> str:
        """Greet."""
        return "hello"

    definition = define(greet, name="greet")
    seen = FunctionCallExecutor([definition]).execute(
        Action("greet", {"people": [{"n": 2}, {"n": 777}]})
    )
    assert "- $.people[1].n: " in seen.text
    assert "777" not in seen.text
    assert seen.arguments is None
