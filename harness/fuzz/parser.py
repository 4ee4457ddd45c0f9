"""The campaign against a parser: examples with their truth, then growth, one number each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

from harness.fuzz.examples import Example
from harness.fuzz.generate import Plan
from harness.fuzz.growth import check_growth
from harness.fuzz.operators import OPERATORS
from harness.fuzz.oracles import Fault, examine
from harness.fuzz.pool import Checked, Finding
from harness.fuzz.targets import Target, load_target

COLUMNS = (
    "seen",
    "recoverable",
    "recovered",
    "refused",
    "wrong call",
    "false answer",
    "crash",
    "slow",
)
"""What is counted; of the recoverable ones, `regained` says how many were."""

_TRIES = 800  # examples tried while shrinking; counted, not timed, so that it is repeatable
_ANY_TEXT = {"crash", "slow", "bad_outcome", "not_json"}  # no truth is needed to see these


class ParserCampaign:
    """Numbers below `examples` are examples, the numbers after them families of growth."""

    def __init__(
        self, spec: str, plan: Plan, seed: int, examples: int, families: tuple[str, ...] = ()
    ) -> None:
        self.seed, self.examples, self.families = seed, examples, families
        self.target = load_target(spec)
        self.plan = suited(plan, self.target)

    def check(self, index: int) -> Checked:
        """One example, or one family."""
        if index >= self.examples:
            family = self.families[index - self.examples]
            fault = check_growth(self.target, family)
            counts = Counter({("growth", "seen"): 1, ("growth", "slow"): int(fault is not None)})
            return Checked(counts, (self._growth(index, fault),) if fault else ())
        example = self.plan.number(self.seed, index)
        examined = examine(self.target, example)
        found = tuple(
            Finding(fault.kind, example.labels[0], index, case_of(example, fault), fault.detail)
            for fault in examined.faults
        )
        return Checked(_counts(example, examined.column), found)

    def killed(self, index: int, how: str) -> Checked:
        """A process that died is a finding about the example it was at."""
        fault = Fault("killed", None, how)
        if index >= self.examples:
            counts = Counter({("growth", "seen"): 1, ("growth", "slow"): 1})
            return Checked(counts, (self._growth(index, fault),))
        example = self.plan.number(self.seed, index)
        column = "slow" if "CPU time" in how else "crash"
        finding = Finding("killed", example.labels[0], index, case_of(example, fault), how)
        return Checked(_counts(example, column), (finding,))

    def _growth(self, index: int, fault: Fault) -> Finding:
        family = self.families[index - self.examples]
        case = {"kind": fault.kind, "family": family, "got": None}
        return Finding(fault.kind, f"growth: {family}", index, case, fault.detail)

    def shrink(self, finding: Finding) -> Finding:
        """The same kind of finding, in the smallest example of the same operators."""
        if finding.index >= self.examples:
            return finding
        example = self.plan.number(self.seed, finding.index)
        smallest = min(self._smaller(finding.kind, example), key=_length, default=example)
        if _length(smallest) >= _length(example):
            return finding
        fault = self._fault(finding.kind, smallest)
        if fault is None:  # a target that reads the same reply in two ways
            return finding
        return Finding(
            fault.kind, finding.label, finding.index, case_of(smallest, fault), fault.detail
        )

    def _smaller(self, kind: str, example: Example) -> Iterator[Example]:
        label, labels = example.labels[0], example.labels
        if label in self.plan.kinds:
            plan = replace(
                self.plan,
                operators=labels if label in OPERATORS else self.plan.operators,
                languages=(example.language,),
                most=len(labels),
            )
            yield from self._found(kind, plan, label)
        if kind in _ANY_TEXT and example.native is None:
            yield self._cut_down(kind, example)

    def _found(self, kind: str, plan: Plan, label: str) -> Iterator[Example]:
        """The simplest example of a plan that shows the fault, if Hypothesis finds one."""
        from hypothesis import HealthCheck, find, settings, strategies  # noqa: PLC0415 - 0.3 s
        from hypothesis.errors import Flaky, NoSuchExample  # noqa: PLC0415

        tries = count()
        with suppress(NoSuchExample, Flaky):  # flaky: the target depends on what it read before
            yield find(
                strategies.randoms(use_true_random=False).map(lambda rng: plan.draw(rng, label)),
                lambda each: next(tries) < _TRIES and self._fault(kind, each) is not None,
                settings=settings(max_examples=200, database=None, deadline=None,
                                  suppress_health_check=list(HealthCheck)),
                random=Random(self.seed),  # noqa: S311 - the same each time
            )  # fmt: skip

    def _cut_down(self, kind: str, example: Example) -> Example:
        """The text with every piece left out that is not needed to see a fault of this kind."""
        text = example.text
        step = len(text) // 2
        while step:
            at = 0
            while at < len(text):
                shorter = text[:at] + text[at + step :]
                if self._fault(kind, _without_truth(example, shorter)):
                    text = shorter
                else:
                    at += step
            step //= 2
        return _without_truth(example, text)

    def _fault(self, kind: str, example: Example) -> Fault | None:
        faults = examine(self.target, example).faults
        return next((each for each in faults if each.kind == kind), None)


def suited(plan: Plan, target: Target) -> Plan:
    """The plan without what the target does not claim to read.

    Raises:
        ValueError: nothing is left.
    """
    notations = tuple(each for each in plan.notations if each in target.notations)
    languages = tuple(each for each in plan.languages if each in target.languages)
    if not (notations and languages):
        raise ValueError(
            f"the target reads {', '.join(target.notations)} in {', '.join(target.languages)}; "
            f"asked for were {', '.join(plan.notations)} in {', '.join(plan.languages)}"
        )
    return replace(
        plan,
        notations=notations,
        languages=languages,
        finish_reasons=target.told_finish_reason,
    )


def _length(example: Example) -> int:
    return (
        len(example.text) + len(json.dumps(example.native)) + len(json.dumps(dict(example.tools)))
    )


def _without_truth(example: Example, text: str) -> Example:
    return Example(text, example.tools, example.language, labels=example.labels, prefix_calls=None)


def _counts(example: Example, column: str) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for label in (*example.labels, f"language {example.language}"):
        counts[label, "seen"] += 1
        counts[label, column] += 1
        if example.recoverable:
            counts[label, "recoverable"] += 1
            counts[label, "regained"] += column == "recovered"
    return counts


def case_of(example: Example, fault: Fault) -> dict[str, Any]:
    """A finding as a case: the fields of `agentrig fuzz cases`, and what came."""
    case: dict[str, Any] = {
        "kind": fault.kind,
        "labels": list(example.labels),
        "notation": example.notation,
        "text": example.text,
        "tools": dict(example.tools),
        "finish_reason": example.finish_reason,
        "protocol": example.protocol,
        "expect_any": list(example.accept),
    }
    if example.native is not None:
        case["native"] = example.native
    return {**case, **fault.evidence, "got": fault.got}
