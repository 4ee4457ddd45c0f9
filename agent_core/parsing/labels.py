"""The labels of a ReAct reply, in English and Chinese, and how models disguise them.

A label counts only at the start of a line. It may be bold, numbered, bracketed, a heading or
a list item, written in any case, followed by its translation, with a full-width colon.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal, NamedTuple

from agent_core.messages import Language

LabelKind = Literal["thought", "action", "input", "observation", "final", "question", "turn"]

# Weak words are also everyday words: they count only where the reply is clearly a ReAct reply.
_WORDS: tuple[tuple[LabelKind, bool, Language, str], ...] = (
    ("input", True, "en", r"(?:action|tool|function)[ \t_-]*+(?:[0-9]{1,3}[ \t]*+)?"
                          r"(?:inputs?|args?|arguments?|parameters?|params?)"),
    ("final", True, "en", r"(?:the[ \t]+)?final[ \t_-]*+(?:answer|response|reply)"
                          r"(?:[ \t]+is(?=[ \t]*[:：]))?"),
    ("observation", True, "en", r"observations?|tool[ \t_-]*+(?:output|result|response)s?"),
    ("thought", True, "en", r"thoughts?|thinking|reasoning"),
    ("action", True, "en", r"(?:next[ \t]+)?actions?(?:[ \t_]name)?"),
    ("action", False, "en", r"tools?(?:[ \t_](?:name|call|use))?|function(?:[ \t_](?:name|call))?"),
    ("input", False, "en", r"inputs?|args|arguments|parameters|params"),
    ("final", False, "en", r"answer|final"),
    ("question", False, "en", r"question"),
    ("turn", False, "en", r"user|human|assistant|system"),
    ("input", True, "zh", r"(?:行动|动作|行動|動作|操作|工具|函数)[ \t]*+(?:[0-9]{1,3}+[ \t]*+)?"
                          r"(?:的)?(?:输入|輸入|参数|參數)"),
    ("final", True, "zh", r"最[终終后後](?:的)?(?:答案|回答|答复|答覆|回复|回覆|结果|結果)"
                          r"(?:[是为](?=[:：]))?"),
    ("observation", True, "zh", r"(?:观察|觀察|観察|观测|觀測)(?:到的)?(?:结果|結果)?"
                                r"|工具(?:的)?(?:输出|輸出|结果|結果|返回)(?:结果|結果)?"),
    ("thought", True, "zh", r"思考(?:过程|過程)?|想法|思路|推理(?:过程|過程)?"),
    ("action", True, "zh", r"(?:下一步|执行|執行)?(?:行动|动作|行動|動作)(?:名称|名稱|名)?"),
    ("action", False, "zh", r"(?:使用|调用|調用)?工具(?:名称|名稱|名|调用|調用)?|操作"
                            r"|(?:调用|調用)?(?:函数|函數)"),
    ("input", False, "zh", r"输入(?:参数)?|輸入(?:參數)?|参数|參數"),
    ("final", False, "zh", r"答案|回答"),
    ("question", False, "zh", r"(?:用户|用戶)?(?:问题|問題)"),
    ("turn", False, "zh", r"用户|用戶|助手|系统"),
)  # fmt: skip

# What a possessive quantifier repeats is atomic, here as elsewhere: before Python 3.11.5 it loses
# its place when it backtracks inside (python/cpython#106052).
_BLANK = r"[ \t\u00a0\u3000]*+"
_WORD_END = r"(?![A-Za-z]|_++[A-Za-z0-9])"
_HEAD = (
    _BLANK
    + r"(?>(?:[-•·–*+][ \t]++|[0-9]{1,2}[.)、．][ \t]*+"  # list item
    + r"|[\u2600-\u27bf\U0001f300-\U0001faff]\ufe0f?[ \t]*+)(?=[^ \t]))?+"  # emoji
    + r"(?>\#{1,6}[ \t]*+)?+"  # heading
    + r"[*_]{0,3}+"
    + r"(?>`(?=[^`\n]{1,20}+`[ \t]*+[:：]))?+"  # the word alone in a code span
    + r"[【\[［「〔（(<]?+"
    + _BLANK
)
_WORD = "|".join(f"(?P<w{index}>{pattern})" for index, (*_, pattern) in enumerate(_WORDS))
_TAIL = (
    _WORD_END + r"`?"
    r"(?>[ \t]*+(?P<number>[#№]?[0-9０-９]{1,3}+|[一二三四五六七八九十]{1,2}+)"  # number
    r"(?![\w.]))?+"
    r"(?>[ \t]*+[（(\[](?:[^()（）\[\]\n:：]{1,20}+[)）\]]"  # translation, before a colon
    r"(?=[】\]］」〕）)>`*_ \t]{0,8}+[:：﹕︰∶꞉=＝\-—–])"
    r"|(?:thought|action(?:[ _]input)?|(?:action|tool)[ _](?:name|arguments)|input|observation"
    r"|(?:final[ ])?answer|思考|(?:行动|动作)(?:输入)?|输入|参数|工具|观察(?:结果)?"
    r"|(?:最终)?(?:答案|回答))[)）\]]))?+"  # or a label's word
    r"(?>[ \t]*+[/|]?[ \t]*+(?:thought|action(?:[ ]input)?|observation|final[ ]answer"
    r"|思考|(?:行动|动作)(?:输入)?|观察(?:结果)?|最终(?:答案|回答))"
    + _WORD_END
    + r")?+"  # bilingual
    r"(?P<unbracket>[】\]］」〕）)>]?+)"
    r"(?P<bold_before>[*_]{0,3}+)" + _BLANK
)
_NAMED_HEAD = _HEAD.replace("[*_]{0,3}+", "(?P<bold>[*_]{0,3}+)").replace(
    "[【\\[［「〔（(<]?+", "(?P<bracket>[【\\[［「〔（(<]?+)"
)


@cache  # it takes 8 ms, and replies on the short way do without
def _label() -> re.Pattern[str]:
    return re.compile(_NAMED_HEAD + f"(?:{_WORD})" + _TAIL, re.IGNORECASE)


def _head_of(words: Iterable[str]) -> str:
    return f"{_HEAD}(?:{'|'.join(words)}){_WORD_END}"


LABEL_HEAD = _head_of(pattern for *_, pattern in _WORDS)
"""How a line with a label begins, for expressions that pass over all other lines."""

CUT_HEAD = _head_of(
    pattern for kind, strong, _, pattern in _WORDS if strong or kind in {"question", "turn"}
)
"""How a line begins that may end the text of a decision."""

RESULT_HEAD = re.compile(
    r"<(?:result|output|ipython)>"
    r"|[*#>\s]*+(?:obs(?:erved)?|(?:tool|function|api)[ _](?:result|response|output)s?"
    r"|(?:返回|执行|運行|运行|調用|调用)(?:结果|結果|值)|工具(?:回应|回應|返回|结果|結果|输出|輸出))"
    r"[*\s]*+[:：]",
    re.IGNORECASE,
)
"""How a line begins that only a tool could say; weaker words are left to the model's thoughts."""

