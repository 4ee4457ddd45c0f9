"""Whatever a tool returns becomes JSON: bounded, stable, and harmless as text."""

from __future__ import annotations

import collections
import datetime
import enum
import fractions
import ipaddress
import itertools
import json
import tracemalloc
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr

from agent_core.messages import Action, ToolFailure
from agent_core.tools import FunctionCallExecutor, clean_text, define, jsonable


class Color(enum.Enum):
    """By value."""

    RED = "red"


class Level(enum.IntEnum):
    """A number that is an enum, too."""

    HIGH = 3


class Pair(NamedTuple):
    """With names."""

    left: int
    right: int


@dataclass
class Box:
    """A dataclass."""

    label: str
    pair: Pair = field(default_factory=lambda: Pair(1, 2))


class Account(BaseModel):
    """A model with something that it does not show."""

    name: str
    password: SecretStr
    hidden: str = Field(default="x", exclude=True)
    box: Box | None = None


class Plain:
    """Without words of its own."""


class Broken:
    """Whatever is asked of it raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


class BrokenMapping(collections.UserDict[str, int]):
    """Raises while it is read."""

    def items(self) -> Any:
        raise OSError("gone")


class Frame:
    """Looks like a table: it shows itself."""

    columns = ("a",)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __repr__(self) -> str:
        return "   a\n0  1"


DAY = datetime.date(2026, 11, 30)
KNOWN = uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime.datetime(2026, 11, 30, 9, 30, tzinfo=datetime.UTC), "2026-11-30T09:30:00+00:00"),
        (DAY, "2026-11-30"),
        (datetime.time(9, 30), "09:30:00"),
        (datetime.timedelta(days=1, hours=2), "1 day, 2:00:00"),
        (Decimal("19.90"), "19.90"),
        (fractions.Fraction(1, 3), "1/3"),
        (1 + 2j, "(1+2j)"),
        (float("nan"), "nan"),
        ([float("inf"), float("-inf")], ["inf", "-inf"]),
        (np.float64(1.5), 1.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("text"), "text"),
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array(5), 5),
        (np.array([1.0, np.nan]), [1.0, "nan"]),
        (np.datetime64("2026-11-30"), "2026-11-30"),
        ("多云".encode(), "多云"),
        (bytearray(b"ab"), "ab"),
        (b"\xff\x00", "base64:/wA="),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ((1, "a"), [1, "a"]),
        (range(3), [0, 1, 2]),
        (collections.deque([1]), [1]),
        ({"a": 1}.keys(), ["a"]),
        ((n * n for n in range(3)), [0, 1, 4]),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (Box("x"), {"label": "x", "pair": {"left": 1, "right": 2}}),
        (
            Account(name="n", password=SecretStr("hunter2"), box=Box("x")),
            {"name": "n", "password": "**********", "box": {"label": "x", "pair": [1, 2]}},
        ),
        (RootModel[list[int]]([1]), [1]),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (PurePosixPath("a/b"), "a/b"),
        (KNOWN, str(KNOWN)),
        (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
        (ValueError("key sk-abcdefgh12345678"), "ValueError: key ***"),
        (Box, "Box"),
        (Plain(), "<Plain>"),
        (len, "<built-in function len>"),
        (Broken(), "<Broken cannot be shown: RuntimeError>"),
        (BrokenMapping(), "<BrokenMapping cannot be shown: OSError>"),
        ({5: "a", None: "b", True: "c", (1, 2): "d", DAY: "e"},
         {"5": "a", "null": "b", "true": "c", "[1, 2]": "d", "2026-11-30": "e"}),
        ({1: "a", "1": "b"}, {"1": "a", "1 (2)": "b"}),
        (Frame(), "   a\n0  1"),
        ({"nested": [{"deep": {1}}]}, {"nested": [{"deep": [1]}]}),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_has_its_plain_json_form(value: Any, expected: Any) -> None:
    """What a reader would write for it."""
    result = jsonable(value)
    assert result == expected
    assert json.loads(json.dumps(result, allow_nan=False)) == expected


def test_an_address_in_memory_is_left_out() -> None:
    """It differs in every run, and a replay would find a difference."""
    assert "0x" not in str(jsonable(lambda: None))


def test_circles_are_marked_and_repetition_is_not() -> None:
    """Only what holds itself is circular; the same object twice is shown twice."""
    child = {"n": 1}
    parent: dict[str, Any] = {"first": child, "second": child}
    parent["self"] = [parent]
    assert jsonable(parent) == {
        "first": {"n": 1},
        "second": {"n": 1},
        "self": ["<circular reference>"],
    }


def test_bottomless_nesting_is_marked() -> None:
    """Far below where Python's own stack would end."""
    value: Any = "x"
    for _ in range(100_000):
        value = [value]
    text = json.dumps(jsonable(value))
    assert "nested too deep" in text
    while isinstance(value, list):
        [value] = value


