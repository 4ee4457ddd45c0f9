"""What is no call where an action belongs: `Action: None`, and `Action: Final Answer`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_core.parsing.calls import Answer, answer_text
from agent_core.parsing.ending import clean_answer, next_cut
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.labels import label_at
from agent_core.parsing.notations import Found, skip_space
from agent_core.parsing.outcome import Refusal
from agent_core.parsing.toolset import Toolset

_NO_ACTION = re.compile(
    r"none(?:[ ](?:needed|required|necessary))?|n/?a|null|nil|nothing|[-–—]{1,3}"
    r"|not[ ](?:needed|required|necessary|applicable)"
    r"|no[ ]need(?:[ ](?:to[ ]use|for)(?:[ ](?:a|an|any|the))?[ ](?:actions?|tools?))?"
    r"|no[ ](?:further[ ]|more[ ])?(?:actions?|tools?)"
    r"(?:[ ](?:is[ ]|are[ ])?(?:needed|required|necessary))?"
    r"|(?:无|無|没有|沒有|暂无|无需|無需|不需要|不用)(?:再)?(?:调用|使用)?(?:行动|动作|行動|動作|工具|操作)?|不适用|空",
    re.IGNORECASE,
)  # fmt: skip
_KEYWORD = re.compile(r"\s*+[^\W\d]\w*+\s*+[=＝]\s*+(?=[\"'“])")


@dataclass(frozen=True, slots=True)
class NoAction:
    """The model wrote that it takes no action; the decision is still to come."""

    end: int


def names_nothing(line: str) -> bool:
    """Whether the line of an action says that there is none."""
    return _NO_ACTION.fullmatch(line.strip("*`.。 ")) is not None


class AnswerReader:
    """Reads final answers that are written like actions."""

    def __init__(self, text: str, tools: Toolset) -> None:
        self._text = text
        self._tools = tools

    def read(self, pos: int, eol: int, line: str) -> Found | None:
        """The answer where the line from `pos` to `eol`, `line`, asks for one as for a tool."""
        text = self._text
        if self._tools.is_final(line):
            start = skip_space(text, eol)
            label = label_at(text, text.rfind("\n", pos, start) + 1) if start < len(text) else None
            if label is not None and label.kind == "input":
                start = label.end
            elif label is not None and label.strong and label.separated:
                start = label.end if label.kind == "final" else start
                if label.kind != "final":
                    raise Refusal("no_decision", "the final answer is empty")
            return self._answer(start)
        token = re.match(r"[^\n:：\[\](（{]{3,20}+", text[pos:eol][:30])
        if token is None or not self._tools.is_final(token.group().strip()):
            return None
        at = pos + token.end()
        if text[at] in "[(（":
            closer = max(text.rfind(mark, at, eol) for mark in ("]" if text[at] == "[" else ")）"))
            end = closer if closer > at else eol
            if self._tools.is_final(text[at + 1 : end]):
                raise Refusal("no_decision", "a translation stands where the answer belongs")
            keyword = _KEYWORD.match(text, at + 1, end)
            return self._quoted_answer(text[keyword.end() if keyword else at + 1 : end], end + 1)
        return self._answer(at + 1 if text[at] in ":：" else at)

    def _answer(self, start: int) -> Found:
        cut = next_cut(self._text, start)
        return self._quoted_answer(self._text[start : cut.pos], cut.pos)

    def _quoted_answer(self, raw: str, end: int) -> Found:
        words = clean_answer(raw)
        if words[:1] + words[-1:] in {"''", "“”"} and not re.search(r"['“”\\]", words[1:-1]):
            words = words[1:-1].strip()
        strict = read_strict(words, 0) if words[:1] in ("{", '"') else None
        if strict is not None and strict[1] == len(words):
            value = strict[0]
            single = isinstance(value, str) or (isinstance(value, dict) and len(value) == 1)
            words = answer_text(value) if single else words
        if not words:
            raise Refusal("no_decision", "the final answer is empty")
        return Found(Answer(words), end, "labels")
