"""What is set right before the pass: broken surrogates, disguised labels, a reply in a string.

Only labels are touched; values reach the pass as the model wrote them.
"""

from __future__ import annotations

import json
import re
from itertools import islice

from agent_core.parsing.labels import label_at
from agent_core.parsing.outcome import RepairLog

_INVISIBLE = re.compile(r"[\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_LOOK_ALIKES = {
    **str.maketrans("АаВЕеЅѕТтОоРрСсІіНһпуԛΑΒΕΙΝΟΡΤοѵ", "AaBEeSsTtOoPpCcIiHhnyqABEINOPTov"),
    **{0xFF21 + i: ord("A") + i for i in range(26)},
    **{0xFF41 + i: ord("a") + i for i in range(26)},
    0x3000: ord(" "),
}
_BREAKS = re.compile(r"\r(?!\n)|[\x0b\x0c\x85\u2028\u2029]")
_MAX_LINES = 10_000  # lines looked at; what is further down stays as it is
_HEAD = 64  # characters of a line in which a label can stand
_ESCAPED_BREAK = re.compile(r"(?<!\\)(?:\\r)?\\n")


def mend_surrogates(text: str) -> tuple[str, bool]:
    """Join surrogate pairs and replace halves; tells whether there were halves."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return joined, "\ufffd" in joined
    return text, False


def reveal_labels(text: str, log: RepairLog) -> str:
    """Put labels at the start of a line into plain characters, line breaks included."""
    if text.isascii() and "\r" not in text and "\x0b" not in text and "\x0c" not in text:
        return text
    if _BREAKS.search(text):
        text = _break_lines(text, log)
    plain = text.translate(_LOOK_ALIKES)
    if plain == text and not _INVISIBLE.search(text):
        return text
    lines = text.split("\n")
    for index, line in enumerate(lines[:_MAX_LINES]):
        lines[index] = _revealed(line, log)
    return "\n".join(lines)


def _break_lines(text: str, log: RepairLog) -> str:
    """Unusual line breaks count where a label follows."""
    parts = []
    start = 0
    for found in islice(_BREAKS.finditer(text), _MAX_LINES):
        label = label_at(text, found.end())
        if label is not None and label.separated:
            parts += [text[start : found.start()], "\n"]
            log.add("line_break", found.start(), repr(found.group()), "\\n")
            start = found.end()
    return "".join([*parts, text[start:]])


def _revealed(line: str, log: RepairLog) -> str:
    head = line[:_HEAD]
    plain = _INVISIBLE.sub("", head).translate(_LOOK_ALIKES)
    raw = label_at(head, 0)
    if plain == head or (raw is not None and raw.separated):
        return line
    label = label_at(plain, 0)
    if label is None or not label.separated:
        return line
    # The label ends at the same visible character in the original line.
    visible = 0
    end = 0
    while end < len(head) and visible < label.end:
        visible += 0 if _INVISIBLE.match(head[end]) else 1
        end += 1
    log.add("label", 0, head[:end], plain[: label.end])
    return plain[: label.end] + line[end:]


def unwrap(text: str, log: RepairLog) -> str:
    """A whole reply that is one JSON string, or whose line breaks were escaped."""
    bare = text.strip()
    if bare[:1] == '"' and bare[-1:] == '"' and len(bare) > 1:
        try:
            inner = json.loads(bare, strict=False)
        except (ValueError, RecursionError):
            return text
        if isinstance(inner, str) and label_at(inner, 0) is not None:
            log.add("wrapped_reply", 0, bare, inner)
            return inner
    if "\n" not in bare and "\\n" in bare and label_at(bare, 0) is not None:
        return _unescaped(bare, log)
    return text


def _unescaped(text: str, log: RepairLog) -> str:
    """Turn escaped line breaks before a label into real ones, and the quotes with them."""
    parts = []
    start = 0
    quotes = 0
    seen = 0
    for found in _ESCAPED_BREAK.finditer(text):
        quotes += text.count('"', seen, found.start()) - text.count('\\"', seen, found.start())
        seen = found.start()
        label = label_at(text, found.end())
        if quotes % 2 == 0 and label is not None and label.separated:
            parts += [text[start : found.start()], "\n"]
            start = found.end()
    if not parts:
        return text
    whole = "".join([*parts, text[start:]])
    log.add("escaped_reply", 0, text, whole)
    if '\\"' in whole and not re.search(r'(?<!\\)"', whole):
        whole = whole.replace('\\"', '"').replace("\\\\", "\\")
    return whole