_SEPARATOR = re.compile(r"[:：﹕︰∶꞉]|[=＝]|(?:->|→|-|—|–)(?=[ \t\n])")
_AFTER = re.compile(r"[ \t\r\u00a0\u3000]*+")
_BOLD_AFTER = re.compile(r"[*_]{1,3}+")

_SENTENCE_ABOUT = re.compile(
    r"(?:is|are|was|were|be|will|would|should|shall|must|can|cannot|could|may|might|does|has|have|had|needs?"
    r"|depends|requires|comes|follows|goes|of|to|for|in|on|at|from|with|after|before|and|or|not|yet|format)\b"
    r"|[是为為在需应應会會可还還尚取将將的]",
    re.IGNORECASE,
)  # fmt: skip
_BRACKETS = frozenset({"【】", "「」", "〔〕", "［］", "[]", "<>"})
_MAX_INDENT = 64  # bounds the look back, so that it stays linear
_LINE_END = re.compile(r"[ \t\r\u00a0\u3000]*+(?:\n|\Z)")


class Label(NamedTuple):
    """A label at the start of a line.

    Attributes:
        kind: what it announces.
        strong: it can hardly be an everyday word.
        start: offset of the line it stands on.
        indent: blanks before it.
        end: offset of its value.
        separated: a colon or the like follows; otherwise the label stands alone or runs on.
        alone: nothing else stands on its line.
        bold: bold marks that were opened before it and not yet closed.
        word: the label's word as it is written.
    """

    kind: LabelKind
    strong: bool
    language: Language
    start: int
    indent: int
    end: int
    separated: bool
    alone: bool
    bold: str
    word: str