def test_shared_objects_do_not_explode() -> None:
    """Ten times ten times ten …: the size of the result is bounded, not that of the input."""
    value: Any = "x" * 10
    for _ in range(12):
        value = [value] * 10
    assert len(json.dumps(jsonable(value, max_chars=10_000))) < 100_000


@pytest.mark.parametrize(
    "make",
    [
        itertools.count,
        lambda: (["x"] * 10 for _ in itertools.count()),
        lambda: dict.fromkeys(range(300_000), "x"),
        lambda: range(10**12),
        lambda: np.zeros((1000, 1000)),
        lambda: "x" * 50_000_000,
        lambda: b"\xff" * 50_000_000,
        lambda: ["é" * 1000] * 100_000,
    ],
    ids=["count", "generator", "dict", "range", "array", "text", "bytes", "list"],
)
def test_a_huge_result_is_cut_while_it_is_read(make: Any) -> None:
    """Memory is bounded by what is kept, however long the result would be; the cut is marked."""
    value = make()
    tracemalloc.start()
    result = jsonable(value, max_chars=100_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000_000
    text = json.dumps(result, ensure_ascii=False)
    assert len(text) < 1_000_000
    assert "cut" in text


def test_an_async_generator_is_collected() -> None:
    """Up to a bound, like any other iterator."""

    async def count() -> AsyncIterator[int]:
        for n in range(3):
            yield n

    executor = FunctionCallExecutor([define(count)])
    assert executor.execute(Action("count", {})).text == "[0, 1, 2]"


def test_a_generator_that_fails_is_a_failure_of_the_tool() -> None:
    """Its code runs after the call, but it is the tool's; what it yielded before is no result."""

    def rows() -> Iterator[int]:
        yield 1
        raise LookupError("no second row")

    seen = FunctionCallExecutor([define(rows)]).execute(Action("rows", {}))
    assert seen.error == ToolFailure("exception", "LookupError", "no second row")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;no end", "8;;no end"),
        ("bell\x07 nul\x00", "bell� nul�"),
        ("a\r\nb\rc\u2028d\x0be\x85f", "a\nb\nc\nd\ne\nf"),
        ("lone \ud800", "lone �"),
        ("\u202eevil\u202c \u200bhidden\ufeff", "evil hidden"),
        ("tab\tand 多云 👨‍👩‍👧 ok", "tab\tand 多云 👨‍👩‍👧 ok"),
    ],
)
def test_text_is_made_harmless(text: str, clean: str) -> None:
    """Nothing moves a cursor, hides, reorders, or cannot be encoded; words stay."""
    assert clean_text(text) == clean
    assert jsonable([text]) == [clean]


ANYTHING = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.dates(),
        st.datetimes(), st.timedeltas(), st.decimals(), st.uuids(), st.complex_numbers(),
        st.builds(Plain), st.sampled_from(list(Color)),
    ),
    lambda child: st.one_of(
        st.lists(child, max_size=3),
        st.tuples(child, child),
        st.dictionaries(
            st.one_of(st.text(), st.integers(), st.none(), st.dates()), child, max_size=3
        ),
        st.builds(Pair, child, child),
        st.builds(iter, st.lists(child, max_size=3)),
    ),
    max_leaves=10,
)  # fmt: skip


@given(ANYTHING)
@settings(deadline=None, max_examples=100)
def test_anything_becomes_json_of_the_same_text(value: Any) -> None:
    """Never an exception, never what UTF-8 or JSON cannot hold, and once converted it stays."""
    result = jsonable(value)
    text = json.dumps(result, allow_nan=False, ensure_ascii=False)
    assert text.encode()
    assert jsonable(result) == result
