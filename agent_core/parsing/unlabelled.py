"""What begins a line without a label: blocks of data, and calls that nothing announces."""

from __future__ import annotations

import re

from agent_core.parsing.blocks import past_block, past_fence
from agent_core.parsing.doubt import announces_quotation, speaks_of, weighs
from agent_core.parsing.labels import label_at
from agent_core.parsing.notations import skip_space
from agent_core.parsing.outcome import Refusal
from agent_core.parsing.prose import call_in_prose, meant_as_call
from agent_core.parsing.reading import Reading, Step, step_of
from agent_core.parsing.verdicts import Decided

_FENCE = re.compile(r"(`{3,}+|~{3,}+)[ \t]*+([\w+-]*+)[ \t\r]*+(?:\n|(?=[{\[｛]))")
_CALL_LIKE = re.compile(r"[{｛\[［]\s*+(?:[{｛]?\s*+[\"'“”‘’＂\w]|[{\[])")
_JSON = re.compile(
    r"[{｛]\s*+(?:[\"'“”‘’＂{｛}]|\w++\s*+[:：=])|[\[［]\s*+(?:[{｛]|[\w.]++[(（])|[^{｛\[［]"
)
_PYTHON_CALL = re.compile(r"\[?\s*+([^\W\d][\w.]*+)[(（]|([^\W\d][\w.]*+)[ \t]*+\n?[ \t]*+[{｛]")
_FOREIGN = re.compile(
    r"<[|｜](?:start|channel|message|constrain)[|｜]>|<start_function_call>"
    r"|<tool_call\s++(?:name|tool|function)=|</?(?:antml:|｜DSML｜)?(?:invoke|function_calls|tool_use|parameter)\b"
)
_ELEMENT = re.compile(r"<([^\W\d][\w.-]*+)[\s/>]")
_NEAR = 32  # characters before a call
_ATTEMPTS = 3  # JSON in prose that turns out to be none; bounds the work on hostile replies


def is_foreign(text: str, pos: int) -> bool:
    """Whether markup of another protocol begins at `pos`, which is not read."""
    return _FOREIGN.match(text, pos) is not None


