"""Tool calls of the OpenAI API: whole, or in fragments that have to be put together."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_core.messages import JsonValue, ToolCall
from agent_core.models.wire import as_count, read_calls


@dataclass(slots=True)
class _Draft:
    """A call that grows. Arguments that are no text stand in `value`."""

    id: str | None
    name: str
    place: int
    parts: list[str] = field(default_factory=list)
    value: JsonValue = None

    def add(self, fragment: ToolCall) -> None:
        """Add a fragment: ids and repeated names are kept once, arguments are joined.

        A named fragment with all the arguments there are is the same call once more.
        """
        self.id = self.id or fragment.id
        if fragment.name != self.name:
            self.name += fragment.name
        if not isinstance(fragment.arguments, str):
            self.value = fragment.arguments or self.value
        elif not (self.closed and fragment.name and fragment.arguments == "".join(self.parts)):
            self.parts.append(fragment.arguments)

    @property
    def closed(self) -> bool:
        """Whether the arguments may be complete."""
        return self.value is not None or "".join(self.parts[-1:]).rstrip().endswith("}")

    def ended_by(self, fragment: ToolCall) -> bool:
        """Whether a named fragment at the same index is another call.

        Ids alone do not tell: some servers make up a new one for every fragment, others none.
        """
        if self.id is None and fragment.id is None:
            said = fragment.arguments
            begins = said.startswith("{") if isinstance(said, str) else bool(said)
            return self.closed and begins
        if self.id is None or fragment.id in {None, self.id}:
            return False
        return self.closed or fragment.name != self.name

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
            index = as_count(entry.get("index")) if isinstance(entry, dict) and not whole else None
            draft = None if whole else self._continued(index, fragment)
            if draft is None:
                place = len(self._drafts) if index is None else index
                draft = _Draft(fragment.id, fragment.name, place)
                self._drafts.append(draft)
                if index is not None:
                    self._by_index[index] = draft
                if fragment.id is not None:
                    self._by_id.setdefault(fragment.id, draft)
            draft.add(fragment)

    def calls(self) -> list[ToolCall]:
        """The calls in the order of their indices, else in that in which they began."""
        return [each.call() for each in sorted(self._drafts, key=lambda draft: draft.place)]

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
