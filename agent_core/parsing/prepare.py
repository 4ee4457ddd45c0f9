"""What is set right before the pass: broken surrogates, disguised labels, a reply in a string.

Only labels are touched; values reach the pass as the model wrote them.
"""

from __future__ import annotations

import html
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
    **dict.fromkeys((0x3000, 0xA0, 0x2007, 0x202F), ord(" ")),
}
_BREAKS = re.compile(r"\r(?!\n)|[\x0b\x0c\x85\u2028\u2029]")
_MAX_LINES = 10_000  # lines looked at; what is further down stays as it is
_HEAD = 64  # characters of a line in which a label can stand
_ESCAPED_CALL = re.compile(
    r'"?\s*+\{\s*+\\"(?:name|tool|tool_name|function|action|tool_calls?)\\"\s*+:'
)
_DISGUISED_QUOTE = re.compile(r'\{[ ]?(\\"|""|&quot;)(?=\w)')
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
    """A whole reply that is one JSON string, or whose line breaks or quotes were escaped."""
    bare = text.strip()
    quoted = bare[:1] == '"' and bare[-1:] == '"' and len(bare) > 1
    if quoted or _ESCAPED_CALL.match(bare):
        try:
            inner = json.loads(bare if quoted else f'"{bare}"', strict=False)
        except (ValueError, RecursionError):
            return text
        is_call = _ESCAPED_CALL.match(bare) is not None
        if isinstance(inner, str) and (is_call or label_at(inner, 0) is not None):
            log.add("wrapped_reply", 0, bare, inner)
            return inner
    if "\n" not in bare and "\\n" in bare and label_at(bare, 0) is not None:
        text = _unescaped(bare, log)
    return _with_quotes(_outdented(text, log), log)


def _outdented(text: str, log: RepairLog) -> str:
    """The labels of a reply that is indented from its first line on, without the indent."""
    body = text.lstrip("\r\n")
    indent = body[: len(body) - len(body.lstrip(" \t"))]
    first = label_at(body, len(indent)) if len(indent.expandtabs(4)) >= 4 else None
    if first is None or not first.separated:
        return text
    log.add("indent", 0, indent, "")
    parts = ("\n" + body).split("\n" + indent, _MAX_LINES)
    glue = ["" if label_at(part, 0) else indent for part in parts[1:]]
    return parts[0] + "".join(f"\n{g}{part}" for g, part in zip(glue, parts[1:], strict=True))


def _with_quotes(text: str, log: RepairLog) -> str:
    """An object on one line whose quotes are all escaped, doubled or entities, with plain ones."""
    found = _DISGUISED_QUOTE.search(text)
    label = label_at(text, len(text) - len(text.lstrip())) if found else None
    if found is None or label is None or label.kind not in {"thought", "action"}:
        return text
    start, mark = found.start(), found[1]
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    if '"' in line.replace(mark, ""):
        return text
    log.add("quotes", start, mark, '"')
    plain = html.unescape(line) if mark == "&quot;" else line.replace(mark, '"')
    plain = plain.replace("\\\\", "\\") if mark == '\\"' else plain
    return text[:start] + plain + text[start + len(line) :]


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
    return whole
