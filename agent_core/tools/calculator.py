"""A calculator that walks an allow-list of syntax nodes; nothing is ever evaluated as code.

`calculator` is a tool as it stands: its docstring is what the model is told. Whole numbers
stay exact; others have 15 significant digits.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from agent_core.errors import ToolError

Number = int | float

_MAX_CHARS = 500
_MAX_BITS = 4_000  # about 1,200 digits; Python refuses to write out more than 4,300
_MAX_DEPTH = 250  # a sum of 250 numbers is that deep
_DIGITS = 15  # significant digits of a result: 0.1 + 0.2 is 0.3, and cents stay exact
_MAX_FACTORIAL = 400

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_NAMES = {"pi": math.pi, "e": math.e, "tau": math.tau}


def _factorial(value: Number) -> int:
    if not isinstance(value, int) or value > _MAX_FACTORIAL:
        raise ToolError(f"factorial takes a whole number up to {_MAX_FACTORIAL}, got {value!r}")
    return math.factorial(value)


def _round(value: Number, digits: int = 0) -> Number:
    if not isinstance(digits, int) or abs(digits) > _DIGITS:  # it would compute 10**digits
        raise ToolError(f"round takes at most {_DIGITS} digits, got {digits!r}")
    return round(value, digits) if digits else round(value)


_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "ln": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "floor": math.floor,
    "ceil": math.ceil,
    "radians": math.radians,
    "degrees": math.degrees,
    "factorial": _factorial,
}

# What NFKC leaves, and people and models write.
_SIGNS = str.maketrans(
    {"×": "*", "✕": "*", "·": "*", "∙": "*", "⋅": "*", "÷": "/", "∕": "/", "⁄": "/", "−": "-",
     "–": "-", "—": "-", "π": "pi", "【": "(", "】": ")"}
)  # fmt: skip
_GROUPED = re.compile(r"(?<![\w.])[0-9]{1,3}(?:,[0-9]{3})+(?![\w,])")
_GLUED = re.compile(r"(?<![\w.])[0-9][0-9_.]*+(?>[eE][+-]?[0-9]++)?+[A-Za-z]")
_PERCENT = re.compile(r"%\s*(?:of\b|的|$|[)*/+,-])")


def calculator(expression: str) -> Number:
    """Work out an arithmetic expression.

    It knows + - * / // % **, brackets, pi, e, and functions such as sqrt and round.

    Args:
        expression: for example (15 + 27) * 3; a power is written **

    Raises:
        ToolError: it is no such expression, takes too much work, or has no finite real result.
    """
    if len(expression) > _MAX_CHARS:
        raise ToolError(f"the expression is longer than {_MAX_CHARS} characters; split it")
    if any(unicodedata.category(each) == "No" for each in expression):  # ² would become 2
        raise ToolError("write powers and fractions out: 3**2 for 3², 0.5 for ½")
    text = unicodedata.normalize("NFKC", expression).translate(_SIGNS).strip().rstrip("=?").strip()
    _refuse_traps(text)
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ToolError(
            f"{expression!r} is no arithmetic expression; write for example (15 + 27) * 3"
        ) from error
    return _tidy(_value(tree.body, _MAX_DEPTH))


def _refuse_traps(text: str) -> None:
    """Refuse what Python would read differently from how it was meant."""
    if not text:
        raise ToolError("the expression is empty; write for example (15 + 27) * 3")
    if "^" in text:
        raise ToolError("'^' is not a power here; write ** instead, for example 2**10")
    if _PERCENT.search(text):
        raise ToolError(
            "'%' is the remainder here: write 17.5% of 2480 as 0.175 * 2480, "
            "and a remainder by a negative number as 7 % (-3)"
        )
    if _GROUPED.search(text):
        raise ToolError(
            "write numbers without separators (1234567, not 1,234,567), "
            "and arguments with a space after the comma: max(1, 200)"
        )
    if _GLUED.search(text):  # Python would warn of 1or on the terminal
        raise ToolError("write * between a number and a name: 2 * pi, not 2pi")


def _value(node: ast.expr, depth: int) -> Number:
    """The value of one node, whose parts have been worked out first."""
    if depth == 0:
        raise ToolError(
            f"brackets are nested deeper than {_MAX_DEPTH} levels; split the expression"
        )
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, depth - 1))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left, depth - 1), _value(node.right, depth - 1)
        if isinstance(node.op, ast.Pow):
            _check_power(left, right)
        return _checked(_BINARY[type(node.op)], left, right)
    if isinstance(node, ast.Call):
        return _call(node, depth)
    raise ToolError(_refusal(node))


def _refusal(node: ast.expr) -> str:
    names = ", ".join([*_NAMES, *_FUNCTIONS])
    what = f"the name {node.id!r}" if isinstance(node, ast.Name) else "that"
    return f"only numbers, + - * / // % **, brackets and {names} are known here, not {what}"


def _constant(value: object) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError(f"expected a number, got {value!r}")
    return _finite(value)


def _call(node: ast.Call, depth: int) -> Number:
    if not isinstance(node.func, ast.Name):
        raise ToolError("write * between a number and a bracket: 2 * (3 + 4)")
    name = node.func.id
    if name not in _FUNCTIONS or node.keywords:
        raise ToolError(f"unknown function; known are {', '.join(_FUNCTIONS)}")
    return _checked(_FUNCTIONS[name], *(_value(each, depth - 1) for each in node.args))


def _check_power(base: Number, exponent: Number) -> None:
    """Whole powers are the one operation whose cost does not follow from its text."""
    whole = isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1
    if whole and int(base).bit_length() * abs(exponent) > _MAX_BITS:
        raise ToolError("that power is too large to write out; use smaller numbers")


def _checked(function: Callable[..., Number], *values: Number) -> Number:
    try:
        return _finite(function(*values))
    except ZeroDivisionError as error:
        raise ToolError("division by zero") from error
    except OverflowError as error:
        raise ToolError("the result is too large") from error
    except (ValueError, TypeError) as error:
        raise ToolError(f"cannot work that out: {error}") from error


def _finite(value: object) -> Number:
    """Only finite real numbers of bounded size go on."""
    if isinstance(value, complex):
        raise ToolError("the result is not a real number")
    if isinstance(value, int):
        if value.bit_length() > _MAX_BITS:
            raise ToolError("the result is too large to write out")
        return value
    if not isinstance(value, float) or not math.isfinite(value):
        raise ToolError("the result is not a finite number")
    return value


def _tidy(value: Number) -> Number:
    """Without the digits that only binary arithmetic has put there."""
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
