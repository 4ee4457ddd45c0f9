"""What secrets look like: their shapes, as they are and inside base64.

The one table: `agent_core.scrub` hides what is surely a secret from errors and observations, and
`harness.redact` whatever may be one from what is kept. Every pattern is linear: it begins with a
literal and never scans the same text twice.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

MASK = "***"
"""What stands in the place of a secret."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a secret looks like. The pattern is tried where one of `begins` (lower case) stands;
    most never are, so that `re` is left to compile them, and to keep them.

    Where there is a group, it is the part to replace. In a sentence `unsure` ones stand before
    ordinary words too (`password: required`).
    """

    begins: tuple[str, ...]
    pattern: str
    unsure: bool = False


# A token begins after something that is no letter or digit. In escaped text what stands before
# it may be the letter of `\n`, the digits of `\u002f` or of `%20`.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4}))"
_PREFIXES = (
    "sk-", "sk_live_", "sk_test_", "rk_live_", "pk_live_", "hf_", "gsk_", "ghp_", "gho_", "ghu_",
    "ghs_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xapp-",
    "npm_", "pypi-", "dop_v1_", "xai-", "nvapi-", "tvly-", "r8_", "lsv2_", "pplx-", "whsec_",
    "shpat_", "jina_", "pcsk_", "dckr_pat_", "sntrys_", "lin_api_", "figd_", "sbp_", "ntn_", "pul-",
)  # fmt: skip
_ANY_PREFIX = "|".join(_PREFIXES)
_KEY = (
    r"(?:(?:api|access|private|secret|signing|encryption|account|session|auth)[_\- ]?key"
    r"|pass(?:words?|wd|phrase|code)|pwd|secret|credentials?|密码|口令|密钥)"
)
_KEY_BEGINS = (
    "api", "access", "private", "secret", "signing", "encryption", "account", "session", "auth",
    "pass", "pwd", "credential", "密码", "密钥", "口令",
)  # fmt: skip
_WEAK_KEY = r"(?:token|令牌|jwt|(?<![A-Za-z])(?:auth|pass|sig(?:nature)?)|(?<=[?&])key)"
_SEPARATOR = (
    r"\\{0,8}[\"'`]?\s{0,8}(?:=>|->|[=:：＝]|%3[Dd]|%3[Aa]|[是为為])\s{0,8}+(?:&(?:quot|#3[49]);)?"
)
_NEW = rf"(?!{re.escape(MASK)})"  # what has been replaced is not replaced again
# A value in quotes ends at the same quotes; the last two stand inside an escaped string.
_QUOTED = (
    r"(?:\"(?P<double>(?:[^\"\\]|\\.)+)|'(?P<single>(?:[^'\\]|\\.)+)"
    r"|\\{1,8}\"(?P<inner>[^\"]*[^\"\\])|\\{1,8}'(?P<inner_single>[^']*[^'\\])"
)
_BARE = rf"{_NEW}(?!(?:null|true|false|None|True|False)\b)[^\s\"'`,;&<>(){{}}\[\]\\，。；、]"
_SHAPES = (
    _Shape(_PREFIXES, rf"{_EDGE}(?:{_ANY_PREFIX})[A-Za-z0-9_\-]{{6,}}"),
    # Glued to a word, only a long run without separators is taken for a token.
    _Shape(
        ("sk-", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
        r"(?:sk-|hf_|gh[pousr]_)[A-Za-z0-9]{20,}",
    ),
    _Shape(  # names of tables and branches begin so too, without a digit
        ("sk_", "rk_", "pk_", "rk-", "pk-", "xox"),
        rf"{_EDGE}(?:[srp]k[_\-]|xox[a-z]-)(?=[A-Za-z_\-]{{0,99}}\d)[\w\-]{{8,}}",
    ),
    _Shape(("akia", "asia"), r"(?:AKIA|ASIA)[0-9A-Z]{12,}"),
    _Shape(("ltai", "akid"), r"(?:LTAI|AKID)[0-9A-Za-z]{12,}"),
    _Shape(("gocspx-", "hvs."), r"(?:GOCSPX-|hvs\.)[A-Za-z0-9_\-]{16,}"),
    _Shape(("ms-",), rf"{_EDGE}ms-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}"),
    _Shape((":aa",), r"(?<=[0-9]{8}):(?P<secret>AA[A-Za-z0-9_\-]{30,})"),
    _Shape((".",), r"(?<=[0-9a-f]{32})\.(?P<secret>[A-Za-z0-9]{16})(?![A-Za-z0-9])"),
    _Shape(
        ("hooks.slack.com/services/", "/api/webhooks/"),
        r"(?i:hooks\.slack\.com/services|/api/webhooks)/(?P<secret>[\w/\-]{16,})",
    ),
    _Shape(("aiza", "ya29."), r"(?:AIza|ya29\.)[A-Za-z0-9_\-]{20,}"),
    _Shape(("sg.",), r"SG\.[A-Za-z0-9_\-]{16,}\.[A-Za-z0-9_\-]{16,}"),
    _Shape(
        ("eyj",),
        r"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2}))"
        r"eyJ[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)?",
    ),
    _Shape(
        ("bearer",),
        r"(?i:bearer)(?:\s|%20|\+|\\[nt]|:){1,4}(?P<secret>[A-Za-z0-9._~+/=\-%]{8,})",
    ),
    _Shape(
        ("basic",),
        r"(?i:basic)(?:\s|%20|\+){1,4}"
        r"(?P<secret>(?=[A-Za-z+/]*(?:[0-9=]|[a-z][A-Z]))[\w+/=\-]{8,})",
    ),
    _Shape(("://", ":\\/\\/"), r":(?:\\?/){2}(?P<secret>[^\s/?#\"'<>\\]+)@"),
    _Shape(
        ("%3a%2f%2f",),
        r"(?i:%3a%2f%2f)(?P<secret>(?:[^\s%\"'<>\\]|%(?!40|2[Ff]))+)%40",
    ),
    _Shape(
        ("authorization",),
        rf"(?i:authorization){_SEPARATOR}"
        rf"{_QUOTED}|(?P<digest>(?i:digest)[ \t][^\r\n]{{4,}})"
        rf"|(?P<bare>{_NEW}(?>[A-Za-z]{{1,16}}[ \t]{{1,4}})?+{_NEW}"
        r"[^\s\"'\\,;]{4,}))",
        unsure=True,
    ),
    _Shape(
        ("cookie",),
        rf"(?i:cookie2?){_SEPARATOR}{_QUOTED}|(?P<bare>{_NEW}[^\r\n\"'\\]{{4,}}))",
        unsure=True,
    ),
    _Shape(
        _KEY_BEGINS,
        rf"(?i:{_KEY}){_SEPARATOR}{_QUOTED}|(?P<bare>{_BARE}{{4,}}))",
        unsure=True,
    ),
    _Shape(
        ("token", "jwt", "auth", "pass", "sig", "key", "令牌"),
        # In prose (`token: expected`) these are ordinary words: there a secret has a digit.
        rf"(?i:{_WEAK_KEY}){_SEPARATOR}(?:\\{{0,8}}[\"'](?P<quoted>{_BARE}{{8,}})"
        rf"|(?P<bare>(?=[^\s\"']{{0,99}}\d){_BARE}{{8,}}))",
    ),
    _Shape(  # <password>…</password>
        ("key>", "word>", "passwd>", "phrase>", "pwd>", "secret>", "token>", "credential"),
        r"(?i:(?:key|word|passwd|phrase|pwd|secret|token|credentials?))>"
        r"(?P<secret>[^<>\s][^<>]{3,200})</",
    ),
    _Shape(  # a list, or an object that holds the value beside other things
        _KEY_BEGINS,
        rf"(?i:{_KEY})s?{_SEPARATOR}(?:\[\s{{0,4}}(?P<listed>[\"']"
        rf"(?=[^\"']{{0,99}}\d)[^\s\"']{{6,}}[\"'][^\[\]{{}}]{{0,400}})\]"
        rf"|\{{[^{{}}\[\]]{{0,100}}?\\{{0,8}}[\"'](?:value|secret|key|token|data)"
        rf"{_SEPARATOR}{_QUOTED}))",
    ),
    _Shape(  # what people say: the password hunter2pw88 was refused
        ("pass", "api", "access", "secret", "密码", "口令"),
        r"(?i:(?:passwords?|passwd|passphrase|(?:api|access|secret)[_\- ]?key)(?:[ ]provided)?"
        r"|密码|口令):?[ \t|]{1,4}[\"'“‘]?(?!https?:)(?=[^\s\"']{0,99}\d)"
        r"(?=[^\s\"']{0,99}[A-Za-z])(?P<told>[^\s\"'`,;&<>(){}\[\]\\，。；、“”‘’]{8,})",
    ),
    _Shape(  # arguments of a command
        ("-u ", "--user ", "--user="),
        r"(?<![\w\-])(?:-u|--user)[ =][\"']?(?P<bare>[^\s:/'\"]{1,64}:[^\s'\"]{4,})",
    ),
    _Shape(
        ("--",),
        rf"--(?:[a-z]{{1,20}}-){{0,2}}(?i:{_KEY}|token)[ ](?P<bare>(?!-){_BARE}{{4,}})",
        unsure=True,
    ),
    _Shape(
        ("mysql", "mariadb", "sshpass", "mongo", "docker login", "redis-cli"),
        r"(?:(?:mysql|mariadb)[^\n|;&]{0,200}?[\s\"']-p|sshpass[^\n|;&]{0,40}?[\s\"']-p"
        r"[\s\"',]{0,4}|(?:mongo|docker[ ]login)[^\n|;&]{0,200}?[\s\"']-p[\s\"',]{1,4}"
        rf"|redis-cli[^\n|;&]{{0,200}}?[\s\"']-a[\s\"',]{{1,4}})(?P<secret>(?!-){_BARE}{{4,}})",
    ),
    _Shape(  # ("X-Api-Key", …), ["--password", …]
        ("('", '("', "(b'", '(b"', "'--", '"--'),
        rf"(?:\(b?[\"'][^\"'\n]{{0,60}}?|[\"']--[\w\-]{{0,40}}?)"
        rf"(?i:{_KEY}|token|authorization|cookie)[\"'],\s{{0,4}}b?{_QUOTED})",
    ),
    _Shape(  # {"name": "Authorization", "value": …}, <add key="ApiKey" value="…"/>
        ('"name', '"key', "'name", "'key", " name=", " key="),
        rf"(?i:[\"' ](?:name|key)\\{{0,8}}[\"']?\s{{0,4}}[:=]\s{{0,4}}\\{{0,8}}[\"']"
        rf"[^\"'\\]{{0,60}}?(?:{_KEY}|{_WEAK_KEY}|authorization|cookie)[^\"'\\]{{0,20}}"
        rf"\\{{0,8}}[\"']\s{{0,4}},?\s{{0,4}}\\{{0,8}}[\"']?value){_SEPARATOR}{_QUOTED})",
    ),
    _Shape(
        ("-----begin ",),
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?P<secret>[^\-]*(?:-(?!----END)[^\-]*)*)",
    ),
)  # fmt: skip
_BEGINS = frozenset(begin for shape in _SHAPES for begin in shape.begins)
_BASE64 = re.compile(r"[A-Za-z0-9+/_\-]{16,}={0,2}")
_OPENING, _CLOSING = "([{<（【", ")]}>）】"
_SHORTEST = 8  # no shape is shorter; nor does less tell anything in decoded bytes


def shaped(text: str, *, sure: bool = False) -> Iterator[tuple[int, int]]:
    """Where something stands that has the shape of a secret; spans may overlap.

    Args:
        sure: leave out what may as well be a word of a sentence.
    """
    if len(text) < _SHORTEST:
        return
    lowered = text.lower()
    if len(lowered) != len(text):  # some letters have a longer lower case: keep the offsets
        lowered = "".join(c.lower() if c.isascii() else c for c in text)
    first = {begin: lowered.find(begin) for begin in _BEGINS}
    for shape in _SHAPES:
        for begin in shape.begins:
            if (at := first[begin]) < 0:
                continue
            pattern = re.compile(shape.pattern)
            while at >= 0:
                match = pattern.match(text, at)
                if match and not (sure and shape.unsure and _is_a_word(match)):
                    yield _span(match)
                at = lowered.find(begin, match.end() if match else at + len(begin))


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Where the value stands. Without quotes it has no end of its own: a bracket that closes it,
    and what ends a sentence behind that, belongs to the text around it.
    """
    start, end = match.span(match.lastgroup or 0)
    if match.lastgroup not in {"bare", "digest"}:
        return start, end
    value = match[match.lastgroup]
    sentence = value.rstrip(".:!?。")
    kept = sentence.rstrip(_CLOSING)
    if kept == sentence:
        return start, end
    opened = sum(map(kept.count, _OPENING)) - sum(map(kept.count, _CLOSING))
    return start, start + min(len(sentence), len(kept) + max(opened, 0))


