"""The tape: what tools and the retriever gave, recorded once and given again."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

from agent_core.messages import JsonObject
from harness.redact import redactor
from harness.sessions.exchange import canonical_json
from harness.sessions.format import TapedCall, TapedSearch

E = TypeVar("E", TapedCall, TapedSearch)


class Tape(Generic[E]):
    """Recorded entries, taken in their order and found by what was asked.

    Calls that ran at the same time may ask in another order than recorded; each still gets its
    own entry. A question that was not recorded gets the entry whose turn it is, if
    that is of the same `kind`, and the change is kept. Thread-safe; constant time an entry.
    """

    def __init__(
        self, entries: Sequence[E], key: Callable[[E], str], kind: Callable[[E], str]
    ) -> None:
        self.entries: Sequence[E] = entries
        self._kind: Callable[[E], str] = kind
        self._keys = [key(entry) for entry in self.entries]
        self._places: defaultdict[str, deque[int]] = defaultdict(deque)
        for number, known in enumerate(self._keys):
            self._places[known].append(number)
        self._used = [False] * len(self._keys)
        self._cursor = 0
        self._lock = Lock()
        self.changed: list[tuple[str | None, str]] = []

    def take(self, key: str, kind: str) -> E | None:
        """The first entry of this key, else the one whose turn it is, else None.

        The last two are kept in `changed`, as what was recorded (None if nothing) and asked.
        """
        with self._lock:
            number = self._exact(key)
            if number is None:
                number = self._next(kind)
                self.changed.append((None if number is None else self._keys[number], key))
            return None if number is None else self._use(number)

    def take_exact(self, key: str) -> E | None:
        """The first entry of this key that is left, or None."""
        with self._lock:
            number = self._exact(key)
            return None if number is None else self._use(number)

    @property
    def unused(self) -> list[str]:
        """What nobody asked for."""
        return [key for key, used in zip(self._keys, self._used, strict=True) if not used]

    def _exact(self, key: str) -> int | None:
        places = self._places.get(key)
        while places and self._used[places[0]]:
            places.popleft()
        return places[0] if places else None

    def _next(self, kind: str) -> int | None:
        while self._cursor < len(self._used) and self._used[self._cursor]:
            self._cursor += 1
        number = self._cursor
        fits = number < len(self._used) and self._kind(self.entries[number]) == kind
        return number if fits else None

    def _use(self, number: int) -> E:
        self._used[number] = True
        return self.entries[number]


def call_key(tool: str, arguments: JsonObject) -> str:
    """What identifies a call: the tool and its canonical, scrubbed arguments."""
    return f"{tool}({canonical_json(redactor.value(arguments))})"


def search_key(query: str, top_k: int) -> str:
    """What identifies a search."""
    return f"search({canonical_json([redactor.text(query), top_k])})"


def call_tape(calls: Sequence[TapedCall]) -> Tape[TapedCall]:
    """A tape of tool calls."""
    return Tape(calls, lambda call: call_key(call.tool, call.arguments), lambda call: call.tool)


def search_tape(searches: Sequence[TapedSearch]) -> Tape[TapedSearch]:
    """A tape of searches."""
    return Tape(searches, lambda search: search_key(search.query, search.top_k), lambda _: "search")
