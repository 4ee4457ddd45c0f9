"""The block structure of Markdown and plain text: headings, fences, tables, paragraphs.

One pass over the lines. Only what matters for cutting is told apart: where a section begins,
and what must stay in one piece. Every block includes the blank lines after it, so that the
blocks tile the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["blank", "heading", "paragraph", "fence", "table"]

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LIST_OR_QUOTE = re.compile(r"[ \t]*(?:[-*+>][ \t]|\d{1,9}[.)][ \t]|>)")
_SETEXT_CHARS = 200
"""A paragraph longer than this is not a heading, whatever line is drawn under it."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of the source, `[start, end)` in code points, blank lines after it included.

    Attributes:
        level: of a heading, 1 to 6; otherwise 0.
        title: of a heading, without its marks; otherwise empty.
        head: what is repeated before a piece cut from inside: the opening line of a fence, the
            header and delimiter rows of a table.
        tail: what closes a piece cut from inside a fence.
    """

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""
    head: str = ""
    tail: str = ""


def lines_of(text: str) -> list[str]:
    r"""Split at `\n`, `\r\n` and `\r`, keeping them."""
    return _LINE.findall(text)


def parse_blocks(text: str) -> list[Block]:
    """Give the blocks of a text, in order, without a gap."""
    return _Scanner(text).scan()


class _Scanner:
    """Walks over the lines once; `at` is the line, `offset` its place in the text."""

    def __init__(self, text: str) -> None:
        self.offset = int(text.startswith("\ufeff"))  # a byte order mark is not text
        self.lines = lines_of(text[self.offset :])
        self.at = 0
        self.blocks: list[Block] = []

    def scan(self) -> list[Block]:
        self._blank()
        self._front_matter()
        while self.at < len(self.lines):
            line = self.lines[self.at]
            first = line.lstrip()[:1]
            if first == "#" and (match := _HEADING.match(line)):
                self._emit("heading", 1, level=len(match[1]), title=_atx_title(line))
            elif first in {"`", "~"} and (mark := _opens_fence(line)):
                self._fence(mark)
            elif self._table_at(self.at):
                self._table()
            else:
                self._paragraph()
        return self.blocks

    def _emit(self, kind: BlockKind, lines: int, **values: object) -> None:
        """Close a block of so many lines and the blank ones after it."""
        stop = self.at + lines
        while stop < len(self.lines) and not self.lines[stop].strip():
            stop += 1
        end = self.offset + sum(map(len, self.lines[self.at : stop]))
        if end > self.offset:
            self.blocks.append(Block(kind, self.offset, end, **values))  # type: ignore[arg-type]
        self.at, self.offset = stop, end

    def _blank(self) -> None:
        self._emit("blank", 0)

    def _front_matter(self) -> None:
        """YAML between two `---` lines at the very start: its last line is no underline."""
        if self.at or not self.lines or self.lines[0].rstrip() != "---":
            return
        for number, line in enumerate(self.lines[1:], 1):
            if line.rstrip() in {"---", "..."}:
                self._emit("paragraph", number + 1)
                return
            if not line.strip():
                return

    def _fence(self, mark: str) -> None:
        """Run to the closing line, or to the end of the text when there is none."""
        stop = self.at + 1
        while stop < len(self.lines) and not _closes_fence(self.lines[stop], mark):
            stop += 1
        opening = self.lines[self.at]
        indent = opening[: len(opening) - len(opening.lstrip())]
        stop = min(stop + 1, len(self.lines))
        newline = opening[len(opening.rstrip("\r\n")) :]
        self._emit("fence", stop - self.at, head=opening, tail=f"{indent}{mark}{newline}")

    def _table_at(self, at: int) -> bool:
        """Whether a header row and a delimiter row begin here."""
        return (
            at + 1 < len(self.lines)
            and "|" in self.lines[at]
            and _is_delimiter_row(self.lines[at + 1])
            and not _is_delimiter_row(self.lines[at])
        )

    def _table(self) -> None:
        stop = self.at + 2
        while stop < len(self.lines) and "|" in self.lines[stop]:
            stop += 1
        head = "".join(self.lines[self.at : self.at + 2])
        self._emit("table", stop - self.at, head=head)

    def _paragraph(self) -> None:
        """Everything up to a blank line or to what may interrupt a paragraph."""
        stop, size = self.at, 0
        while stop < len(self.lines):
            line = self.lines[stop]
            first = line.lstrip()[:1]
            if not first or (stop > self.at and self._interrupts(stop, line, first)):
                break
            titled = stop > self.at and size <= _SETEXT_CHARS
            if titled and first in {"=", "-"} and self._underlines(line):
                title = " ".join("".join(self.lines[self.at : stop]).split())
                level = 1 if first == "=" else 2
                self._emit("heading", stop + 1 - self.at, level=level, title=title)
                return
            stop += 1
            size += len(line)
        self._emit("paragraph", stop - self.at)

    def _interrupts(self, at: int, line: str, first: str) -> bool:
        if first == "#":
            return _HEADING.match(line) is not None
        if first in {"`", "~"}:
            return bool(_opens_fence(line))
        return "|" in line and self._table_at(at)

    def _underlines(self, line: str) -> bool:
        """Whether this line makes a setext heading of the paragraph so far."""
        body = line.strip()
        return (
            (not body.strip("=") or not body.strip("-"))
            and len(line) - len(line.lstrip(" ")) <= 3
            and not _LIST_OR_QUOTE.match(self.lines[self.at])
        )


def _atx_title(line: str) -> str:
    title = line.strip().lstrip("#").strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1:].isspace() else title


def _opens_fence(line: str) -> str:
    """The marks that open a fence, or an empty string."""
    match = _FENCE.match(line)
    if match is None or (match[1][0] == "`" and "`" in line[match.end() :]):
        return ""
    return match[1]


def _closes_fence(line: str, mark: str) -> bool:
    body = line.strip()
    return len(body) >= len(mark) and not body.strip(mark[0])


def _is_delimiter_row(line: str) -> bool:
    return "|" in line and "-" in line and not line.strip().strip("|-: \t")
