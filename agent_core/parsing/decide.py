"""One pass over a reply, top to bottom: the first decision wins, all after it is dropped.

The pass knows where it stands: at the start of a line, inside a fence, a quote block or a
thinking block, inside the JSON of a call. Labels and tags count only where a model means them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_core.messages import FinalAnswer, Ignored
from agent_core.parsing.actions import ActionReader, NoAction
from agent_core.parsing.blocks import (
    announces_quotation,
    is_quotation_open,
    past_block,
    past_fence,
    past_quotation,
)
from agent_core.parsing.disguise import colon_label
from agent_core.parsing.ending import clean_answer, residue, turn_in
from agent_core.parsing.labels import (
    LABEL_HEAD,
    Label,
    LabelKind,
    label_at,
    line_before,
    stands_out,
)
from agent_core.parsing.notations import TAGS, CallReader, skip_space, tag_at
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.places import Places
from agent_core.parsing.prose import call_in_prose, is_blank, meant_as_call
from agent_core.parsing.standing import Standing
from agent_core.parsing.toolset import Toolset
from agent_core.parsing.verdicts import Decided, Thinking, Verdicts

_DULL = re.compile(
    rf"(?:(?!{LABEL_HEAD}|[ \t\r]*+(?:```|~~~|'''|\"\"\"|[>{{\[｛<]))[^\n]*+\n)*+", re.IGNORECASE
)
_FENCE = re.compile(r"(`{3,}+|~{3,}+)[ \t]*+([\w+-]*+)[ \t\r]*+(?:\n|(?=[{\[｛]))")
_CALL_LIKE = re.compile(r"[{｛\[［]\s*+(?:[{｛]?\s*+[\"'“”‘’＂\w]|[{\[])")
_JSON = re.compile(
    r"[{｛]\s*+(?:[\"'“”‘’＂{｛}]|\w++\s*+[:：=])|[\[［]\s*+(?:[{｛]|\w++[(（])|[^{｛\[［]"
)
_PYTHON_CALL = re.compile(r"\[?\s*+([^\W\d][\w.]*+)[(（]|([^\W\d][\w.]*+)[ \t]*+\n?[ \t]*+[{｛]")
_FOREIGN = re.compile(
    r"<[|｜](?:start|channel|message|constrain)[|｜]>|</?(?:antml:)?(?:invoke|function_calls|tool_use|parameter)\b"
)
_INLINE_ACTION = re.compile(
    r"(?:^|[.。!！?？;；]\s*)(?:Action|行动|动作|行動|動作)\s*[:：]\s*(\S+)\s*\Z", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^.。!！?？;；…\n]*+(?:([.。!！?？;；…])[ \t]*+|\n)")
_LINE = 100  # characters of a line that show what it is
_LONG_LINE = 2_000  # characters of a thought's line before a label on it
_MAX_LABELS = 5_000  # lines that begin like a label and decide nothing
_MAX_RESTARTS = 100
_ATTEMPTS = 3  # JSON in prose that turns out to be none; bounds the work on hostile replies


Step = tuple[int, bool] | Decided | None
"""Where to go on and whether a line begins there; a decision; or None at the end."""


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
        self._native = native
        self._calls = CallReader(text, tools, log, ended=ended)
        self._actions = ActionReader(text, tools, log, self._calls, ended=ended)
        self._places = Places(text)
        self._verdicts = Verdicts(text, ended=ended, cut=cut)
        self._at = Standing(text)
        self._acts: dict[LabelKind, Callable[[Label], Step]] = {
            "thought": self._thought,
            "action": self._action,
            "input": self._stray_input,
            "observation": self._observation,
            "final": self._final,
            "question": self._question,
        }
        self._line_of = (-1, 0)
        self._attempts = 0
        self._labels = 0
        self._restarts = 0

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
            known = _FOREIGN.match(text, at) or any(text.startswith(tag, at) for tag in TAGS)
            if end == at or text[at + 1] not in "|｜" or known:
                return pos
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
        if special > first:
            label = label_at(text, line)
            if label is not None:
                self._count_label()
                step = self._label(label)
                if step is not None:
                    return step
            step = self._block(first)
            if step is not None:
                return step
            self._at.prose = True
            dull = _DULL.match(text, line, self._begin_of_line(special))
            after = dull.end() if dull else line
            if self._at.thought_at >= 0:
                step = self._inline(line, after if after > line else self._line_end(line, special))
                if step is not None:
                    return step
            return (after, True) if after > line else self._rest(first)
        return self._special(special, tag, kind, at_start=special == first)

    def _count_label(self) -> None:
        """Bound the lines that begin like a label or a block and are none."""
        self._labels += 1
        if self._labels > _MAX_LABELS:
            raise Refusal("too_large", f"more than {_MAX_LABELS} labels that decide nothing")

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

    def _block(self, first: int) -> Step:
        """A fence, a block of quotation or a call without a label that begins the line."""
        text = self._text
        char = text[first]
        if text.startswith("<tool_response", first):
            if self._at.leading:
                raise Refusal("invented_observation", "the reply begins with an observation")
            return self._undecided()
        if char == "<" and _FOREIGN.match(text, first):
            raise Refusal("bad_json", f"this markup is not read: {text[first : first + 40]!r}")
        fence = _FENCE.match(text, first) if char in "`~" else None
        if fence is not None:
            return self._fence(first, fence)
        after = past_block(text, first)
        if after > first:
            self._at.prose = True
            self._at.data_end = after
            return after, text[after - 1] == "\n"
        if _CALL_LIKE.match(text, first) or (not self._at.prose and self._python_like(first)):
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

    def _fence(self, pos: int, fence: re.Match[str]) -> Step:
        text = self._text
        inside = skip_space(text, fence.end())
        leading = self._at.leading
        after = past_fence(text, fence.end() - 1, fence[1])
        if inside < len(text) and (
            _CALL_LIKE.match(text, inside) or (leading and self._python_like(inside))
        ):
            self._log.add("fence", pos, fence.group().strip(), "")
            self._at.data_end = after
            step = self._unlabelled(inside, fenced=True)
            if step is None or isinstance(step, Decided):
                return step
            return max(after, step[0]), True
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

    # Special places: thinking blocks and tags.

    def _special(self, at: int, tag: str, kind: str, *, at_start: bool) -> Step:
        end = at + len(tag)
        if self._places.quoted(at):
            self._at.prose = True
            return end, False
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
            self._at = self._at.after_thinking(end)
            return end, True
        return self._tag(at, tag, at_start=at_start)

    def _tag(self, at: int, tag: str, *, at_start: bool) -> Step:
        end = at + len(tag)
        if self._indented(at) or (not at_start and not self._call_follows(end)):
            self._at.prose = True
            return end, False
        found = self._calls.tagged(tag, at)
        if not at_start and self._in_prose(found.end):
            self._at.prose = True
            return found.end, False
        return self._step(self._verdicts.announced(found, at, self._at))

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
            return tag_at(self._text, at) == at
        return bool(char) and (char in "{[｛" or self._python_like(at))

    # Labels.

    def _label(self, label: Label) -> Step:
        """Act on a label; None where it is a word of prose."""
        if not self._counts(label):
            return None
        if self._at.indent < 0:
            self._at.indent = label.indent
        elif label.indent >= self._at.indent + 4:
            return None  # an indented block quotes it
        quoted = past_quotation(self._text, label.start)
        if quoted >= 0:
            self._at.data_end = quoted
            return quoted, False
        act = self._acts.get(label.kind)
        return act(label) if act is not None else None

    def _thought(self, label: Label) -> Step:
        self._at.label_seen = True
        self._at.thought_at = label.end if self._at.thought_at < 0 else self._at.thought_at
        end = self._line_end(label.end, self._places.next(label.end)[0])
        return self._inline(label.end, end) or (label.end, False)

    def _line_end(self, pos: int, special: int) -> int:
        """The end of the line at `pos`, or the special place on it."""
        eol = self._text.find("\n", pos, special)
        return eol if eol >= 0 else special

    def _inline(self, start: int, end: int) -> Step:
        """The action or the answer that follows a sentence of a thought on its line."""
        text, pos = self._text, start
        while (sentence := _SENTENCE.match(text, pos, end)) is not None:
            pos = sentence.end()
            label = colon_label(text, pos) if sentence[1] else None
            if label is None or label.kind not in {"action", "final"}:
                continue
            line = text.rfind("\n", start, pos) + 1 or start
            if pos - line > _LONG_LINE or is_quotation_open(text[line:pos]):
                continue
            self._count_label()
            step = self._said_inline(label)
            if step is not None:
                return step
        return None

    def _said_inline(self, label: Label) -> Step:
        """Act on a label in the middle of a line; None where it is part of the thought."""
        if label.kind == "final":
            certain = label.strong or self._verdicts.is_last(label)
            return self._final(label) if certain else None
        return self._action(label._replace(strong=False), inline=True)

    def _question(self, label: Label) -> Step:
        """The question, repeated at the start of the reply, is passed over."""
        end = self._text.find("\n", label.end)
        return (end + 1, True) if self._at.leading and end >= 0 else None

    def _counts(self, label: Label) -> bool:
        """Whether a label without a colon is one."""
        if label.separated:
            return True
        if not label.strong:
            return False
        text = self._text
        if stands_out(text, label):
            return True
        line = text[label.end : label.end + _LINE].split("\n", 1)[0]
        if label.alone:
            following = skip_space(text, label.end)
            line = text[following : following + _LINE].split("\n", 1)[0]
            return label.kind != "action" or self._actions.begins(line)
        if label.kind == "action":
            return self._actions.begins(line)
        return label.kind == "input" and line[:1] in ("{", "`")

    def _observation(self, label: Label) -> Step:
        """An observation before any decision: nothing after it counts."""
        if self._at.leading:
            raise Refusal("invented_observation", "the reply begins with an observation")
        if self._native and not self._at.label_seen:
            return None
        raise Refusal(self._verdicts.unfinished, "an observation was invented before any action")

    def _stray_input(self, label: Label) -> Step:
        """An input without an action label; the action may end the thought before it."""
        if not label.strong and not self._at.label_seen:
            return None
        if self._at.no_action:
            return label.end, False
        before = self._text[max(0, label.start - 200) : label.start].rstrip().rsplit("\n", 1)[-1]
        inline = _INLINE_ACTION.search(before)
        name = self._tools.find(inline[1]) if inline else None
        if inline is None or name is None or before.count('"') % 2:
            raise Refusal("no_decision", "an input without an action")
        self._at.label_seen = True
        self._log.add("inline_label", label.start, inline.group().strip(), name)
        found = self._actions.inputs.under_label(name, label.end, "labels")
        return self._step(self._verdicts.announced(found, label.start, self._at))

    def _final(self, label: Label) -> Step:
        if self._native and self._at.prose and not self._at.label_seen:
            return None
        if not (label.separated or label.alone or self._verdicts.is_last(label)):
            raise Refusal("ambiguous", "an answer without a colon, and another label follows")
        return self._step(self._verdicts.answer(label, self._at))

    def _action(self, label: Label, *, inline: bool = False) -> Step:
        if self._native and self._at.prose and not self._at.label_seen:
            return None
        mark = self._log.mark()
        found = self._actions.read(label)
        if found is None:
            self._log.rollback(mark)
            return None
        self._at.label_seen = True
        if isinstance(found, NoAction):
            self._at.no_action = True
            return found.end, False
        if announces_quotation(self._text, label.start):
            raise Refusal("no_decision", "the action may be a quotation: words announce one")
        if inline and self._verdicts.is_spoken_of(label.end, found.end):
            raise Refusal("no_decision", "words follow the call inside a thought: it may be quoted")
        return self._step(self._verdicts.announced(found, label.start, self._at))

    def _step(self, verdict: Decided | Thinking) -> Step:
        """A decision, or on to the end of the thinking that it turned out to be."""
        return verdict if isinstance(verdict, Decided) else (verdict.pos, False)

    # Calls without a label.

    def _unlabelled(self, pos: int, *, fenced: bool = False) -> Step:
        """A call that no label announces counts only where nothing else is said."""
        text = self._text
        leading = self._at.leading
        if self._attempts >= _ATTEMPTS:
            self._at.prose = True
            return self._rest(pos)
        self._attempts += 1
        mark = self._log.mark()
        try:
            found = self._calls.bare(pos)
        except Refusal as refusal:
            if refusal.code in {"truncated", "too_large"} or (leading and _JSON.match(text, pos)):
                raise
            self._log.rollback(mark)
            self._at.prose = True
            return self._rest(pos)
        if found is None or found.content is None:
            self._log.rollback(mark)
            self._at.prose = True
            return (found.end if found else pos), False
        if not fenced and text.startswith("</", skip_space(text, found.end)):
            # Only the opening tag is missing.
            return self._step(self._verdicts.announced(found, pos, self._at))
        verdict = self._verdicts.unannounced(found, pos, self._at)
        if verdict is not None:
            return self._step(verdict)
        self._log.rollback(mark)
        self._at.prose = True
        return found.end, False

    # No decision.

    def _undecided(self) -> Decided:
        """What a reply without an action and without a label for an answer is."""
        words = clean_answer(self._at.spoken(self._at.begin, len(self._text)))
        if is_blank(words):
            raise Refusal("empty", "the reply is empty")
        if self._at.label_seen or self._at.no_action:
            raise Refusal(
                self._verdicts.unfinished, "the reply holds neither an action nor an answer"
            )
        call = self._call_after_prose()
        if call is not None:
            return call
        if meant_as_call(words, self._tools):
            raise Refusal("no_decision", "something like an action, under no known label")
        cut = turn_in(words)
        ignored = (Ignored("observation", words[cut:]),) if cut < len(words) else ()
        return Decided(FinalAnswer(words[:cut].rstrip(), labelled=False), "", ignored)

    def _call_after_prose(self) -> Decided | None:
        """A call at the very end of a line of prose, if the reply is known to end with it."""
        pos = call_in_prose(self._text, max(self._at.begin, self._at.data_end))
        if pos < 0 or self._places.quoted(pos) or self._attempts >= _ATTEMPTS:
            return None
        self._at.prose = True
        mark = self._log.mark()
        step = self._unlabelled(pos)
        if isinstance(step, Decided):
            return step
        self._log.rollback(mark)
        return None