def _is_a_word(match: re.Match[str]) -> bool:
    """Whether the value is neither quoted nor assigned by `=`, nor holds a digit."""
    if match.lastgroup != "bare":
        return False
    start = match.start("bare")
    assigned = match.string[start - 1] == "="
    return not assigned and not any(c.isdigit() for c in match["bare"])


def encoded(text: str) -> Iterator[tuple[int, int]]:
    """Where base64 stands that holds something with the shape of a secret."""
    if len(text) < 16:
        return
    for match in _BASE64.finditer(text):
        run = match.group().rstrip("=").translate(str.maketrans("-_", "+/"))
        for skip in range(4):
            part = run[skip:]
            part = part[: len(part) - 1] if len(part) % 4 == 1 else part
            try:
                decoded = base64.b64decode(part + "=" * (-len(part) % 4)).decode("latin-1")
            except binascii.Error:
                continue
            if any(end - start >= _SHORTEST for start, end in shaped(decoded)):
                yield match.span()
                break


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places in order, those that overlap as one, empty ones left out."""
    done: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if done and start < done[-1][1]:
            done[-1] = (done[-1][0], max(end, done[-1][1]))
        elif end > start:
            done.append((start, end))
    return done


def replaced(
    text: str, spans: Iterable[tuple[int, int]], mark: Callable[[str], str] = lambda _: MASK
) -> str:
    """The text with a mark in each of these places, which are in order and do not overlap."""
    kept: list[str] = []
    at = 0
    for start, end in spans:
        kept += (text[at:start], mark(text[start:end]))
        at = end
    return "".join([*kept, text[at:]])
