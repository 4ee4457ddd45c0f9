"""Which servers a recording may ask that a file names: this machine's, and those of the user.

A session file may come from a stranger. To record it again sends its questions, and a key of the
environment, to the address that it names for its model or gives its agent as a parameter.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from urllib.parse import urlsplit

from agent_core.models.address import is_loopback, ollama_address, parse_address
from harness.redact import redactor
from harness.sessions.errors import ServerRefused
from harness.sessions.format import ModelSource
from harness.sessions.sources import resolved

_PORTS = {"http": 80, "https": 443}

_Origin = tuple[str, str, int | None]


class Servers:
    """The servers that may be asked.

    This machine may always be, and those of `OLLAMA_HOST` and `OPENAI_BASE_URL`. A server is
    known by scheme, host and port; the path does not count.

    Args:
        named: addresses with their scheme. What else an `--allow` says, such as modules, is no
            address and left out.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        addresses = {each: "a server that may be asked" for each in named if "://" in each}
        if url := os.environ.get("OPENAI_BASE_URL"):
            addresses[url] = "OPENAI_BASE_URL"
        urls = [parse_address(each, what=what).url for each, what in addresses.items()]
        urls.append(ollama_address().url)
        self._known = frozenset(map(_origin, urls))

    def check(self, url: str) -> None:
        """See that a request may be sent there.

        Raises:
            ServerRefused: nobody named it.
        """
        scheme, host, port = origin = _origin(url)
        if is_loopback(host) or origin in self._known:
            return
        shown = f"[{host}]" if ":" in host else host
        address = f"{scheme}://{shown}" + ("" if port == _PORTS.get(scheme) else f":{port}")
        raise ServerRefused(
            redactor.text(
                f"the session would have {address} asked, with its questions and the keys of your "
                f"environment; nothing was sent there. If you trust it, add `--allow {address}` "
                "(of `record --resume`: --base-url), or name it in OPENAI_BASE_URL or OLLAMA_HOST"
            )
        )

    def check_model(self, source: ModelSource) -> None:
        """The same for the server of a model."""
        self.check(parse_address(resolved(source).base_url or "", what="base_url").url)


def _origin(url: str) -> _Origin:
    parts = urlsplit(url)
    return (
        parts.scheme.lower(),
        (parts.hostname or "").lower(),
        parts.port or _PORTS.get(parts.scheme),
    )
