"""Streams of records: bytes in pieces of any size become lines, lines become SSE events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split at newline bytes, never inside a character; the line's own end, CR LF too, is left out.

    The last line needs no newline. Work is linear however the bytes are cut.
    """
    open_line: list[bytes] = []
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        open_line.append(first)
        for following in rest:
            yield b"".join(open_line).removesuffix(b"\r")
            open_line = [following]
    last = b"".join(open_line).removesuffix(b"\r")
    if last:
        yield last


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event: several `data:` lines are joined, comments skipped.

    An event that the stream's end leaves open is given too: some servers end without the
    closing blank line, and data that is cut is no JSON anyway.
    """
    data: list[bytes] = []
    for number, line in enumerate(lines(pieces)):
        text = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        if not text:
            if data:
                yield b"\n".join(data)
            data = []
            continue
        field, _, value = text.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
    if data:
        yield b"\n".join(data)
