"""What each label makes of the line it begins: a thought, an action, an answer, or prose."""

from __future__ import annotations

import re
from collections.abc import Callable

from agent_core.parsing.actions import ActionReader
from agent_core.parsing.answers import NoAction
from agent_core.parsing.blocks import is_quotation_open, past_quotation
from agent_core.parsing.disguise import colon_label
from agent_core.parsing.doubt import announces_quotation, is_doubtful
from agent_core.parsing.labels import Label, LabelKind, label_at, line_end, stands_out
from agent_core.parsing.notations import skip_space
from agent_core.parsing.outcome import Refusal
from agent_core.parsing.reading import Reading, Step, step_of

_INLINE_ACTION = re.compile(
    r"(?:^|[.。!！?？;；]\s*)(?:Action|行动|动作|行動|動作)\s*[:：]\s*(\S+)\s*\Z", re.IGNORECASE
)
_SENTENCE = re.compile(r"[^.。!！?？;；…\n]*+(?:([.。!！?？;；…])[ \t]*+|\n)")
_LINE = 100  # characters of a line that show what it is
_LONG_LINE = 2_000  # characters of a thought's line before a label on it
_OTHERS = {"user", "human", "用户", "用戶", "system", "系统"}
_WEAK = {"no_decision", "unknown_tool"}  # reasons that a label is no decision, not a broken one
_MAX_LABELS = 5_000  # lines that begin like a label and decide nothing


class LabelReader:
    """Acts on the labels of one reply."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._text = reading.text
        self._tools = reading.tools
        self._log = reading.log
        self._native = reading.native
        self._places = reading.places
        self._verdicts = reading.verdicts
        self._at = reading.at
        self._actions = ActionReader(
            reading.text, reading.tools, reading.log, reading.calls, ended=reading.ended
        )
        self._acts: dict[LabelKind, Callable[[Label], Step]] = {
            "thought": self._thought,
            "action": self._action,
            "input": self._stray_input,
            "observation": self._observation,
            "final": self._final,
            "question": self._question,
            "turn": self._turn,
        }
        self._labels = 0

    def line(self, pos: int) -> Step:
        """Act on the label that begins the line at `pos`; None where there is none, or prose."""
        label = label_at(self._text, pos)
        if label is None:
            return None
        self._count()
        return self._label(label)

    def _count(self) -> None:
        """Bound the lines that begin like a label or a block and are none."""
        self._labels += 1
        if self._labels > _MAX_LABELS:
            raise Refusal("too_large", f"more than {_MAX_LABELS} labels that decide nothing")

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
        try:
            return self._acts[label.kind](label)
        except Refusal as refusal:
            thinking = self._verdicts.thought_of(label) if refusal.code in _WEAK else None
            if thinking is None or label.kind not in {"action", "input"}:
                raise
            return step_of(thinking)

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

    # A thought, and what may follow a sentence of it on the same line.

    def _thought(self, label: Label) -> Step:
        self._at.label_seen = True
        self._at.thought_at = label.end if self._at.thought_at < 0 else self._at.thought_at
        end = line_end(self._text, label.end, self._places.next(label.end)[0])
        return self.inline(label.end, end) or (label.end, False)

    def inline(self, start: int, end: int) -> Step:
        """The action or the answer that follows a sentence of a thought on its line."""
        text, pos = self._text, start
        while (sentence := _SENTENCE.match(text, pos, end)) is not None:
            pos = sentence.end()
            label = colon_label(text, pos) if sentence[1] else None
            if label is None or label.kind not in {"action", "final"}:
                continue
            floor = max(start, pos - _LONG_LINE)
            line = text.rfind("\n", floor, pos) + 1
            if (line == 0 and floor > start) or is_quotation_open(text[line or start : pos]):
                continue
            self._count()
            step = self._said_inline(label)
            if step is not None:
                return step
        return None

    def _said_inline(self, label: Label) -> Step:
        """Act on a label in the middle of a line; None where it is part of the thought."""
        if label.kind == "final":
            if not (label.strong or self._verdicts.is_last(label)):
                raise Refusal("ambiguous", "an answer inside a thought, and a decision after it")
            return self._final(label)
        return self._action(label._replace(strong=False), inline=True)

    # The other labels.

    def _question(self, label: Label) -> Step:
        """The question, repeated at the start of the reply, is passed over."""
        end = self._text.find("\n", label.end)
        return (end + 1, True) if self._at.leading and end >= 0 else None

    def _turn(self, label: Label) -> Step:
        """Another speaks: the model made that up, unless it repeats the prompt at the start."""
        if label.word.lower() not in _OTHERS:
            return None  # its own turn
        if self._native and not (self._at.label_seen or self._at.leading):
            self._reading.observed(label.start)
            return None
        return self._question(label) if self._at.leading else self._observation(label)

    def _observation(self, label: Label) -> Step:
        """An observation before any decision: nothing after it counts."""
        if self._at.leading:
            raise Refusal("invented_observation", "the reply begins with an observation")
        if self._native and not self._at.label_seen:
            self._reading.observed(label.start)
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
        self._reading.refuse_answered(label.start)
        if announces_quotation(self._text, self._text.rfind("\n", 0, label.start - 1) + 1):
            raise Refusal("no_decision", "the action may be a quotation: words announce one")
        self._at.label_seen = True
        self._log.add("inline_label", label.start, inline.group().strip(), name)
        found = self._actions.inputs.after_label(name, label, "labels")
        return step_of(self._verdicts.announced(found, label.start, self._at))

    def _final(self, label: Label) -> Step:
        if self._native and self._at.prose and not self._at.label_seen:
            self._reading.observed(label.start)
            return None
        if not (label.separated or label.alone or self._verdicts.is_last(label)):
            raise Refusal("ambiguous", "an answer without a colon, and another label follows")
        return step_of(self._verdicts.answer(label, self._at))

    def _action(self, label: Label, *, inline: bool = False) -> Step:
        if self._native and self._at.prose and not self._at.label_seen:
            return None
        if is_doubtful(self._text[label.start : label.end]):
            raise Refusal("no_decision", "a remark at the label says that it is none")
        mark = self._log.mark()
        found = self._actions.read(label)
        if found is None:
            self._log.rollback(mark)
            return None
        self._at.label_seen = True
        if isinstance(found, NoAction):
            self._at.no_action = True
            return found.end, False
        self._reading.refuse_answered(label.start)
        if announces_quotation(self._text, label.start):
            raise Refusal("no_decision", "the action may be a quotation: words announce one")
        if inline and self._verdicts.is_spoken_of(label.end, found.end):
            raise Refusal("no_decision", "words follow the call inside a thought: it may be quoted")
        return step_of(self._verdicts.announced(found, label.start, self._at))
