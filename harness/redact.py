"""One redactor for everything that leaves the process: spans, records, cassettes, reports, errors.

It knows secrets by the name of their key, by their shape, and by their value when the user has
registered it. It finds where they are first and cuts afterwards, so that a stream can be searched
as a whole and still be cut again at the places where its pieces ended.

`agent_core.scrub` is the net inside the agent: the same shapes and values, where they are sure.
"""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from agent_core.scrub import hear_of_secrets, register_secret
from agent_core.secret_names import is_secret_name, is_secret_value
from agent_core.secret_shapes import MASK, encoded, merged, replaced, shaped
from agent_core.spellings import find_spelled

MAX_DEPTH = 200
"""Structures nested deeper than this are replaced as a whole."""

_FOLDERS = {"PWD", "OLDPWD"}  # of the shell: no passwords
_SHORTEST, _SHORTEST_PASSWORD = 8, 6  # characters; what is shorter is found in innocent text
_USERINFO = re.compile(r"://(?P<user>[^\s/?#:@]{0,200})(?::(?P<password>[^\s/?#]{0,500}))?@")
_REMEMBERED_CHARS, _REMEMBERED_TEXTS = 100, 1_000
_REMEMBERED_DIGESTS = 10_000  # of longer texts in which no secret is


class Redactor:
    """Finds and replaces secrets.

    Args:
        values: secrets to look for as they are, and escaped, percent-encoded, in base64 or hex.

    Attributes:
        generation: changes when another secret becomes known. A text that was cleaned before may
            still hold that secret, so a cache of clean texts keeps this number with them.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._values: frozenset[str] = frozenset()
        self._forms: frozenset[str] = frozenset()
        self._known: dict[str, str] = {}  # names of tools, models and sources come again
        self._innocent: set[bytes] = set()  # digests: a history comes again with every request
        self.generation = 0
        for value in values:
            self.register(value)

    def register(self, value: str) -> None:
        """Look for this value from now on.

        Raises:
            ValueError: it is so short that it would be found everywhere.
        """
        if len(value) < 4:
            raise ValueError(
                "a registered secret needs at least 4 characters (a shorter one is found in"
                f" innocent text everywhere), got {len(value)}"
            )
        self._values |= {value}
        self._forms = self._forms.union(_forms(value))  # another thread may be searching
        self._known = {}
        self._innocent = set()
        self.generation += 1

    def text(self, text: str) -> str:
        """The text with every secret replaced."""
        known = self._known
        clean = known.get(text)
        if clean is None:
            clean = self._replaced(text)
            if len(text) <= _REMEMBERED_CHARS:
                if len(known) >= _REMEMBERED_TEXTS:
                    known.clear()
                known[text] = clean
        return clean

    def _replaced(self, text: str) -> str:
        found = self._find(text)
        return replaced(text, found, _mark) if found else text

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """A stream: searched as one text, cut again where its pieces ended.

        The mark stands in the piece in which the secret began.
        """
        found = self._find("".join(pieces))
        if not found:
            return list(pieces)
        return _replace_in_pieces(pieces, found)

    def value(self, value: Any, *, _depth: int = 0) -> Any:
        """A copy of a JSON-like value without secrets, in values and in keys."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            text = value.decode("utf-8", "surrogateescape")
            return self.text(text).encode("utf-8", "surrogateescape")
        if _depth >= MAX_DEPTH and isinstance(value, Mapping | list | tuple):
            return MASK
        if isinstance(value, Mapping):
            return self._mapping(value, _depth + 1)
        if isinstance(value, list | tuple):
            return [self.value(item, _depth=_depth + 1) for item in value]
        return value

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        named = value.get("name", value.get("key"))  # {"name": "Authorization", "value": …}
        secret_pair = isinstance(named, str) and is_secret_name(named)
        clean: dict[Any, Any] = {}
        for key, item in value.items():
            name = self.text(key) if isinstance(key, str) else key
            if (isinstance(key, str) and is_secret_name(key)) or (secret_pair and key == "value"):
                clean[name] = self._leaf(named if key == "value" else key, item, depth)
            else:
                clean[name] = self.value(item, _depth=depth)
        return clean

    def _leaf(self, name: Any, value: Any, depth: int) -> Any:
        """What stands under a secret's name. An object there is more likely a schema."""
        if isinstance(value, list | tuple):
            return [self._leaf(name, item, depth + 1) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Mapping) or not is_secret_value(str(name), str(value)):
            return self.value(value, _depth=depth)
        return MASK

    def _find(self, text: str) -> list[tuple[int, int]]:
        """Where the secrets are: spans in order that do not overlap."""
        if len(text) < 4:
            return []
        innocent, digest = self._innocent, b""
        if len(text) > _REMEMBERED_CHARS:
            digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if digest in innocent:
                return []
        found = [*shaped(text), *encoded(text), *find_spelled(text, self._values)]
        for form in self._forms:
            start = text.find(form)
            while start >= 0:
                found.append((start, start + len(form)))
                start = text.find(form, start + len(form))
        if digest and not found:
            if len(innocent) >= _REMEMBERED_DIGESTS:
                innocent.clear()
            innocent.add(digest)
        return merged(found)


