"""One pass over a reply, top to bottom: the first decision wins, all after it is dropped.

The pass knows where it stands: at the start of a line, inside a fence, a quote block or a
thinking block, inside the JSON of a call. Labels and tags count only where a model means them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from agent_core.messages import Action, Actions, FinalAnswer, Ignored
from agent_core.parsing.actions import ActionReader, NoAction
from agent_core.parsing.blocks import past_block, past_fence, past_quotation
from agent_core.parsing.calls import Answer, Call
from agent_core.parsing.ending import (
    Ending,
    clean_answer,
    next_cut,
    turn_in,
    residue,
)
from agent_core.parsing.labels import LABEL_HEAD, Label, label_at
from agent_core.parsing.notations import TAGS, CallReader, Found, skip_space, tag_at
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.places import Places
from agent_core.parsing.toolset import Toolset, visible

_DULL = re.compile(
    rf"(?:(?!{LABEL_HEAD}|[ \t\r]*+(?:```|~~~|'''|\"\"\"|[>{{\[｛<]))[^\n]*+\n)*+", re.IGNORECASE
)
_FENCE = re.compile(r"(`{3,}+|~{3,}+)[ \t]*+([\w+-]*+)[ \t\r]*+(?:\n|(?=[{\[｛]))")
_CALL_LIKE = re.compile(r"[{｛\[［]\s*+(?:[{｛]?\s*+[\"'“”‘’＂\w]|[{\[])")
_JSON = re.compile(
    r"[{｛]\s*+(?:[\"'“”‘’＂{｛}]|\w++\s*+[:：])|[\[［]\s*+(?:[{｛]|\w++[(（])|[^{｛\[［]"
)
_PYTHON_CALL = re.compile(r"\[?\s*+([^\W\d][\w.]*+)[(（]|([^\W\d][\w.]*+)[ \t]*+[{｛]")
_MAX_LABELS = 5_000  # lines that begin like a label and decide nothing
_MAX_RESTARTS = 100
_ATTEMPTS = 3  # JSON in prose that turns out to be none; bounds the work on hostile replies


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


class ReplyPass:
    """Reads one reply.

    Args:
        text: the reply.
        tools: the registered tools.
        log: where repairs go.
        ended: the server said that the reply is whole.
        cut: the server said that the reply was cut at the token limit.
        native: prose is the answer, so labels in the middle of prose are part of it.
    """

    def __init__(
        self, text: str, tools: Toolset, log: RepairLog, *, ended: bool, cut: bool, native: bool
    ) -> None:
        self._text = text
        self._tools = tools
        self._log = log
        self._ended = ended
        self._cut = cut
        self._native = native
        self._calls = CallReader(text, tools, log, ended=ended)
        self._actions = ActionReader(text, tools, log, self._calls, ended=ended)
        self._places = Places(text)
        self._closes = Places(text)
        self._line_of = (-1, 0)
        self._attempts = 0
        self._labels = 0
        self._restarts = 0
        self._data_end = 0  # blocks of data end here
        self._thinking: list[tuple[int, int]] = []
        self._restart(0)

    def _restart(self, pos: int) -> None:
        """Begin anew at `pos`: everything before it was thinking."""
        self._begin = pos
        self._thought_at = -1
        self._indent = -1
        self._label_seen = False
        self._prose = False
        self._refused_action = False
        self._doubt = False
        self._fenced = ""

    def run(self) -> Decided:
        """Find the decision. Raises `Refusal`."""
        pos, fresh = self._past_header(), True
        while True:
            step = self._line(pos) if fresh else self._rest(pos)
            if isinstance(step, Decided):
                return step
            if step is None:
                return self._undecided()
            pos, fresh = step

    def _past_header(self) -> int:
        """Past the tokens with which a chat template begins a turn."""
        text = self._text
        pos = 0
        while True:
            at = skip_space(text, pos)
            end = tag_at(text, at)
            if end == at or any(text.startswith(tag, at) for tag in TAGS):
                return pos
            pos = end + len("assistant") if text.startswith("assistant", end) else end
            self._begin = pos

    # Lines.

    def _line(self, pos: int) -> tuple[int, bool] | Decided | None:
        """One step from the start of a line."""
        text = self._text
        first = skip_space(text, pos)
        if first >= len(text):
            return None
        line = text.rfind("\n", pos, first) + 1 or pos
        special, tag, kind = self._places.next(first)
        if special > first:
            label = label_at(text, line)
            if label is not None:
                self._labels += 1
                if self._labels > _MAX_LABELS:
                    raise Refusal("too_large", f"more than {_MAX_LABELS} labels")
                step = self._label(label)
                if step is not None:
                    return step
            step = self._block(first)
            if step is not None:
                return step
            self._prose = True
            dull = _DULL.match(text, line, self._begin_of_line(special))
            after = dull.end() if dull else line
            return (after, True) if after > line else self._rest(first)
        return self._special(special, tag, kind, at_start=special == first)

    def _begin_of_line(self, special: int) -> int:
        """Where the line of the next special place begins; the end where there is none."""
        if self._line_of[0] != special:
            begin = self._text.rfind("\n", 0, special) + 1
            self._line_of = (special, begin if special < len(self._text) else special)
        return self._line_of[1]

    def _rest(self, pos: int) -> tuple[int, bool] | Decided | None:
        """On to the next line, or to a special place on this one."""
        text = self._text
        special, tag, kind = self._places.next(pos)
        newline = text.find("\n", pos, special)
        if newline >= 0:
            return newline + 1, True
        if special >= len(text):
            return None
        return self._special(special, tag, kind, at_start=skip_space(text, pos) == special)

    def _block(self, first: int) -> tuple[int, bool] | Decided | None:
        """A fence, a block of quotation or a call without a label that begins the line."""
        text = self._text
        char = text[first]
        fence = _FENCE.match(text, first) if char in "`~" else None
        if fence is not None:
            return self._fence(first, fence)
        after = past_block(text, first)
        if after > first:
            self._prose = True
            self._data_end = after
            return after, text[after - 1] == "\n"
        if _CALL_LIKE.match(text, first) or (not self._prose and self._python_like(first)):
            return self._unlabelled(first)
        return None

    def _python_like(self, pos: int) -> bool:
        found = _PYTHON_CALL.match(self._text, pos)
        if found is None:
            return False
        bracketed = self._text[pos] == "["
        return (
            bracketed or self._tools.find((found[1] or found[2]).removesuffix(".call")) is not None
        )

    def _fence(self, pos: int, fence: re.Match[str]) -> tuple[int, bool] | Decided | None:
        text = self._text
        inside = skip_space(text, fence.end())
        leading = not self._prose and not self._label_seen
        after = past_fence(text, fence.end() - 1, fence[1])
        if inside < len(text) and (
            _CALL_LIKE.match(text, inside) or (leading and self._python_like(inside))
        ):
            self._log.add("fence", pos, fence.group().strip(), "")
            self._data_end = after
            step = self._unlabelled(inside, fenced=True)
            if step is None or isinstance(step, Decided):
                return step
            return max(after, step[0]), True
        line = text.rfind("\n", pos, inside) + 1
        if leading and inside < len(text) and label_at(text, line) is not None:
            return self._fenced_reply(pos, fence, line, after)
        self._prose = True
        self._data_end = after
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
        self._fenced = fence[1]
        return line, True

    # Special places: thinking blocks and tags.

    def _special(
        self, at: int, tag: str, kind: str, *, at_start: bool
    ) -> tuple[int, bool] | Decided | None:
        end = at + len(tag)
        if self._places.quoted(at):
            self._prose = True
            return end, False
        if kind == "open":
            start, after = self._places.closing(tag, end)
            if start >= 0:
                self._thinking.append((at, after))
                return after, True
            if at_start:
                raise Refusal("unclosed_thinking", f"{tag} is never closed")
            self._doubt = True
            return end, False
        if kind == "close":
            self._restarts += 1
            if self._restarts > _MAX_RESTARTS:
                raise Refusal("too_large", f"thinking is closed more than {_MAX_RESTARTS} times")
            self._thinking = [(0, end)]
            self._restart(end)
            return end, True
        return self._tag(at, tag, at_start=at_start)

    def _tag(self, at: int, tag: str, *, at_start: bool) -> tuple[int, bool] | Decided | None:
        end = at + len(tag)
        if self._indented(at) or (not at_start and not self._call_follows(end)):
            self._prose = True
            return end, False
        found = self._calls.tagged(tag, at)
        if not at_start and self._is_prose(residue(self._text, found.end)):
            self._prose = True
            return found.end, False
        return self._settle(found, at)

    def _indented(self, at: int) -> bool:
        """Whether an indented block quotes what begins at `at`."""
        line = self._text.rfind("\n", max(0, at - 64), at) + 1
        blanks = self._text[line:at]
        return 0 <= self._indent <= len(blanks.expandtabs(4)) - 4 and not blanks.strip()

    def _call_follows(self, pos: int) -> bool:
        mark = self._log.mark()
        at = self._calls.past_fence(pos)
        self._log.rollback(mark)
        char = self._text[at : at + 1]
        if char == "<":
            return tag_at(self._text, at) == at
        return bool(char) and (char in "{[｛" or self._python_like(at))

    # Labels.

    def _label(self, label: Label) -> tuple[int, bool] | Decided | None:
        """Act on a label; None where it is a word of prose."""
        if not self._counts(label):
            return None
        text = self._text
        if self._indent < 0:
            self._indent = label.indent
        elif label.indent >= self._indent + 4:
            return None  # an indented block quotes it
        quoted = past_quotation(self._text, label.start)
        if quoted >= 0:
            self._data_end = quoted
            return quoted, False
        if label.kind == "thought":
            self._label_seen = True
            self._thought_at = label.end if self._thought_at < 0 else self._thought_at
            return label.end, False
        if label.kind == "observation":
            return self._observation(label)
        if label.kind == "final":
            return self._final(label)
        if label.kind == "action":
            return self._action(label)
        if label.kind == "input":
            if not label.strong and not self._label_seen:
                return None
            return self._stray_input(label)
        if label.kind == "question" and not self._prose and not self._label_seen:
            end = text.find("\n", label.end)
            return (end + 1, True) if end >= 0 else None
        return None

    def _counts(self, label: Label) -> bool:
        """Whether a label without a colon is one."""
        if label.separated:
            return True
        if not label.strong:
            return False
        text = self._text
        if label.alone:
            if label.kind != "action":
                return True
            following = skip_space(text, label.end)
            line = text[following : following + 100].split("\n", 1)[0]
            return self._tools.find(line) is not None or line[:1] in ("{", "`")
        line = text[label.end : label.end + 100].split("\n", 1)[0]
        if label.kind == "action":
            return self._tools.find(line) is not None
        return label.kind == "input" and line[:1] in ("{", "`")

    def _observation(self, label: Label) -> tuple[int, bool] | Decided | None:
        if self._native and not self._label_seen:
            return None
        if not self._label_seen and not self._prose:
            raise Refusal("invented_observation", "the reply begins with an observation")
        if not self._label_seen:
            return None if not label.strong else self._cut_off(label)
        return self._cut_off(label)

    def _cut_off(self, label: Label) -> Decided:
        raise Refusal(
            "truncated" if self._cut else "no_decision",
            "an observation was invented before any action",
        )

    def _stray_input(self, label: Label) -> tuple[int, bool] | Decided | None:
        """An input without an action label; the action may end the thought before it."""
        if self._refused_action:
            return label.end, False
        before = self._text[max(0, label.start - 200) : label.start].rstrip().rsplit("\n", 1)[-1]
        found = _INLINE_ACTION.search(before)
        name = self._tools.find(found[1]) if found else None
        if found is None or name is None or before.count('"') % 2:
            raise Refusal("no_decision", "an input without an action")
        self._label_seen = True
        self._log.add("inline_label", label.start, found.group().strip(), name)
        return self._settle(self._actions.input(name, label.end, "labels"), label.start)

    def _final(self, label: Label) -> tuple[int, bool] | Decided | None:
        text = self._text
        if self._native and self._prose and not self._label_seen:
            return None
        cut = next_cut(text, label.end, indent=max(self._indent, 0))
        stray = self._closes.next_close(label.end, cut.pos)
        if stray >= 0:
            return stray, False
        self._deny_doubt()
        answer = clean_answer(text[label.end : cut.pos], label.bold or self._fenced)
        if not answer:
            raise Refusal("truncated" if self._cut else "no_decision", "the final answer is empty")
        return self._answered(answer, label.start, cut)

    def _action(self, label: Label) -> tuple[int, bool] | Decided | None:
        if self._native and self._prose and not self._label_seen:
            return None
        mark = self._log.mark()
        found = self._actions.read(label)
        if found is None:
            self._log.rollback(mark)
            return None
        self._label_seen = True
        if isinstance(found, NoAction):
            self._refused_action = True
            return found.end, False
        return self._settle(found, label.start)

    # Decisions.

    def _deny_doubt(self) -> None:
        if self._doubt:
            raise Refusal("unclosed_thinking", "a thinking block is opened and never closed")

    def _settle(self, found: Found, start: int) -> tuple[int, bool] | Decided:
        """A call under a label or a tag: look at what follows, then decide."""
        text = self._text
        if isinstance(found.content, Answer):
            cut = Ending(found.end, next_cut(text, found.end - 1).kind)
            stray = self._closes.next_close(start, found.end)
            if stray >= 0:
                return stray, False
            self._deny_doubt()
            return self._answered(found.content.text, start, cut)
        if self._refused_action:
            raise Refusal("no_decision", "first no action was wanted, then one")
        after = self._past_closing_fence(found.end)
        cut = next_cut(text, max(after - 1, 0))
        stray = self._closes.next_close(found.end, cut.pos)
        if stray >= 0:
            return stray, False
        self._deny_doubt()
        if self._cut and skip_space(text, found.end) >= len(text):
            raise Refusal("truncated", "the reply was cut right after the call")
        return self._acted(found, start, cut)

    def _past_closing_fence(self, pos: int) -> int:
        text = self._text
        at = skip_space(text, pos)
        if text.startswith(("```", "~~~"), at):
            return at + 3
        return pos

    def _acted(self, found: Found, start: int, cut: Ending) -> Decided:
        call = found.content
        if not isinstance(call, Call):
            raise Refusal("bad_name", "no tool is named")
        action = Action(call.name, call.arguments or {}, None, found.notation)
        ignored = self._dropped(found.end, cut)
        if call.more > 0:
            ignored = (Ignored("second_action", f"{call.more} more in the same list"), *ignored)
        return Decided(
            Actions((action,)),
            self._thought(start),
            ignored,
            complete=cut.kind is not None,
        )

    def _answered(self, answer: str, start: int, cut: Ending) -> Decided:
        return Decided(FinalAnswer(answer), self._thought(start), self._dropped(cut.pos, cut))

    def _dropped(self, end: int, cut: Ending) -> tuple[Ignored, ...]:
        text = self._text
        ignored = []
        between = text[end : cut.pos].strip()
        if between.strip("`~*)]}"):
            ignored.append(Ignored("text", between))
        if cut.kind is not None and cut.pos < len(text):
            kind = {"action": "second_action", "final": "answer", "input": "second_action"}
            ignored.append(Ignored(kind.get(cut.kind, cut.kind), text[cut.pos :].strip()))
        return tuple(ignored)

    def _thought(self, end: int) -> str:
        if self._thought_at >= 0:
            return self._without_thinking(self._thought_at, end)
        words = self._without_thinking(self._begin, end)
        if words:
            return words
        return "\n".join(self._text[a:b] for a, b in self._thinking)

    def _without_thinking(self, begin: int, end: int) -> str:
        parts = []
        for start, stop in self._thinking:
            if start >= begin and start < end:
                parts.append(self._text[begin:start])
                begin = stop
        parts.append(self._text[begin:end])
        return "".join(parts).strip()

    # Calls without a label.

    def _unlabelled(self, pos: int, *, fenced: bool = False) -> tuple[int, bool] | Decided | None:
        """A call that no label announces counts only where nothing else is said."""
        text = self._text
        leading = not self._prose and not self._label_seen
        if self._attempts >= _ATTEMPTS:
            self._prose = True
            return self._rest(pos)
        self._attempts += 1
        mark = self._log.mark()
        try:
            found = self._calls.bare(pos)
        except Refusal as refusal:
            if refusal.code in {"truncated", "too_large"} or (leading and _JSON.match(text, pos)):
                raise
            self._log.rollback(mark)
            self._prose = True
            return self._rest(pos)
        if found is None or found.content is None:
            self._log.rollback(mark)
            self._prose = True
            return (found.end if found else pos), False
        if not fenced and text.startswith("</", skip_space(text, found.end)):
            return self._settle(found, pos)  # only the opening tag is missing
        after = residue(text, found.end)
        if isinstance(found.content, Answer):
            return self._answered(found.content.text, pos, Ending(found.end, None))
        if self._is_prose(after):
            if leading:
                raise Refusal("no_decision", "a call is followed by prose; it may be an example")
            self._log.rollback(mark)
            self._prose = True
            return after, False
        cut = next_cut(text, max(self._past_closing_fence(found.end) - 1, 0))
        stray = self._closes.next_close(found.end, cut.pos)
        if stray >= 0:
            return stray, False
        self._deny_doubt()
        if cut.kind is None:
            if self._cut:
                raise Refusal("truncated", "the reply was cut at or after the call")
            if not leading and not self._ended:
                raise Refusal("truncated", "a call after prose, in a reply that may go on")
        return self._acted(found, pos, cut)

    def _is_prose(self, pos: int) -> bool:
        """Whether what stands at `pos` is neither the end, a label, nor another call."""
        text = self._text
        if pos >= len(text) or text[pos] in "{[｛" or text.startswith("<tool_response", pos):
            return False
        line = text.rfind("\n", 0, pos) + 1
        label = label_at(text, line) if not text[line:pos].strip(" \t\r*") else None
        return label is None or not label.separated

    # No decision.

    def _undecided(self) -> Decided:
        text = self._text
        prose = self._without_thinking(self._begin, len(text))
        words = clean_answer(prose)
        if visible(words).strip("`~ \n") in ("", "json", "null", "None", "{}", "[]"):
            raise Refusal("empty", "the reply is empty")
        if self._label_seen or self._refused_action:
            raise Refusal(
                "truncated" if self._cut else "no_decision",
                "the reply holds neither an action nor an answer",
            )
        call = self._call_after_prose()
        if call is not None:
            return call
        if self._meant_as_call(words):
            raise Refusal("no_decision", "something like an action, under no known label")
        cut = turn_in(words)
        ignored = (Ignored("observation", words[cut:]),) if cut < len(words) else ()
        return Decided(FinalAnswer(words[:cut].rstrip(), labelled=False), "", ignored)

    def _meant_as_call(self, words: str) -> bool:
        """Whether a line ends in a tool's name after a colon and JSON stands under it."""
        lines = words.split("\n", 40)[:40]
        for line, below in pairwise(lines):
            name = _AFTER_COLON.search(line[-100:])
            if name is not None and "{" in below and self._tools.find(name[1]):
                return True
        return False

    def _call_after_prose(self) -> Decided | None:
        """A call at the very end of a line of prose, if the reply is known to end with it."""
        text = self._text
        found = [text.find(opening, max(self._begin, self._data_end)) for opening in _INLINE_CALLS]
        pos = min((at for at in found if at >= 0), default=-1)
        if pos < 0 or self._places.quoted(pos) or self._attempts >= _ATTEMPTS:
            return None
        self._prose = True
        mark = self._log.mark()
        step = self._unlabelled(pos)
        if isinstance(step, Decided):
            return step
        self._log.rollback(mark)
        return None


_AFTER_COLON = re.compile(r"[:：=>][ \t]*+([^:：=>\n]+)\Z")
_INLINE_CALLS = (
    '{"name"', '{ "name"', "{'name'", '{"tool', '{"function', '{"action"', '{"type"', "{name:",
)  # fmt: skip
_INLINE_ACTION = re.compile(
    r"(?:^|[.。!！?？;；]\s*)(?:Action|行动|动作|行動|動作)\s*[:：]\s*(\S+)\s*\Z", re.IGNORECASE
)
