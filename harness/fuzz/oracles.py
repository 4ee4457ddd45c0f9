"""What must hold for any parser, whatever it is given."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from zlib import crc32

from harness.fuzz.examples import REFUSED, Example, Outcome, matches
from harness.fuzz.targets import Target

SLOW_SECONDS = 0.5
"""CPU time for one reply, above which it is a finding."""

_LONGEST = 4_000  # characters; of longer replies no prefixes and pieces are tried
_TRAIL = {
    "en": "\nObservation: ok\nAction: {name}\nAction Input: {{}}\nFinal Answer: no",
    "zh": "\n观察：好\n行动：{name}\n行动输入：{{}}\n最终答案：不",
}
_SHORT_TRAIL = {"en": "\nObservation: ok", "zh": "\n观察：好"}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, with what is needed to see it again.

    `evidence` are fields of a case (`text`, `expect_any`, `pieces`, `same_as`) that stand in
    place of the example's own.
    """

    kind: str
    got: Any
    detail: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Examined:
    """What a target made of an example: the column it counts in, and its faults."""

    column: str
    faults: tuple[Fault, ...] = ()


def examine(target: Target, example: Example) -> Examined:
    """Read an example with a target, and hold every oracle against it."""
    column, fault, outcome = _read(target, example)
    faults = [fault] if fault else []
    if outcome is not None and example.native is None and len(example.text) <= _LONGEST:
        try:
            faults += _in_parts(target, example, outcome)
        except Exception as error:
            faults.append(crash(error))
    return Examined(column, tuple(faults))


def examine_one(target: Target, example: Example) -> tuple[str, Fault | None]:
    """The column and the fault of a single reading; no parts are tried."""
    column, fault, _ = _read(target, example)
    return column, fault


def _read(target: Target, example: Example) -> tuple[str, Fault | None, Outcome | None]:
    """Column, fault, and the outcome unless nothing more can be learnt from the example."""
    started = time.process_time()
    try:
        outcome = target.read(example)
    except Exception as error:
        return "crash", crash(error), None
    seconds = time.process_time() - started
    problem = not_an_outcome(outcome)
    if problem is not None:
        return "crash", problem, None
    if seconds > SLOW_SECONDS:
        return "slow", Fault("slow", outcome, f"{seconds:.1f} s of CPU time"), None
    if example.accept:
        column, fault = judge(example, outcome)
        return column, fault, outcome
    if outcome["kind"] == "action" and outcome["name"] not in example.tools:
        return "wrong call", Fault("phantom_call", outcome), outcome
    return "refused" if outcome["kind"] == "error" else "harmless", None, outcome


def crash(error: BaseException) -> Fault:
    """The fault that an undeclared exception is."""
    return Fault("crash", None, f"{type(error).__name__}: {str(error)[:200]}")


def not_an_outcome(outcome: Any) -> Fault | None:
    """What is wrong with the shape of a result, or with what it holds, if anything."""
    if not isinstance(outcome, dict):
        return Fault("bad_outcome", None, f"expected an outcome, got {type(outcome).__name__}")
    kind = outcome.get("kind")
    fields: dict[str, type] = {"answer": str}
    if kind == "action":
        fields = {"name": str, "arguments": dict}
    if kind not in {"action", "final", "error"}:
        return Fault("bad_outcome", None, f"expected a kind, got {kind!r}")
    for key, wanted in fields.items() if kind != "error" else ():
        if not isinstance(outcome.get(key), wanted):
            got = type(outcome.get(key)).__name__
            return Fault("bad_outcome", None, f"{key} must be {wanted.__name__}, got {got}")
    try:
        json.dumps(outcome, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        if kind == "final":  # an answer may quote what it was given
            return None
        return Fault("not_json", None, f"{type(error).__name__}: {str(error)[:200]}")
    return None


def judge(example: Example, outcome: Outcome) -> tuple[str, Fault | None]:
    """The column of an outcome, and the fault if it is none of the accepted ones."""
    if outcome["kind"] == "error":
        clean = example.labels == ("clean",) and example.recoverable
        return "refused", Fault("round_trip", REFUSED) if clean else None
    if any(matches(each, outcome) for each in example.accept):
        return "recovered", None
    for trap in example.traps:
        if matches(trap.outcome, outcome):
            return _column(outcome), Fault(trap.fault, outcome)
    if outcome["kind"] == "final":
        return "false answer", Fault("false_answer", outcome)
    if outcome["name"] not in example.tools:
        return "wrong call", Fault("phantom_call", outcome)
    return "wrong call", Fault(example.fault, outcome)


def _column(outcome: Outcome) -> str:
    return "wrong call" if outcome["kind"] == "action" else "false answer"


def _in_parts(target: Target, example: Example, outcome: Outcome) -> Iterator[Fault]:
    """Prefixes, pieces, and text after an observation label."""
    text = example.text
    rng = Random(crc32(text.encode("utf-8", "surrogatepass")))  # noqa: S311 - the same each time
    if example.prefix_calls is not None and text:
        allowed = [*example.accept, *example.prefix_calls, outcome]
        for _ in range(2):
            prefix = text[: rng.randrange(len(text))]
            got = target.read(example, prefix, cut=True)
            if got["kind"] == "action" and not any(matches(each, got) for each in allowed):
                yield Fault("ran_prefix", got, evidence={
                    "text": prefix, "finish_reason": None, "expect_any": [REFUSED],
                })  # fmt: skip
    if target.scan is not None:
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.choice((1, 2, 8))))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        got = target.read_pieces(example, pieces if rng.randrange(8) else list(text))
        if not matches(outcome, got):
            yield Fault("split_differs", got, f"the whole gave {_brief(outcome)}",
                        {"pieces": pieces})  # fmt: skip
    if example.open_ended and outcome["kind"] == "action" and not rng.randrange(2):
        other = next((each for each in example.tools if each != outcome["name"]), "other")
        longer = text + _TRAIL[example.language].format(name=other)
        shorter = text + _SHORT_TRAIL[example.language]
        got, before = target.read(example, longer), target.read(example, shorter)
        if not matches(before, got):
            yield Fault("observation_matters", got, f"without it: {_brief(before)}",
                        {"text": longer, "same_as": shorter})  # fmt: skip


def _brief(outcome: Outcome) -> str:
    return json.dumps(outcome, ensure_ascii=False)[:200]
