"""Keep secrets out of texts that leave a gear: errors, observations, logs.

Two nets: values that were registered (a key from the environment, a header), and shapes that
are credentials wherever they stand (`sk-…`, `Bearer …`, `user:password@host`, `?key=…`).
"""

from __future__ import annotations

import json
import re
from threading import Lock
from urllib.parse import quote, quote_plus

MASK = "***"

_SHORTEST = 6  # masking every "abc" would make texts unreadable and hide nothing

_SHAPES = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[^-]*(?:-----END\ [A-Z ]*PRIVATE\ KEY-----)?
  | \b[spr]k[-_][A-Za-z0-9_\-]{8,}
  | \b(?:hf_|gsk_|npm_|r8_|glpat-|xai-|nvapi-|tvly-|pypi-AgE)[A-Za-z0-9_\-]{12,}
  | \b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{8,}
  | \bxox[a-z]-[A-Za-z0-9\-]{8,}
  | \bAIza[A-Za-z0-9_\-]{12,}
  | \b(?:AKIA|ASIA)[A-Z0-9]{12,}
  | \bLTAI[A-Za-z0-9]{12,}
  | \bSG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}
  | \beyJ[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]{6,}(?:\.[A-Za-z0-9_\-]*)?
  """,
    re.VERBOSE,
)
_AUTHORIZATION = re.compile(
    r"\b((?:Bearer|Basic)[ \t]+"
    r"|authorization[\"']?[ \t]{0,3}[=:][ \t]{0,3}[\"']?(?:\w{1,16}[ \t]+)?)"
    r"(?:\*\*\*|[A-Za-z0-9+/=._~\-]{6,})",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(://)[^\s/@\"'<>]{1,256}@")
# `key` and `token` are ordinary words too: in prose (`token: expected`) they hide nothing.
_NAMED = re.compile(
    r"""
    (?<![A-Za-z0-9])
    (
      (?: (?:[A-Za-z0-9]{1,32}[_-]){0,4} (?:key|token|sig|signature) = ["']?
        | (?: (?:[A-Za-z0-9]{1,32}[_-]){0,4} (?:password|passwd|pwd|secret|credential)
            | (?:[A-Za-z0-9]{1,32}[_-]){1,4} (?:key|token|signature)
            | (?:api|access|secret|private)key )
          ["']? (?: [=:]["']? | [ ]?[=:][ ]["'] | :[ ](?=[^\s"']{0,99}\d) ) )
    )
    [^\s"'&,;<>(){}\[\]*]{6,}
    """,
    re.VERBOSE | re.IGNORECASE,
)
# What people say of secrets in a sentence. Too much is hidden rather than too little: this is for
# texts that are kept.
_TOLD = re.compile(
    r"""
    ( (?: \b(?:passwords?|passphrases?|passcodes?|passwd|pwd|credentials?)\b
        | 密码 | 口令 | 密钥 | 秘钥 | 令牌 | 暗号 | 验证码 )
      [^\n.!?。！？=:：是为]{0,40}? (?: \b(?:is|are|was)\b | [=:：是为] ) [\s"'“‘「『`]{0,4}
    | (?<![A-Za-z])(?:keys?|tokens?|secrets?|pins?|otp)\b [^\n.!?。！？=:：是为]{0,40}?
      (?: \b(?:is|are|was)\b | [=:：是为] ) [\s"'“‘「『`]{0,4} (?=[^\s,，;；。]{0,99}\d) )
    [^\s,，;；。"'”’」』`]{3,}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LONG_CODE = re.compile(
    r"(?<![\w.])(?=[A-Za-z_.+=]{0,200}\d)(?=[\d_.+=]{0,200}[A-Za-z])[A-Za-z0-9_.+=]{32,}"
)
_SECRET_NAME = re.compile(
    r"(?:^|[_\-. ])(?:key|pwd|passwd|credential|authorization|cookie)s?$"
    r"|(?:(?:api|access|secret|private)key|password|secret|token)s?$"
    r"|密码|密钥|令牌|口令",
    re.IGNORECASE,
)

_lock = Lock()
_registered: tuple[str, ...] = ()


def register_secret(value: str | None) -> None:
    """Mask this value, and its URL and JSON forms, from now on in this process.

    None and values under six characters are ignored: they cannot be told from ordinary text.
    """
    global _registered  # noqa: PLW0603 - secrets are known to the process, not to one gear
    if value is None or len(value) < _SHORTEST:
        return
    forms = {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1]}
    with _lock:  # the longest first: a secret that holds another is masked as a whole
        _registered = tuple(sorted(forms | set(_registered), key=len, reverse=True))


def mask(text: str) -> str:
    """Replace registered values only; for texts whose shape must not change otherwise."""
    for value in _registered:
        text = text.replace(value, MASK)
    return text


def scrub(text: str) -> str:
    """Replace registered values and everything that has the shape of a credential."""
    text = _SHAPES.sub(MASK, mask(text))
    text = _AUTHORIZATION.sub(rf"\1{MASK}", text)
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    return _NAMED.sub(rf"\1{MASK}", text)


def scrub_told(text: str) -> str:
    """Also what a sentence gives away: `my password is …`, `密码是…`, any long code."""
    return _LONG_CODE.sub(MASK, _TOLD.sub(rf"\1{MASK}", scrub(text)))


def names_secret(name: str) -> bool:
    """Whether a field of this name is likely to hold a secret (`api_key`, `密码`)."""
    return _SECRET_NAME.search(name) is not None
