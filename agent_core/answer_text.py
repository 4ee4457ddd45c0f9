"""The answer inside a reply that is still growing."""

from __future__ import annotations

from agent_core.messages import FinalAnswer, Protocol
from agent_core.parsing import parse_reply
from agent_core.parsing.labels import Label, label_at

_LONGEST_LABEL = 40  # characters; a shorter line may still turn out to be a label
_NO_PROSE = frozenset("{[<`｛［【")  # how calls, tags and fences begin


class AnswerText:
    """Takes the pieces of a reply; gives those of the answer as soon as they are certain enough.

    In a text protocol the answer begins behind its label; with `native` it is prose that does
    not look like a call. The parser has the last word: what it makes of the whole reply may
    differ, so compare `emitted` with it.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol: Protocol = protocol
        self.restart()

    def restart(self) -> None:
        """Begin a new reply."""
        self.emitted = ""
        self.thought: str | None = None  # what stands before the answer, once that has begun
        self._text = ""
        self._line = 0  # where the current line begins
        self._start: int | None = None  # where the answer begins
        self._over = False

    def feed(self, piece: str) -> str:
        """Take a piece; give what it adds to the answer."""
        self._text += piece
        if self._over:
            return ""
        if self._start is None:
            self._start = self._find_start()
        if self._start is None:
            return ""
        certain = self._text[self._start : self._certain_end()].rstrip()
        new = certain[len(self.emitted) :]
        self.emitted += new
        return new

    def _find_start(self) -> int | None:
        if self._protocol == "native":
            visible = self._text.lstrip()
            if len(visible) < _LONGEST_LABEL and "\n" not in visible:
                return None
            if visible[0] in _NO_PROSE or label_at(visible, 0):
                self._over = True
                return None
            return len(self._text) - len(visible)
        while True:
            label = label_at(self._text, self._line)
            if label is not None and label.kind == "final" and label.separated:
                return self._behind(label)
            end = self._text.find("\n", self._line)
            if end < 0:
                return None
            self._line = end + 1

    def _behind(self, label: Label) -> int | None:
        """Where the answer begins, if the parser takes this label for that of the decision."""
        if label.end >= len(self._text):
            return None  # blanks and bold marks may follow
        parsed = parse_reply(self._text[: label.end] + "x", tools=(), protocol=self._protocol)
        if isinstance(parsed.decision, FinalAnswer) and parsed.decision.labelled:
            self._line = label.end
            self.thought = parsed.thought
            return label.end
        self._over = True
        return None

    def _certain_end(self) -> int:
        """How far the text can no longer turn out to be something else."""
        while True:
            end = self._text.find("\n", self._line)
            first_line = self._line == self._start
            if not first_line and self._ends_answer(end):
                self._over = True
                return self._line
            if end < 0:
                break
            self._line = end + 1
        line = self._text[self._line :]
        if not first_line and len(line) < _LONGEST_LABEL:
            return self._line
        tag = line.rfind("<", max(0, len(line) - _LONGEST_LABEL))
        return self._line + tag if tag >= 0 else len(self._text)

    def _ends_answer(self, end: int) -> bool:
        if end < 0 and len(self._text) - self._line < _LONGEST_LABEL:
            return False
        label = label_at(self._text, self._line)
        return label is not None and label.strong and (label.separated or label.alone)
