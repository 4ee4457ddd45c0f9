"""The types of a function become schemas for a model, and its arguments those types again."""

from __future__ import annotations

import datetime
import json
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agent_core.errors import ConfigError
from agent_core.messages import Action
from agent_core.tools import FunctionCallExecutor, define
from agent_core.tools.tidying import tidied


class Unit(Enum):
    """How warmth is counted."""

    C = "celsius"
    F = "fahrenheit"


@dataclass
class Point:
    """A place on a map."""

    x: float
    y: float = 0.0


class Tree(BaseModel):
    """It holds others of its kind."""

    title: str
    children: list[Tree] = []


class Options(TypedDict, total=False):
    """Some keys."""

    deep: bool


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """The properties that a function gets."""
    properties = define(function).parameters["properties"]
    assert isinstance(properties, dict)
    return properties


def test_types_become_schemas_that_a_small_model_can_read() -> None:
    """No titles, no detours through `$defs`, "or null" as a list of types."""

    def function(
        a: int | None = None,
        b: list[dict[str, float]] = [],  # noqa: B006 - never called
        c: Unit = Unit.C,
        d: Unit | None = None,
        e: Point | None = None,
        f: Options | None = None,
        g: datetime.datetime | None = None,
        h: datetime.date = datetime.date(2026, 1, 2),
        i: int | str = 1,
        j: Annotated[int, Field(ge=1, description="from one on")] = 1,
        k: Annotated[str, "in words"] = "",
        m: int = Field(5, le=9),
    ) -> None: ...

    assert parameters(function) == {
        "a": {"type": ["integer", "null"], "default": None},
        "b": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": {"type": "number"}},
            "default": [],
        },
        "c": {
            "type": "string",
            "description": "How warmth is counted.",
            "enum": ["celsius", "fahrenheit"],
            "default": "celsius",
        },
        "d": {
            "type": ["string", "null"],
            "description": "How warmth is counted.",
            "enum": ["celsius", "fahrenheit", None],
            "default": None,
        },
        "e": {
            "type": ["object", "null"],
            "description": "A place on a map.",
            "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
            "required": ["x"],
            "additionalProperties": False,
            "default": None,
        },
        "f": {
            "type": ["object", "null"],
            "description": "Some keys.",
            "properties": {"deep": {"type": "boolean"}},
            "additionalProperties": False,
            "default": None,
        },
        "g": {"type": ["string", "null"], "format": "date-time", "default": None},
        "h": {"type": "string", "format": "date", "default": "2026-01-02"},
        "i": {"type": ["integer", "string"], "default": 1},
        "j": {"type": "integer", "description": "from one on", "minimum": 1, "default": 1},
        "k": {"type": "string", "description": "in words", "default": ""},
        "m": {"type": "integer", "maximum": 9, "default": 5},
    }


def test_only_a_type_that_holds_itself_stays_a_reference() -> None:
    """A property named `title` is no title of a schema."""

    def plant(tree: Tree) -> int:
        """Plant a tree."""
        return len(tree.children[0].children)

    definition = define(plant)
    assert list(definition.parameters["$defs"]) == ["Tree"]
    assert list(definition.parameters["$defs"]["Tree"]["properties"]) == ["title", "children"]
    leaf = {"title": "leaf"}
    arguments = {"tree": {"title": "t", "children": [{"title": "b", "children": [leaf, leaf]}]}}
    observation = FunctionCallExecutor([definition]).execute(Action("plant", arguments))
    assert observation.text == "2"


def test_definitions_come_in_one_order() -> None:
    """A schema is the same text in every process, or no recorded request would be found again."""
    names = ["Yak", "Ant", "Newt", "Wren", "Eel", "Bee"]
    own = {name: {"items": {"$ref": f"#/$defs/{name}"}, "type": "array"} for name in names}
    used = {name.lower(): {"$ref": f"#/$defs/{name}"} for name in names}
    schema = tidied({"$defs": own, "properties": used, "type": "object"})
    assert list(schema["$defs"]) == sorted(names)


def test_values_arrive_as_the_declared_types() -> None:
    """Enums, dataclasses, dates: converted right before the call, nested ones too."""

    def function(
        unit: Unit, points: list[Point], when: datetime.datetime, day: datetime.date | None = None
    ) -> str:
        """Use them."""
        return f"{unit.name} {points[0].x + points[1].y:g} {when:%H:%M} {day and day.year}"

    arguments = {
        "unit": "FAHRENHEIT",
        "points": [{"x": "1"}, {"x": 0, "y": 2}],
        "when": "2026-11-30T09:30:00",
        "day": "2026-01-01",
    }
    executor = FunctionCallExecutor([function])
    assert executor.execute(Action("function", arguments)).text == "F 3 09:30 2026"


def test_a_default_that_is_no_json_is_left_to_python() -> None:
    """It appears in no schema, and the function gets the very object."""
    marker = object()

    def function(value: Any = marker) -> bool:
        """Compare."""
        return value is marker

    assert parameters(function) == {"value": {}}
    assert FunctionCallExecutor([function]).execute(Action("function", {})).text == "true"


def test_parameters_may_have_any_name() -> None:
    """Also those that pydantic uses itself, or that begin with an underscore."""

    def function(
        json: int,
        copy: int,
        model_config: int,
        _private: int,
        城市: str,  # noqa: N803, PLC2401
    ) -> list[Any]:
        """Echo."""
        return [json, copy, model_config, _private, 城市]

    arguments = {"json": 1, "copy": 2, "model_config": 3, "_private": 4, "城市": "北京"}
    text = FunctionCallExecutor([function]).execute(Action("function", arguments)).text
    assert json.loads(text) == [1, 2, 3, 4, "北京"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="typing's own is fine from 3.12 on")
def test_a_typed_dict_of_typing_is_refused_with_the_way_out() -> None:
    """Pydantic needs that of typing_extensions before Python 3.12; the message says so."""
    old = typing.TypedDict("old", {"a": int})  # noqa: UP013 - the one that is refused

    def take(options: Any) -> str:
        """Take options."""
        return str(options)

    take.__annotations__["options"] = old
    with pytest.raises(ConfigError, match=r"'take': .*typing_extensions.TypedDict"):
        define(take)


def test_functions_that_look_equal_keep_their_own_schemas() -> None:
    """Python holds these types and defaults for equal, and JSON Schema does not."""

    def made(kind: Any, default: Any) -> dict[str, Any]:
        def look(value=default):  # type: ignore[no-untyped-def]
            pass

        look.__annotations__["value"] = kind
        return parameters(look)["value"]  # type: ignore[no-any-return]

    assert made(int | str, 1)["type"] == ["integer", "string"]
    assert made(str | int, 1)["type"] == ["string", "integer"]
    assert [repr(made(Any, each)["default"]) for each in (1, True, 1.0, -0.0, 0.0)] == [
        "1", "True", "1.0", "-0.0", "0.0",
    ]  # fmt: skip


def test_a_default_that_changed_is_seen() -> None:
    """The second agent is told the default of its time."""
    known = ["Paris"]

    def look(cities: list[str] = known) -> None:
        pass

    assert parameters(look)["cities"]["default"] == ["Paris"]
    known.append("Rome")
    assert parameters(look)["cities"]["default"] == ["Paris", "Rome"]
