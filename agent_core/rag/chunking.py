"""Documents to chunks: heading → paragraph → sentence, nothing lost, never over the limit.

What fits is never cut. A section (a heading and what follows it) is a border that no chunk
crosses. Inside it, blocks are packed into chunks; a paragraph that does not fit is taken by
sentences, a sentence by lines, clauses, words and at last by user-perceived characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agent_core.errors import ConfigError
from agent_core.messages import Chunk, JsonValue
from agent_core.rag.markdown import Block, lines_of, parse_blocks
from agent_core.rag.sentences import (
    clause_ends,
    hard_cut,
    joins,
    line_ends,
    reads_well,
    sentence_ends,
    word_ends,
)

_Ends = Callable[[str, int, int], Iterator[int]]
_PROSE: tuple[_Ends, ...] = (sentence_ends, line_ends, clause_ends, word_ends)
_LINES: tuple[_Ends, ...] = (word_ends,)


def chunk_text(
    text: str,
    *,
    source: str = "text",
    chunk_size: int = 500,
    overlap: int = 0,
    metadata: Mapping[str, JsonValue] | None = None,
) -> list[Chunk]:
    """Cut a Markdown or plain text, Chinese or English, into chunks.

    Every character that is not white space is in a chunk. `chunk.text` is
    `text[chunk.start:chunk.end]`; where a long table or code fence had to be cut, its header
    rows or its fence marks are repeated around that, and the metadata keep them as
    `repeated_before` and `repeated_after`. White space belongs to the chunk before it as far
    as it fits. Lone surrogates become U+FFFD first (surrogate pairs the character they mean):
    offsets are code points of that text.

    Args:
        text: the decoded document.
        source: where it comes from; the first part of every chunk's id.
        chunk_size: characters of a chunk's text at most, repeated parts included.
        overlap: up to so many characters from the end of a chunk begin the next one, in whole
            sentences or words. Never over a heading, into a table or into a fence.
        metadata: goes into every chunk's metadata, beside `headings`, the titles from the
            outermost in, and `cut_character` on a chunk that ends inside a user-perceived
            character longer than the limit.

    Raises:
        ConfigError: `chunk_size` is not positive, or `overlap` is not smaller than it.
    """
    if chunk_size < 1:
        raise ConfigError(f"chunk_size must be at least 1 character, got {chunk_size!r}")
    if not 0 <= overlap < chunk_size:
        raise ConfigError(
            f"overlap must be from 0 to less than chunk_size ({chunk_size!r}), got {overlap!r}; "
            "a tenth of chunk_size is usual"
        )
    packer = _Packer(valid_unicode(text), source, chunk_size - overlap, overlap, metadata or {})
    return packer.pack()


def valid_unicode(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, so that it can be encoded."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class _Packer:
    """Fills one chunk after another.

    The open chunk is `prefix + text[start:end] + suffix`; of it, `text[start:fresh]` is
    overlap. `head` and `tail` belong to the fence or table that is being cut, if any.
    """

    def __init__(
        self,
        text: str,
        source: str,
        room: int,
        overlap: int,
        metadata: Mapping[str, JsonValue],
    ) -> None:
        self.text, self.source, self.room, self.overlap = text, source, room, overlap
        self.metadata = metadata
        self.chunks: list[Chunk] = []
        self.path: list[tuple[int, str]] = []
        self.titles: list[str] = []
        self.open = self.only_headings = False
        self.start = self.fresh = self.end = self.done = 0
        self.prefix = self.suffix = self.head = self.tail = ""
        self.border = 0  # overlap does not reach back over it

    def pack(self) -> list[Chunk]:
        for block in parse_blocks(self.text):
            if block.kind == "heading":
                self._heading(block)
            elif block.head and block.end - block.start > len(block.head):
                if not self._goes_in_whole(block.start, block.end):
                    self._cut_by_lines(block)
                self.border = block.end
            else:
                self._add(block.start, block.end, _PROSE)
            self.only_headings = block.kind == "heading"
        self._flush()
        return self.chunks

    def _heading(self, block: Block) -> None:
        """Begin a section; a heading without a text of its own stays with its first child."""
        goes_on = self.only_headings and self.path[-1][0] < block.level
        if not (goes_on and self._fits(block.end)):
            self._flush()
            self.border = block.start
        while self.path and self.path[-1][0] >= block.level:
            self.path.pop()
        self.path.append((block.level, block.title))
        self.titles = [title for _, title in self.path if title]
        self._add(block.start, block.end, _PROSE)

    def _goes_in_whole(self, start: int, end: int) -> bool:
        """Add a piece if it fits here or into a new chunk."""
        solid = self._solid(start, end)
        if not self._fits(end):
            if solid - start > self.room:
                return False
            self._flush()
        self._extend(start, end)
        return True

    def _cut_by_lines(self, block: Block) -> None:
        """Cut a fence or a table between its lines; each piece gets its head and its tail."""
        text = self.text[block.start : block.end]
        rows = lines_of(text[len(block.head) :].rstrip()) or [""]
        if block.tail and len(rows) > 1:  # the line that closes a fence never stands alone
            rows[-2:] = ["".join(rows[-2:])]
        repeated = len(block.head) + len(block.tail) < self.room // 2
        self.tail = block.tail if repeated else ""
        start = block.start
        if len(block.head) + len(rows[0]) + self._reserve() <= self.room:
            rows[0] = block.head + rows[0]  # nor does the head
        else:
            self._add(start, start + len(block.head), _LINES)
            start += len(block.head)
            self.head = block.head if repeated else ""
        for row in rows[:-1]:
            self._add_row(start, start + len(row), whole=not block.tail)
            self.head = block.head if repeated else ""
            start += len(row)
        if self._fits(block.end, closing=True):
            self._extend(start, block.end)
        else:
            self._add_row(start, block.end, whole=not block.tail)
        self.head = self.tail = self.suffix = ""

    def _add_row(self, start: int, end: int, *, whole: bool) -> None:
        """Add a line; a table's row rather stands without its header than is cut."""
        length = self._solid(start, end) - start
        if whole and self.room - len(self.head) < length <= self.room:
            self._flush()
            self._extend(start, end, prefix="")
            self._flush()
        else:
            self._add(start, end, _LINES)

    def _add(self, start: int, end: int, levels: tuple[_Ends, ...]) -> None:
        """Put a piece into the open chunk, or into the next, or take it apart."""
        solid = self._solid(start, end)
        if solid == start or self._fits(end):
            self._extend(start, end)
        elif (
            solid - start <= self.room - len(self.head) - self._reserve()
            and not (self.only_headings and levels is _PROSE)  # no heading at a chunk's end
        ):
            self._flush()
            self._extend(start, end)
        elif levels:
            for stop in levels[0](self.text, start, end):
                self._add(start, stop, levels[1:])
                start = stop
        else:
            self._cut_hard(start, solid, end)

    def _cut_hard(self, start: int, solid: int, end: int) -> None:
        """Cut a piece that has no mark to go by."""
        if self._left(start) < max(1, self.room // 2):
            self._flush()
        floor = start
        while start < solid:
            stop, broken = hard_cut(self.text, start, start + self._left(start), floor)
            if broken and self.open:  # it may fit into a chunk of its own
                self._flush()
                continue
            if stop >= solid:
                self._extend(start, end)
                return
            self._extend(start, stop)
            self._flush(broken=broken)
            start = stop
            if not broken:
                floor = stop

    def _solid(self, start: int, end: int) -> int:
        """Where the text of a piece ends and its trailing white space begins."""
        return start + len(self.text[start:end].rstrip())

    def _reserve(self) -> int:
        """Characters kept free to close a fence: its marks, and a newline before them."""
        return len(self.tail) + 1 if self.tail else 0

    def _left(self, at: int) -> int:
        """Characters that the chunk can take which is open, or which would be opened at `at`."""
        used = len(self.prefix) + at - self.fresh if self.open else len(self.head)
        return self.room - used - self._reserve()

    def _fits(self, end: int, *, closing: bool = False) -> bool:
        """Whether the open chunk can go on to `end`."""
        reserve = 0 if closing else self._reserve()
        return self.open and len(self.prefix) + end - self.fresh + reserve <= self.room

    def _extend(self, start: int, end: int, prefix: str | None = None) -> None:
        """Let the open chunk go on to `end`; open one at `start` if there is none."""
        if not self.open:
            self.open = True
            self.prefix = self.head if prefix is None else prefix
            blanks_fit = end - self.done <= self.room - self._reserve()
            self.fresh = self.done if blanks_fit and not self.head else start
            self.start = self.fresh if self.head else self._overlap_start(self.fresh)
        self.end = end
        self.suffix = self.tail

    def _overlap_start(self, start: int) -> int:
        """How far the chunk that begins at `start` reaches back into the one before it."""
        if not self.overlap or not self.chunks:
            return start
        before = self.chunks[-1].start
        low = max(start - self.overlap, self.border, before)
        if low >= start or not self.text[low:start].strip():
            return start
        for ends in (sentence_ends, word_ends):
            first = next(ends(self.text, low, start))
            if first < start:
                return first
        good = (at for at in range(low + 1, start) if reads_well(self.text, at, before))
        return next(good, start)

    def _flush(self, *, broken: bool = False) -> None:
        """Close the open chunk, unless it is blank."""
        if not self.open:
            return
        self.open = False
        room = self.room - len(self.prefix) - (len(self.suffix) + 1 if self.suffix else 0)
        end = min(self.end, self.fresh + room)
        if end < self.end and joins(self.text, end):
            end -= 1
        body = self.text[self.start : end]
        if not body.strip():
            return
        self.done = end
        before, after = self.prefix, self.suffix
        if after and not body.endswith(("\n", "\r")):
            after = "\n" + after
        metadata = {**self.metadata, "headings": list(self.titles)}
        if before:
            metadata["repeated_before"] = before
        if after:
            metadata["repeated_after"] = after
        if broken:
            metadata["cut_character"] = True
        name = f"{self.source}#{self.start}-{end}"
        self.chunks.append(
            Chunk(name, before + body + after, self.source, self.start, end, metadata)
        )
