"""Checks of a trajectory: which calls, how, in which order, to what answer, at what cost.

::

    assert_trajectory(
        result,
        calls=[Call("get_weather", {"city": "北京"}), Call("calculator")],
        order="in_order",
        answer=containing("25"),
        max_tokens=4_000,
    )

It takes the `RunResult` of a run, or a recorded session (a path, or what was loaded from it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from agent_core.messages import Actions, JsonObject, RunResult, Usage
from harness.plain import counted, visible
from harness.sessions.cassette import load_session
from harness.sessions.conversion import reply_of, server_seconds
from harness.sessions.exchange import canonical_json
from harness.sessions.format import SessionFile
from harness.sessions.matchers import Matcher, accepts, containing, wanted

__all__ = ["Call", "TrajectoryMismatch", "assert_trajectory", "containing"]

Order = Literal["exact", "in_order", "any_order", "subset"]
Subject = RunResult | SessionFile | str | Path

_SHOWN = 200  # characters of an answer or of arguments in a message
_CAME = re.compile(r", got |, the server |, but the server |\n")


class TrajectoryMismatch(AssertionError):
    """A run did not go as it should; the message names the first difference."""

    @property
    def expected(self) -> str:
        """What was not met, without what came instead."""
        return _CAME.split(str(self), maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Call:
    """An expected call.

    Attributes:
        arguments: the whole object (key order and `1.0` for `1` do not count), a function of
            it, or a mapping in which values may be functions of the value; None takes any.
    """

    tool: str
    arguments: Mapping[str, Any] | Matcher | None = None

    def fits(self, tool: str, arguments: JsonObject) -> bool:
        """Whether a call is this one."""
        return tool == self.tool and self.difference(arguments) is None

    def difference(self, arguments: JsonObject) -> str | None:
        """The first thing that is wrong with the arguments, in words."""
        if self.arguments is None:
            return None
        if not isinstance(self.arguments, Mapping):
            fits, raised = accepts(self.arguments, arguments)
            shown = f"{canonical_json(arguments):.{_SHOWN}}{raised}"
            return None if fits else f"its matcher refuses {shown}"
        for name, expected in self.arguments.items():
            if name not in arguments:
                return f"argument {name!r} is missing"
            equal, raised = _equal(expected, arguments[name])
            if not equal:
                got = f"{arguments[name]!r}{raised}"
                return f"argument {name!r}: expected {wanted(expected)}, got {got}"
        extra = sorted(arguments.keys() - self.arguments.keys())
        return f"argument {extra[0]!r} was not expected" if extra else None

    def __str__(self) -> str:
        if self.arguments is None:
            return f"{self.tool}(…)"
        if not isinstance(self.arguments, Mapping):
            return f"{self.tool}(matcher)"
        shown = {k: "<matcher>" if callable(v) else v for k, v in self.arguments.items()}
        return f"{self.tool}({canonical_json(shown):.{_SHOWN}})"


def assert_trajectory(
    subject: Subject,
    *,
    calls: Sequence[Call] | None = None,
    order: Order = "exact",
    answer: str | Matcher | None = None,
    max_steps: int | None = None,
    max_tokens: int | None = None,
    max_seconds: float | None = None,
) -> None:
    """Check how a run went; of a recorded session all turns together, and the last answer.

    Args:
        calls: the calls that are expected.
        order: `exact`: these calls and no others, in this order; `in_order`: others may stand
            between them; `any_order`: these and no others; `subset`: others may be there, too.
        answer: the whole answer, or a function of it such as `containing("25")`.
        max_steps: steps of the agent.
        max_tokens: of prompts and replies, as the server counted them.
        max_seconds: what the server took, by Ollama's counters, so that a replay and a slow
            test machine give the same. A server that does not count makes the check fail.

    Raises:
        TrajectoryMismatch: with the first difference.
        ValueError: there is no such order.
        SessionFormatError, OSError: there is no such session.
    """
    __tracebackhide__ = True
    if order not in get_args(Order):
        raise ValueError(f"expected order to be one of {', '.join(get_args(Order))}, got {order!r}")
    seen = _seen(subject)
    problem = next(_problems(seen, calls, order, answer), None)
    problem = problem or next(_over_budget(seen, max_steps, max_tokens, max_seconds), None)
    if problem is not None:
        made = ", ".join(f"{tool}({canonical_json(given):.{_SHOWN}})" for tool, given in seen.calls)
        raise TrajectoryMismatch(visible(f"{problem}\ncalls were: {made or 'none'}"))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a run did."""

    calls: list[tuple[str, JsonObject]]
    answer: str | None
    steps: int
    usage: Usage
    seconds: float | None


