"""What is known of a reply when the pass comes to one of its lines."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Standing:
    """Where the pass stands.

    Attributes:
        begin: everything before it is thinking or the header of a turn.
        thought_at: where the first thought begins, or -1.
        indent: of the first label, or -1.
        label_seen: this is a ReAct reply.
        prose: something that is neither thinking nor a label was seen.
        no_action: the model wrote that it takes no action.
        doubt: a thinking block was opened in the middle of a line and never closed.
        fence: the mark of the fence that holds the whole reply.
        data_end: the end of the last block of data.
        thinking: closed thinking blocks, start and end.
    """

    text: str
    begin: int = 0
    thought_at: int = -1
    indent: int = -1
    label_seen: bool = False
    prose: bool = False
    no_action: bool = False
    doubt: bool = False
    fence: str = ""
    data_end: int = 0
    thinking: list[tuple[int, int]] = field(default_factory=list)

    def end_thinking(self, pos: int) -> None:
        """Thinking that was never opened ends at `pos`: what was seen before does not count."""
        self.begin = pos
        self.thinking = [(0, pos)]
        self.thought_at = self.indent = -1
        self.label_seen = self.prose = self.no_action = self.doubt = False
        self.fence = ""

    @property
    def leading(self) -> bool:
        """Nothing was said so far."""
        return not self.prose and not self.label_seen

    def thought(self, end: int) -> str:
        """The thought before a decision at `end`: labelled, else prose, else the thinking."""
        if self.thought_at >= 0:
            return self.spoken(self.thought_at, end)
        words = self.spoken(self.begin, end)
        return words or "\n".join(self.text[start:stop] for start, stop in self.thinking)

    def spoken(self, begin: int, end: int) -> str:
        """The text of a range without its thinking blocks."""
        parts = []
        for start, stop in self.thinking:
            if begin <= start < end:
                parts.append(self.text[begin:start])
                begin = stop
        parts.append(self.text[begin:end])
        return "".join(parts).strip()
