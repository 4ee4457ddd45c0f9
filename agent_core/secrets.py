"""Secrets: a string that does not show itself, and the scrubbing of texts that might hold one.

Every text that leaves the program by way of an error, a log or a file goes through `scrub`.
"""

from __future__ import annotations

import re
from threading import Lock
from urllib.parse import quote

MASK = "***"
_SHORTEST = 8  # what is shorter ("ollama", "none") is a placeholder, and masking it garbles texts

_known: frozenset[str] = frozenset()
_lock = Lock()


class Secret:
    """A value that is masked wherever it is printed, and that `scrub` knows from then on.

    Args:
        value: the key, token or password.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        if len(value) >= _SHORTEST:
            _remember(value)

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a Secret is not pickled: what is pickled ends up in files")


def _remember(value: str) -> None:
    global _known  # noqa: PLW0603 - scrubbing must know every secret of the process
    with _lock:
        _known |= {value, quote(value, safe="")}


_NAMES = (
    r"(?:[\w-]{0,32}(?:api[-_]?key|secret|password|passwd|access[-_]?token|auth[-_]?token)"
    r"|(?:proxy-)?authorization|set-cookie|cookie)"
)
_PATTERNS = (
    # the user and password of a URL
    (re.compile(r"(?<=://)[^\s/@?#]{1,512}@"), f"{MASK}@"),
    # a secret in a query
    (
        re.compile(
            r"([?&](?:key|token|sig|signature|auth|pwd|(?:[\w-]{0,32}"
            r"(?:api[-_]?key|secret|password|token)))=)[^&\s#\"'<>]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    # a header, or a named value in JSON, YAML or a repr
    (
        re.compile(
            rf"((?<![\w-]){_NAMES}['\"\\]{{0,2}}\s{{0,4}}[:=]\s{{0,4}}['\"\\]{{0,2}}"
            r"(?:(?:bearer|basic|token)\s{1,4})?)(?=[^\s\"',;}\])\\]{4})[^\s\"',;}\])\\]+",
            re.IGNORECASE,
        ),
        rf"\1{MASK}",
    ),
    # an authorization value without its header
    (
        re.compile(r"\b(bearer|basic)\s{1,4}(?=[\w.~+/-]{0,256}\d)[\w.~+/-]{8,}=*", re.IGNORECASE),
        rf"\1 {MASK}",
    ),
    # keys known by how they begin
    (
        re.compile(
            r"(?<![A-Za-z0-9])(?:sk-[\w-]{8,}|AIza[\w-]{10,}|gh[pousr]_\w{16,}|github_pat_\w{16,}"
            r"|glpat-[\w-]{12,}|xox[abeprs]-[\w-]{8,}|hf_[A-Za-z0-9]{16,}|gsk_\w{16,}"
            r"|AKIA[0-9A-Z]{12,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)"
        ),
        MASK,
    ),
)


def scrub(text: str) -> str:
    """Mask every known secret, and what looks like one, in a text for people or files."""
    for value in sorted(_known, key=len, reverse=True):
        if value in text:
            text = text.replace(value, MASK)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
