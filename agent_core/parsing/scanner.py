"""A reply read in chunks, so that reading can stop as soon as its decision is complete."""

from __future__ import annotations

from agent_core.messages import Language, ParsedReply, Protocol
from agent_core.parsing.labels import announces
from agent_core.parsing.reply import is_complete, parse_reply
from agent_core.parsing.toolset import Tools, Toolset

_CREDIT = 65_536  # characters that may be read again and again before chunks have to pay for it
_TURN = "<tool_response"
_TAIL = 80  # characters in which a label at the end can stand
_RATE = 4  # characters that one new character pays for


class ReplyScanner:
    """Takes chunks; says when the decision is complete; parses the whole at the end.

    Any split into chunks gives what `parse_reply` gives for the whole text. The time for n
    characters grows like n.

    Args:
        tools: as for `parse_reply`.
        protocol: as for `parse_reply`.
        language: as for `parse_reply`.
    """

    def __init__(
        self,
        *,
        tools: Tools,
        protocol: Protocol | None = None,
        language: Language | None = None,
    ) -> None:
        self._tools = Toolset.of(tools)
        self._protocol: Protocol | None = protocol
        self._language: Language | None = language
        self._chunks: list[str] = []
        self._size = 0
        self._credit = _CREDIT
        self._tail = ""
        self._labelled = False  # the last line begins with a label
        self._complete = False

    @property
    def complete(self) -> bool:
        """No further text can change the decision: a closed action is followed by a label."""
        return self._complete

    def feed(self, chunk: str) -> None:
        """Take the next piece of the reply."""
        if not chunk:
            return
        self._chunks.append(chunk)
        self._size += len(chunk)
        self._credit += _RATE * len(chunk)
        if self._complete:
            return
        if self._may_complete(chunk) and self._credit >= self._size:
            self._credit -= self._size
            self._complete = is_complete(self.text, tools=self._tools, protocol=self._protocol)

    def _may_complete(self, chunk: str) -> bool:
        """Whether the chunk ends a label or a line: it is a label that completes a decision."""
        self._tail = (self._tail + chunk)[-_TAIL:]
        line = self._tail[self._tail.rfind("\n") + 1 :]
        before, self._labelled = self._labelled, line.startswith(_TURN) or announces(line, 0)
        if "\n" in chunk:
            return self._labelled or ":" in chunk or "：" in chunk
        return self._labelled and not before

    @property
    def text(self) -> str:
        """Everything fed so far."""
        if len(self._chunks) > 1:
            self._chunks = ["".join(self._chunks)]
        return self._chunks[0] if self._chunks else ""

    def finish(self, finish_reason: str | None = None) -> ParsedReply:
        """Parse what was fed; `finish_reason` is what the server said."""
        return parse_reply(
            self.text, tools=self._tools, protocol=self._protocol,
            finish_reason=finish_reason, language=self._language,
        )  # fmt: skip
