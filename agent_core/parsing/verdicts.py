"""From a call or an answer at its place to a decision: what follows it, and what is dropped."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_core.messages import Action, Actions, FinalAnswer, FormatErrorCode, Ignored
from agent_core.parsing.calls import Answer, Call
from agent_core.parsing.doubt import takes_back
from agent_core.parsing.ending import Ending, clean_answer, next_cut, residue
from agent_core.parsing.labels import Label, label_at, line_before
from agent_core.parsing.notations import Found, skip_space
from agent_core.parsing.outcome import Refusal
from agent_core.parsing.places import Places
from agent_core.parsing.standing import Standing

_KINDS = {"action": "second_action", "input": "second_action", "final": "answer"}

_GOES_ON = re.compile(r"[\s`]*+[,，]\s*+[\"“'][^\"”'\n]{1,60}+[\"”']\s*+[:：]")
_SAID_AFTER = 200  # characters after a call in which it may be taken back


@dataclass(frozen=True, slots=True)
class Decided:
    """What a pass came to.

    `complete` says that no further text can change the decision: a closed action is followed
    by the next label.
    """

    decision: Actions | FinalAnswer
    thought: str
    ignored: tuple[Ignored, ...] = ()
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Thinking:
    """No decision: what looked like one was thinking, which ends at `pos`."""

    pos: int


class Verdicts:
    """Decides about what the pass found.

    Args:
        text: the reply.
        places: its places, read from the beginning for these decisions alone.
        ended: the server said that the reply is whole.
        cut: the server said that the reply was cut at the token limit.
    """

    def __init__(self, text: str, places: Places, *, ended: bool, cut: bool) -> None:
        self._text = text
        self._ended = ended
        self._cut = cut
        self._closes = places

    def answer(self, label: Label, standing: Standing) -> Decided | Thinking:
        """The answer under its label."""
        cut = next_cut(self._text, label.end, indent=max(standing.indent, 0))
        thinking = self._thinking(label.end, cut.pos, standing)
        if thinking is not None:
            return thinking
        words = clean_answer(self._text[label.end : cut.pos], label.bold or standing.fence)
        if not words:
            raise Refusal(self.unfinished, "the final answer is empty")
        return self._answered(words, label.start, cut, standing)

    def announced(self, found: Found, start: int, standing: Standing) -> Decided | Thinking:
        """A call or an answer under a label or a tag."""
        text = self._text
        if isinstance(found.content, Answer):
            cut = Ending(found.end, next_cut(text, found.end - 1).kind)
            thinking = self._thinking(start, found.end, standing)
            return thinking or self._answered(found.content.text, start, cut, standing)
        if standing.no_action:
            raise Refusal("no_decision", "first no action was wanted, then one")
        cut = self._cut_after(found.end)
        thinking = self._thinking(found.end, cut.pos, standing)
        if thinking is not None:
            return thinking
        self._refuse_taken_back(found.end, cut.pos)
        if cut.kind == "final" and text.startswith("</", residue(text, found.end)):
            raise Refusal("ambiguous", "a call inside an element, and an answer behind it")
        if _GOES_ON.match(text, found.end):
            raise Refusal("bad_json", "the object goes on after the bracket that closes it")
        if self._cut and skip_space(text, found.end) >= len(text):
            raise Refusal("truncated", "the reply was cut right after the call")
        return self._acted(found, start, cut, standing)

    def unannounced(
        self, found: Found, start: int, standing: Standing
    ) -> Decided | Thinking | None:
        """A call without a label; None where it is data, as in prose."""
        if isinstance(found.content, Answer):
            return self._answered(found.content.text, start, Ending(found.end, None), standing)
        if self.is_prose(residue(self._text, found.end)):
            if standing.leading:
                raise Refusal("no_decision", "a call is followed by prose; it may be an example")
            return None
        self._refuse_taken_back(found.end, residue(self._text, found.end))
        cut = self._cut_after(found.end)
        if cut.kind is not None and not standing.leading:
            return None  # something else was said before it, and something is said after it
        thinking = self._thinking(found.end, cut.pos, standing)
        if thinking is not None:
            return thinking
        if cut.kind is None and self._cut:
            raise Refusal("truncated", "the reply was cut at or after the call")
        if cut.kind is None and not standing.leading and not self._ended:
            raise Refusal("truncated", "a call after prose, in a reply that may go on")
        return self._acted(found, start, cut, standing)

    def _refuse_taken_back(self, start: int, end: int) -> None:
        if takes_back(self._text[start : min(end, start + _SAID_AFTER)]):
            raise Refusal("ambiguous", "the words after the call take it back")

    def is_prose(self, pos: int) -> bool:
        """Whether what stands at `pos` is neither the end, a label, nor another call."""
        text = self._text
        if pos >= len(text) or text[pos] in "{[｛" or text.startswith("<tool_response", pos):
            return False
        before = line_before(text, pos)
        if before is None or before.strip(" \t\r*"):
            return True
        label = label_at(text, pos - len(before))
        return label is None or not label.separated

    def is_spoken_of(self, start: int, end: int) -> bool:
        """Whether a call that ends on the line of its label is followed by words there."""
        rest = residue(self._text, end)
        return "\n" not in self._text[start:rest] and self.is_prose(rest)

    def is_last(self, label: Label) -> bool:
        """Whether no action, input or thought follows."""
        return next_cut(self._text, label.end).kind not in {"action", "input", "thought"}

    def answered_after(self, end: int) -> bool:
        """Whether an answer under its label follows."""
        return self._cut_after(end).kind == "final"

    @property
    def unfinished(self) -> FormatErrorCode:
        """The code for a reply that holds no decision."""
        return "truncated" if self._cut else "no_decision"

    def _cut_after(self, end: int) -> Ending:
        """The next label after a call, past the fence that closes it."""
        at = skip_space(self._text, end)
        after = at + 3 if self._text.startswith(("```", "~~~"), at) else end
        return next_cut(self._text, max(after - 1, 0))

    def thought_of(self, label: Label) -> Thinking | None:
        """The thinking that a label without a decision is part of, if it ends before the next.

        A tag that may stand in a string ends none.
        """
        close = self._closes.next_close(label.end, len(self._text))
        said = self._text[label.end : max(close, 0)]
        in_string = (said.count('"') - said.count('\\"')) % 2
        if close < 0 or in_string or next_cut(said, 0).kind is not None:
            return None
        return Thinking(close)

    def _thinking(self, start: int, end: int, standing: Standing) -> Thinking | None:
        """Thinking that ends in the range: all before it was thinking too."""
        close = self._closes.next_close(start, end)
        if close >= 0:
            return Thinking(close)
        if standing.doubt:
            raise Refusal("unclosed_thinking", "a thinking block is opened and never closed")
        return None

    def _acted(self, found: Found, start: int, cut: Ending, standing: Standing) -> Decided:
        call = found.content
        if not isinstance(call, Call):
            raise Refusal("bad_name", "no tool is named")
        action = Action(call.name, call.arguments or {}, None, found.notation)
        ignored = self._dropped(found.end, cut)
        if call.more > 0:
            more = Ignored("second_action", f"{call.more} more in the same list")
            ignored = (more, *ignored)
        thought = standing.thought(start)
        # A thought may still be followed by the input of a call that has none so far.
        complete = cut.kind is not None and (bool(action.arguments) or cut.kind != "thought")
        return Decided(Actions((action,)), thought, ignored, complete=complete)

    def _answered(self, words: str, start: int, cut: Ending, standing: Standing) -> Decided:
        return Decided(FinalAnswer(words), standing.thought(start), self._dropped(cut.pos, cut))

    def _dropped(self, end: int, cut: Ending) -> tuple[Ignored, ...]:
        ignored = []
        between = self._text[end : cut.pos].strip()
        if between.strip("`~*)]}"):
            ignored.append(Ignored("text", between))
        if cut.kind is not None and cut.pos < len(self._text):
            kind = _KINDS.get(cut.kind, cut.kind)
            ignored.append(Ignored(kind, self._text[cut.pos :].strip()))
        return tuple(ignored)
