"""Tool calls of the OpenAI API: whole, or in fragments that have to be put together."""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.messages import JsonValue, ToolCall
from agent_core.models.wire import NotJson, decode_json, read_calls


@dataclass(slots=True)
class _Draft:
    """A call that grows."""

    id: str | None
    name: str
    arguments: JsonValue

    def complete(self) -> bool:
        """Whether its arguments need nothing more."""
        if not isinstance(self.arguments, str):
            return bool(self.arguments)
        try:
            decode_json(self.arguments)
        except NotJson:
            return False
        return True

    def grow(self, fragment: ToolCall) -> None:
        """Add a fragment: ids and repeated names are kept once, arguments are joined."""
        self.id = self.id or fragment.id
        if fragment.name != self.name:
            self.name += fragment.name
        if isinstance(self.arguments, str) and isinstance(fragment.arguments, str):
            self.arguments += fragment.arguments
        elif fragment.arguments:
            self.arguments = fragment.arguments


class CallDeltas:
    """Puts calls together by index; where a server gives none, by id, by name, by order.

    A fragment with a name begins a new call unless it continues the one of its index; several
    servers give every call the index 0, which the id and complete arguments tell apart.
    """

    def __init__(self) -> None:
        self._drafts: list[_Draft] = []
        self._by_index: dict[int, _Draft] = {}

    def add(self, entries: JsonValue, *, whole: bool) -> None:
        """Take the `tool_calls` of a message (`whole`) or of a delta."""
        listed = entries if isinstance(entries, list) else [entries] if entries else []
        for entry, fragment in zip(listed, read_calls(listed), strict=True):
            index = entry.get("index") if isinstance(entry, dict) and not whole else None
            index = index if isinstance(index, int) else None
            draft = None if whole else self._continued(index, fragment)
            if draft is None:
                draft = _Draft(fragment.id, fragment.name, fragment.arguments)
                self._drafts.append(draft)
                if index is not None:
                    self._by_index[index] = draft
            else:
                draft.grow(fragment)

    def calls(self) -> list[ToolCall]:
        """The calls, in the order in which they began."""
        return [ToolCall(each.id, each.name, each.arguments or {}) for each in self._drafts]

    def _continued(self, index: int | None, fragment: ToolCall) -> _Draft | None:
        """The call that a fragment belongs to, or None when it begins another."""
        if index is not None:
            draft = self._by_index.get(index)
            if draft is None or not fragment.name or not draft.name:
                return draft
            other = fragment.id is not None and draft.id not in {None, fragment.id}
            return None if other and draft.complete() else draft
        last = self._drafts[-1] if self._drafts else None
        if fragment.id is not None:
            same = next((each for each in self._drafts if each.id == fragment.id), None)
            return same if same or fragment.name else last
        return None if fragment.name else last
