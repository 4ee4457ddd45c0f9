"""What servers for the clients of a model have in common: the address, and `/s/NAME/…`."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Self
from urllib.parse import unquote

from harness.faults import FaultServer, Received, Response

_NAMED = re.compile(r"/s/(?P<name>[^/]+)(?P<rest>/.*)")


class NamedServer(ABC):
    """A server on 127.0.0.1; a context manager. `/s/NAME/…` is about the session NAME.

    Args:
        port: 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, port: int) -> None:
        try:
            self._http = FaultServer(self._received, port=port)
        except OSError as error:
            words = f"cannot listen on 127.0.0.1:{port} ({error.strerror})"
            raise OSError(f"{words}; choose another port, or 0 for a free one") from error
        self._stopping = self._http.stopping

    @property
    def url(self) -> str:
        """The base URL, without a trailing slash: what `OLLAMA_HOST` wants; add `/v1` for that."""
        return self._http.url

    def __enter__(self) -> Self:
        self._http.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._http.__exit__(*exc)

    def _received(self, received: Received) -> Response:
        named = _NAMED.fullmatch(received.path)
        if named is None:
            return self._answer(received, None)
        return self._answer(replace(received, path=named["rest"]), unquote(named["name"]))

    @abstractmethod
    def _answer(self, received: Received, name: str | None) -> Response:
        """The response to a request, `/s/NAME` taken off its path.

        `name` is percent-decoded: `../x` is one that can come.
        """
