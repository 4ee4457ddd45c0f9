"""What the generator makes: examples with their truth, arguments, strategies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings

from harness.fuzz import FAULTS, OPERATORS, Example, Outcome, Plan, matches, strategies
from harness.fuzz.drafts import JSON
from harness.fuzz.examples import same
from harness.fuzz.oracles import not_an_outcome
from harness.fuzz.values import TOOLS, value_for

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 3, "maxLength": 5},
        "level": {"type": "integer", "minimum": 2, "maximum": 4},
        "at": {"$ref": "#/$defs/point"},
        "how": {"enum": ["sail", "row"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city", "level", "at"],
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
}


@pytest.mark.parametrize("code", OPERATORS)
def test_every_operator_has_examples_with_a_truth_in_both_languages(code: str) -> None:
    """What is accepted is no trap, never a tool that must not run, and recoverable if counted."""
    plan = Plan(most=1)
    languages = set()
    for number in range(60):
        example = plan.draw(Random(f"{code}{number}"), code)
        languages.add(example.language)
        assert example.labels == (code,)
        assert example.accept
        assert example.recoverable <= (example.accept[0]["kind"] != "error")
        assert example.fault in FAULTS
        for accepted in example.accept:
            assert not any(matches(trap.outcome, accepted) for trap in example.traps)
            assert accepted.get("name") not in example.never
        for trap in example.traps:
            assert trap.fault in FAULTS
            assert trap.outcome["name"] in example.never
    assert languages == {"en", "zh"}


def test_clean_replies_hold_what_they_mean() -> None:
    """A strict JSON reader finds the arguments in the text, exactly; the name stands there too."""
    plan = Plan(notations=tuple(JSON))
    calls = 0
    for number in range(600):
        example = plan.draw(Random(number), "clean")
        meant = example.accept[0]
        text = json.dumps(example.native) if example.native else example.text
        if meant["kind"] == "final":
            assert text.endswith(meant["answer"])
            continue
        calls += 1
        assert meant["name"] in (example.native or {}).values() or meant["name"] in text
        values = objects_in(example.native["arguments"] if example.native else text)
        assert any(same(each, meant["arguments"]) for each in values)
    assert calls > 400


def objects_in(text: str) -> Iterator[Any]:
    """Every sound JSON object that begins at some brace."""
    for at, mark in enumerate(text):
        if mark == "{":
            with suppress(ValueError):
                yield json.JSONDecoder().raw_decode(text, at)[0]


def test_numbers_make_the_same_examples_again() -> None:
    """A number says everything, whatever was made before it."""
    first = Plan()
    whole = [first.number(3, number) for number in range(130)]
    plan = Plan()
    assert [plan.number(3, number) for number in range(129, -1, -1)] == whole[::-1]
    assert [plan.number(4, number) for number in range(130)] != whole


def test_kinds_take_turns() -> None:
    """Each operator gets its share of a run."""
    plan = Plan()
    first = {plan.number(1, number).labels for number in range(len(plan.kinds))}
    for kind in plan.kinds:
        assert any(kind in labels for labels in first)


def test_what_a_plan_does_not_know_is_refused() -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match=r"J99.*J20"):
        Plan(operators=("J99",))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.arguments(SCHEMA))
def test_arguments_fit_their_schema(value: Any) -> None:
    """Bounds, references, unions and enums are kept."""
    assert jsonschema_rs.is_valid(SCHEMA, value)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.examples(["J4", "M2"], tools={"mine": SCHEMA, "other": {"type": "object"}}))
def test_strategies_use_the_tools_they_are_given(example: Example) -> None:
    """Nothing is called that the user did not register."""
    assert example.accept[0]["name"] in example.tools
    assert example.tools.keys() <= {"mine", "other"}
    assert {"J4", "M2"} & set(example.labels)


@settings(max_examples=30, deadline=None)
@given(strategies.clean_examples(), strategies.noise(), strategies.intentions())
def test_strategies_give_clean_replies_noise_and_intentions(
    example: Example, text: str, intention: Outcome
) -> None:
    """Each is what its name says."""
    assert example.labels == ("clean",)
    assert isinstance(text, str)
    assert not_an_outcome(intention) is None


def test_values_of_the_invented_tools_fit_their_schemas() -> None:
    """Their names and keys are Chinese as well as English."""
    for language, tools in TOOLS.items():
        for schema in tools.values():
            for number in range(20):
                value = value_for(Random(number), schema, language=language)
                assert jsonschema_rs.is_valid(schema, value)
