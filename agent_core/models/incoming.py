"""A response while it is read: bounded in size and in time, and what breaks has a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from agent_core.errors import (
    BadResponse,
    ConnectionFailed,
    ModelError,
    ModelTimeout,
    StreamCut,
)
from agent_core.models.deadline import Deadline
from agent_core.models.failures import Target

_PIECE = 65_536
_MAX_BODY = 32 * 1024 * 1024
_DRAIN_SECONDS = 0.25


class Incoming:
    """A response of status 200 while it is read."""

    def __init__(self, response: requests.Response, deadline: Deadline, target: Target) -> None:
        self._response = response
        self._deadline = deadline
        self.target = target
        self.streamed = False
        self.bytes_read = 0

    def whole(self) -> bytes:
        """The body, which must arrive complete."""
        return b"".join(self._pieces())

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives; once any of it is handed out, a break is a `StreamCut`."""
        for piece in self._pieces():
            self.streamed = True
            yield piece

    def finish(self) -> None:
        """Read what follows the end that the server announced, so the connection can be kept."""
        self._deadline.shorten(_DRAIN_SECONDS)
        with suppress(ModelError):
            for _ in self._pieces():
                pass

    def cut(self, why: str) -> StreamCut:
        """The error of a stream that ends before its end was announced."""
        return StreamCut(
            f"the stream from {self.target.url} {why} after {self.bytes_read} bytes, before the "
            "server announced its end; the partial text is not used",
            status=200,
        )

    def _pieces(self) -> Iterator[bytes]:
        while True:
            piece = self._read()
            if not piece:
                return
            self.bytes_read += len(piece)
            if self.bytes_read > _MAX_BODY:
                raise BadResponse(
                    f"the body from {self.target.url} is over {_MAX_BODY} bytes", status=200
                )
            if self._deadline.passed():
                raise late_error(self.target, self._deadline)
            yield piece

    def _read(self) -> bytes:
        """The next bytes, b"" at the end; without an original exception in the context."""
        raw = self._response.raw
        try:
            if self._response.headers.get("Content-Encoding", "identity") == "identity":
                piece: bytes = raw.read1(_PIECE)
            else:
                piece = raw.read(_PIECE, decode_content=True)
            return piece or b""
        except (ReadTimeoutError, TimeoutError):
            error: ModelError = late_error(self.target, self._deadline)
        except (HTTPError, OSError, ValueError) as broken:
            kind = type(broken).__name__
            if self.streamed:
                error = self.cut(f"broke ({kind})")
            else:
                error = ConnectionFailed(
                    f"the connection to {self.target.url} broke ({kind}) after "
                    f"{self.bytes_read} bytes of the response",
                    status=200,
                )
        raise error


def late_error(target: Target, deadline: Deadline) -> ModelTimeout:
    """The error of a response that takes too long."""
    what = "the time that was left for it" if deadline.passed() else "the read timeout"
    return ModelTimeout(f"{target.url} did not answer within {what}; is the model too slow, or "
                        "the timeout too short?")  # fmt: skip