def label_at(text: str, pos: int) -> Label | None:
    """The label that begins the line at `pos`, or None.

    Whether a label without a colon counts is for the caller to say: it may be a word of prose.
    """
    found = _label().match(text, pos)
    if found is None or (found["bracket"] == "「" and found["unbracket"] != "」"):
        return None  # no label, or a quotation
    index = int(str(found.lastgroup)[1:]) if str(found.lastgroup)[0] == "w" else _which(found)
    kind, strong, language, _ = _WORDS[index]
    bold = found["bold"] if not found["bold_before"] else ""
    end = found.end()
    separator = _SEPARATOR.match(text, end)
    bracketed = found["bracket"] + found["unbracket"] in _BRACKETS
    if separator is not None:
        end = separator.end()
        closing = _BOLD_AFTER.match(text, end) if bold else None
        if closing is not None:
            bold, end = "", closing.end()
    elif kind == "final" and found["number"]:
        end = found.start("number")  # it is the answer
    after = _AFTER.match(text, end)
    end = after.end() if after else end
    return Label(
        kind,
        strong,
        language,
        start=pos,
        indent=_indent(text[pos : found.start("bold")]),
        end=end,
        separated=separator is not None or bracketed,
        alone=_LINE_END.match(text, end) is not None,
        bold=bold,
        word=found[f"w{index}"],
    )


def seems_labelled(text: str, pos: int = 0) -> bool:
    """Whether a line begins with a label: a colon is missing, or it is a word for an answer."""
    label = label_at(text, pos)
    return label is not None and (label.strong or label.kind == "final")


def stands_out(text: str, label: Label) -> bool:
    """Whether a label without a colon, with words behind it, is written as one.

    A gap stands where the colon belongs, or `Final Answer 42` is no sentence about an answer.
    """
    if not label.strong or label.alone:
        return False
    if text[label.end - 2 : label.end].isspace():
        return True
    if label.kind not in {"final", "input"} or not text[label.end - 1].isspace():
        return False
    written = label.language == "zh" or label.word.istitle() or label.word.isupper()
    return written and _SENTENCE_ABOUT.match(text, label.end) is None


def _indent(head: str) -> int:
    return len(head[: len(head) - len(head.lstrip())].expandtabs(4))


def _which(found: re.Match[str]) -> int:
    return next(i for i in range(len(_WORDS)) if found[f"w{i}"] is not None)


def line_end(text: str, pos: int, limit: int) -> int:
    """The end of the line at `pos`, or `limit` where it comes first."""
    eol = text.find("\n", pos, limit)
    return eol if eol >= 0 else limit


def line_before(text: str, pos: int) -> str | None:
    """What stands before `pos` on its line; None where that is more than a label's indent."""
    floor = max(0, pos - _MAX_INDENT)
    start = text.rfind("\n", floor, pos) + 1
    return None if start == 0 and floor > 0 else text[start:pos]


def announces(text: str, pos: int, kind: LabelKind | None = None) -> bool:
    """Whether at the visible character `pos` a line begins with an unmistakable label."""
    before = line_before(text, pos)
    if before is None or before.strip():
        return False
    label = label_at(text, pos - len(before))
    if label is None or not label.strong or not label.separated:
        return False
    return kind is None or label.kind == kind
