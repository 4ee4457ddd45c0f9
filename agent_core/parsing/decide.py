"""One pass over a reply, top to bottom: the first decision wins, all after it is dropped.

The pass knows where it stands: at the start of a line, inside a fence, a quote block or a
thinking block, inside the JSON of a call. Labels and tags count only where a model means them.
"""

from __future__ import annotations

import re
from functools import cache

from agent_core.messages import FinalAnswer, Ignored
from agent_core.parsing.blocks import next_line, past_block
from agent_core.parsing.doubt import announces_quotation, speaks_of, weighs
from agent_core.parsing.ending import clean_answer, residue, turn_in
from agent_core.parsing.labelled import LabelReader
from agent_core.parsing.labels import LABEL_HEAD, RESULT_HEAD, line_before, line_end
from agent_core.parsing.notations import opens_call, skip_space, tag_at
from agent_core.parsing.outcome import Refusal
from agent_core.parsing.prose import is_blank, meant_as_call
from agent_core.parsing.reading import Reading, Step, step_of
from agent_core.parsing.unlabelled import BlockReader, is_foreign
from agent_core.parsing.verdicts import Decided

_OTHER_TURN = (
    r"<[|｜](?:im_start|start_header_id)[|｜]>\s*+(?:user|tool|system|observation|ipython)\b"
)
_FOREIGN = re.compile(
    rf"<(?:tool|function)_response|<\|tool_response|<｜tool▁outputs?▁begin|{_OTHER_TURN}"
)
_MAX_RESTARTS = 100


@cache  # milliseconds, for replies with prose only
def _dull_lines() -> re.Pattern[str]:
    """Lines that begin with nothing."""
    return re.compile(
        rf"(?>(?!{LABEL_HEAD}|[ \t\r]*+(?:```|~~~|'''|\"\"\"|[>{{\[｛<]))[^\n]*+\n)*+",
        re.IGNORECASE,
    )


