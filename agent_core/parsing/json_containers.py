"""The containers of damaged JSON that are open while it is read: one opens, fills, closes.

A closer may be of the wrong kind, or missing; it is put right where that changes no value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_core.messages import JsonValue
from agent_core.parsing.json_strict import MAX_DEPTH
from agent_core.parsing.outcome import Refusal, RepairLog

OPENERS = {"{": "}", "｛": "}", "[": "]", "［": "]", "(": ")"}
_NEAR = 32  # characters before a closer
CLOSERS = {"}": "}", "｝": "}", "]": "]", "］": "]", ")": ")", "）": ")"}


@dataclass(slots=True)
class Container:
    """One that is still open.

    Attributes:
        closer: what closes it.
        items: what it holds so far.
        doubled: it was opened with two braces.
        key: the key of the value that comes next.
    """

    closer: str
    items: JsonValue
    doubled: bool = False
    key: str | None = None
    is_object: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_object = isinstance(self.items, dict)

    def add(self, value: JsonValue, log: RepairLog) -> None:
        """Put in the next value."""
        if not self.is_object:
            self.items.append(value)
            return
        key = self.key
        if key in self.items:
            before = self.items[key]
            if before != value or repr(before) != repr(value):
                raise Refusal("ambiguous", f"the key {key!r} stands twice with different values")
            log.add("duplicate_key", str(key), str(key), str(key))
        self.items[key] = value


class OpenContainers:
    """All that are open, the innermost one last: a stack, so that nesting exhausts nothing.

    Args:
        text: the whole reply.
        log: where repairs go.
        python: round brackets are containers too.
    """

    def __init__(self, text: str, log: RepairLog, *, python: bool) -> None:
        self._text = text
        self._log = log
        self._python = python
        self._stack: list[Container] = []

    def __bool__(self) -> bool:
        return bool(self._stack)

    @property
    def innermost(self) -> Container:
        """The one that is read."""
        return self._stack[-1]

    def clear(self) -> None:
        """Forget those of a value that was given up."""
        self._stack = []

    def open(self, pos: int) -> bool:
        """Open the one that begins at `pos`; False where none does."""
        char = self._text[pos]
        if char not in OPENERS or (char == "(" and not self._python):
            return False
        if len(self._stack) >= MAX_DEPTH:
            raise Refusal("too_large", f"more than {MAX_DEPTH} levels of nesting at {pos}")
        closer = OPENERS[char]
        self._stack.append(Container(closer, {} if closer == "}" else []))
        if char in "｛［":
            self._log.add("full_width", pos, char, "{" if closer == "}" else "[")
        elif char == "(":
            self._log.add("tuple", pos, "(", "[")
        return True

    def close(self, at: int) -> tuple[Container, int]:
        """Close the innermost one with the closer at `at`, right or wrong; and where it ends.

        A closer that fits one further out closes those inside it too; one that fits none stands
        for the innermost one's.
        """
        closer = CLOSERS[self._text[at]]
        if self.innermost.closer != closer:
            if closer == ")":
                if not self._python:
                    raise Refusal("bad_json", f"expected ',' or a closer at {at}, got ')'")
                return self.close_all(at)
            self._log.add("bracket", at, self._text[at], self.innermost.closer)
            if any(each.closer == closer for each in self._stack):
                while self.innermost.closer != closer:
                    self._pop_into_outer()
        closed = self._stack.pop()
        if closed.closer == ")" and len(closed.items) == 1 and not self._follows_comma(at):
            closed.items = closed.items[0]  # brackets round one value are no tuple
        return closed, self._past_closer(closed, at)

    def _follows_comma(self, at: int) -> bool:
        return self._text[max(0, at - _NEAR) : at].rstrip()[-1:] in {",", "，"}

    def close_all(self, at: int) -> tuple[Container, int]:
        """Close all of them at `at`, where no closer stands."""
        missing = "".join(each.closer for each in reversed(self._stack))
        self._log.add("closer", at, "", missing)
        while len(self._stack) > 1:
            self._pop_into_outer()
        return self._stack.pop(), at

    def _pop_into_outer(self) -> None:
        items = self._stack.pop().items
        self.innermost.add(items, self._log)

    def _past_closer(self, closed: Container, pos: int) -> int:
        char = self._text[pos]
        if char in "｝］":
            self._log.add("full_width", pos, char, closed.closer)
        pos += 1
        if closed.doubled and self._text.startswith("}", pos):
            pos += 1
        return pos