def _seen(subject: Subject) -> _Seen:
    if isinstance(subject, RunResult):
        times = [step.reply.timings.total for step in subject.steps]
        calls = [
            (action.name, action.arguments)
            for step in subject.steps
            if isinstance(step.parsed.decision, Actions)
            for action in step.parsed.decision.actions
        ]
        return _Seen(calls, subject.answer, len(subject.steps), subject.usage, _total(times))
    file = subject if isinstance(subject, SessionFile) else load_session(subject)
    turns = [] if file.session is None else file.session.trajectory
    calls = [
        (action.tool, action.arguments)
        for turn in turns for step in turn.steps for action in step.actions
    ]  # fmt: skip
    answer = turns[-1].answer if turns else None
    steps = sum(len(turn.steps) for turn in turns)
    replies = [reply_of(each.request, each.response) for each in file.exchanges]
    usage = sum((each.usage for each in replies if each is not None), Usage())
    times = [
        server_seconds(each.request, each.response)
        for each, reply in zip(file.exchanges, replies, strict=True)
        if reply is not None
    ]
    return _Seen(calls, answer, steps, usage, _total(times))


def _total(times: Sequence[float | None]) -> float | None:
    known = [each for each in times if each is not None]
    return sum(known) if len(known) == len(times) else None


def _problems(
    seen: _Seen, calls: Sequence[Call] | None, order: Order, answer: str | Matcher | None
) -> Iterator[str]:
    if calls is not None:
        compare = _in_place if order in {"exact", "in_order"} else _in_any_order
        yield from compare(seen.calls, calls, order)
    if answer is None:
        return
    if callable(answer):
        fits, raised = accepts(answer, seen.answer) if seen.answer is not None else (False, "")
        if not fits:
            yield f"expected the answer to be {wanted(answer)}, got {_short(seen.answer)}{raised}"
    elif seen.answer != answer:
        yield f"expected the answer {_short(answer)}, got {_short(seen.answer)}"


def _in_place(
    made: Sequence[tuple[str, JsonObject]], calls: Sequence[Call], order: Order
) -> Iterator[str]:
    """`exact` and `in_order`: go through both lists at once."""
    at = 0
    for number, call in enumerate(calls, start=1):
        start = at
        while at < len(made) and not call.fits(*made[at]):
            if order == "exact":
                yield f"call {number}: expected {call}, got {_told(call, made[at])}"
                return
            at += 1
        if at == len(made):
            near = next((each for each in made[start:] if each[0] == call.tool), None)
            got = "no such call" if near is None else f"only {_told(call, near)}"
            yield f"call {number}: expected {call}, got {got}{_after(calls, number)}"
            return
        at += 1
    if order == "exact" and at < len(made):
        yield _too_many(calls, made, made[at])


def _in_any_order(
    made: Sequence[tuple[str, JsonObject]], calls: Sequence[Call], order: Order
) -> Iterator[str]:
    """`any_order` and `subset`: give each expected call one of its own.

    A call with a matcher may fit several: one that finds its only partner taken lets whoever
    has it move on to another.
    """
    partner: dict[int, int] = {}  # place in `made` to place in `calls`

    def settle(number: int, tried: set[int]) -> bool:
        for place, each in enumerate(made):
            if place in tried or not calls[number].fits(*each):
                continue
            tried.add(place)
            if place not in partner or settle(partner[place], tried):
                partner[place] = number
                return True
        return False

    for number, call in enumerate(calls):
        if not settle(number, set()):
            near = next((each for each in made if each[0] == call.tool), None)
            got = "no such call" if near is None else f"only {_told(call, near)}"
            yield f"expected {call}, got {got}"
            return
    left = [each for place, each in enumerate(made) if place not in partner]
    if order == "any_order" and left:
        yield _too_many(calls, made, left[0])


def _over_budget(
    seen: _Seen, max_steps: int | None, max_tokens: int | None, max_seconds: float | None
) -> Iterator[str]:
    if max_steps is not None and seen.steps > max_steps:
        yield f"expected at most {counted(max_steps, 'step')}, got {seen.steps}"
    if max_tokens is not None:
        if seen.usage.prompt_tokens is None or seen.usage.completion_tokens is None:
            most = counted(max_tokens, "token")
            yield f"expected at most {most}, but the server did not count them"
        elif seen.usage.total > max_tokens:
            guess = " (estimated)" if seen.usage.estimated else ""
            yield f"expected at most {counted(max_tokens, 'token')}, got {seen.usage.total}{guess}"
    if max_seconds is not None:
        if seen.seconds is None:
            yield f"expected at most {max_seconds} s, but the server did not say how long it took"
        elif seen.seconds > max_seconds:
            yield f"expected at most {max_seconds} s, the server took {seen.seconds:.3f} s"


def _equal(expected: Any, value: Any) -> tuple[bool, str]:
    if callable(expected):
        return accepts(expected, value)
    return canonical_json(expected) == canonical_json(value), ""


def _told(call: Call, made: tuple[str, JsonObject]) -> str:
    why = call.difference(made[1]) if made[0] == call.tool else None
    return _call(made) + (f" ({why})" if why else "")


def _after(calls: Sequence[Call], number: int) -> str:
    return f" after {calls[number - 2]}" if number > 1 else ""


def _too_many(calls: Sequence[Call], made: Sequence[Any], one: tuple[str, JsonObject]) -> str:
    expected = counted(len(calls), "call")
    return f"expected {expected}, got {len(made)}: {_call(one)} is one too many"


def _call(made: tuple[str, JsonObject]) -> str:
    return f"{made[0]}({canonical_json(made[1]):.{_SHOWN}})"


def _short(answer: str | None) -> str:
    return "no answer" if answer is None else repr(answer[:_SHOWN])
