"""Where a recorded stream is cut into chunks: at the lines, or where clients do not expect it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Literal, get_args

Borders = Literal["lines", "mid-utf8", "mid-json", "once"]
"""At the end of each line or event; inside each character of several bytes; in the middle of
each line or event; nowhere, so that all comes at once."""

BORDERS: tuple[Borders, ...] = get_args(Borders)

_SEVERAL_BYTES = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])")


def cut(pieces: Sequence[bytes], borders: Borders) -> list[bytes]:
    """The same bytes in other pieces. Where no character has several bytes, lines stay lines.

    Args:
        pieces: lines or events.
    """
    body = b"".join(pieces)
    if borders == "mid-utf8":
        places = [found.end() for found in _SEVERAL_BYTES.finditer(body)]
    elif borders == "mid-json":
        starts = accumulate(map(len, pieces), initial=0)
        places = [at + len(piece) // 2 for at, piece in zip(starts, pieces, strict=False)]
    else:
        places = []
    if not places and borders != "once":
        return list(pieces)
    return [body[start:end] for start, end in pairwise([0, *places, len(body)]) if start < end]
