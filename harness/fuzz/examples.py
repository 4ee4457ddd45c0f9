"""What an example is: a reply, what it may be read as, and what must never come of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent_core.messages import JsonObject, Language

Outcome = dict[str, Any]
"""`{"kind": "action", "name", "arguments"}`, `{"kind": "final", "answer"}` or
`{"kind": "error"}`."""

Tools = Mapping[str, JsonObject]
"""Tool names with the JSON Schema of their arguments."""

FinishReason = Literal["stop", "length"] | None

REFUSED: Outcome = {"kind": "error"}

FAULTS = {
    "wrong_call": "a call that the reply does not ask for",
    "phantom_call": "a call to a tool that is not registered and was not asked for",
    "guessed_name": "a registered tool ran for a name that is none of them",
    "later_action": "a later action ran in place of the first decision",
    "ran_invented": "a call ran that follows an invented observation",
    "ran_thinking": "a call ran that stands in a thinking block",
    "ran_quoted": "a call ran that is only quoted",
    "ran_cut_call": "a call ran that was cut short",
    "ran_code": "an argument that is code was accepted",
    "took_conflict": "one of two conflicting values was taken",
    "accepted_unsafe": "a value was accepted that cannot be kept: NaN, lone surrogate, no limit",
    "false_answer": "text became the answer that is none",
    "round_trip": "a clean reply was refused",
    "refused": "a case that must be recovered was refused",
    "crash": "an exception that the target does not declare",
    "bad_outcome": "a result that is no outcome",
    "not_json": "a result that JSON in UTF-8 cannot hold",
    "slow": "too much CPU time for one reply",
    "growth": "time grows faster than the reply",
    "killed": "the process died, or was killed at the limit of CPU time",
    "ran_prefix": "a prefix of the reply ran a call that the whole does not hold",
    "split_differs": "pieces of the reply gave another result than the whole",
    "observation_matters": "text after an observation label changed the result",
}
"""Every kind of finding about a parser, and what it means."""


def action(name: str, arguments: JsonObject) -> Outcome:
    """The outcome that is a call."""
    return {"kind": "action", "name": name, "arguments": arguments}


def final(answer: str) -> Outcome:
    """The outcome that is an answer."""
    return {"kind": "final", "answer": answer}


@dataclass(frozen=True, slots=True)
class Trap:
    """An outcome that must never come, and the fault it shows.

    `outcome` matches by what it has: an action without `arguments` matches any arguments.
    """

    fault: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Example:
    """A reply with its truth.

    Attributes:
        text: the reply. Empty for native calls.
        tools: what is registered.
        native: for native calls, `{"name", "arguments"}` as the server sent it.
        protocol: what a parser is told; None where it is to find out.
        accept: every right outcome, the preferred one first. Empty where no truth is known
            (noise, mutated replies).
        traps: outcomes that must never come.
        fault: what a call is when no call is acceptable.
        recoverable: the preferred outcome is a call or an answer, and refusing it loses.
        prefix_calls: calls that a strict prefix may hold though the whole does not run them;
            None where prefixes say nothing.
        open_ended: an observation label may follow, and nothing after it may matter.
        labels: what the example counts for: operators, or `clean`, `noise`, `real`, `mutated`.
    """

    text: str
    tools: Tools
    language: Language = "en"
    notation: str = "react-labels"
    protocol: str | None = None
    finish_reason: FinishReason = None
    native: JsonObject | None = None
    accept: tuple[Outcome, ...] = ()
    traps: tuple[Trap, ...] = ()
    fault: str = "wrong_call"
    recoverable: bool = False
    prefix_calls: tuple[Outcome, ...] | None = ()
    open_ended: bool = False
    labels: tuple[str, ...] = ("clean",)

    @property
    def never(self) -> frozenset[str]:
        """The tools that must never run."""
        wanted = {each["name"] for each in self.accept if each["kind"] == "action"}
        return frozenset(self.tools) - wanted if self.accept else frozenset()


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal, `True` and `1` told apart."""
    if a != b:
        return False
    # `==` takes True for 1; the texts differ only then, or for 1 and 1.0, which are equal
    return _shown(a) == _shown(b) or _same_deep(a, b)


def _shown(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _same_deep(a: Any, b: Any) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict):
        return all(_same_deep(each, b[key]) for key, each in a.items())
    if isinstance(a, list):
        return all(_same_deep(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def matches(pattern: Outcome, outcome: Outcome) -> bool:
    """Whether an outcome is what a pattern says; answers are compared without outer blanks."""
    if pattern["kind"] != outcome["kind"]:
        return False
    if pattern["kind"] == "final":
        return bool(pattern["answer"].strip() == outcome["answer"].strip())
    if pattern["kind"] == "action":
        return pattern["name"] == outcome["name"] and (
            "arguments" not in pattern or same(pattern["arguments"], outcome["arguments"])
        )
    return True
