"""Shapes of secrets as their issuers document them, written apart from the redactor's own."""

from __future__ import annotations

import string

from hypothesis import strategies as st

_ALNUM = string.ascii_letters + string.digits
_URLSAFE = _ALNUM + "-_"


def _token(prefix: str, alphabet: str, length: int) -> st.SearchStrategy[str]:
    # The first character is a letter, so that what is drawn looks like what is issued.
    body = st.text(alphabet, min_size=length - 1, max_size=length - 1)
    return st.tuples(st.sampled_from(string.ascii_letters), body).map(
        lambda parts: prefix + "".join(parts)
    )


def _jwt() -> st.SearchStrategy[str]:
    part = st.text(_URLSAFE, min_size=20, max_size=40)
    return st.tuples(part, part, part).map(lambda p: f"eyJ{p[0]}.eyJ{p[1]}.{p[2]}")


tokens = st.one_of(
    _token("sk-", _ALNUM, 48),
    _token("sk-proj-", _URLSAFE, 60),
    _token("sk-ant-api03-", _URLSAFE, 80),
    _token("hf_", string.ascii_letters, 34),
    _token("ghp_", _ALNUM, 36),
    _token("github_pat_", _ALNUM + "_", 60),
    st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16).map("AKIA".__add__),
    _jwt(),
)
"""Secrets that are known by their shape alone."""
