"""Tool calls of the OpenAI API: whole, or in fragments that have to be put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_core.messages import JsonValue, ToolCall
from agent_core.models.wire import read_calls


@dataclass(slots=True)
class _Draft:
    """A call that grows. Arguments that are no text stand in `value`."""

    id: str | None
    name: str
    parts: list[str] = field(default_factory=list)
    value: JsonValue = None

    def add(self, fragment: ToolCall) -> None:
        """Add a fragment: ids and repeated names are kept once, arguments are joined."""
        self.id = self.id or fragment.id
        if fragment.name != self.name:
            self.name += fragment.name
        if isinstance(fragment.arguments, str):
            self.parts.append(fragment.arguments)
        elif fragment.arguments:
            self.value = fragment.arguments

    def ended_by(self, fragment: ToolCall) -> bool:
        """Whether a named fragment at the same index is another call.

        Ids alone do not tell: some servers make up a new one for every fragment.
        """
        if self.id is None or fragment.id in {None, self.id}:
            return False
        closed = self.value is not None or "".join(self.parts[-1:]).rstrip().endswith("}")
        return closed or fragment.name != self.name

    def call(self) -> ToolCall:
        """The call as far as it has come."""
        return ToolCall(self.id, self.name, self.value or "".join(self.parts) or {})


class CallDeltas:
    """Puts calls together by index; where a server gives none, by id, by name, by order.

    A fragment with a name begins a new call unless it continues the one of its index; several
    servers give every call the index 0, which the id and complete arguments tell apart.
    """

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}
        self._by_id: dict[str, _Draft] = {}

    def add(self, entries: JsonValue, *, whole: bool) -> None:
        """Take the `tool_calls` of a message (`whole`) or of a delta."""
        listed = entries if isinstance(entries, list) else [entries] if entries else []
        for entry, fragment in zip(listed, read_calls(listed), strict=True):
            index = entry.get("index") if isinstance(entry, dict) and not whole else None
            index = index if isinstance(index, int) else None
            draft = None if whole else self._continued(index, fragment)
            if draft is None:
                draft = _Draft(fragment.id, fragment.name)
                self._drafts.append(draft)
                if index is not None:
                    self._by_index[index] = draft
                if fragment.id is not None:
                    self._by_id.setdefault(fragment.id, draft)
            draft.add(fragment)

    def calls(self) -> list[ToolCall]:
        """The calls, in the order in which they began."""
        return [each.call() for each in self._drafts]

    def _continued(self, index: int | None, fragment: ToolCall) -> _Draft | None:
        """The call that a fragment belongs to, or None when it begins another."""
        if index is not None:
            draft = self._by_index.get(index)
            if draft is None or not fragment.name or not draft.name:
                return draft
            return None if draft.ended_by(fragment) else draft
        last = self._drafts[-1] if self._drafts else None
        if fragment.id is not None:
            same = self._by_id.get(fragment.id)
            return same if same or fragment.name else last
        return None if fragment.name else last
