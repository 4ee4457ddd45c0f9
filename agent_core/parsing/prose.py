"""Prose: what in it looks like a call, though nothing announces one."""

from __future__ import annotations

import re
from itertools import pairwise

from agent_core.parsing.toolset import Toolset, visible

_AFTER_COLON = re.compile(r"[:：=>][ \t]*+([^:：=>\n]+)\Z")
_OPENINGS = (
    '{"name"', '{ "name"', "{'name'", '{"tool', '{"function', '{"action"', '{"type"', "{name:",
)  # fmt: skip
_OPENERS = str.maketrans("｛［", "{[")
_EMPTY_FENCE = re.compile(r"(`{3,}+|~{3,}+)[\w+-]*+\s*+(?>\1)?+")
_DATA = re.compile(r"(?>[`~]{3,}+[\w+-]*+\s*+\w*+\s*+)?+[\[{｛\"'<|]|[\w.-]++\s++\(\s*+\w+\s*+=")
_DAMAGED = re.compile(  # a tool's name and its arguments, in markup or JSON that was not read
    r"[\"'“]([\w.-]{1,64})[\"'”](?=\s*+[,，}\n][^{]{0,40}?"
    r"(?:arguments|parameters|args|params|(?:action|tool)_input)[\"'”]?\s*+[:：=]\s*+[\"'{｛])"
    r"|([\w.-]{1,64})(?:\[ARGS\]|<[|｜]tool[▁_ ]sep[|｜]>)\s*+[{｛`]"
    r"|\A\[?+\s*+([\w.-]{1,64})\s++\(\s*+\w+\s*+="
)
_READ = 2_000  # characters of a reply in which a damaged call is looked for
_LINES = 40  # lines of a reply that are looked at


def is_blank(words: str) -> bool:
    """Whether nothing is said: blanks, invisible characters, an empty fence or value."""
    seen = visible(words).translate(_OPENERS).strip()
    bare = seen.strip("`~ \n").removeprefix("json").strip()
    blank = bare in {"", "null", "None", "{}", "[]", "{", "[", "[{"}
    return blank or _EMPTY_FENCE.fullmatch(seen) is not None


def call_in_prose(text: str, pos: int) -> int:
    """Where JSON that may be a call begins inside a line, from `pos` on; -1 if nowhere."""
    found = (text.find(opening, pos) for opening in _OPENINGS)
    return min((at for at in found if at >= 0), default=-1)


def meant_as_call(words: str, tools: Toolset) -> bool:
    """Whether words that were not read as a call can be meant as nothing else.

    A line ends in a tool's name after a colon, and JSON stands under it; or the reply is data
    that names a tool and its arguments.
    """
    if _DATA.match(words) is not None:
        for damaged in _DAMAGED.finditer(words[:_READ]):
            if tools.find(damaged[damaged.lastindex or 0]) is not None:
                return True
    for line, below in pairwise(words.split("\n", _LINES)[:_LINES]):
        name = _AFTER_COLON.search(line[-100:])
        if name is not None and "{" in below and tools.find(name[1]) is not None:
            return True
    return False
