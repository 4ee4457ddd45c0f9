"""What is set right before the pass: broken surrogates, disguised labels, a reply in a string.

Only labels are touched; values reach the pass as the model wrote them.
"""

from __future__ import annotations

import html
import json
import re
from itertools import islice

from agent_core.parsing.disguise import (
    INVISIBLE,
    LOOK_ALIKES,
    ODD_BREAK,
    colon_label,
    disguised_label,
    plain_label,
)
from agent_core.parsing.labels import label_at
from agent_core.parsing.outcome import RepairLog

_HALF = re.compile(r"[\ud800-\udfff]")
_MAX_LINES = 10_000  # lines looked at; what is further down stays as it is
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
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        mended, halves = _HALF.subn("\ufffd", joined)
        return mended, halves > 0
    return text, False


def reveal_labels(text: str, log: RepairLog) -> str:
    """Put labels at the start of a line into plain characters, line breaks included."""
    if text.isascii() and "\r" not in text and "\x0b" not in text and "\x0c" not in text:
        return text
    if ODD_BREAK.search(text):
        text = _break_lines(text, log)
    plain = text.translate(LOOK_ALIKES)
    if plain == text and not INVISIBLE.search(text):
        return text
    lines = text.split("\n")
    for index, line in enumerate(lines[:_MAX_LINES]):
        lines[index] = _revealed(line, log)
    return "\n".join(lines)


def _break_lines(text: str, log: RepairLog) -> str:
    """Unusual line breaks count where a label follows; where no others stand, all of them do."""
    everywhere = "\n" not in text
    found = _line_ends(text, ODD_BREAK, everywhere=everywhere)
    for each in found:
        log.add("line_break", each.start(), repr(each.group()), "\\n")
    return _with_breaks(text, found)


def _line_ends(text: str, pattern: re.Pattern[str], *, everywhere: bool) -> list[re.Match[str]]:
    """The breaks before labels; with `everywhere`, all of these kinds outside strings."""
    found = []
    kinds = set()
    quotes = seen = 0
    for each in islice(pattern.finditer(text), _MAX_LINES):
        quotes += text.count('"', seen, each.start()) - text.count('\\"', seen, each.start())
        seen = each.start()
        if everywhere and quotes % 2:
            continue
        if colon_label(text, each.end()) is not None:
            kinds.add(each.group())
        elif not everywhere:
            continue
        found.append(each)
    return [each for each in found if each.group() in kinds]


def _with_breaks(text: str, found: list[re.Match[str]]) -> str:
    """`text` with plain line breaks in place of those found."""
    parts = []
    start = 0
    for each in found:
        parts += [text[start : each.start()], "\n"]
        start = each.end()
    return "".join([*parts, text[start:]])


def _revealed(line: str, log: RepairLog) -> str:
    label = disguised_label(line)
    if label is None:
        return line
    plain = plain_label(line, label)
    log.add("label", 0, line[: label.end], plain)
    return plain + line[label.end :]


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
    if text.count('"', 0, start) % 2:
        return text  # it stands in a string
    end = text.find("\n", start)
    line = text[start : end if end >= 0 else len(text)]
    if '"' in line.replace(mark, ""):
        return text
    log.add("quotes", start, mark, '"')
    plain = html.unescape(line) if mark == "&quot;" else line.replace(mark, '"')
    plain = plain.replace("\\\\", "\\") if mark == '\\"' else plain
    return text[:start] + plain + text[start + len(line) :]


def _unescaped(text: str, log: RepairLog) -> str:
    """A reply whose line breaks were escaped, with real ones; those in strings stay."""
    whole = _with_breaks(text, _line_ends(text, _ESCAPED_BREAK, everywhere=True))
    if whole != text:
        log.add("escaped_reply", 0, text, whole)
    return whole
