"""What a tool definition holds, where it comes from, and what is no tool."""

from __future__ import annotations

import datetime
import functools
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Literal

import pytest

from agent_core.clock import ManualClock
from agent_core.errors import ConfigError
from agent_core.messages import Action
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, current_time, define, tool


def test_name_description_and_parameters_come_from_the_function() -> None:
    """In the order of the signature, as both APIs take it."""

    def get_weather(city: str, days: int = 3, *, unit: Literal["c", "f"] = "c") -> str:
        """Weather of a city.

        Rain included.

        Args:
            city: which city,
                written out
            days: how many
        """
        return ""

    assert define(get_weather).as_api_tool() == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city.\n\nRain included.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "which city, written out"},
                    "days": {"type": "integer", "description": "how many", "default": 3},
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }


GOOGLE = "Do it.\n\nArgs:\n    n: how many"

NUMPY = "Do it.\n\nParameters\n----------\nn : int\n    how many"

REST = "Do it.\n\n:param n: how many"


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_docstrings_of_three_styles_are_read(text: str) -> None:
    """The description without its sections, and each parameter's words."""

    def function(n: int) -> None: ...

    function.__doc__ = text
    definition = define(function)
    assert definition.description == "Do it."
    assert definition.parameters["properties"]["n"]["description"] == "how many"


def positional(a: int, /) -> None:
    """Refused."""


def starred(*args: int) -> None:
    """Refused."""


def keywords(**kwargs: int) -> None:
    """Refused."""


def unknown_type(a: Missing) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Refused."""


def a_callable(a: Callable[[], int]) -> None:
    """Refused."""


def an_object(a: Agentless) -> None:
    """Refused."""


class Agentless:
    """A class that JSON Schema cannot describe."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (positional, "'a' of 'positional' is positional-only"),
        (starred, "'args' of 'starred' collects positional arguments"),
        (keywords, "'kwargs' of 'keywords' takes any name"),
        (unknown_type, "name 'Missing' is not defined"),
        (a_callable, "cannot make a schema of the parameters of 'a_callable'"),
        (an_object, "cannot make a schema of 'an_object'"),
        (lambda x: x, "a tool's name must be"),
        (zip, "cannot read the signature|is positional-only|collects"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_no_json_object_can_fill_is_refused(function: Any, words: str) -> None:
    """When it is defined, with the parameter and the reason."""
    with pytest.raises(ConfigError, match=words):
        define(function)


@pytest.mark.parametrize("name", ["get_weather", "查询天气", "a", "x-1", "A" * 64])
def test_good_names(name: str) -> None:
    """Letters of any script, digits, `_` and `-`."""
    assert define(lambda: None, name=name).name == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "A" * 65, "a\n", "天气！", "a/b", None, 3])
def test_bad_names(name: Any) -> None:
    """Servers refuse them much later, with a message about something else."""
    with pytest.raises(ConfigError, match="1 to 64 letters"):
        FunctionDefinition(name, function=lambda: None)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": float("nan")},
        {"function": "not a function"},
        {"drop": "_debug"},
        {"parameters": {"type": "array"}},
        {"parameters": {"properties": {"a": {"type": "nonsense"}}}},
        {"parameters": {"properties": {"a": {"$ref": "#/nowhere"}}}},
        {"parameters": {"properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}}},
        {"parameters": "text"},
        {"parameters": {"properties": {"a": {}}}, "function": lambda b: b},
    ],
    ids=lambda each: str({**each, "function": "…"} if "function" in each else each),
)
def test_a_definition_that_cannot_work_is_refused(options: dict[str, Any]) -> None:
    """Before anything runs, and without asking any server for a schema."""
    with pytest.raises(ConfigError, match="tool 'bad'"):
        FunctionDefinition(**{"name": "bad", "function": lambda **given: given, **options})


def test_a_schema_of_ones_own_is_copied_and_closed() -> None:
    """Later changes to it have no effect; without `**kwargs`, unknown arguments are refused."""
    schema: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}

    def function(a: int = 0) -> int:
        return a

    definition = FunctionDefinition("own", parameters=schema, function=function)
    schema["properties"]["a"]["type"] = "string"
    assert definition.parameters == {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "additionalProperties": False,
    }
    observation = FunctionCallExecutor([definition]).execute(Action("own", {"a": 1, "b": 2}))
    assert "$.b" in observation.text
    definition.as_api_tool()["function"]["parameters"].clear()
    assert definition.parameters["type"] == "object"


def test_the_decorator_takes_the_options_of_define() -> None:
    """Bare, and with options."""

    @tool
    def first() -> str:
        """First."""
        return "1"

    @tool(name="other", timeout=3, repeatable=True, category="x")
    def second() -> str:
        """Second."""
        return "2"

    assert (first.name, first.description, first.timeout) == ("first", "First.", None)
    assert (second.name, second.timeout, second.repeatable) == ("other", 3, True)


def test_methods_partials_and_callable_objects_are_tools() -> None:
    """What is bound already is not for the model to choose."""

    class Shop:
        def __init__(self, price: int) -> None:
            self.price = price

        def total(self, count: int) -> int:
            """What so many cost."""
            return self.price * count

        def __call__(self, count: int) -> int:
            """Half of it."""
            return self.price * count // 2

    def fetch(client: object, city: str) -> str:
        """Fetch it."""
        return f"{client} {city}"

    shop = Shop(3)
    tools = [
        define(shop.total),
        define(shop, name="shop"),
        define(functools.partial(fetch, client="c"), name="fetch"),
    ]
    executor = FunctionCallExecutor(tools)
    assert [each.description for each in tools] == [
        "What so many cost.",
        "Half of it.",
        "Fetch it.",
    ]
    assert list(tools[2].parameters["properties"]) == ["city"]
    assert executor.execute(Action("total", {"count": 2})).text == "6"
    assert executor.execute(Action("shop", {"count": 2})).text == "3"
    assert executor.execute(Action("fetch", {"city": "Oslo"})).text == "c Oslo"


def test_the_current_time_comes_from_the_given_clock() -> None:
    """So that a replay tells the time of the recording."""
    clock = ManualClock(datetime.datetime(2026, 11, 30, 9, 30, tzinfo=datetime.UTC))
    observation = FunctionCallExecutor([current_time(clock)]).execute(
        Action("get_current_time", {})
    )
    assert json.loads(observation.text) == {
        "date": "2026-11-30",
        "time": "09:30:00",
        "utc_offset": "+0000",
        "weekday": "Monday",
    }


def test_importing_tools_is_light() -> None:
    """What reads schemas and docstrings is loaded when a tool is defined."""
    code = (
        "import sys, agent_core.tools; "
        "print([m for m in ('jsonschema_rs', 'docstring_parser', 'asyncio', 'numpy', 'pydantic') "
        "if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert result.stdout.strip() == "[]"


def test_tools_made_alike_do_not_share_what_they_say() -> None:
    """A factory makes the same tool for two agents, and one of them edits its schema."""

    def made(factor: int) -> FunctionDefinition:
        @tool
        def scale(number: int) -> int:
            return number * factor

        return scale

    double, triple = made(2), made(3)
    double.parameters["properties"]["number"]["type"] = "string"
    assert triple.parameters["properties"]["number"] == {"type": "integer"}
    assert triple.function(**triple.convert({"number": 5})) == 15
