"""What travels between the stages of the parser: repairs found so far, and refusals."""

from __future__ import annotations

from agent_core.messages import FormatErrorCode, Repair

_KEPT = 100  # occurrences recorded one by one; a hostile reply may hold a million
_SNIPPET = 60  # characters of a repaired piece that are kept


class Refusal(Exception):
    """Why a reply cannot be used. It becomes a `FormatError` before a caller sees it.

    `tool` is the tool the call was for, if known: the hint then shows its parameters.
    """

    def __init__(self, code: FormatErrorCode, message: str, *, tool: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.tool = tool


class RepairLog:
    """The repairs of one reply, in order; the same one made again is recorded once.

    All are recorded up to a bound; past it only the first of each further kind.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], int | str] = {}

    def add(self, kind: str, where: int | str, before: str, after: str) -> None:
        """Record one repair; `where` is a character offset or a JSON path."""
        repair = (kind, before[:_SNIPPET], after[:_SNIPPET])
        if repair in self._found:
            return
        if len(self._found) < _KEPT or all(kind != known for known, _, _ in self._found):
            self._found[repair] = where

    def mark(self) -> int:
        """A point to roll back to, when a tentative reading turns out to be prose."""
        return len(self._found)

    def rollback(self, mark: int) -> None:
        """Forget what was recorded after `mark`."""
        while len(self._found) > mark:
            self._found.popitem()

    def all(self) -> tuple[Repair, ...]:
        """Everything recorded."""
        return tuple(
            Repair(kind, str(where), before, after)
            for (kind, before, after), where in self._found.items()
        )


def snippet(text: str, limit: int = _SNIPPET) -> str:
    """`text`, shortened in the middle when it is long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}…{text[-half:]}"
