"""Which names of keys, headers and variables belong to secrets."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

_STRONG = {
    "password", "passwd", "passphrase", "pwd", "secret", "secrets", "credential", "credentials",
    "authorization", "apikey", "cookie", "密码", "口令", "密钥",
}  # fmt: skip
# As the last word; these name harmless things too: a token may be a piece of text.
_WEAK = {"token", "auth", "jwt", "bearer", "signature", "sig", "令牌"}
_KEY_OWNERS = {
    "api", "access", "private", "secret", "signing", "encryption", "account", "subscription",
    "session", "auth", "ssh",
}  # fmt: skip
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")
# Written as one word: `awssecret`, `dbpassword`, `awssecretaccesskey`, `authtoken`, 数据库密码.
_GLUED = re.compile(
    r"[a-z]+(?:password|passwd|passphrase|secret|credential|(?:api|access|secret|private)key)s?"
    r"|[^\x00-\x7f]+(?:密码|口令|密钥)"
)
_GLUED_WEAK = re.compile(
    r"(?:auth|access|refresh|session|bearer|api|user|bot)token|[^\x00-\x7f]+令牌"
)

_LIKE_A_TOKEN = re.compile(r"(?:\w{1,16} )?\S{8,}")


@lru_cache(maxsize=512)  # the same keys come again and again
def is_secret_name(name: str) -> bool:
    """Whether a value under this key, header or variable is a secret.

    >>> [is_secret_name(n) for n in ("X-Api-Key", "hfToken", "max_tokens", "token_limit")]
    [True, True, False, False]
    """
    words = [word.lower() for word in _WORDS.findall(name)]
    return _names_strongly(words) or _names_weakly(words)


def is_secret_value(name: str, value: str) -> bool:
    """Whether a text under this name is a secret; under a weak one only what looks like one."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if _names_strongly(words):
        return True
    return _names_weakly(words) and bool(_LIKE_A_TOKEN.fullmatch(value))


def _names_strongly(words: list[str]) -> bool:
    if _STRONG.intersection(words) or any(map(_GLUED.fullmatch, words)):
        return True
    return any(a in _KEY_OWNERS and b == "key" for a, b in pairwise(words))


def _names_weakly(words: list[str]) -> bool:
    return bool(words) and (words[-1] in _WEAK or bool(_GLUED_WEAK.fullmatch(words[-1])))
