"""Replies with known outcomes, one JSON object a line: read, checked one by one, scored."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from agent_core.messages import JsonObject, Protocol
from harness.fuzz.examples import REFUSED, Example, Outcome, Tools, matches
from harness.fuzz.growth import check_growth
from harness.fuzz.oracles import Fault, crash, examine_one
from harness.fuzz.pool import Checked, Finding, run
from harness.fuzz.targets import Target, load_target

Case = dict[str, Any]
"""`text` (or `text_build`, a list of pieces and how often each stands there), `tools` (names, or
names with schemas), `expect` or `expect_any` (preferred first; an answer of null is the whole
text), and where it matters `finish_reason`, `protocol`, `native`, `id`, `category`."""

_PROTOCOLS = get_args(Protocol)

CASE_COLUMNS = (
    "seen",
    "right",
    "preferred",
    "refused",
    "wrong call",
    "false answer",
    "crash",
    "slow",
)


class CaseError(ValueError):
    """A line is no case; the message says which and why."""


def read_cases(path: Path) -> list[Case]:
    """The cases in a JSONL file.

    Raises:
        CaseError: a line is no case.
    """
    cases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
        except ValueError as error:
            raise CaseError(f"{path.name}, line {number}: no JSON: {error}") from error
        if isinstance(case, dict) and "text_build" in case:
            case["text"] = "".join(piece * times for piece, times in case["text_build"])
        known = case.keys() if isinstance(case, dict) else set()
        if "family" not in known and not (
            {"text", "tools"} <= known and known & {"expect", "expect_any", "kind"}
        ):
            raise CaseError(
                f"{path.name}, line {number}: expected text, tools and expect or expect_any, "
                f"got {', '.join(sorted(known)) or line[:40]!r}"
            )
        cases.append({"id": f"line {number}", **case})
    return cases


def example_of(case: Case) -> Example:
    """A case as an example."""
    accept = (
        case.get("expect_any") or [case["expect"]]
        if "expect" in case
        else case.get("expect_any", [])
    )
    text, protocol = case["text"], case.get("protocol")
    clean = case.get("kind") == "round_trip"  # what was found is that it was refused
    return Example(
        text=text,
        tools=_tools(case["tools"]),
        protocol=protocol if protocol in _PROTOCOLS else None,
        finish_reason=case.get("finish_reason"),
        native=case.get("native"),
        accept=tuple(_whole(each, text) for each in accept),
        labels=("clean",) if clean else (str(case.get("category", case.get("kind", "case"))),),
        recoverable=clean,
    )


def _whole(outcome: Outcome, text: str) -> Outcome:
    is_text = outcome["kind"] == "final" and outcome["answer"] is None
    return {**outcome, "answer": text} if is_text else outcome


def _tools(given: Any) -> Tools:
    if isinstance(given, Mapping):
        return given
    schemas: dict[str, JsonObject] = {}
    for each in given:
        name = each if isinstance(each, str) else each["name"]
        parameters = {} if isinstance(each, str) else each.get("parameters", {})
        schemas[name] = parameters or {"type": "object"}
    return schemas


def check_case(target: Target, case: Case) -> list[Fault]:
    """What a target gets wrong about a case; nothing when it reads it right or refuses it.

    A clean reply (kind `round_trip`) has to be read. A case that killed a process is read in a
    process of its own.
    """
    if case.get("kind") == "killed":
        result = run(CasesCampaign, (target.name, [{**case, "kind": "again"}]), 1, shrink=False)
        return [Fault(each.kind, None, each.detail) for each in result.findings]
    if "family" in case:
        fault = check_growth(target, case["family"])
        return [fault] if fault else []
    example = example_of(case)
    try:
        if "pieces" in case:
            return _differs(
                "split_differs", target.read(example), target.read_pieces(example, case["pieces"])
            )
        if "same_as" in case:
            return _differs(
                "observation_matters", target.read(example, case["same_as"]), target.read(example)
            )
    except Exception as error:
        return [crash(error)]
    _, fault = examine_one(target, example)
    return [fault] if fault else []


def _differs(kind: str, expected: Outcome, got: Outcome) -> list[Fault]:
    return [] if matches(expected, got) else [Fault(kind, got, f"expected {expected}")]


class CasesCampaign:
    """Each case once; an outcome that no case accepts is a finding, a refusal too."""

    def __init__(self, spec: str, cases: list[Case]) -> None:
        self.target, self.cases = load_target(spec), cases

    def check(self, index: int) -> Checked:
        case = self.cases[index]
        if {"family", "pieces", "same_as"} & case.keys():
            faults = check_case(self.target, case)
            return self._checked(index, "crash" if faults else "right", faults)
        example = example_of(case)
        column, fault = examine_one(self.target, example)
        if column == "refused" and example.accept and REFUSED not in example.accept:
            fault = fault or Fault("refused", REFUSED)
        checked = self._checked(index, column, [fault] if fault else [])
        if fault is None:
            preferred = not example.accept or self._preferred(example)
            checked.counts[example.labels[0], "right"] += 1
            checked.counts[example.labels[0], "preferred"] += preferred
        return checked

    def _preferred(self, example: Example) -> bool:
        outcome = self.target.read(example)
        return matches(example.accept[0], outcome)

    def _checked(self, index: int, column: str, faults: list[Fault]) -> Checked:
        case = self.cases[index]
        label = example_of(case).labels[0] if "text" in case else "growth"
        counts = Counter({(label, "seen"): 1, (label, column): 1})
        return Checked(counts, tuple(
            Finding(each.kind, str(case["id"]), index, {**case, "got": each.got}, each.detail)
            for each in faults
        ))  # fmt: skip

    def killed(self, index: int, how: str) -> Checked:
        return self._checked(
            index, "slow" if "CPU" in how else "crash", [Fault("killed", None, how)]
        )

    def shrink(self, finding: Finding) -> Finding:
        """A case is as small as it is."""
        return finding
