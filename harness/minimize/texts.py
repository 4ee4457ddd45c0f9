"""The texts of a session, and everything else inside its steps that can become smaller.

Tool descriptions and schemas are not among them: they are the agent's code. A tool is left out
whole, or stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence, Set
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from agent_core.messages import JsonValue
from harness.minimize.draft import Derived, Draft, same_parts
from harness.minimize.layout import RecordedStep, chat_takes, layout_of
from harness.minimize.merge import dumped, with_body
from harness.sessions.conversion import api_of, is_stream, records_of, reply_of, stream, whole
from harness.sessions.exchange import Exchange
from harness.sessions.format import GoldenStep, SessionFile
from harness.sessions.trajectory import same_decision

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"\s*(?:[A-Za-z0-9_]+|\S)\s*")
_SHORT = 8  # characters of a text that is not worth a try

_THINKING = frozenset({"thinking", "reasoning", "reasoning_content"})

T = TypeVar("T")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Something made of pieces, and the session with only some of them."""

    items: Sequence[Any]
    draft: Callable[[Sequence[Any]], Draft]


Part = Callable[[Derived], Pieces | None]
"""Finds its pieces in a session as small as it has become; None where there are none."""


def parts_of(derived: Derived) -> Iterator[Part]:
    """Everything that can become smaller: lists first, then texts by lines, then by words."""
    session = derived.session
    if not derived.run.asked.keys() >= set(chat_takes(derived.file)):
        return  # nobody can tell what the agent would send where it does not come
    yield _tools
    yield _history
    yield from (partial(_hits, number=number) for number in range(len(session.searches)))
    steps = list(_steps(derived))
    done = [step for step, was, now in steps if was == now]
    yield from (partial(_value, number=number) for step in done for number in step.calls)
    replies = [step.takes[-1] for step, was, now in steps if same_decision(was, now)]
    yield from (partial(_thinking, number=number) for number in replies)
    for cut in (_LINE, _WORD):
        yield from (partial(_reply, number=number, cut=cut) for number in replies)
        for number, turn in enumerate(session.turns):
            yield partial(_question, number=number, cut=cut)
            for place in range(len(turn.history)):
                yield partial(_message, number=number, place=place, cut=cut)


def _steps(derived: Derived) -> Iterator[tuple[RecordedStep, GoldenStep, GoldenStep]]:
    """The steps that the agent comes to, as they were recorded and as it makes them."""
    layout = layout_of(derived.file)
    recorded, golden = derived.session.trajectory, derived.run.golden
    for step in () if layout is None else layout.steps:
        if step.turn < len(golden) and step.index < len(golden[step.turn].steps):
            was, now = (turns[step.turn].steps[step.index] for turns in (recorded, golden))
            yield step, was, now


def _tools(derived: Derived) -> Pieces:
    """The tools of the agent, as the session knows them; those that are called stay."""
    session = derived.session
    called = {
        action.tool for turn in session.trajectory for step in turn.steps for action in step.actions
    }  # fmt: skip

    def draft(names: Sequence[Any]) -> Draft:
        tools = [each for each in session.tools if each.name in called or each.name in names]
        agent = session.agent.model_copy(update={"tools": [each.name for each in tools]})
        return _with_block(derived, agent=agent, tools=tools)

    return Pieces([each.name for each in session.tools if each.name not in called], draft)


def _history(derived: Derived) -> Pieces:
    """The messages that the session began with."""
    first, *others = derived.session.turns

    def draft(messages: Sequence[Any]) -> Draft:
        turn = first.model_copy(update={"history": list(messages)})
        return _with_block(derived, turns=[turn, *others])

    return Pieces(first.history, draft)


def _hits(derived: Derived, number: int) -> Pieces | None:
    """The passages that a search found."""
    searches = derived.session.searches
    if number >= len(searches):  # it is not made any more
        return None

    def draft(hits: Sequence[Any]) -> Draft:
        search = searches[number].model_copy(update={"hits": list(hits)})
        return _with_block(derived, searches=_exchanged(searches, number, search))

    return Pieces(searches[number].hits, draft)


def _value(derived: Derived, number: int) -> Pieces:
    """What a tool gave: keys of objects, elements of lists, lines and words of texts."""
    tape = derived.session.tape
    value = tape[number].value
    everything = list(_places(value, ()))

    def draft(kept: Sequence[Any]) -> Draft:
        gone = set(everything) - set(kept)
        call = tape[number].model_copy(update={"value": _pruned(value, (), gone)})
        return _with_block(derived, tape=_exchanged(tape, number, call))

    return Pieces(everything, draft)


def _thinking(derived: Derived, number: int) -> Pieces | None:
    """What the model thought where the server tells it apart: all of it or nothing."""
    exchange = _exchange_of(derived.file, number)
    reply = reply_of(exchange.request, exchange.response)
    if reply is None or reply.thinking is None:
        return None

    def draft(kept: Sequence[Any]) -> Draft:
        return _with_reply(derived, number, reply.text, thinking="".join(kept))

    return Pieces([reply.thinking], draft)


