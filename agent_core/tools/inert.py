"""Keep foreign text from being taken for the agent's own protocol.

A tool result or a retrieved passage may hold a line such as `Final Answer: …` or a chat
template's tokens, by accident or on purpose. A reader sees what stood there; a parser, a model
and a template see no label, no role and no tag.
"""

from __future__ import annotations

import re

_INVISIBLE = r"[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
_LABELS = (
    r"thoughts?|thinking|reason(?:ing)?|actions?(?:\s?inputs?)?|arguments|observations?|"
    r"final\s?(?:answer|response)|answer|question|tool\s?(?:calls?|results?|responses?|outputs?)|"
    r"function\s?calls?|system|user|human|assistant|tool|ai|developer|"
    r"思考|想法|理由|行动|动作|操作|(?:行动|动作|操作)\s?(?:输入|参数)|观察|观察结果|结果|工具结果|"
    r"最终\s?(?:答案|回答|回复)|答案|回答|问题|系统|用户|助手|工具|人类"
)
_LINE = re.compile(
    rf"""
    ^(?= (?:[^\S\n]|{_INVISIBLE}|[>#*_`~\-+•\d.、)(（）\[\]【】「」"'“”|]){{0,40}}
        (?:{_LABELS})
        (?:[^\S\n]|{_INVISIBLE}|[*_`\]】」)）"'”\d]){{0,20}}
        (?:[:：﹕∶=]|$) )
    (?!\|\ )
    """,
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_OPEN = r"(?:<|＜|‹|〈|&lt;|&\#0*60;|&\#x0*3c;|\\u003c|\\x3c|%3c)"
_TAG_NAMES = (
    r"tool_?(?:call|response|result|output)s?|function_?(?:call|response|result)s?|invoke|"
    r"observations?|retrieved|retrieval|context|documents?|passages?|knowledge|search_?results?|"
    r"think|thinking|system|user|assistant|im_start|im_end|s|start_of_turn|end_of_turn|eos|bos"
)
_TAG = re.compile(
    rf"""
    {_OPEN} (?= (?:\s|{_INVISIBLE}){{0,8}} (?:
        [|｜]                                             # <|im_start|>, DeepSeek's wide bars
      | (?:[/／]|%2f|\\/|&\#0*47;|&\#x0*2f;|&sol;)? (?:\s|{_INVISIBLE}){{0,8}} (?:{_TAG_NAMES})
        (?![\w-]) ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BRACKET = re.compile(
    r"\[(?=/?(?:INST|SYS|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS|/?TOOL_\w+)\])", re.IGNORECASE
)


def inert(text: str) -> str:
    """Quote lines that look like a protocol label or a role, and break tags and tokens.

    Such a line gets `| ` before it, such a tag begins with `‹` for `<`. Other text stays as
    it is; doing it twice changes nothing more.
    """
    text = _TAG.sub("‹", text)
    text = _BRACKET.sub("⟦", text)
    return _LINE.sub("| ", text)
