"""Parsers with one planted fault each: the runner finds the fault and calls it by its name."""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.fuzz import Outcome, Plan, Target
from harness.fuzz.parser import ParserCampaign
from harness.fuzz.pool import Result, run

pytestmark = pytest.mark.usefixtures("importable_tests")

ROOT = Path(__file__).resolve().parents[2]
ERROR: Outcome = {"kind": "error"}
CALL = re.compile(r"^Action: *(\S+) *\nAction Input: *", re.MULTILINE)
ANSWER = re.compile(r"^Final Answer: *(.*)", re.MULTILINE | re.DOTALL)


def visible(text: str) -> str:
    """What stands outside of thinking, and before an invented observation.

    Nothing, where words announce a call: they may say that it is not to run.
    """
    text = text.partition("</think>")[2] if "</think>" in text else text.partition("<think>")[0]
    quoted = re.sub(r"^(```|~~~).*?(^\1$|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
    return "" if ":\nAction:" in quoted else quoted.partition("\nObservation:")[0]


def decide(
    text: str,
    tools: Mapping[str, Any],
    *,
    clean: Any = visible,
    last: bool = False,
    loads: Any = None,
    near: bool = False,
) -> Outcome:
    """A small strict parser, sound unless an option plants a fault."""
    text = clean(text)
    calls = list(CALL.finditer(text))
    answer = ANSWER.search(text)
    if answer and not (calls and calls[0].start() < answer.start()):
        return {"kind": "final", "answer": answer[1].strip()} if not calls else ERROR
    if not calls:
        return ERROR
    call = calls[-1 if last else 0]
    name = call[1]
    if near and name not in tools:
        name = (difflib.get_close_matches(name, tools, 1, 0.5) or [name])[0]
    arguments = (loads or strict)(text[call.end() :])
    if name not in tools or not isinstance(arguments, dict):
        return ERROR
    return {"kind": "action", "name": name, "arguments": arguments}


def strict(text: str) -> Any:
    """The JSON at the start of the text, if it is sound."""
    try:
        value, _ = json.JSONDecoder(object_pairs_hook=unique, parse_constant=refuse).raw_decode(
            text
        )
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys all differ."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def refuse(constant: str) -> Any:
    """NaN and its like are no JSON."""
    raise ValueError(constant)


def closing(text: str) -> Any:
    """JSON closed by force wherever it was cut."""
    text = text.strip()
    for end in ("", "}", '"}', "]}"):
        if (value := strict(text + end)) is not None:
            return value
    return None


def recursive(text: str) -> Any:
    """A reader that calls itself for every bracket."""

    def depth(at: int) -> int:
        return depth(at + 1) if text[at : at + 1] == "[" else at

    depth(text.find("["))
    return strict(text)


def english(parse: Any) -> Target:
    """A target that claims labels in English, no more."""
    return Target(parse, notations=("react-labels",), languages=("en",))


sound = english(decide)
last_action = english(lambda text, tools: decide(text, tools, last=True))
cut_string = english(lambda text, tools: decide(text, tools, loads=closing))
thinking = english(lambda text, tools: decide(text, tools, clean=lambda each: each))
nearest_name = english(lambda text, tools: decide(text, tools, near=True))
recursion = english(lambda text, tools: decide(text, tools, loads=recursive))


def _backtracking(text: str, tools: Mapping[str, Any]) -> Outcome:
    re.search(r"Action\s*\d*\s*:\s*(.*?)\s*Action\s*\d*\s*Input", text, re.DOTALL)
    return decide(text, tools)


def _dies(text: str, tools: Mapping[str, Any]) -> Outcome:
    if "NaN" in text:
        os.abort()
    return decide(text, tools)


def _hangs(text: str, tools: Mapping[str, Any]) -> Outcome:
    while "Infinity" in text:
        pass
    return decide(text, tools)


backtracking = english(_backtracking)
dies = english(_dies)
hangs = english(_hangs)


def fuzz(
    name: str, *operators: str, examples: int = 1500, families: tuple[str, ...] = (), **how: Any
) -> Result:
    """Run the campaign against a parser of this file."""
    plan = Plan(operators=operators) if operators else Plan()
    spec = f"tests.harness.test_fuzz_planted:{name}"
    total = examples + len(families)
    return run(ParserCampaign, (spec, plan, 1, examples, families), total, **how)


def test_a_sound_parser_has_no_finding() -> None:
    """What is reported elsewhere is the planted fault, not the small parser around it."""
    codes = ["J1", "J9", "J13", "J15", "J17", "J19", "C5", "M1", "M2", "M3", "T1", "T2", "Q1"]
    result = fuzz("sound", *codes, examples=1500)
    assert result.kinds == {}
    assert result.counts["language en", "regained"] > 300


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("last_action", {"later_action"}),
        ("cut_string", {"ran_cut_call", "ran_prefix"}),
        ("thinking", {"ran_thinking"}),
        ("nearest_name", {"guessed_name"}),
        ("recursion", {"crash"}),
    ],
)
def test_a_planted_fault_is_found_and_named(name: str, kinds: set[str]) -> None:
    """Each fault has a name of its own."""
    result = fuzz(name, "J15", "J19", "C5", "M2", "T1", examples=800, shrink=False)
    assert kinds <= set(result.kinds)


def test_the_smallest_reply_of_a_kind_is_made_smaller() -> None:
    """Nothing is left in it that the fault does not need."""
    result = fuzz("last_action", "M2", "M1", "T1", "J4", examples=200)
    shortest = min((each.case["text"] for each in result.findings), key=len)
    assert len(shortest) < 150
    assert "think" not in shortest


def test_recursion_is_named_by_its_exception() -> None:
    """The detail of a crash is what a developer looks for."""
    result = fuzz("recursion", "J19", examples=60, shrink=False)
    assert {each.detail.split(":")[0] for each in result.findings} == {"RecursionError"}


def test_a_backtracking_expression_is_a_finding_about_growth() -> None:
    """Time that is quadratic in the blanks shows before it hurts."""
    result = fuzz("backtracking", examples=0, families=("blanks", "digits"))
    assert set(result.kinds) <= {"growth", "killed"}
    assert {each.label for each in result.findings} == {"growth: blanks"}


def test_a_process_that_dies_is_a_finding_and_not_the_end() -> None:
    """The example at which it died is known, and the checks after it are made."""
    result = fuzz("dies", "J9", examples=16, most_killed=16, shrink=False)
    dead = [each for each in result.findings if each.kind == "killed"]
    assert result.killed == result.kinds["killed"] > 1
    assert all("NaN" in each.case["text"] and each.detail == "SIGABRT" for each in dead)
    assert result.counts["J9", "seen"] == 16
    assert result.counts["J9", "crash"] == result.killed


def test_after_many_dead_processes_the_rest_is_left_out() -> None:
    """The report says how much was not checked."""
    result = fuzz("dies", "J9", examples=60, most_killed=2, shrink=False)
    assert result.killed == 2
    assert result.left + result.counts["J9", "seen"] == 60


def test_an_endless_loop_is_killed_at_the_limit_of_cpu_time() -> None:
    """It counts as slow, and the detail names the limit."""
    result = fuzz("hangs", "J9", examples=10, cpu_seconds=1, most_killed=1, shrink=False)
    assert [each.kind for each in result.findings] == ["killed"]
    assert "CPU time" in result.findings[0].detail
    assert result.counts["J9", "slow"] == 1
