"""What a text is searched by: Chinese characters and pairs of them, words, identifiers.

Chinese has no blanks between words; single characters and pairs of neighbours find more than
the words of a dictionary do, and need none. An identifier such as `ERR-4012` or
`user.get_name` counts as a whole and in its parts, so that the exact one ranks first.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from itertools import pairwise

_CJK = (
    r"\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_WORD = rf"(?:(?![{_CJK}])\w)"
_RUN = re.compile(rf"(?P<cjk>[{_CJK}]+)|{_WORD}+(?:[-._/:@#+'’]{_WORD}+)*(?:\+\+|#)?")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_JOINTS = re.compile(r"[-._/:@#+'’]+")
_IDENTIFIER = re.compile(
    r"(?!\d+[a-z]{1,3}$)(?=.*\d)(?=.*[a-zA-Z]).{2,}"  # ERR-4012, A7; not 3rd, 20km
    r"|(?!\d+\.\d+$)\w+(?:[._:@#+]\w+)+|\w*[^\W_]_\w*|\w+(?:\+\+|#)"  # os.path, max_tokens, C++
    r"|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*"  # getName, GetName
    r"|(?!(?:19|20)\d\d$)\d{4,}",  # a number, but no year
    re.ASCII,
)
_IDENTIFIER_WEIGHT = 3.0
_EN_STOP = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "can", "could", "did", "do",
    "doe", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is",
    "it", "its", "may", "me", "my", "no", "not", "of", "on", "or", "our", "please", "s", "should",
    "so", "t", "tell", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "whom", "whose",
    "why", "will", "with", "would", "you", "your",
})  # fmt: skip
_ZH_STOP = frozenset(
    "的了是在和有与及或也都就而且但被把从到于以为之其这那哪个们吗呢吧啊呀么什怎谁几"
)


def terms(text: str) -> list[str]:
    """Every term of a text, in order, repeated as often as it occurs."""
    found: list[str] = []
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text)):
        if run["cjk"]:
            found += run["cjk"]
            found += [a + b for a, b in pairwise(run["cjk"])]
        else:
            found += _word_terms(run[0])
    return found


def query_terms(query: str) -> dict[str, float]:
    """The terms of a question with their weights.

    Words that every text has are left out unless there is nothing else; a whole identifier
    weighs three times as much as a word.
    """
    counts = Counter(terms(query))
    telling = {term: n for term, n in counts.items() if not _is_stop_word(term)}
    weights: dict[str, float] = {term: float(n) for term, n in (telling or counts).items()}
    for name in identifiers(query):
        if (term := name.casefold()) in weights:
            weights[term] *= _IDENTIFIER_WEIGHT
    return weights


def identifiers(query: str) -> list[str]:
    """The parts of a question that look like names or codes: digits, joints, capitals."""
    runs = _RUN.finditer(unicodedata.normalize("NFKC", query))
    words = [run[0] for run in runs if not run["cjk"]]
    return [word for word in words if _IDENTIFIER.fullmatch(word)]


def _word_terms(word: str) -> list[str]:
    """A word by its stem; a compound as it is and in its parts; accents both ways."""
    pieces = _JOINTS.split(word)
    parts = [part.casefold() for piece in pieces for part in _PARTS.findall(piece) or [piece]]
    whole = word.casefold()
    found = (
        [_singular(whole)] if parts == [whole] else [whole, *map(_singular, filter(None, parts))]
    )
    if whole.isascii():
        return found
    bare = (_without_accents(term) for term in found)
    return found + [plain for plain, term in zip(bare, found, strict=True) if plain != term]


def _without_accents(word: str) -> str:
    """`café` as `cafe`, so that it is found either way."""
    marks = (each for each in unicodedata.normalize("NFD", word) if not unicodedata.combining(each))
    return "".join(marks)


def _singular(word: str) -> str:
    """Take a plural's ending off, and nothing else."""
    if len(word) > 3 and word.isascii() and word.endswith("s"):
        if word.endswith("ies"):
            return word[:-3] + "y"
        if not word.endswith(("ss", "us", "is")):
            return word[:-1]
    return word


def _is_stop_word(term: str) -> bool:
    return term in _EN_STOP or term in _ZH_STOP
