"""The answer inside a reply that is still growing."""

from __future__ import annotations

from collections.abc import Iterator

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
        self.thought: str | None = None  # what stands before the answer, once that has begun
        self._pieces: list[str] = []  # of the answer, as they were given out
        self._text = ""  # the reply before the answer begins, then what is not certain yet
        self._line = 0  # where the current line begins
        self._answering = False
        self._at_line_start = False  # the current line may still turn out to end the answer
        self._blank = ""  # at the end of what is certain: the answer may end before it
        self._over = False

    @property
    def begun(self) -> bool:
        """Whether anything of the answer was given out."""
        return bool(self._pieces)

    @property
    def emitted(self) -> str:
        """Everything of the answer that was given out."""
        return "".join(self._pieces)

    def feed(self, piece: str) -> str:
        """Take a piece; give what it adds to the answer."""
        self._text += piece
        if not self._answering and not self._over:
            start = self._find_start()
            if start is not None:
                self._answering, self._text = True, self._text[start:]
        if not self._answering or self._over:
            return ""
        certain = self._blank + "".join(self._certain())
        new = certain.rstrip()
        self._blank = certain[len(new) :]
        if new:
            self._pieces.append(new)
        return new

    def _certain(self) -> Iterator[str]:
        """Take from the text what can no longer turn out to be something else."""
        while not self._over:
            end = self._text.find("\n")
            if self._at_line_start:
                if end < 0 and len(self._text) < _LONGEST_LABEL:
                    return
                label = label_at(self._text, 0)
                self._over = bool(label and label.strong and (label.separated or label.alone))
                self._at_line_start = False
            elif end >= 0:
                yield self._take(end + 1)
                self._at_line_start = True
            else:
                tag = self._text.rfind("<", max(0, len(self._text) - _LONGEST_LABEL))
                yield self._take(tag if tag >= 0 else len(self._text))
                return

    def _take(self, count: int) -> str:
        taken, self._text = self._text[:count], self._text[count:]
        return taken

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
            self.thought = parsed.thought
            return label.end
        self._over = True
        return None
