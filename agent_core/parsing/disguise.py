"""Labels in disguise: invisible characters, look-alike letters, full width, odd line breaks.

The parser reads such labels and `agent_core.tools.inert` disarms them; both ask here.
"""

from __future__ import annotations

import re

from agent_core.parsing.labels import Label, label_at, stands_out

INVISIBLE = re.compile(r"[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
ODD_BREAK = re.compile(r"\r(?!\n)|[\x0b\x0c\x85\u2028\u2029]")
"""What a reader may take for a line break, beside the usual ones."""

LOOK_ALIKES = {
    **str.maketrans("АаВЕеЅѕТтОоРрСсІіНһпуԛΑΒΕΙΝΟΡΤοѵ", "AaBEeSsTtOoPpCcIiHhnyqABEINOPTov"),
    **{0xFF21 + i: ord("A") + i for i in range(26)},
    **{0xFF41 + i: ord("a") + i for i in range(26)},
    **dict.fromkeys((0x3000, 0xA0, 0x2007, 0x202F), ord(" ")),
}
_OBJECT = re.compile(r"[{｛\[`]")
_NAME = re.compile(r"[\w.-]++(?:[ \t]*+[{｛(（\[［]|[ \t\r]*+\Z)")
_HEAD = 64  # characters of a line in which a label can stand


def disguised_label(text: str, pos: int = 0) -> Label | None:
    """The label in disguise that would begin a line at `pos`, if it has a colon.

    Its `end` counts characters of `text`; `word` is in plain ones.
    """
    head = text[pos : pos + _HEAD]
    if head.isascii():
        return None
    head = head.split("\n", 1)[0]
    plain = INVISIBLE.sub("", head).translate(LOOK_ALIKES)
    raw = label_at(head, 0)
    if plain == head or (raw is not None and raw.separated):
        return None
    label = label_at(plain, 0)
    if label is None or not label.separated:
        return None
    # It ends at the same visible character as in plain text.
    visible = end = 0
    while end < len(head) and visible < label.end:
        visible += 0 if INVISIBLE.match(head[end]) else 1
        end += 1
    alone = label.alone and len(plain) < _HEAD
    return label._replace(start=pos, end=pos + end, alone=alone)


def plain_label(text: str, label: Label) -> str:
    """How a disguised label is written in plain characters."""
    return INVISIBLE.sub("", text[label.start : label.end]).translate(LOOK_ALIKES)


def colon_label(text: str, pos: int) -> Label | None:
    """The label with a colon, disguised or not, that would begin a line at `pos`."""
    label = label_at(text, pos)
    return label if label is not None and label.separated else disguised_label(text, pos)


def may_be_label(line: str) -> bool:
    """Whether some reply could make a label of how `line` begins, with or without its colon."""
    if disguised_label(line) is not None:
        return True
    label = label_at(line, 0)
    if label is None:
        return False
    if label.separated or label.alone or stands_out(line, label):
        return True
    if not label.strong or label.kind not in {"action", "input"}:
        return False
    value = _OBJECT.match(line, label.end)
    return value is not None or (label.kind == "action" and bool(_NAME.match(line, label.end)))
