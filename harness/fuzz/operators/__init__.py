"""Malformations, one for each row of the taxonomy, by code: `OPERATORS["J4"]`."""

from harness.fuzz.operators import (
    calls,
    json_shape,
    json_text,
    json_values,
    labels,
    objects,
    rounds,
    surroundings,
)
from harness.fuzz.operators.operator import Operator

OPERATORS: dict[str, Operator] = {
    each.code: each
    for module in (labels, calls, json_text, json_values, json_shape, objects, rounds, surroundings)
    for each in module.OPERATORS
}
"""Operators by code, in the order of the taxonomy."""

__all__ = ["OPERATORS", "Operator"]
