"""Streams of records: bytes in pieces of any size become lines, lines become SSE events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Split at newline bytes, never inside a character; the last line needs no newline.

    Work is linear however the bytes are cut.
    """
    open_line: list[bytes] = []
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        open_line.append(first)
        for following in rest:
            yield b"".join(open_line)
            open_line = [following]
    last = b"".join(open_line)
    if last:
        yield last


def events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event: several `data:` lines are joined, comments skipped.

    An event that the stream's end leaves open is given too: some servers end without the
    closing blank line, and data that is cut is no JSON anyway.
    """
    data: list[bytes] = []
    for line in lines(_newlines(pieces)):
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        yield b"\n".join(data)


def _newlines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """CR LF, LF and CR all end a line of an event stream: give LF only."""
    after_cr = False
    for whole in pieces:
        piece = whole[1:] if after_cr and whole.startswith(b"\n") else whole
        after_cr = whole.endswith(b"\r") if whole else after_cr
        yield piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