redactor = Redactor()
"""The redactor of this process. It knows every value that was registered with the agent."""
hear_of_secrets(redactor.register)


def register(value: str) -> None:
    """Keep this value out of everything that the agent and the harness say, write or send."""
    redactor.register(value)
    register_secret(value)  # which the agent's own net hides too, unless it is very short


def register_environment(environ: Mapping[str, str]) -> None:
    """Register values of variables whose names say that they are secrets, and those in URLs."""
    for name, value in environ.items():
        if len(value) >= _SHORTEST and name not in _FOLDERS and is_secret_name(name):
            register(value)
        register_urls(value)


def register_urls(text: str) -> None:
    """Register the password in each URL of a text, and a user that is a token.

    A user beside a password is a name, which may be an ordinary word, unless it has a digit. A
    password that is the user's name again, as in `postgres:postgres@`, guards nothing.
    """
    for found in _USERINFO.finditer(text):
        user, password = found["user"], found["password"] or ""
        secrets = {password} - {user}
        if len(user) >= _SHORTEST and (not password or any(map(str.isdigit, user))):
            secrets.add(user)
        for spelled in secrets:
            for secret in {spelled, unquote(spelled)}:
                if len(secret) >= _SHORTEST_PASSWORD:
                    register(secret)


def register_headers(headers: Mapping[str, str]) -> None:
    """Register the credentials in headers of a request, which may be quoted in its body."""
    for name, value in headers.items():
        if not is_secret_name(name):
            continue
        cookies = value.split(";") if "cookie" in name.lower() else [f"={value}"]
        for each in cookies:
            secret = each.partition("=")[2].strip().rpartition(" ")[2]  # behind `Bearer`
            if len(secret) >= _SHORTEST:
                register(secret)


def _forms(value: str) -> Iterator[str]:
    """The ways in which a value is written down."""
    yield value
    for plain in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        for escaped in (plain, plain.replace("/", r"\/")):  # some writers escape every slash
            yield escaped
            yield json.dumps(escaped)[1:-1]
    yield repr(value)[1:-1]
    yield html.escape(value)
    raw = value.encode("utf-8", "surrogatepass")
    for percent in (quote(raw, safe=""), quote(raw), quote_plus(raw)):
        yield percent
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), percent)
    yield raw.hex()
    yield raw.hex().upper()
    for before in range(3 if len(raw) >= 6 else 1):  # base64 of a longer text that holds it
        whole = base64.b64encode(b"\0" * before + raw).decode("ascii")
        # The characters at both ends also hold bits of the neighbours.
        first = (before * 8 + 5) // 6
        last = (before + len(raw)) * 8 // 6
        yield whole[first:last]
        yield whole[first:last].translate(str.maketrans("+/", "-_"))


def _mark(secret: str) -> str:
    """What stands in its place: a number stays one, so that JSON stays JSON."""
    return "0" if secret.isdigit() else MASK


def _replace_in_pieces(pieces: Sequence[str], spans: list[tuple[int, int]]) -> list[str]:
    starts = [0, *accumulate(map(len, pieces))]
    clean = list(pieces)
    text = "".join(pieces)
    for start, end in reversed(spans):  # from the end, so that offsets before it stay right
        stands = _mark(text[start:end])
        first = bisect_right(starts, start) - 1
        for index in range(first, len(pieces)):
            if starts[index] >= end:
                break
            low = max(start - starts[index], 0)
            high = min(end - starts[index], len(pieces[index]))
            piece = clean[index]
            clean[index] = piece[:low] + (stands if index == first else "") + piece[high:]
    return clean
