"""Which recorded request a foreign client's request is: cursors over sessions, and what differs.

Clients spell the same question differently: another host, empty defaults, streamed or not. Both
sides are brought to one form, scrubbed, before they are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from agent_core.messages import JsonObject, JsonValue
from harness.sessions.cassette import read_request
from harness.sessions.conversion import route_of
from harness.sessions.drift import Drift, drift_of
from harness.sessions.exchange import (
    Exchange,
    Request,
    Response,
    canonical_json,
    canonical_key,
    json_body,
)
from harness.sessions.format import SessionFile, Take
from harness.sessions.player import Player
from harness.sessions.scrubbing import scrub_request
from harness.sessions.volatile import hidden

FACTS = frozenset({"/", "/api/tags", "/api/show", "/api/version", "/api/ps", "/v1/models"})
"""Addresses of what a server says of itself: no part of a conversation, asked at any time."""

_HOW_NOT_WHAT = frozenset({"stream", "stream_options"})
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_NO_WORD: tuple[Any, ...] = (("description", ""), ("required", []))
_CALL_IDS = (b'"tool_calls"', b'"tool_call_id"')
_NOTHING = Response(200, "OK", {})


def same_form(request: Request) -> Request:
    """A request without what clients spell differently: host, headers, empty defaults, stream."""
    clean = scrub_request(request)
    query = urlsplit(clean.url).query
    url = f"http://localhost{route_of(clean.url)}" + (f"?{query}" if query else "")
    value = json_body(clean.body)
    body = (
        clean.body.strip()
        if value is None
        else canonical_json(_plain(value)).encode(errors="replace")
    )
    return Request(clean.method, url, {}, body)


def without_call_ids(form: Request) -> Request | None:
    """A request without the ids of its calls; None where it has none.

    On Ollama's route they are optional, and some clients drop them: the results then belong to
    the calls by their order. Ids that a client gives have to be those that it got.
    """
    if form.url != "http://localhost/api/chat" or not any(map(form.body.count, _CALL_IDS)):
        return None
    messages = [_unnamed(each) for each in _messages(form)]
    return None if messages == _messages(form) else _with_messages(form, messages)


def outline(form: Request) -> tuple[str, list[tuple[str, str]]]:
    """Where a request goes and what is said in it, without times, ids and the like."""
    messages = [each for each in _messages(form) if isinstance(each, dict)]
    if not messages:
        return form.url, [("", hidden(form.body.decode(errors="replace")))]
    return form.url, [
        (str(each.get("role")), hidden(str(each.get("content")))) for each in messages
    ]


def is_fact(request: Request) -> bool:
    """Whether a request asks what the server is, not what it thinks."""
    return route_of(request.url) in FACTS


@dataclass(frozen=True, slots=True)
class _Detour:
    """What a wrong reply brought into a history: so many messages, in the place of `instead`."""

    length: int
    instead: Sequence[JsonObject] = ()


class Cursor:
    """One session: which of its requests have been answered, and which is next."""

    def __init__(self, name: str, file: SessionFile) -> None:
        self.name = name
        self.file = file
        self.takes: Sequence[Take] = file.takes
        self.requests = [same_form(recorded_request(file, take)) for take in self.takes]
        self.used = [is_fact(request) for request in self.requests]
        self.early: list[tuple[int, int]] = []
        self._detours: dict[int, _Detour | None] = {}
        self._keys = [canonical_key(each) for each in self.requests]
        self._places: defaultdict[bytes, list[int]] = defaultdict(list)
        for number, key in enumerate(self._keys):
            unnamed = without_call_ids(self.requests[number])
            for each in {key, canonical_key(unnamed)} if unnamed is not None else (key,):
                self._places[each].append(number)

    @property
    def expected(self) -> int | None:
        """The number of the request whose turn it is; None when all are answered."""
        return next((number for number, used in enumerate(self.used) if not used), None)

    @property
    def all_answered(self) -> int:
        """How many requests the conversation has, once all of them are answered; else 0."""
        return 0 if self.unused else sum(not is_fact(each) for each in self.requests)

    @property
    def unused(self) -> list[int]:
        """Requests of the conversation that nobody sent."""
        return [number for number, used in enumerate(self.used) if not used]

    def find(self, key: bytes) -> int | None:
        """The first unanswered request of this key."""
        return next((each for each in self._places.get(key, ()) if not self.used[each]), None)

    def anywhere(self, key: bytes) -> int | None:
        """The first request of this key, answered or not."""
        return next(iter(self._places.get(key, ())), None)

    def answer(self, number: int) -> None:
        """Note that a request is answered, and whether another one was to come first."""
        expected = self.expected
        if expected is not None and expected < number and not self._together(expected, number):
            self.early.append((number, expected))
        self.used[number] = True
        for each, detour in self._detours.items():
            self._detours[each] = detour or _Detour(0)  # its history is as recorded

    def mislead(self, number: int) -> None:
        """Note that a request is answered wrongly: what follows need not be as recorded."""
        self.answer(number)
        self._detours[number] = None

    def without_detours(self, form: Request) -> Request | None:
        """A request without what wrong replies have brought into it; None where none has.

        A client that did as recorded all the same has another message of the assistant in its
        history, and goes on. Any other asks again, after whatever it has to say of it, and gets
        the recorded reply, as if the model corrected itself.
        """
        messages = _messages(form)
        for number, detour in sorted(self._detours.items()):
            own = self._messages[number]
            if messages[: len(own)] != own:
                return None
            rest = messages[len(own) :]
            if detour is None:
                return self._begin_detour(number, own, rest, form)
            messages = [*own, *detour.instead, *rest[detour.length :]]
        return _with_messages(form, messages) if self._detours else None

    def forget(self, key: bytes) -> None:
        """Let requests of this key be answered again."""
        for number in self._places.get(key, ()):
            self.used[number] = False

    def nearest(self, form: Request) -> tuple[int, int] | None:
        """The request with the most messages of this one, wherever: how many, and its number.

        Among equals the one whose turn it is, or the latest when all are answered.
        """
        said = _counted(_messages(form))
        same_route = [
            number for number, each in enumerate(self.requests) if each.url == form.url
        ]  # fmt: skip
        if not same_route:
            return None
        score = {n: (self._said[n] & said).total() for n in same_route}
        best = max(
            same_route, key=lambda n: (score[n], not self.used[n], n if self.used[n] else -n)
        )
        return score[best], best

    def drift(self, sent: Mapping[int, Request]) -> Drift:
        """What makes requests other ones than those recorded under these numbers."""
        recorded = tuple(
            Exchange(self._spoken_like(number, form), _NOTHING) for number, form in sent.items()
        )
        player = Player(SessionFile(None, recorded))
        for form in sent.values():
            player.serve(form)
        session = self.file.session
        return drift_of(player, recorded_tools=session.tools if session is not None else ())

    def _spoken_like(self, number: int, form: Request) -> Request:
        """A recorded request, without the ids of its calls where a client gives none."""
        unnamed = without_call_ids(self.requests[number])
        return self.requests[number] if unnamed is None or without_call_ids(form) else unnamed

    def next_of(self, form: Request) -> int | None:
        """The first unanswered request that goes where this one goes."""
        where = form.method, form.url
        left = (n for n, each in enumerate(self.requests) if (each.method, each.url) == where)
        return next((number for number in left if not self.used[number]), None)

    @cached_property
    def _messages(self) -> list[list[JsonObject]]:
        """Of each recorded request; few sessions need them, and those at every request."""
        return [_messages(each) for each in self.requests]

    @cached_property
    def _said(self) -> list[Counter[str]]:
        """The messages of each recorded request, in any order."""
        return [_counted(each) for each in self._messages]

    def _begin_detour(
        self, number: int, own: Sequence[JsonObject], rest: Sequence[JsonObject], form: Request
    ) -> Request | None:
        """What is asked first after a wrong reply, whose own request had the messages `own`."""
        at = len(own)
        for place in range(number + 1, len(self.requests)):
            later = self._messages[place]
            if len(rest) > 1 and later[:at] == own and later[at + 1 :] == rest[1:]:
                key = canonical_key(_with_messages(form, later))
                if key == self._keys[place] and not self.used[place]:
                    self._detours[number] = _Detour(1, later[at : at + 1])
                    return self.requests[place]
        if canonical_key(_with_messages(form, own)) != self._keys[number]:
            return None
        self._detours[number] = _Detour(len(rest))
        self.used[number] = False
        return self.requests[number]

    def _together(self, one: int, other: int) -> bool:
        first, second = self.takes[one], self.takes[other]
        return first.seconds > 0 and second.at < first.at + first.seconds


def recorded_request(file: SessionFile, take: Take) -> Request:
    """The request of a take, as it stands in the file."""
    if take.exchange is not None:
        return file.exchanges[take.exchange].request
    assert take.error is not None
    return read_request(take.error.request)


def _plain(body: JsonValue) -> JsonValue:
    """A body without empty defaults, at the top, in messages, calls, options and tools."""
    if not isinstance(body, dict):
        return body
    plain = {key: each for key, each in body.items() if key not in _HOW_NOT_WHAT}
    if isinstance(plain.get("messages"), list):
        plain["messages"] = [_message(each) for each in plain["messages"]]
    if isinstance(plain.get("options"), dict):
        plain["options"] = _filled(plain["options"])
    if isinstance(plain.get("tools"), list):
        plain["tools"] = [_tool(each) for each in plain["tools"]]
    return _filled(plain)


def _message(message: JsonValue) -> JsonValue:
    """A message; what a call is given is left as it is."""
    if isinstance(message, dict) and isinstance(message.get("tool_calls"), list):
        message = message | {"tool_calls": [_call(each) for each in message["tool_calls"]]}
    return _filled(message)


def _call(call: JsonValue) -> JsonValue:
    if isinstance(call, dict) and isinstance(call.get("function"), dict):
        call = call | {"function": _filled(call["function"], but="arguments")}
    return _filled(call)


def _tool(tool: JsonValue) -> JsonValue:
    """A tool without what says nothing of it; a parameter without a schema says something."""
    if isinstance(tool, list):
        return [_tool(each) for each in tool]
    if not isinstance(tool, dict):
        return tool
    return {
        key: _tool(each)
        for key, each in tool.items()
        if each is not None and (key, each) not in _NO_WORD
    }


def _filled(value: JsonValue, *, but: str = "") -> JsonValue:
    if not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key == but or each not in _EMPTY}


def _unnamed(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    plain = {key: each for key, each in message.items() if key != "tool_call_id"}
    if isinstance(calls := plain.get("tool_calls"), list):
        plain["tool_calls"] = [
            {key: each for key, each in call.items() if key != "id"}
            if isinstance(call, dict) else call
            for call in calls
        ]  # fmt: skip
    return plain


def _messages(form: Request) -> list[JsonObject]:
    body = json_body(form.body)
    messages = body.get("messages") if isinstance(body, dict) else None
    return messages if isinstance(messages, list) else []


def _counted(messages: Sequence[JsonObject]) -> Counter[str]:
    return Counter(map(canonical_json, messages))


def _with_messages(form: Request, messages: Sequence[JsonObject]) -> Request:
    body = json_body(form.body)
    assert isinstance(body, dict)  # it has had messages
    body = canonical_json({**body, "messages": [*messages]}).encode(errors="replace")
    return replace(form, body=body)
