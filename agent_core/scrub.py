"""Keep secrets out of texts that leave a gear: errors, observations, logs.

Two nets: values that were registered (a key from the environment, a header), and what has the
shape of a credential wherever it stands (`agent_core.secret_shapes`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from threading import Lock
from urllib.parse import quote, quote_plus

from agent_core.secret_names import is_secret_name
from agent_core.secret_shapes import MASK, merged, replaced, shaped
from agent_core.spellings import find_spelled

_SHORTEST = 6  # masking every "abc" would make texts unreadable and hide nothing

# What people say of secrets in a sentence. Too much is hidden rather than too little: this is for
# texts that are kept.
_TOLD = r"""(?ix)
    ( (?: \b(?:passwords?|passphrases?|passcodes?|passwd|pwd|credentials?)\b
        | 密码 | 口令 | 密钥 | 秘钥 | 令牌 | 暗号 | 验证码 )
      [^\n.!?。！？=:：是为]{0,40}? (?: \b(?:is|are|was)\b | [=:：是为] ) [\s"'“‘「『`]{0,4}
    | (?<![A-Za-z])(?:keys?|tokens?|secrets?|pins?|otp)\b [^\n.!?。！？=:：是为]{0,40}?
      (?: \b(?:is|are|was)\b | [=:：是为] ) [\s"'“‘「『`]{0,4} (?=[^\s,，;；。]{0,99}\d) )
    [^\s,，;；。"'”’」』`]{2,} [^\s,，;；。"'”’」』`)\]}）】]
    """
_LONG_CODE = re.compile(
    r"(?<![\w.])(?=[A-Za-z_.+=]{0,200}\d)(?=[\d_.+=]{0,200}[A-Za-z])[A-Za-z0-9_.+=]{32,}"
)
_KEY = re.compile(r"(?:^|[_\-. ])keys?$", re.IGNORECASE)  # of a query, a field, a header

_lock = Lock()
_values: list[str] = []
_registered: tuple[str, ...] = ()
_listeners: list[Callable[[str], None]] = []


def register_secret(value: str | None) -> None:
    """Mask this value, however it is spelled out, from now on in this process.

    None and values under six characters are ignored: they cannot be told from ordinary text.
    """
    global _registered  # noqa: PLW0603 - secrets are known to the process, not to one gear
    if value is None or len(value) < _SHORTEST or value in _values:
        return
    escaped = json.dumps(value)[1:-1]
    forms = {value, quote(value, safe=""), quote_plus(value), escaped, escaped.replace("/", r"\/")}
    with _lock:  # the longest first: a secret that holds another is masked as a whole
        _values.append(value)
        _registered = tuple(sorted(forms | set(_registered), key=len, reverse=True))
        listeners = tuple(_listeners)
    for tell in listeners:
        tell(value)


def hear_of_secrets(tell: Callable[[str], None]) -> None:
    """Call this with every value that is registered, those of the past too."""
    with _lock:
        _listeners.append(tell)
        past = tuple(_values)
    for value in past:
        tell(value)


def mask(text: str) -> str:
    """Replace registered values only; for texts whose shape must not change otherwise."""
    for value in _registered:
        text = text.replace(value, MASK)
    return replaced(text, merged(find_spelled(text, _values))) if _values else text


def scrub(text: str) -> str:
    """Replace registered values and everything that has the shape of a credential."""
    text = mask(text)
    return replaced(text, merged(shaped(text, sure=True)))


def scrub_told(text: str) -> str:
    """Also what a sentence gives away: `my password is …`, `密码是…`, any long code."""
    return _LONG_CODE.sub(MASK, re.sub(_TOLD, rf"\1{MASK}", scrub(text)))


def names_secret(name: str) -> bool:
    """Whether a field of this name is likely to hold a secret (`api_key`, `密码`)."""
    return is_secret_name(name) or _KEY.search(name) is not None
