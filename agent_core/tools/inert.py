"""Keep foreign text from being taken for the agent's own protocol.

A tool result or a retrieved passage may hold a line such as `Final Answer: …` or a chat
template's tokens, by accident or on purpose. A reader sees what stood there; a parser, a model
and a template see no label, no role and no tag.
"""

from __future__ import annotations

import re
import unicodedata

from agent_core.parsing.disguise import ODD_BREAK, may_be_label

QUOTE = "| "

_HIDDEN = r"[\s\u00ad\u180e\u200b-\u200f\u2060-\u2064\ufeff]{0,8}"
_ROLE = re.compile(
    r"(?:[\s*_#]{0,8}(?:ai|bot|developer|人类|机器人)|\#{1,6}\s{0,3}(?:instruction|response)s?)"
    r"[\s*_]{0,8}[:：]",
    re.IGNORECASE,
)
_LABEL_CHARS = 80  # a line is not read further for a label in full-width letters
_TAG = re.compile(
    rf"""
    (?: [<＜〈◁] | &(?:amp;){{0,4}}lt;? | &\#0*60;? | &\#x0*3c;? | \\u003c | \\x3c | %3c )
    (?= {_HIDDEN} (?:
        [|｜]                                        # <|im_start|>, DeepSeek's wide bars
      | (?: [/／] | %2f | &\#0*47;? | &\#x0*2f;? | &sol;? )? {_HIDDEN}
        (?: tool_?(?:call|response|result|output)s? | function_?(?:call|response|result)s?
          | tool_code | function | invoke | observations?
          | retriev(?:ed|al) | context | documents? | passages?
          | knowledge | search_?results? | think(?:ing)? | thought | reasoning | answer
          | system | user | assistant | (?:start|end)_of_turn | [be]os | s )
        (?![\w-]) [^<>]{{0,100}}
        (?: [>＞〉▷] | &(?:amp;){{0,4}}gt | &\# | \\u003e | \\x3e | %3e ) ) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BREAK = re.compile(rf"(\n|{ODD_BREAK.pattern})")
_BRACKET = re.compile(r"\[(?=/?(?:INST|SYS|AVAILABLE_TOOLS|TOOL_[A-Z]+|THINK)\])")


def inert(text: str) -> str:
    """Quote lines that look like a protocol label or a role, and break tags and tokens.

    Such a line gets `| ` before it; such a tag begins with `‹` for `<`, such a token with `⟦`
    for `[`. Other text stays as it is. Doing it twice changes nothing more.
    """
    # At even places the lines, at odd ones what separates them.
    parts = _BREAK.split(without_tags(text))
    parts[::2] = [QUOTE + line if _announces(line) else line for line in parts[::2]]
    return "".join(parts)


def without_tags(text: str) -> str:
    """Break tags and tokens only: for lines that are quoted already."""
    return _BRACKET.sub("⟦", _TAG.sub("‹", text))


def _announces(line: str) -> bool:
    forms = [line]
    if not line.isascii():
        forms.append(unicodedata.normalize("NFKC", line[:_LABEL_CHARS]))
    return any(may_be_label(form) or _ROLE.match(form) for form in forms)
