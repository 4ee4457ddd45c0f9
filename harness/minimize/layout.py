"""Which requests and which tool calls of a recording belong to which step.

Told by the recording alone, so that it holds for an agent that has changed since: a step asks
the model until a reply comes, then runs the tools that the golden trajectory names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_core.limits import StopReason
from harness.sessions.cassette import read_request
from harness.sessions.conversion import api_of, reply_of
from harness.sessions.exchange import Request
from harness.sessions.format import GoldenStep, SessionFile, TapedCall


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step of a recording.

    Attributes:
        turn, index: which turn, and its place there, from 0.
        takes, calls: numbers of its requests, and of its taped calls.
    """

    turn: int
    index: int
    takes: tuple[int, ...]
    calls: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A recording by steps.

    Attributes:
        steps: in order, all turns together.
        endings: for each turn the takes after its last reply, when it ended without one.
        others: takes that are no chat, such as embeddings, asked outside of tools.
    """

    steps: tuple[RecordedStep, ...]
    endings: tuple[tuple[int, ...], ...]
    others: tuple[int, ...]


def layout_of(file: SessionFile) -> Layout | None:
    """Take a session apart; None where its steps cannot be told apart.

    That is so when the model was asked for more than the steps, a summary of the history say.
    """
    session = file.session
    assert session is not None  # callers have looked
    asked = chat_takes(file)
    groups, rest = _by_reply(file, asked)
    golden = [step for turn in session.trajectory for step in turn.steps]
    if len(groups) != len(golden):
        return None
    calls = _calls(golden, session.tape)
    steps: list[RecordedStep] = []
    endings: list[tuple[int, ...]] = []
    for number, turn in enumerate(session.trajectory):
        for index in range(len(turn.steps)):
            place = len(steps)
            steps.append(RecordedStep(number, index, tuple(groups[place]), calls[place]))
        ended = turn.stop_reason == StopReason.MODEL_ERROR
        endings.append(tuple(_failed(file, groups, len(steps), rest)) if ended else ())
    outside = {number for number, take in enumerate(file.takes) if take.within is None}
    return Layout(tuple(steps), tuple(endings), tuple(sorted(outside - set(asked))))


def is_reply(file: SessionFile, number: int) -> bool:
    """Whether a take holds a whole reply of the model."""
    exchange = file.takes[number].exchange
    if exchange is None:
        return False
    found = file.exchanges[exchange]
    return reply_of(found.request, found.response) is not None


def chat_takes(file: SessionFile) -> list[int]:
    """The takes that ask a model for a reply; those of an agent inside a tool are not ours."""
    return [
        number for number, take in enumerate(file.takes)
        if take.within is None and api_of(request_of_take(file, number).url)
    ]  # fmt: skip


def request_of_take(file: SessionFile, number: int) -> Request:
    """The recorded request of a take."""
    take = file.takes[number]
    if take.exchange is not None:
        return file.exchanges[take.exchange].request
    assert take.error is not None  # a take has one or the other
    return read_request(take.error.request)


def _by_reply(file: SessionFile, asked: Sequence[int]) -> tuple[list[list[int]], list[int]]:
    """Takes in groups that end with a reply, and those after the last one."""
    groups: list[list[int]] = []
    group: list[int] = []
    for number in asked:
        group.append(number)
        if is_reply(file, number):
            groups.append(group)
            group = []
    return groups, group


def _failed(
    file: SessionFile, groups: list[list[int]], begun: int, rest: Sequence[int]
) -> list[int]:
    """The failed requests that ended a turn; they stand before the first reply of the next."""
    if begun == len(groups):
        return list(rest)
    failed = [each for each in groups[begun] if not is_reply(file, each)]
    groups[begun] = groups[begun][len(failed) :]
    return failed


def _calls(golden: Sequence[GoldenStep], tape: Sequence[TapedCall]) -> list[tuple[int, ...]]:
    """The taped calls of each step: they stand on the tape in the order of the actions.

    An action that was refused never reached its tool and has none.
    """
    calls: list[tuple[int, ...]] = []
    at = 0
    for step in golden:
        mine: list[int] = []
        for action in step.actions:
            fits = at < len(tape) and tape[at].tool == action.tool
            if fits and action.ok == (tape[at].failure is None):
                mine.append(at)
                at += 1
        calls.append(tuple(mine))
    return calls
