"""Blocks whose text is data: fences, block quotes, examples, comments, quotations."""

from __future__ import annotations

import re

from agent_core.parsing.labels import label_at

_FENCE = re.compile(r"(`{3,}+|~{3,}+|'{3}|\"{3})")
ELEMENTS = (
    "example", "quote", "blockquote", "document", "context", "retrieved", "note", "pre", "code",
    "del", "results", "function_result", "function_results", "tool_result", "tool_results",
    "search_results", "user", "system",
)  # fmt: skip
"""Markup whose content is data."""

_ELEMENT = re.compile(rf"<({'|'.join(ELEMENTS)})\b[^<>\n]{{0,100}}+>")
_OPENING = {'"': '"', "“": "”", "「": "」", "『": "』"}
_LOOK_BACK = 300  # characters of the line before a label


def next_line(text: str, pos: int) -> int:
    """The start of the line after the one that `pos` stands on, or the end."""
    found = text.find("\n", pos)
    return found + 1 if found >= 0 else len(text)


def past_fence(text: str, pos: int, mark: str) -> int:
    """The line after the fence that closes the one opened before `pos`, or the end."""
    at = pos
    while at < len(text):
        at = next_line(text, at)
        begin = at
        while begin < len(text) and text[begin] in " \t\r":
            begin += 1
        if text.startswith(mark, begin):
            return next_line(text, begin)
    return len(text)


def past_block(text: str, first: int) -> int:
    """The end of the block of data that begins at the visible character `first`, or `first`.

    A block that is never closed runs to the end: the reply may have been cut inside it.
    """
    char = text[first]
    if char in ">|":  # a quotation; the second is how tool results are quoted
        return next_line(text, first)
    if char in _OPENING and label_at(text, first + 1) is not None:
        end = text.find(_OPENING[char], first + 1)
        return end + 1 if end >= 0 else len(text)
    if char in "`~'\"":
        fence = _FENCE.match(text, first)
        return past_fence(text, fence.end(), fence[1]) if fence else first
    return _past_element(text, first) if char == "<" else first


def _past_element(text: str, first: int) -> int:
    element = _ELEMENT.match(text, first)
    if element is None and not text.startswith("<!--", first):
        return first
    closer = f"</{element[1]}>" if element else "-->"
    end = text.find(closer, first)
    return end + len(closer) if end >= 0 else len(text)


def past_quotation(text: str, line: int) -> int:
    """The end of a quotation that the line before `line` opens at its end, or -1."""
    before = text[max(0, line - _LOOK_BACK) : line].rstrip().rsplit("\n", 1)[-1]
    mark = before[-1:]
    if mark not in _OPENING or (mark == '"' and before.count('"') % 2 == 0):
        return -1
    end = text.find(_OPENING[mark], line)
    return end + 1 if end >= 0 else len(text)


def is_quotation_open(words: str) -> bool:
    """Whether a quotation or a code span is open at the end of `words`."""
    odd = any(words.count(mark) % 2 for mark in '"`')
    return odd or any(words.count(a) > words.count(b) for a, b in _OPENING.items() if a != b)
