"""A session made of parts of another one.

Take a step out of the middle, and every later request is another one: the agent sends what is
left of the history. The agent is deterministic given replies and tapes, so it is asked: it runs
against the remaining replies, in order, and what it sends becomes what the smaller session has
recorded.

That alone would hide the very thing to be kept. When an agent has changed since the recording,
what it sends *now* differs from what was recorded, and this drift is the failure. So three
things are merged for each request and each step of the trajectory: what the agent sends in the
smaller session, plus what the recording has otherwise than the agent sends in the larger one.
A message that was recorded in another way than the agent writes it today is recorded in that
way in the smaller session, too; all else is as the agent writes it. An agent without the
change sends exactly that, so that the smaller session replays when the defect is mended.

Where the agent does not come (it raises, or ends too early: that is the failure), nothing can
be merged. There a request is the one before, and what the recording has added to it. Nor can
anybody tell how an agent without the defect would read another text than the recorded one. So
texts are shortened only in steps in which the agent still does what was recorded.

A turn whose last step is left out would ask for one more reply. It gets status 400, *the
recording ends here*, and ends with `model_error`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agent_core.errors import BadRequest, ConfigError
from agent_core.limits import StopReason
from agent_core.messages import Actions, JsonObject, Step
from harness.minimize.layout import (
    Layout,
    RecordedStep,
    chat_takes,
    layout_of,
    request_of_take,
)
from harness.minimize.merge import carried_over, dumped, with_body
from harness.redact import redactor
from harness.sessions.cassette import request_block
from harness.sessions.conversion import api_of
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Exchange, Request, Response, json_body
from harness.sessions.format import (
    GoldenStep,
    GoldenTurn,
    Session,
    SessionFile,
    Take,
    TapedCall,
)
from harness.sessions.replay import replay
from harness.sessions.sources import Factory
from harness.sessions.tape import search_key
from harness.sessions.trajectory import golden_decision, golden_turn

ENDS_HERE = "the recording ends here"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a reply was read: its decision and notations, and what was mended or cut off."""

    made: tuple[str, ...]
    mended: frozenset[str]


@dataclass(frozen=True, slots=True)
class Run:
    """What the agent does in a session today.

    Attributes:
        asked: by take, what it sent in its place.
        golden: what came of it, as a trajectory.
        readings: how each reply was read.
        calls: tools that ran, with the arguments they got.
        as_taped: each call was on the tape.
        unasked: keys of taped calls and searches that it did not make.
    """

    asked: dict[int, Request] = field(default_factory=dict)
    golden: tuple[GoldenTurn, ...] = ()
    readings: tuple[Reading, ...] = ()
    calls: tuple[tuple[str, JsonObject], ...] = ()
    as_taped: bool = False
    unasked: tuple[str, ...] = ()

    def reads_as(self, other: Run) -> bool:
        """Whether each reply is read as it was: a text that has to be mended is another case."""
        return len(self.readings) == len(other.readings) and all(
            now.made == was.made and now.mended <= was.mended
            for now, was in zip(self.readings, other.readings, strict=True)
        )


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
    return Derived(file, _run(file, factory))


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


def settle(whole: Derived, draft: Draft, factory: Factory) -> Derived:
    """Make a draft a session: ask the agent, and merge what it sends with what was recorded.

    Raises:
        SessionError, ConfigError: the agent cannot be run on it.
    """
    run = _run(_blank(draft.file), factory)
    session = draft.file.session
    assert session is not None  # it was made from one
    exchanges = list(draft.file.exchanges)
    takes: list[Take] = []
    requests = _requests(whole, draft, run)
    for take, request in zip(session.takes, requests, strict=True):
        if take.error is not None:
            error = take.error.model_copy(update={"request": request_block(request)})
            takes.append(take.model_copy(update={"error": error}))
        else:
            assert take.exchange is not None  # a take has one or the other
            exchanges[take.exchange] = replace(exchanges[take.exchange], request=request)
            takes.append(take)
    golden = [
        _golden(whole, part, run.golden[place] if place < len(run.golden) else None)
        for place, part in enumerate(draft.turns)
    ]
    searches = list(session.searches)
    gone = set(run.unasked) - set(whole.run.unasked)  # asked in the whole, and not any more
    for each in session.searches:
        if search_key(each.query, each.top_k) in gone:
            searches.remove(each)
    changes: dict[str, object] = {"takes": takes, "trajectory": golden, "searches": searches}
    if whole.run.as_taped:
        changes["tape"] = _called(session.tape, run.calls)
    return Derived(SessionFile(session.model_copy(update=changes), tuple(exchanges)), run)


def _run(file: SessionFile, factory: Factory) -> Run:
    """Run the agent to the end, wherever it goes; whatever it raises is judged by others."""
    try:
        report = replay(file, factory=factory, mode="lenient")
    except (SessionError, ConfigError):
        raise
    except Exception:  # the agent's own: what it sent until then is not known
        return Run()
    served = zip(report.served, report.asked, strict=True)
    asked = {number: request for number, request in served if number is not None}
    steps = [step for result in report.results for step in result.steps]
    return Run(
        asked=asked,
        golden=tuple(map(golden_turn, report.results)),
        readings=tuple(map(_reading, steps)),
        calls=tuple(
            (seen.tool, redactor.value(seen.arguments))
            for step in steps for seen in step.observations if seen.arguments is not None
        ),
        as_taped=not report.changed_calls,
        unasked=report.unused_calls,
    )  # fmt: skip


