"""A response while it is read: bounded in size and in time, and what breaks has a name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPException

import requests
from urllib3.exceptions import DecodeError, HTTPError, ReadTimeoutError

from agent_core.errors import BadResponse, ConnectionFailed, ModelError, ModelTimeout, StreamCut
from agent_core.messages import JsonObject, JsonValue
from agent_core.models.deadline import Deadline
from agent_core.models.failures import Target, excerpt
from agent_core.models.wire import as_text

_PIECE = 65_536
_MAX_BODY = 32 * 1024 * 1024
_MAX_ERROR_BODY = 64 * 1024
_DRAIN_SECONDS = 0.25
_ERROR_BODY_SECONDS = 5.0


class Incoming:
    """A response while it is read.

    Attributes:
        target: where the request went.
        status: the HTTP status.
        streamed: whether a part of the body has been handed out before it was complete.
        bytes_read: how much of the body has arrived.
    """

    def __init__(self, response: requests.Response, deadline: Deadline, target: Target) -> None:
        self._response = response
        self._deadline = deadline
        self.target = target
        self.status = response.status_code
        self.streamed = False
        self.bytes_read = 0

    def header(self, name: str) -> str | None:
        """The value of a header, or None."""
        value: str | None = self._response.headers.get(name)
        return value

    def whole(self) -> bytes:
        """The body, which must arrive complete."""
        return b"".join(self._pieces())

    def pieces(self) -> Iterator[bytes]:
        """The body as it arrives; once any of it is handed out, a break is a `StreamCut`."""
        for piece in self._pieces():
            self.streamed = True
            yield piece

    def error_body(self) -> bytes:
        """A body that only explains a status, as far as it arrives soon and is short."""
        self._deadline.shorten(_ERROR_BODY_SECONDS)
        body = b""
        with suppress(ModelError):
            for piece in self._pieces():
                body += piece
                if len(body) >= _MAX_ERROR_BODY:
                    break
        return body

    def finish(self) -> None:
        """Read what follows the end that the server announced, so the connection can be kept."""
        self._deadline.shorten(_DRAIN_SECONDS)
        with suppress(ModelError):
            for _ in self._pieces():
                pass

    def bad(self, what: str) -> BadResponse:
        """The error of a body that is not what the API promises."""
        return BadResponse(f"{self.target.url} answered {self.status} with {what}",
                           status=self.status)  # fmt: skip

    def not_json(self, body: bytes) -> BadResponse:
        """The error of a body that is no JSON, with its first characters."""
        said = excerpt(body).lstrip("\ufeff")
        if not said:
            return self.bad("an empty body")
        if said.startswith("{"):
            return self.bad(f"JSON that is damaged or was cut: {said!r}")
        kind = "HTML" if said.startswith("<") else "something that is not JSON"
        return self.bad(f"{kind}: {said!r}; is base_url the API's address, and no login page or "
                        "proxy between?")  # fmt: skip

    def as_object(self, value: JsonValue) -> JsonObject:
        """A decoded value that must be an object.

        Raises:
            BadResponse: it is something else.
        """
        if not isinstance(value, dict):
            raise self.bad(f"{excerpt(repr(value))}; expected a JSON object")
        return value

    def as_text(self, value: JsonValue, where: str) -> str:
        """A decoded value that must be text, null or a list of text parts.

        Raises:
            BadResponse: it is something else.
        """
        text = as_text(value)
        if text is None:
            raise self.bad(f"{excerpt(repr(value))} as {where}; expected text or null")
        return text

    def cut(self, why: str) -> StreamCut:
        """The error of a stream that ends before its end was announced."""
        return StreamCut(
            f"the stream from {self.target.url} {why} after {self.bytes_read} bytes, before the "
            "server announced its end; the partial text is not used",
            status=self.status,
        )

    def _pieces(self) -> Iterator[bytes]:
        while piece := self._read():
            self.bytes_read += len(piece)
            if self.bytes_read > _MAX_BODY:
                raise self.bad(f"more than {_MAX_BODY} bytes; no reply is that long")
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
        except DecodeError:
            error = self.bad("a body that its Content-Encoding does not fit")
        except (HTTPError, HTTPException, OSError, ValueError) as broken:
            kind = type(broken).__name__
            if self.streamed:
                error = self.cut(f"broke ({kind})")
            else:
                error = ConnectionFailed(
                    f"the connection to {self.target.url} broke ({kind}) after "
                    f"{self.bytes_read} bytes of the response",
                    status=self.status,
                )
        raise error


def late_error(target: Target, deadline: Deadline) -> ModelError:
    """The error of a response that takes too long, or that nobody waits for any more."""
    if deadline.cancelled():
        return ModelError(f"the answer of {target.url} was given up: the run was cancelled")
    what = "the time that was left for it" if deadline.passed() else "the read timeout"
    return ModelTimeout(f"{target.url} did not answer within {what}; is the model too slow, or "
                        "the timeout too short?")  # fmt: skip
