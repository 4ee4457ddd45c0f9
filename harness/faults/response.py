"""What a server that misbehaves answers to one request, and the bytes of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Literal

Framing = Literal["length", "chunked", "close"]


@dataclass(frozen=True, slots=True)
class Response:
    """What the server answers to one request.

    Attributes:
        status: the HTTP status.
        body: bytes, text (sent as UTF-8) or a list or dict (sent as JSON).
        headers: added to the response. Content-Type is JSON and Content-Length is true unless
            they say otherwise.
        chunks: the body in pieces, each sent by itself; instead of `body`. They are taken as
            they are sent, so that an iterator may wait; one that raises OSError ends the
            connection.
        framing: how the end of the body is marked: by its length, by chunks, or by closing the
            connection. None takes "chunked" for `chunks`, else "length".
        delay: seconds before the first byte.
        pause: seconds between two pieces.
        drip: seconds between any two bytes, those of the head included.
        cut_after: the connection is closed after this many bytes of the body.
        reset: it is closed by a reset, at `cut_after` or before anything was sent.
        close: it is closed after the response, which does not announce it.
        silent: nothing is ever sent; the connection stays open.
        raw: bytes sent instead of a response, for what is no HTTP at all.
    """

    status: int = 200
    body: bytes | str | list[Any] | dict[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes] | None = None
    framing: Framing | None = None
    delay: float = 0.0
    pause: float = 0.0
    drip: float = 0.0
    cut_after: int | None = None
    reset: bool = False
    close: bool = False
    silent: bool = False
    raw: bytes | None = None

    def pieces(self) -> list[bytes]:
        """The body, in the pieces in which it is sent."""
        if self.chunks is not None:
            return list(self.chunks)
        if isinstance(self.body, bytes):
            return [self.body] if self.body else []
        text = (
            self.body if isinstance(self.body, str) else json.dumps(self.body, ensure_ascii=False)
        )
        return [text.encode()]

    def head(self) -> bytes:
        """Status line and headers."""
        headers = {"Content-Type": "application/json", **self.headers}
        named = {name.lower() for name in headers}
        if self._framing() == "chunked":
            headers.setdefault("Transfer-Encoding", "chunked")
        elif self._framing() == "close":
            headers.setdefault("Connection", "close")
        elif "content-length" not in named:
            headers["Content-Length"] = str(sum(map(len, self.pieces())))
        known = self.status in HTTPStatus.__members__.values()
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase if known else 'Unknown'}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode()

    def wire(self) -> Iterator[bytes]:
        """Everything that is sent, piece by piece; the head is the first piece."""
        if self.raw is not None:
            yield self.raw
            return
        yield self.head()
        chunked, left = self._framing() == "chunked", self.cut_after
        for piece in self.pieces() if self.chunks is None else self.chunks:
            part = piece if left is None else piece[:left]
            if chunked and piece:
                whole = b"%x\r\n%b\r\n" % (len(piece), part)
                yield whole if len(part) == len(piece) else whole[:-2]
            elif part:
                yield part
            if left is not None:
                left -= len(part)
                if not left:
                    return
        if chunked:
            yield b"0\r\n\r\n"

    def closing(self, *, chunked: bool) -> Response:
        """The same, with the end of the connection announced; by its end if not in chunks."""
        framing = self._framing()
        return replace(
            self,
            headers={"Connection": "close", **self.headers},
            framing="close" if framing == "chunked" and not chunked else framing,
        )

    def ends_connection(self) -> bool:
        """Whether the connection is closed afterwards."""
        ends = self.close or self.raw is not None or self.cut_after is not None
        return ends or self._framing() == "close"

    def _framing(self) -> Framing:
        return self.framing or ("length" if self.chunks is None else "chunked")
