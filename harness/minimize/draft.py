"""Parts of a session, chosen but not yet a session: see `settle`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.minimize.layout import (
    Layout,
    RecordedStep,
    request_of_take,
)
from harness.minimize.merge import dumped
from harness.minimize.run import Run, run_of
from harness.sessions.conversion import api_of
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Exchange, Request, Response
from harness.sessions.format import (
    Session,
    SessionFile,
    Take,
)
from harness.sessions.sources import Factory

ENDS_HERE = "the recording ends here"


@dataclass(frozen=True, slots=True)
class Derived:
    """A session with what the agent does in it."""

    file: SessionFile
    run: Run

    @property
    def session(self) -> Session:
        """The block."""
        assert self.file.session is not None  # `begin` has looked
        return self.file.session


@dataclass(frozen=True, slots=True)
class TurnPart:
    """What is left of a turn: its number, the places of its steps, and whether it was cut."""

    turn: int
    steps: tuple[int, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """Parts of a session, in which the requests are still those of the whole.

    Attributes:
        takes: for each take which one it was; that of an added end is the one it stands for.
        same_reading: only texts are shorter, so each reply has to be read as it was.
    """

    file: SessionFile
    takes: tuple[int, ...]
    turns: tuple[TurnPart, ...]
    same_reading: bool = False


def begin(file: SessionFile, factory: Factory) -> Derived:
    """A session as it is, with what the agent does in it.

    Raises:
        SessionError: it is a stock cassette.
    """
    if file.session is None:
        raise SessionError(
            "a cassette without a session block does not say what agent made it: expected a "
            "session of `agentrig record`"
        )
    return Derived(file, run_of(file, factory))


def same_parts(whole: Derived, file: SessionFile) -> Draft:
    """A draft with other texts in it, but with every take and every step of the whole."""
    turns = tuple(
        TurnPart(number, tuple(range(len(turn.steps))))
        for number, turn in enumerate(whole.session.trajectory)
    )
    return Draft(file, tuple(range(len(whole.file.takes))), turns, same_reading=True)


def with_steps(whole: Derived, layout: Layout, chosen: Sequence[RecordedStep]) -> Draft:
    """A draft with some of the steps. A turn without any goes, but one turn stays.

    What a tool sent itself is left out: it does not run.
    """
    numbers = sorted({step.turn for step in chosen}) or [len(whole.session.turns) - 1]
    turns: list[TurnPart] = []
    takes: list[int] = []
    added: set[int] = set()
    for number in numbers:
        kept = [step for step in chosen if step.turn == number]
        of_turn = [step for step in layout.steps if step.turn == number]
        takes += [take for step in kept for take in step.takes]
        after = of_turn.index(kept[-1]) + 1 if kept else 0
        cut = after < len(of_turn)
        if cut:
            added.add(of_turn[after].takes[0])
            takes.append(of_turn[after].takes[0])
        else:
            takes += layout.endings[number]
        turns.append(TurnPart(number, tuple(step.index for step in kept), cut))
    first = takes[0] if takes else len(whole.file.takes)
    takes = [
        *(each for each in layout.others if each < first),
        *takes,
        *(each for each in layout.others if each > first),
    ]
    calls = [call for step in chosen for call in step.calls]
    file = _parts(whole, turns, takes, added, calls)
    return Draft(file, tuple(takes), tuple(turns))


def _parts(
    whole: Derived,
    turns: Sequence[TurnPart],
    takes: Sequence[int],
    added: set[int],
    calls: Sequence[int],
) -> SessionFile:
    """The chosen takes and calls as a session, its turns and their golden ones whole."""
    old = whole.session
    exchanges: list[Exchange] = []
    kept: list[Take] = []
    for number in takes:
        take = whole.file.takes[number]
        if number in added:
            request = request_of_take(whole.file, number)
            exchanges.append(Exchange(request, end_of(request)))
            take = Take(exchange=len(exchanges) - 1, at=take.at)
        elif take.exchange is not None:
            exchanges.append(whole.file.exchanges[take.exchange])
            take = take.model_copy(update={"exchange": len(exchanges) - 1})
        kept.append(take)
    asked = [old.turns[part.turn] for part in turns]
    asked[0] = asked[0].model_copy(update={"history": old.turns[0].history})
    changes = {
        "turns": asked,
        "takes": kept,
        "tape": [old.tape[number] for number in calls],
        "trajectory": [old.trajectory[part.turn] for part in turns],
    }
    return SessionFile(old.model_copy(update=changes), tuple(exchanges))


def end_of(request: Request) -> Response:
    """The reply of a server to the request behind the last one that is kept."""
    error: object = ENDS_HERE
    if api_of(request.url) == "openai":
        error = {"message": ENDS_HERE, "type": "ends_here"}
    headers = {"Content-Type": ["application/json"]}
    return Response(400, "Bad Request", headers, dumped({"error": error}))
