"""What follows a decision: where its text is cut, and what may be passed over as residue."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from agent_core.parsing.blocks import next_line, past_block, past_quotation
from agent_core.parsing.labels import CUT_HEAD, LABEL_HEAD, Label, label_at
from agent_core.parsing.notations import skip_space, tag_at

_TURN = re.compile(
    r"<(?:tool_response|observation|[|｜](?:im_start|start_header_id|User|user|Assistant"
    r"|assistant|tool)[|｜])",
)
_RESIDUE = re.compile(r"[\s\ufeff\u200b-\u200f\u2060`*)\]}｝］）;；,.。…]++")
_HALF_STOP = ("observation:", "观察：", "观察:", "观察结果")
_CLOSING_TAG = re.compile(r"</(?:final_?)?answer>\Z", re.IGNORECASE)
_END_TOKEN = re.compile(r"(?:<[|｜][^|｜<>\s]{1,40}[|｜]>|</s>|<eos>|<end_of_turn>|\[/INST\])\s*\Z")
_NEXT_TURN = re.compile(
    r"(?:<[|｜](?:im_end|eot_id|eom_id|end)[|｜]>|</s>|<end_of_turn>)\s*+"
    r"(?:<[|｜](?:im_start|start_header_id|user)[|｜]>|<start_of_turn>|\[INST\])"
)


@dataclass(frozen=True, slots=True)
class Ending:
    """Where the text of a decision stops, and at what: a kind of label, `turn`, or None."""

    pos: int
    kind: str | None


@cache  # milliseconds, for replies of many lines only
def _dull_lines(head: str) -> re.Pattern[str]:
    """Lines that begin with no such head, nor with what may hold one."""
    return re.compile(
        rf"(?>(?!{head}|[ \t\r]*+(?:```|~~~|'''|\"\"\"|>|<))[^\n]*+\n)*+", re.IGNORECASE
    )


def next_cut(text: str, pos: int, *, inputs: bool = False, indent: int = 0) -> Ending:
    """The next line from `pos` on that begins something else, outside fences and quotes.

    `pos` stands inside a line, whose rest is passed over. With `inputs`, labels of an action's
    input count too. Labels four columns further in than `indent` are quoted.
    """
    at = next_line(text, pos)
    dull_lines = _dull_lines(LABEL_HEAD if inputs else CUT_HEAD)
    while at < len(text):
        dull = dull_lines.match(text, at)
        at = dull.end() if dull else at
        first = skip_space(text, at)
        if first >= len(text):
            break
        at = text.rfind("\n", at, first) + 1 or at
        if _TURN.match(text, first):
            return Ending(at, "observation" if "esponse" in text[first : first + 20] else "turn")
        after = past_block(text, first)
        label = label_at(text, at) if after == first else None
        if label is not None and label.indent < indent + 4 and _cuts(text, label, inputs=inputs):
            quotation = past_quotation(text, at)
            if quotation < 0:
                return Ending(at, label.kind)
            after = quotation
        at = after if after > first else next_line(text, first)
    return Ending(len(text), None)


def _cuts(text: str, label: Label, *, inputs: bool) -> bool:
    if label.kind == "input":
        return inputs and (label.separated or label.alone or text[label.end : label.end + 1] == "{")
    if label.kind in {"question", "turn"}:
        return label.separated
    return label.strong and (label.separated or label.alone)


def turn_in(text: str) -> int:
    """Where a turn of someone else begins in prose, as chat templates mark it, or the end."""
    found = [
        text.find(mark) for mark in ("\n<tool_response>", "<|im_start|>", "<|start_header_id|>")
    ]
    return min((at for at in found if at > 0), default=len(text))


def residue(text: str, pos: int) -> int:
    """Past what may trail a call without meaning anything: closers, tags, fences, comments."""
    while pos < len(text):
        start = pos
        found = _RESIDUE.match(text, pos)
        pos = found.end() if found else pos
        if text.startswith("<tool_response", pos):
            break
        pos = tag_at(text, pos)
        if text.startswith("\\n", pos):
            pos += 2
        if text.startswith(("//", "#"), pos):
            pos = next_line(text, pos)
        elif text.startswith("/*", pos) or text.startswith("<!--", pos):
            closer = "*/" if text[pos] == "/" else "-->"
            end = text.find(closer, pos)
            pos = end + len(closer) if end >= 0 else len(text)
        if pos == start:
            break
    rest = text[pos : pos + 20].lower()
    if rest and len(text) - pos < 20 and any(stop.startswith(rest) for stop in _HALF_STOP):
        return len(text)
    return pos


def clean_answer(text: str, bold: str = "") -> str:
    """An answer without end tokens, half a stop string, or bold marks opened by its label."""
    turn = _NEXT_TURN.search(text)
    text = text[: turn.start() if turn else None].strip()
    end = len(text)
    while token := _END_TOKEN.search(text, max(0, end - 60), end):
        end = token.start()
    text = text[:end].rstrip()
    text = _CLOSING_TAG.sub("", text).rstrip()
    last = text.rfind("\n") + 1
    tail = text[last:].strip().lower()
    if last and len(tail) > 3 and "observation:".startswith(tail):
        text = text[:last].rstrip()
    if bold and text.endswith(bold):
        text = text.removesuffix(bold).rstrip()
    return text