class ReplyPass:
    """Reads one reply from its first line to the decision."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._text = reading.text
        self._tools = reading.tools
        self._log = reading.log
        self._calls = reading.calls
        self._places = reading.places
        self._verdicts = reading.verdicts
        self._at = reading.at
        self._labels = LabelReader(reading)
        self._blocks = BlockReader(reading)
        self._line_of = (-1, 0)
        self._restarts = 0

    def run(self) -> Decided:
        """Find the decision. Raises `Refusal`."""
        pos, fresh = self._past_header(), True
        while True:
            step = self._line(pos) if fresh else self._rest(pos)
            if isinstance(step, Decided):
                return step
            if step is None:
                return self._undecided(len(self._text))
            pos, fresh = step

    def _past_header(self) -> int:
        """Past the tokens with which a chat template begins a turn."""
        text = self._text
        pos = 0
        while True:
            at = skip_space(text, pos)
            end = tag_at(text, at)
            if end == at or text[at + 1] not in "|｜" or is_foreign(text, at):
                return pos
            if self._places.next(at)[0] == at:  # the tag of a call, or of thinking
                return pos
            if _FOREIGN.match(text, at):
                raise Refusal("invented_observation", "the reply begins with another's turn")
            pos = end + len("assistant") if text.startswith("assistant", end) else end
            self._at.begin = pos

    # Lines.

    def _line(self, pos: int) -> Step:
        """One step from the start of a line."""
        text = self._text
        first = skip_space(text, pos)
        if first >= len(text):
            return None
        line = text.rfind("\n", pos, first) + 1 or pos
        special, tag, kind = self._places.next(first)
        if special == first:
            return self._special(special, tag, kind, at_start=True)
        step = self._labels.line(line)
        if step is None and self._is_foreign(first):
            return self._invented(first)
        return step or self._blocks.line(first) or self._prose(line, first, special)

    def _is_foreign(self, first: int) -> bool:
        """Whether what begins at `first` is for a tool, or for the user, to say."""
        if _FOREIGN.match(self._text, first):
            return True
        return self._at.label_seen and RESULT_HEAD.match(self._text, first) is not None

    def _invented(self, first: int) -> Decided:
        """A turn that the model made up for another: what stands before it is all there is."""
        if self._at.leading:
            raise Refusal("invented_observation", "the reply begins with an observation")
        return self._undecided(first)

    def _prose(self, line: int, first: int, special: int) -> Step:
        """Past a line that begins with nothing, and all like it up to the special place."""
        self._at.prose = True
        dull = _dull_lines().match(self._text, line, self._begin_of_line(special))
        after = dull.end() if dull else line
        end = after if after > line else line_end(self._text, line, special)
        inline = self._labels.inline(line, end) if self._at.thought_at >= 0 else None
        return inline or ((after, True) if after > line else self._rest(first))

    def _begin_of_line(self, special: int) -> int:
        """Where the line of the next special place begins; the end where there is none."""
        if self._line_of[0] != special:
            begin = self._text.rfind("\n", 0, special) + 1
            self._line_of = (special, begin if special < len(self._text) else special)
        return self._line_of[1]

    def _rest(self, pos: int) -> Step:
        """On to the next line, or to a special place on this one."""
        text = self._text
        special, tag, kind = self._places.next(pos)
        newline = text.find("\n", pos, special)
        if newline >= 0:
            return newline + 1, True
        if special >= len(text):
            return None
        return self._special(special, tag, kind, at_start=skip_space(text, pos) == special)

    # Special places: thinking blocks and tags.

    def _special(self, at: int, tag: str, kind: str, *, at_start: bool) -> Step:
        end = at + len(tag)
        if self._places.quoted(at):
            return self._spoken_of(end, self._past_quoted(end))
        if kind == "open":
            start, after = self._places.closing(tag, end)
            if start >= 0:
                self._at.thinking.append((at, after))
                return after, True
            if at_start:
                raise Refusal("unclosed_thinking", f"{tag} is never closed")
            self._at.doubt = True
            return end, False
        if kind == "close":
            self._restarts += 1
            if self._restarts > _MAX_RESTARTS:
                raise Refusal("too_large", f"thinking is closed more than {_MAX_RESTARTS} times")
            self._at.end_thinking(end)
            return end, True
        if kind == "data":
            self._at.prose = True
            self._at.data_end = past_block(self._text, at)
            return self._at.data_end, False
        return self._tag(at, tag, at_start=at_start)

    def _tag(self, at: int, tag: str, *, at_start: bool) -> Step:
        end = at + len(tag)
        if self._indented(at) or (not at_start and not self._call_follows(end)):
            return self._spoken_of(end, end)
        self._reading.refuse_answered(at)
        found = self._calls.tagged(tag, at)
        if announces_quotation(self._text, at) or (
            not at_start
            and (speaks_of(self._text, at) or weighs(self._text, at) or self._in_prose(found.end))
        ):
            return self._spoken_of(found.end, found.end)
        return step_of(self._verdicts.announced(found, at, self._at))

    def _spoken_of(self, end: int, data_end: int) -> Step:
        """On after a tag that is only spoken of; nothing up to `data_end` is a call."""
        self._at.prose = True
        self._at.data_end = max(self._at.data_end, data_end)
        return self._at.data_end if data_end > end else end, False

    def _past_quoted(self, end: int) -> int:
        """The end of what a quoted tag holds; right there where the tag alone is quoted."""
        if self._text[end : end + 1] in {"", "`", '"', "'", "”", "’", "」", "』"}:
            return end
        closer = self._text.find("</", end)
        return closer if closer >= 0 else next_line(self._text, end)

    def _in_prose(self, end: int) -> bool:
        """Whether a call in the middle of a line is only spoken of: prose or the answer follows."""
        is_prose = self._verdicts.is_prose(residue(self._text, end))
        return is_prose or self._verdicts.answered_after(end)

    def _indented(self, at: int) -> bool:
        """Whether an indented block quotes what begins at `at`."""
        blanks = line_before(self._text, at)
        if blanks is None:
            return False
        return 0 <= self._at.indent <= len(blanks.expandtabs(4)) - 4 and not blanks.strip()

    def _call_follows(self, pos: int) -> bool:
        mark = self._log.mark()
        at = self._calls.past_fence(pos)
        self._log.rollback(mark)
        char = self._text[at : at + 1]
        if char == "<":
            return tag_at(self._text, at) == at or opens_call(self._text, at)
        return bool(char) and (char in "{[｛" or self._blocks.is_python_call(at))

    # No decision.

    def _undecided(self, end: int) -> Decided:
        """What a reply without an action and without a label for an answer is."""
        words = clean_answer(self._at.spoken(self._at.begin, end))
        if is_blank(words):
            raise Refusal("empty", "the reply is empty")
        if self._at.label_seen or self._at.no_action:
            raise Refusal(
                self._verdicts.unfinished, "the reply holds neither an action nor an answer"
            )
        call = self._blocks.call_after_prose() if end >= len(self._text) else None
        if call is not None:
            return call
        if meant_as_call(words, self._tools):
            raise Refusal("no_decision", "something like an action, under no known label")
        cut = turn_in(words)
        dropped = words[cut:] + self._text[end:].strip()
        ignored = (Ignored("observation", dropped),) if dropped else ()
        return Decided(FinalAnswer(words[:cut].rstrip(), labelled=False), "", ignored)