class BlockReader:
    """Reads fences, quotations and bare calls of one reply."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._text = reading.text
        self._tools = reading.tools
        self._log = reading.log
        self._calls = reading.calls
        self._places = reading.places
        self._verdicts = reading.verdicts
        self._at = reading.at
        self._attempts = 0

    def line(self, first: int) -> Step:
        """A fence, a block of quotation or a call that begins the line; None where none does."""
        text = self._text
        char = text[first]
        if char == "<" and (is_foreign(text, first) or self._names_tool(first)):
            raise Refusal("bad_json", f"this markup is not read: {text[first : first + 40]!r}")
        fence = _FENCE.match(text, first) if char in "`~" else None
        if fence is not None:
            return self._fence(first, fence)
        after = past_block(text, first)
        if after > first:
            self._at.prose = True
            self._at.data_end = after
            return after, text[after - 1] == "\n"
        if _CALL_LIKE.match(text, first) or (not self._at.prose and self.is_python_call(first)):
            return self._unlabelled(first)
        return self._code_span(first) if char == "`" and self._at.leading else None

    def _code_span(self, pos: int) -> Step:
        """A call in back-ticks that is the whole reply."""
        text = self._text
        closed = text.find("`", pos + 1)
        if 0 <= closed < len(text.rstrip()) - 1 or not (
            _CALL_LIKE.match(text, pos + 1) or self.is_python_call(pos + 1)
        ):
            return None
        self._log.add("fence", pos, "`", "")
        return self._unlabelled(pos + 1, start=pos, fenced=True)

    def _names_tool(self, pos: int) -> bool:
        """Whether an element with the name of a tool begins at `pos`."""
        found = _ELEMENT.match(self._text, pos)
        return found is not None and found[1] in self._tools

    def is_python_call(self, pos: int) -> bool:
        """Whether a call of a registered tool in Python's notation begins at `pos`."""
        found = _PYTHON_CALL.match(self._text, pos)
        if found is None:
            return False
        bracketed = self._text[pos] == "["
        return (
            bracketed or self._tools.find((found[1] or found[2]).removesuffix(".call")) is not None
        )

    def _fence(self, pos: int, fence: re.Match[str]) -> Step:
        text = self._text
        inside = skip_space(text, fence.end())
        leading = self._at.leading
        after = past_fence(text, fence.end() - 1, fence[1])
        if inside < len(text) and (
            _CALL_LIKE.match(text, inside) or (leading and self.is_python_call(inside))
        ):
            self._log.add("fence", pos, fence.group().strip(), "")
            self._at.data_end = after
            step = self._unlabelled(inside, start=pos, fenced=True)
            if step is None or isinstance(step, Decided):
                return step
            return max(after, step[0]), True
        if leading and fence[2] == "tool_code":
            raise Refusal("unsafe", "code in a fence for calls is not run")
        line = text.rfind("\n", pos, inside) + 1
        if leading and inside < len(text) and label_at(text, line) is not None:
            return self._fenced_reply(pos, fence, line, after)
        self._at.prose = True
        self._at.data_end = after
        return after, True

    def _fenced_reply(
        self, pos: int, fence: re.Match[str], line: int, after: int
    ) -> tuple[int, bool]:
        """A whole reply inside a fence is read as if the fence were not there."""
        text = self._text
        closed = text.rstrip().endswith(fence[1]) and after >= len(text)
        if not closed or text[after:].strip():
            raise Refusal("no_decision", "the labels stand inside a code fence")
        self._log.add("fence", pos, fence.group().strip(), "")
        self._at.fence = fence[1]
        return line, True

    def _unlabelled(self, pos: int, *, start: int | None = None, fenced: bool = False) -> Step:
        """A call that no label announces counts only where nothing else is said.

        `start` is where the fence around it begins.
        """
        text = self._text
        leading = self._at.leading
        if self._attempts >= _ATTEMPTS:
            self._at.prose = True
            return pos, False
        self._attempts += 1
        mark = self._log.mark()
        try:
            found = self._calls.bare(pos)
        except Refusal as refusal:
            if refusal.code in {"truncated", "too_large"} or (leading and _JSON.match(text, pos)):
                raise
            self._log.rollback(mark)
            self._at.prose = True
            return pos, False
        begin = pos if start is None else start
        asked = text[max(0, begin - _NEAR) : begin].rstrip()[-1:] in ("?", "？")
        spoken_of = (
            asked or announces_quotation(text, begin) or weighs(text, begin if fenced else pos)
        )
        if found is None or found.content is None or spoken_of:
            self._log.rollback(mark)
            return self._data_to(found.end if found else pos)
        self._reading.refuse_answered(pos)
        if not fenced and not self._at.prose and text.startswith("</", skip_space(text, found.end)):
            # Only the opening tag is missing.
            return step_of(self._verdicts.announced(found, pos, self._at))
        verdict = self._verdicts.unannounced(found, pos, self._at)
        if verdict is not None:
            return step_of(verdict)
        self._log.rollback(mark)
        return self._data_to(found.end)

    def _data_to(self, end: int) -> Step:
        """On after JSON that is no call; nor is anything in it."""
        self._at.prose = True
        self._at.data_end = max(self._at.data_end, end)
        return end, False

    def call_after_prose(self) -> Decided | None:
        """A call at the very end of a line of prose, if the reply is known to end with it."""
        pos = call_in_prose(self._text, max(self._at.begin, self._at.data_end))
        if pos < 0 or self._places.quoted(pos) or self._attempts >= _ATTEMPTS:
            return None
        if speaks_of(self._text, pos):
            return None
        self._at.prose = True
        mark, start = self._log.mark(), self._text.rfind("\n", 0, pos) + 1
        step = self._unlabelled(pos, start=start)
        if isinstance(step, Decided):
            return step
        self._log.rollback(mark)
        rest = self._text[pos:].rstrip(" \t\r\n`")
        if (
            not self._text[start:pos].strip()
            and rest[-1] == "}"
            and meant_as_call(rest, self._tools)
        ):
            raise Refusal("no_decision", "what ends the reply is like an action, but damaged")
        return None
