"""The calculator: right, exact where it can be, bounded, and never code."""

from __future__ import annotations

import ast
import inspect
import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.errors import ToolError
from agent_core.messages import Action
from agent_core.tools import FunctionCallExecutor, calculator


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("(15 + 27) * 3", 126),
        ("３＋４×２", 11),
        ("（１＋２）÷２", 1.5),
        ("10 / 4", 2.5),
        ("7 // 2", 3),
        ("7 % 3", 1),
        ("7 % (-3)", -2),
        ("2**10", 1024),
        ("-2 ** 2", -4),
        ("0.1 + 0.2", 0.3),
        ("1.1 * 3", 3.3),
        ("1234567890123.45 + 0", 1234567890123.45),
        ("12345678901234567890 * 10", 123456789012345678900),
        ("22 * 9 / 5 + 32", 71.6),
        ("sqrt(16) + abs(-3)", 7.0),
        ("round(2.567, 2)", 2.57),
        ("max(1, 5, 3)", 5),
        ("log(8, 2)", 3.0),
        ("2 * pi", 6.28318530717959),
        ("factorial(20)", 2432902008176640000),
        ("2 + 3 =", 5),
        ("1_000 + 1", 1001),
        ("1.5e3", 1500.0),
        ("+".join(["1"] * 200), 200),
    ],
)
def test_an_expression_has_its_value(expression: str, result: float) -> None:
    """Whole numbers stay whole; others show no digits of binary arithmetic."""
    value = calculator(expression)
    assert value == result
    assert type(value) is type(result)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("2^3", r"write \*\*"),
        ("17.5% of 2480", r"0\.175 \* 2480"),
        ("200 * 15%", "remainder"),
        ("20% + 5", "remainder"),
        ("1,234 + 1", "without separators"),
        ("3² + 1", r"3\*\*2"),
        ("2½", "0.5"),
        ("2(3 + 4)", r"write \*"),
        ("2pi", r"write \*"),
        ("1or 2", r"write \*"),
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("9**9**9", "too large"),
        ("2**4000", "too large"),
        ("exp(1000)", "too large"),
        ("factorial(500)", "up to 400"),
        ("round(5, -1000000000)", "at most 15 digits"),
        ("1e400", "finite"),
        ("1e308 * 10", "finite"),
        ("(-8) ** 0.5", "real"),
        ("sqrt(-1)", "math domain"),
        ("10j", r"write \*"),
        ("True + 1", "expected a number"),
        ("'a' * 3", "expected a number"),
        ("", "empty"),
        ("   ", "empty"),
        ("what is the sum", "no arithmetic expression"),
        ("0777", "no arithmetic expression"),
        ("(" * 300, "no arithmetic expression"),
        ("-" * 490 + "1", "levels"),
        ("1" * 501, "longer than 500"),
        ("x", "not the name 'x'"),
        ("__import__('os').system('id')", "write"),
        ("abs.__class__", "only numbers"),
        ("[1 for _ in ()]", "only numbers"),
        ("lambda: 1", "only numbers"),
        ("max(*[1])", "only numbers"),
        ("max(key=1)", "unknown function"),
        ("eval('1')", "unknown function"),
        ("min()", "cannot work that out"),
        ("1 if 1 else 2", "only numbers"),
        ("1 < 2", "only numbers"),
        ("~1", "only numbers"),
        ("1 << 100000", "only numbers"),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_a_hint(expression: str, hint: str) -> None:
    """A `ToolError` that says what to write instead, at once."""
    began = time.monotonic()
    with pytest.raises(ToolError, match=hint):
        calculator(expression)
    assert time.monotonic() - began < 5


SIGNS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "^", "×", "<<", ","])
EXPRESSIONS = st.recursive(
    st.one_of(
        st.integers(0, 10**30).map(str),
        st.floats(0, 1e308).map(repr),
        st.sampled_from(["pi", "e", "０", "x", "1j", "''", "1e400", "None"]),
    ),
    lambda child: st.one_of(
        st.tuples(child, SIGNS, child).map(" ".join),
        child.map("({})".format),
        child.map("-{}".format),
        st.tuples(
            st.sampled_from(["sqrt", "factorial", "round", "exp", "log", "abs", "print"]), child
        ).map("{0[0]}({0[1]})".format),
    ),
    max_leaves=12,
)  # fmt: skip


@given(EXPRESSIONS | st.text(max_size=40))
@settings(deadline=None, max_examples=200)
def test_any_text_gives_a_finite_number_or_a_tool_error(expression: str) -> None:
    """Nothing else comes out, and the work is bounded."""
    began = time.monotonic()
    try:
        value = calculator(expression)
    except ToolError:
        pass
    else:
        assert value.bit_length() <= 4_000 if isinstance(value, int) else math.isfinite(value)
        assert str(value)
    assert time.monotonic() - began < 5


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6), st.sampled_from("+-*"))
def test_whole_numbers_are_exact(left: int, right: int, sign: str) -> None:
    """As Python itself has them."""
    expected = {"+": left + right, "-": left - right, "*": left * right}[sign]
    assert calculator(f"({left}) {sign} ({right})") == expected


def test_no_code_is_ever_run() -> None:
    """The module neither names nor calls what could run a string."""
    tree = ast.parse(Path(inspect.getfile(calculator)).read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not names & {"eval", "exec", "compile", "getattr", "globals", "__import__"}


def test_the_function_is_a_tool_as_it_stands() -> None:
    """A refusal reaches the model as an observation in the words of the hint."""
    executor = FunctionCallExecutor([calculator])
    assert executor.execute(Action("calculator", {"expression": "(15 + 27) * 3"})).text == "126"
    observation = executor.execute(Action("calculator", {"expression": "2^3"}))
    assert observation.text.startswith("Error: '^' is not a power here")
