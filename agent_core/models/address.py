"""Where a server is: base URLs, `OLLAMA_HOST`, and which addresses are this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import unquote, urlsplit, urlunsplit

from agent_core.errors import ConfigError
from agent_core.models.secret import Secret
from agent_core.scrub import names_secret, register_secret, scrub
from agent_core.secret_shapes import MASK

_PORTS = {"http": 80, "https": 443}
_OLLAMA_PORT = 11434


@dataclass(frozen=True, slots=True)
class Address:
    """A base URL without credentials, and the credentials that stood in it.

    Attributes:
        url: scheme, host, port and path, without a trailing slash.
        query: what stood behind `?`; it goes with every request.
        userinfo: `user:password`, or None.
    """

    url: str
    query: str = ""
    userinfo: Secret | None = None

    def join(self, path: str) -> str:
        """The URL of a path below the base."""
        return f"{self.url}{path}" + (f"?{self.query}" if self.query else "")


def parse_address(text: str, *, what: str, default_port: int | None = None) -> Address:
    """Read a base URL in any of its spellings: host, host:port, with scheme, slash or path.

    Args:
        text: what the user wrote.
        what: the name of the setting, for errors.
        default_port: the port where neither scheme nor port are written.

    Raises:
        ConfigError: it is no address of an HTTP server.
    """
    cleaned = text.strip().strip("\"'").strip()
    scheme, found, rest = cleaned.partition("://")
    if not found:
        scheme, rest = "http", cleaned
    scheme = scheme.lower()
    if scheme not in _PORTS:
        raise ConfigError(f"{what} must begin with http:// or https://, got {scheme + '://'!r}")
    if not found and rest.count(":") > 1 and "[" not in rest:  # a bare IPv6 address
        authority, slash, path = rest.partition("/")
        rest = f"[{authority}]{slash}{path}"
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port = parts.port
    except ValueError:
        raise ConfigError(f"{what} is not a URL: {scrub(text)!r}; expected e.g. "
                          "'http://127.0.0.1:11434'") from None  # fmt: skip
    host = _reachable(parts.hostname or "")
    if port is None and not found:
        port = default_port
    authority = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS[scheme]:
        authority += f":{port}"
    _refuse_secret_query(parts.query, what)
    userinfo = None
    if "@" in parts.netloc:
        userinfo = Secret(unquote(parts.netloc.rpartition("@")[0]))
        register_secret(unquote(parts.password or ""))  # it is scrubbed alone too
        register_secret(parts.password)  # and as it was spelled
    url = urlunsplit((scheme, authority, parts.path.rstrip("/"), "", ""))
    return Address(url, parts.query, userinfo)


def ollama_address(base_url: str | None = None) -> Address:
    """The address of an Ollama server; unless given that of `OLLAMA_HOST`, as Ollama reads it."""
    if base_url is not None:
        return parse_address(base_url, what="base_url", default_port=_OLLAMA_PORT)
    host = os.environ.get("OLLAMA_HOST") or "127.0.0.1"
    return parse_address(host, what="OLLAMA_HOST", default_port=_OLLAMA_PORT)


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether a host name means this machine, so that no proxy may see the request."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback or address.is_unspecified


def _reachable(host: str) -> str:
    """An address to listen on becomes one to call."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def _refuse_secret_query(query: str, what: str) -> None:
    # urllib3 writes paths with their query into its debug log, where nothing scrubs them
    for pair in query.split("&"):
        name = pair.partition("=")[0]
        if names_secret(name) or name == "sig":
            raise ConfigError(
                f"{what} has a secret in its query (?{name}={MASK}), which ends up in logs; "
                "pass it as api_key"
            )
