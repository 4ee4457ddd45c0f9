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
be merged. There a request is the one before, and what the recording has added to it. Such a
session loses steps, but keeps its texts: nobody can tell what an agent without the defect would
make of other ones. For the same reason a reply is shortened only where the agent still reads in
it what was recorded, and a tool's result only where it still makes the recorded observation.

A turn whose last step is left out would ask for one more reply. It gets status 400, *the
recording ends here*, and ends with `model_error`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from agent_core.errors import BadRequest
from agent_core.limits import StopReason
from agent_core.messages import JsonObject
from harness.minimize.draft import Derived, Draft, TurnPart
from harness.minimize.layout import (
    chat_takes,
    layout_of,
    request_of_take,
)
from harness.minimize.merge import carried_over, dumped, with_body
from harness.minimize.run import Run, run_of
from harness.sessions.cassette import request_block
from harness.sessions.conversion import api_of
from harness.sessions.exchange import Request, json_body
from harness.sessions.format import (
    GoldenStep,
    GoldenTurn,
    SessionFile,
    Take,
    TapedCall,
    TapedSearch,
)
from harness.sessions.sources import Factory
from harness.sessions.tape import search_key
from harness.sessions.trajectory import same_decision


def settle(whole: Derived, draft: Draft, factory: Factory) -> Derived:
    """Make a draft a session: ask the agent, and merge what it sends with what was recorded.

    Raises:
        SessionError, ConfigError: the agent cannot be run on it.
    """
    run = run_of(_blank(draft.file), factory)
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
    gone = set(run.unasked) - set(whole.run.unasked)  # asked in the whole, and not any more
    searches = [each for each in session.searches if search_key(each.query, each.top_k) not in gone]
    changes: dict[str, object] = {"takes": takes, "trajectory": golden, "searches": searches}
    if whole.run.as_taped:  # what is asked now is what is on the tape from now on
        changes["tape"] = _called(session.tape, run.calls)
        changes["searches"] = [_searched(each, run.changed) for each in searches]
        run = replace(run, as_taped=True)
    return Derived(SessionFile(session.model_copy(update=changes), tuple(exchanges)), run)


def is_foreseeable(derived: Derived) -> bool:
    """Whether each step that the agent does not make today was answered by its tools.

    What an agent says itself, of an action that it refuses say, depends on the steps before.
    """
    layout = layout_of(derived.file)
    for step in () if layout is None else layout.steps:
        recorded = derived.session.trajectory[step.turn].steps[step.index]
        turns = derived.run.golden[step.turn : step.turn + 1]
        now = [each for turn in turns for each in turn.steps[step.index : step.index + 1]]
        made = bool(now) and same_decision(recorded, now[0])
        if not made and len(step.calls) < len(recorded.actions):
            return False
    return True


def _blank(file: SessionFile) -> SessionFile:
    """The same replies to any requests: each is found by its place alone."""
    exchanges = tuple(
        replace(each, request=with_body(each.request, b"")) if api_of(each.request.url) else each
        for each in file.exchanges
    )
    return SessionFile(file.session, exchanges)


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


def _searched(search: TapedSearch, changed: Mapping[str, str]) -> TapedSearch:
    """The search as it is made now: a shorter question is searched for in fewer words."""
    now = changed.get(search_key(search.query, search.top_k), "")
    query = json_body(now.removeprefix("search(").removesuffix(")").encode())
    if not isinstance(query, list):
        return search
    return search.model_copy(update={"query": query[0], "top_k": query[1]})


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