def _reading(step: Step) -> Reading:
    parsed = step.parsed
    actions = parsed.decision.actions if isinstance(parsed.decision, Actions) else ()
    made = (golden_decision(parsed).decision, *(each.notation for each in actions))
    return Reading(
        made,
        frozenset([
            *(each.kind for each in parsed.repairs),
            *(each.kind for each in parsed.ignored),
        ]),
    )


def _blank(file: SessionFile) -> SessionFile:
    """The same replies to any requests: each is found by its place alone."""
    exchanges = tuple(
        replace(each, request=with_body(each.request, b"")) if api_of(each.request.url) else each
        for each in file.exchanges
    )
    return SessionFile(file.session, exchanges)


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
            exchanges.append(Exchange(request, _end(request)))
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


def _end(request: Request) -> Response:
    """The reply of a server to the request behind the last one that is kept."""
    error: object = ENDS_HERE
    if api_of(request.url) == "openai":
        error = {"message": ENDS_HERE, "type": "ends_here"}
    headers = {"Content-Type": ["application/json"]}
    return Response(400, "Bad Request", headers, dumped({"error": error}))


def _requests(whole: Derived, draft: Draft, run: Run) -> list[Request]:
    """What the smaller session has recorded, take by take."""
    requests: list[Request] = []
    last: int | None = None  # place of the chat request before
    for place, number in enumerate(draft.takes):
        recorded = request_of_take(whole.file, number)
        before, now = whole.run.asked.get(number), run.asked.get(place)
        if before is not None and now is not None:
            recorded = carried_over(before, recorded, now)
        elif api_of(recorded.url) and last is not None:
            recorded = _grown(whole.file, requests[last], draft.takes[last]) or recorded
        elif api_of(recorded.url):
            recorded = _first_request(whole.file, draft.turns[0].turn) or recorded
        last = place if api_of(recorded.url) else last
        requests.append(recorded)
    return requests


def _grown(file: SessionFile, request: Request, number: int) -> Request | None:
    """A request with the messages that the recording has added behind a take."""
    following = dict(pairwise(chat_takes(file))).get(number)
    if following is None:
        return None
    before, after = (_messages(request_of_take(file, each)) for each in (number, following))
    body = json_body(request.body)
    if after[: len(before)] != before or not isinstance(body, dict):
        return None
    messages = [*_messages(request), *after[len(before) :]]
    return with_body(request, dumped({**body, "messages": messages}))


def _first_request(file: SessionFile, turn: int) -> Request | None:
    """The request with which a turn began."""
    layout = layout_of(file)
    takes = [step.takes[0] for step in layout.steps if step.turn == turn] if layout else []
    return request_of_take(file, takes[0]) if takes else None


def _messages(request: Request) -> list[JsonObject]:
    body = json_body(request.body)
    messages = body.get("messages") if isinstance(body, dict) else None
    return messages if isinstance(messages, list) else []


def _called(tape: Sequence[TapedCall], calls: Sequence[tuple[str, JsonObject]]) -> list[TapedCall]:
    """The tape with the arguments that the tools get now: a shorter reply may have shorter ones."""
    if [call.tool for call in tape[: len(calls)]] != [tool for tool, _ in calls]:
        return list(tape)
    made = zip(tape, calls, strict=False)
    return [
        *(call.model_copy(update={"arguments": arguments}) for call, (_, arguments) in made),
        *tape[len(calls) :],
    ]


def _golden(whole: Derived, part: TurnPart, now: GoldenTurn | None) -> GoldenTurn:
    """The recorded turn as far as it is left; where the agent now does otherwise, as it does."""
    recorded = whole.session.trajectory[part.turn]
    ran = whole.run.golden
    before = ran[part.turn] if part.turn < len(ran) else None
    steps = [
        _golden_step(
            recorded.steps[old],
            before.steps[old] if before is not None and old < len(before.steps) else None,
            now.steps[new] if now is not None and new < len(now.steps) else None,
        )
        for new, old in enumerate(part.steps)
    ]
    if part.cut:
        stopped = str(StopReason.MODEL_ERROR)
        return GoldenTurn(steps=steps, stop_reason=stopped, error=BadRequest.__name__)
    bare = [
        None if turn is None else turn.model_copy(update={"steps": steps}) for turn in (before, now)
    ]
    changed = None not in bare and bare[0] != bare[1]
    ending = bare[1] if changed else None
    return ending or recorded.model_copy(update={"steps": steps})


def _golden_step(
    recorded: GoldenStep, before: GoldenStep | None, now: GoldenStep | None
) -> GoldenStep:
    return recorded if before is None or now is None or before == now else now
