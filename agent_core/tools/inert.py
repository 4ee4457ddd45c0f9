"""Keep foreign text from being taken for the agent's own protocol.

A tool result or a retrieved passage may hold a line such as `Final Answer: …`, a call of a tool,
or a chat template's tokens, by accident or on purpose. A reader sees what stood there; a parser,
a model and a template see no label, no role, no tag and no call. What these look like is asked
of the parser, so that both know the same.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from agent_core.parsing.calls import NAME_KEYS
from agent_core.parsing.disguise import ODD_BREAK, may_be_label
from agent_core.parsing.labels import RESULT_HEAD, line_end
from agent_core.parsing.notations import TAGS
from agent_core.parsing.places import THOUGHT_NAMES

QUOTE = "| "
"""What stands before a line that is quoted; the parser knows it."""

_HIDDEN = r"[\s\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]{0,8}"
_ROLE = re.compile(
    r"(?:[\s*_#]{0,8}(?:ai|bot|developer"
    r"|(?:system|developer|user|assistant)[ _](?:message|prompt|note)"
    r"|开发者|人类|机器人|系统(?:提示|消息|指令))|\#{1,6}\s{0,3}(?:instruction|response)s?)[\s*_]{0,8}[:：]"
    r"|\s{0,8}(?:known from earlier conversations|以前对话中已知的内容)",  # our own heading
    re.IGNORECASE,
)
_LABEL_CHARS = 80  # a line is not read further for a label in full-width letters
_PARSED = {word for tag in TAGS if tag[0] == "<" for word in re.findall(r"\w+", tag)}
_NAMES = "|".join(
    sorted(
        {
            *map(re.escape, (*THOUGHT_NAMES, *_PARSED)),
            "tool_?(?:call|response|result|output|use|code)s?", "tools?", "parameter", "invoke",
            "function_?(?:call|response|result|output)s?", "observations?", "results?", "output",
            "retriev(?:ed|al)", "context", "documents?", "passages?", "knowledge",
            "search_?results?", "(?:final_?)?answer", "sys(?:tem)?", "user", "human", "assistant",
            "ai", "ipython", "instructions?", "system[_-]reminder", "(?:start|end)_of_turn",
            "im_(?:start|end)", "[be]o[sd]", "s", "sop", "unused[0-9]{1,4}",
            "reserved_special_token_[0-9]{1,4}", r"\w{1,16}_tool_?calls?",
        }
    )
)  # fmt: skip
_TAG = re.compile(
    rf"""
    (?: [<＜〈◁] | &(?:amp;){{0,4}}lt;? | &\#0*60;? | &\#x0*3c;? | \\u003c | \\x3c | %3c )
    (?= {_HIDDEN} (?:
        (?: [a-z_]{{1,24}} (?=[|｜]>) )? [|｜]         # <|im_start|>, DeepSeek's bars, <turn|>
      | (?: [/／] | %2f | &\#0*47;? | &\#x0*2f;? | &sol;? )? {_HIDDEN} (?:\w{{1,16}}:)? (?:{_NAMES})
        (?![\w-]) [^<>]{{0,100}}
        (?: [>＞〉▷] | &(?:amp;){{0,4}}gt | &\# | \\u003e | \\x3e | %3e ) ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BREAK = re.compile(rf"(\n|{ODD_BREAK.pattern})")
_BRACKET = re.compile(
    r"\[(?=\|[a-z]{1,16}\|\]|/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_[A-Z]+|THINK|ARGS|CALL_ID|gMASK)\])"
)


def inert(text: str, tools: tuple[str, ...] = ()) -> str:
    """Quote lines that look like a protocol label, a role or a call; break tags and tokens.

    Such a line gets `| ` before it; such a tag begins with `‹` for `<`, such a token with `⟦`
    for `[`. Other text stays as it is. Doing it twice changes nothing more.

    Args:
        tools: names of the tools that a call may name.
    """
    text = without_tags(text)
    named = tuple(name for name in tools if name in text)
    if named:
        text = _without_calls(text, named)
    # At even places the lines, at odd ones what separates them.
    parts = _BREAK.split(text)
    parts[::2] = [QUOTE + line if _announces(line) else line for line in parts[::2]]
    return "".join(parts)


def without_tags(text: str) -> str:
    """Break tags and tokens only: for lines that are quoted already."""
    return _BRACKET.sub("⟦", _TAG.sub("‹", text))


def _without_calls(text: str, tools: tuple[str, ...]) -> str:
    """Quote the lines in which a tool's name stands as in a call."""
    parts: list[str] = []
    done = end = 0
    for found in _calls(tools).finditer(text):
        if found.start() < end:  # another one in the same line
            continue
        line = text.rfind("\n", 0, found.start()) + 1
        end = line_end(text, found.start(), len(text))
        if not text.startswith(QUOTE, line):
            parts += [text[done:line], QUOTE]
            done = line
    return "".join([*parts, text[done:]])


@lru_cache(maxsize=64)
def _calls(tools: tuple[str, ...]) -> re.Pattern[str]:
    """A call of one of these: in JSON as a value or as a key, or with its arguments behind it."""
    name = "(?:" + "|".join(map(re.escape, tools)) + ")"
    quote = r"(?:\\{0,4}[\"'“”‘’＂]|&quot;)"
    return re.compile(
        rf"(?i:{'|'.join(NAME_KEYS)}){quote}?\s{{0,8}}[:：]\s{{0,8}}{quote}\s?(?:\w{{1,12}}[.:/])?{name}\s?{quote}"
        rf"|{quote}{name}{quote}\s{{0,8}}[:：]\s{{0,8}}[{{｛]"
        rf"|(?<!\w){name}(?:[(（]|\[(?:ARGS|CALL_ID)\]|\s{{0,8}}[{{｛])"
    )


def _announces(line: str) -> bool:
    forms = [line]
    if not line.isascii():
        forms.append(unicodedata.normalize("NFKC", line[:_LABEL_CHARS]))
    return any(may_be_label(form) or RESULT_HEAD.match(form) or _ROLE.match(form) for form in forms)
