"""Which recorded request a foreign client's request is: cursors over sessions, and what differs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_core.messages import JsonObject
from harness.sessions.cassette import read_request
from harness.sessions.drift import Drift, drift_of
from harness.sessions.exchange import Exchange, Request, Response, canonical_key
from harness.sessions.format import SessionFile, Take
from harness.sessions.forms import (
    counted_in,
    is_fact,
    messages_of,
    same_form,
    with_messages,
    without_call_ids,
)
from harness.sessions.player import Player

_NOTHING = Response(200, "OK", {})


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
        messages = messages_of(form)
        for number, detour in sorted(self._detours.items()):
            own = self._messages[number]
            if messages[: len(own)] != own:
                return None
            rest = messages[len(own) :]
            if detour is None:
                return self._begin_detour(number, own, rest, form)
            messages = [*own, *detour.instead, *rest[detour.length :]]
        return with_messages(form, messages) if self._detours else None

    def forget(self, key: bytes) -> None:
        """Let requests of this key be answered again."""
        for number in self._places.get(key, ()):
            self.used[number] = False

    def nearest(self, form: Request) -> tuple[int, int] | None:
        """The request with the most messages of this one, wherever: how many, and its number.

        Among equals the one whose turn it is, or the latest when all are answered.
        """
        said = counted_in(messages_of(form))
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
        return [messages_of(each) for each in self.requests]

    @cached_property
    def _said(self) -> list[Counter[str]]:
        """The messages of each recorded request, in any order."""
        return [counted_in(each) for each in self._messages]

    def _begin_detour(
        self, number: int, own: Sequence[JsonObject], rest: Sequence[JsonObject], form: Request
    ) -> Request | None:
        """What is asked first after a wrong reply, whose own request had the messages `own`."""
        at = len(own)
        for place in range(number + 1, len(self.requests)):
            later = self._messages[place]
            if len(rest) > 1 and later[:at] == own and later[at + 1 :] == rest[1:]:
                key = canonical_key(with_messages(form, later))
                if key == self._keys[place] and not self.used[place]:
                    self._detours[number] = _Detour(1, later[at : at + 1])
                    return self.requests[place]
        if canonical_key(with_messages(form, own)) != self._keys[number]:
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