def _reply(derived: Derived, number: int, cut: re.Pattern[str]) -> Pieces | None:
    """A reply of the model."""
    exchange = _exchange_of(derived.file, number)
    reply = reply_of(exchange.request, exchange.response)
    if reply is None or len(reply.text) < _SHORT:
        return None
    return Pieces(cut.findall(reply.text), lambda kept: _with_reply(derived, number, "".join(kept)))


def _question(derived: Derived, number: int, cut: re.Pattern[str]) -> Pieces | None:
    """A question."""
    turns = derived.session.turns
    if len(turns[number].question) < _SHORT:
        return None

    def draft(kept: Sequence[Any]) -> Draft:
        turn = turns[number].model_copy(update={"question": "".join(kept) or "?"})
        return _with_block(derived, turns=_exchanged(turns, number, turn))

    return Pieces(cut.findall(turns[number].question), draft)


def _message(derived: Derived, number: int, place: int, cut: re.Pattern[str]) -> Pieces | None:
    """A message of the history that the session began with."""
    turns = derived.session.turns
    history = turns[number].history
    if place >= len(history) or len(history[place].content) < _SHORT:
        return None

    def draft(kept: Sequence[Any]) -> Draft:
        message = history[place].model_copy(update={"content": "".join(kept)})
        turn = turns[number].model_copy(update={"history": _exchanged(history, place, message)})
        return _with_block(derived, turns=_exchanged(turns, number, turn))

    return Pieces(cut.findall(history[place].content), draft)


def _with_block(derived: Derived, **changes: Any) -> Draft:
    """A draft in which only the block is another."""
    session = derived.session.model_copy(update=changes)
    return same_parts(derived, SessionFile(session, derived.file.exchanges))


def _with_reply(derived: Derived, number: int, text: str, *, thinking: str | None = None) -> Draft:
    """A draft in which one reply is another, and comes whole: its chunks are no more."""
    take = derived.session.takes[number]
    assert take.exchange is not None  # it is a reply
    other = _saying(derived.file.exchanges[take.exchange], text, thinking)
    exchanges = _exchanged(derived.file.exchanges, take.exchange, other)
    take = take.model_copy(update={"sizes": [], "times": [], "closed": False})
    changes = {"takes": _exchanged(derived.session.takes, number, take)}
    file = SessionFile(derived.session.model_copy(update=changes), tuple(exchanges))
    return same_parts(derived, file)


def _saying(exchange: Exchange, text: str, thinking: str | None) -> Exchange:
    """The exchange with another text in its reply, and fewer tokens where that is shorter."""
    api = api_of(exchange.request.url)
    assert api is not None  # it is a reply
    records = records_of(api, exchange.response)
    assert records is not None
    streamed = is_stream(api, exchange.response)
    record = deepcopy(whole(api, records) if streamed else records[0])
    message = record["choices"][0]["message"] if api == "openai" else record["message"]
    counts, tokens = (
        (record.get("usage") or {}, "completion_tokens") if api == "openai"
        else (record, "eval_count")
    )  # fmt: skip
    if isinstance(counts.get(tokens), int):  # a reply with too many looks as if it lost some
        share = len(text) / max(1, len(message.get("content") or ""))
        counts[tokens] = max(1, round(counts[tokens] * min(1.0, share)))
    message["content"] = text
    if thinking is not None:
        for field in _THINKING & message.keys():
            message[field] = thinking
    body = b"".join(stream(api, record)) if streamed else dumped(record)
    return replace(exchange, response=with_body(exchange.response, body))


def _exchange_of(file: SessionFile, number: int) -> Exchange:
    exchange = file.takes[number].exchange
    assert exchange is not None  # it is a reply
    return file.exchanges[exchange]


def _exchanged(items: Sequence[T], number: int, item: T) -> list[T]:
    """The items with another one in this place."""
    return [*items[:number], item, *items[number + 1 :]]


def _places(value: JsonValue, path: Path) -> Iterator[Path]:
    """Every place inside a value: of elements, and of the words of longer texts."""
    parts: dict[str | int, Any] = {}
    if isinstance(value, dict):
        parts = value
    elif isinstance(value, list):
        parts = dict(enumerate(value))
    elif isinstance(value, str) and len(value) >= _SHORT:
        parts = dict(enumerate(_WORD.findall(value)))
    for key, part in parts.items():
        place = (*path, key)
        yield place
        if not isinstance(value, str):
            yield from _places(part, place)


def _pruned(value: JsonValue, path: Path, gone: Set[Path]) -> JsonValue:
    """A value without what is at these places."""
    if isinstance(value, dict):
        return {
            key: _pruned(part, (*path, key), gone)
            for key, part in value.items()
            if (*path, key) not in gone
        }
    if isinstance(value, list):
        return [
            _pruned(part, (*path, place), gone)
            for place, part in enumerate(value)
            if (*path, place) not in gone
        ]
    if isinstance(value, str) and len(value) >= _SHORT:
        words = enumerate(_WORD.findall(value))
        return "".join(word for place, word in words if (*path, place) not in gone)
    return value
