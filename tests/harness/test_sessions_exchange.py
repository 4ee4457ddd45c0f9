"""Exchanges: what counts as the same request, and bodies as they were meant."""

from __future__ import annotations

import gzip
import io
import zlib

import pytest
import requests

from harness.sessions.exchange import (
    Request,
    canonical_key,
    canonical_url,
    decoded_body,
    raw_key,
    request_of,
)


def post(body: str | bytes, url: str = "http://localhost:11434/api/chat") -> Request:
    return Request("POST", url, {}, body.encode() if isinstance(body, str) else body)


@pytest.mark.parametrize(
    ("recorded", "sent", "same"),
    [
        ('{"stop":["END","STOP"]}', '{"stop":["STOP","END"]}', False),  # php-vcr/php-vcr#506
        ('{"seed":7}', '{"seed":"7"}', False),  # php-vcr/php-vcr#506
        ('{"seed":1}', '{"seed":true}', False),
        ('{"a":{"b":null}}', '{"a":{}}', False),
        ('{"a":1,"b":[1, 2]}', '{ "b": [1,2], "a": 1 }', True),
        ('{"temperature":0}', '{"temperature":0.0}', True),
        ('{"m":"中"}', '{"m":"\\u4e2d"}', True),
        ('{"m":1,"tools":[],"format":"","options":{},"keep_alive":null}', '{"m":1}', True),
        ('{"stop":["END"]}', '{"stop":"END"}', False),
        ('{"tools":[{"n":1},{"n":2}]}', '{"tools":[{"n":2},{"n":1}]}', False),
        ('{"a":[1,[2,3]]}', '{"a":[1,[3,2]]}', False),
        ('{"options":{"a":1,"b":2}}', '{"options":{"b":2,"a":1}}', True),
        ('{"options":{"seed":7}}', '{"options":{"seed":"7"}}', False),
        ('{"stream":false}', '{"stream":0}', False),
        ('{"stream":false}', "{}", False),  # false is said, and no empty default
        ('{"seed":0}', '{"seed":null}', False),
        ('{"t":1e0}', '{"t":1}', True),
        ('{"t":-0.0}', '{"t":0}', True),
        ('{"n":9007199254740993}', '{"n":9007199254740992}', False),  # equal as floats
        ('{"m":"a/b"}', '{"m":"a\\/b"}', True),
        ('{"m":"é"}', '{"m":"e\u0301"}', False),  # another spelling of it in Unicode
        ('{"m":"a "}', '{"m":"a"}', False),
        ('{"m":1}', '{"m":1}\n', True),
        ("not json", "not  json", False),
    ],
)
def test_bodies_match_by_what_they_say(recorded: str, sent: str, same: bool) -> None:
    """Spelling does not count; types, order of lists and nested values do."""
    assert (canonical_key(post(recorded)) == canonical_key(post(sent))) is same


def test_the_same_bytes_are_the_same_request_whatever_the_loopback_name() -> None:
    """`localhost` and 127.0.0.1 are one server; another port or path is another one."""
    here = post("x")
    assert raw_key(here) == raw_key(post("x", "http://127.0.0.1:11434/api/chat"))
    assert raw_key(here) == raw_key(post("x", "http://[::1]:11434/api/chat"))
    assert raw_key(here) != raw_key(post("x", "http://localhost:11435/api/chat"))
    assert raw_key(here) != raw_key(post("x", "http://localhost:11434/api/generate"))


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("HTTPS://Example.org:443/v1", "https://example.org/v1"),
        ("http://example.org:80", "http://example.org/"),
        ("http://h/x?b=2&a=1", "http://h/x?a=1&b=2"),
        ("http://user:pw@h:8/x", "http://h:8/x"),
        ("http://[fe80::2]:1/x", "http://[fe80::2]:1/x"),
        ("http://h:notaport/", "http://h:notaport/"),
    ],
)
def test_addresses_have_one_spelling(url: str, canonical: str) -> None:
    """Case, default ports, order of the query and credentials do not make another address."""
    assert canonical_url(url) == canonical


@pytest.mark.parametrize(
    "body",
    [
        iter([b'{"a":', b"1}"]),
        io.BytesIO(b'{"a":1}'),
        io.StringIO('{"a":1}'),
        (each for each in ['{"a":', "1}"]),
        bytearray(b'{"a":1}'),
        memoryview(b'{"a":1}'),
    ],
)
def test_a_body_that_can_be_read_only_once_is_still_sent(body: object) -> None:
    """Reading it for the key leaves the request whole, twice (kevin1024/vcrpy#846)."""
    prepared = requests.Request("POST", "http://h/x", data=body).prepare()
    first, second = request_of(prepared), request_of(prepared)
    assert first.body == second.body == prepared.body == b'{"a":1}'
    assert raw_key(first) == raw_key(second)
    assert prepared.headers["Content-Length"] == "7"
    assert "Transfer-Encoding" not in prepared.headers


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress])
def test_compressed_bodies_are_read(encode: object) -> None:
    """gzip and deflate are undone, and the headers that described the bytes go with them."""
    headers = {"content-encoding": ["gzip"], "Content-Length": ["9"], "X": ["1"]}
    assert decoded_body(headers, encode(b"plain")) == ({"X": ["1"]}, b"plain")  # type: ignore[operator]


def test_a_body_that_was_decoded_already_is_left_alone() -> None:
    """Some recorders keep the header and write the plain body."""
    assert decoded_body({"Content-Encoding": ["gzip"]}, b'{"a": 1}') == ({}, b'{"a": 1}')
