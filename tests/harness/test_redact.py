"""Secrets are found by name, shape and value, whatever they are wrapped in."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.scrub import scrub
from agent_core.secret_names import is_secret_name
from agent_core.secret_shapes import MASK
from harness.redact import Redactor, redactor, register, register_environment, register_headers
from tests.harness.secret_strategies import tokens


@pytest.fixture
def clean_registry() -> Redactor:
    """A redactor that knows no values yet."""
    return Redactor()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef.ghij123", f"Authorization: {MASK}"),
        ("curl -H 'authorization: Basic dXNlcjpwYXNz' x", f"curl -H 'authorization: {MASK}' x"),
        ("send Bearer abcdef0123456789 to it", f"send Bearer {MASK} to it"),
        ("https://user:p@ss@host/x", f"https://{MASK}@host/x"),
        ("GET /x?api_key=abcdef&n=1", f"GET /x?api_key={MASK}&n=1"),
        ("GET /x?key=abcdefghi1", f"GET /x?key={MASK}"),
        ('{"token": "abcdefghij"}', f'{{"token": "{MASK}"}}'),
        ("GET /x?access_token=abcdefgh1j#y", f"GET /x?access_token={MASK}"),
        ('{"api_key": "a b c d"}', f'{{"api_key": "{MASK}"}}'),
        (
            r'"{\"client_secret\": \"a b\", \"n\": 1}"',
            rf'"{{\"client_secret\": \"{MASK}\", \"n\": 1}}"',
        ),
        ("password = hunter22", f"password = {MASK}"),
        ("密码：hunter22，好", f"密码：{MASK}，好"),
        (r"line\nsk-abcdefghijkl", rf"line\n{MASK}"),
        ("xsk-" + "a1" * 16, "x" + MASK),
        ("Cookie: a=b; c=d\nHost: x", f"Cookie: {MASK}\nHost: x"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            f"-----BEGIN RSA PRIVATE KEY-----{MASK}-----END RSA PRIVATE KEY-----",
        ),
        (base64.b64encode(b"user:sk-abcdefghijklmnop").decode(), MASK),
        ('{"password": 12345678, "n": 1}', '{"password": 0, "n": 1}'),
    ],
)
def test_known_shapes_are_replaced(text: str, expected: str) -> None:
    """What is secret goes, what stands around it stays."""
    assert redactor.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "task-management-system is no key",
        "Bearer tokens are useful",
        "a basic understanding of things",
        '{"max_tokens": 4096, "token_limit": 100000, "total_tokens": 12345678}',
        '{"password": null, "secret": true}',
        "see https://example.org/@user/repo and mail a.b@example.org",
        "思考：查询天气。行动：get_weather",
        "Unexpected token: identifier",
        '{"token": " the", "logprob": -0.1}',
        "sha256:9b93525e75865a86eaa7ac364fcb24e7d96b7f7e92855d710cfb0025a9d68e70",
        "/usr/lib/python3/dist-packages/requests/adapters.py",
        "ls --user bob; id -u; run --key-file x --token-limit 5; git log --author a:b",
        "<keyboard>qwerty</keyboard> <b>word</b> 12345678:AA",
        "9b93525e75865a86eaa7ac364fcb24e7.tar.gz and e7d96b7f7e92855d710cfb0025a9d68e.parquet",
    ],
)
def test_innocent_text_stays(text: str) -> None:
    """What only resembles a secret is left alone."""
    assert redactor.text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://hooks.slack.com/services/T0AAAAAAA/B0AAAAAAA/abcdEFGH", "T0AAAAAAA"),
        ("https://discord.com/api/webhooks/123456789012345678/abcDEF-ghiJKL", "abcDEF-ghiJKL"),
        ("bot 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw9", "AAHdqTcvCH1vGWJ"),
        ("curl -u admin:S3cretPass http://h", "S3cretPass"),
        ("0123456789abcdef0123456789abcdef.AbCdEfGhIjKlMnOp", "AbCdEfGhIjKlMnOp"),
        ('Authorization: Digest username="bob", response="6629fae49393a0"', "6629fae49393a0"),
        ("<db><password>open sesame</password></db>", "sesame"),
        ("tool --db-password S3cret123 --verbose", "S3cret123"),
        ("GOCSPX-abcdefghijklmnopqrstuvwx", "abcdefghijkl"),
        ("hvs.CAESIJabcdefghijklmnop1234", "CAESIJabcdef"),
        ("ms-0a1b2c3d-4e5f-6a7b-8c9d-0e1f2a3b4c5d", "0a1b2c3d-4e5f"),
        ("AKIDabcdefghijklmnop1234", "abcdefghijkl"),
        ('{"name": "X-Api-Key", "value": "correct horse"}', "correct horse"),
        (json.dumps(json.dumps({"key": "db_password", "value": "zxcv"})), "zxcv"),
    ],
)
def test_shapes_that_an_attack_found(text: str, secret: str) -> None:
    """In both nets: what is kept, and what the agent itself says."""
    for clean in (redactor.text(text), scrub(text)):
        assert secret not in clean
        assert "***" in clean


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("X-Api-Key", True),
        ("hfToken", True),
        ("OPENAI_API_KEY", True),
        ("Set-Cookie", True),
        ("Proxy-Authorization", True),
        ("clientSecret", True),
        ("密码", True),
        ("awssecret", True),
        ("DBPASSWORD", True),
        ("awssecretaccesskey", True),
        ("authtoken", True),
        ("数据库密码", True),
        ("密码长度", False),
        ("secretary", False),
        ("maxtokens", False),
        ("max_tokens", False),
        ("token_limit", False),
        ("keyboard", False),
        ("primary_key", False),
        ("author", False),
        ("", False),
    ],
)
def test_names_of_secrets(name: str, secret: bool) -> None:
    """A name says whether its value is a secret."""
    assert is_secret_name(name) is secret


def test_values_under_secret_names_go_whatever_they_are() -> None:
    """Headers with lists, pairs of name and value, keys of dictionaries."""
    value = {
        "Authorization": ["Bearer x"],
        "headers": [{"name": "X-Api-Key", "value": "q"}],
        "sk-abcdefghijklmnop": 1,
        "pin_password": 1234,
        "nested": ({"token": "ab12cd34"}, b"sk-abcdefghijklmnop"),
    }
    assert redactor.value(value) == {
        "Authorization": [MASK],
        "headers": [{"name": "X-Api-Key", "value": MASK}],
        MASK: 1,
        "pin_password": MASK,
        "nested": [{"token": MASK}, MASK.encode()],
    }


def test_a_token_that_is_a_piece_of_text_stays() -> None:
    """Servers report the tokens they generated under that name."""
    value = {"logprobs": [{"token": " weather", "logprob": -0.1}, {"token": "北京"}]}
    assert redactor.value(value) == value


def test_a_schema_that_describes_a_secret_stays_a_schema() -> None:
    """An object under a secret's name is a definition, not the secret."""
    schema = {"properties": {"password": {"type": "string"}}, "required": ["password"]}
    assert redactor.value(schema) == schema


def test_deep_structures_do_not_recurse_without_end() -> None:
    """Nesting beyond the limit is replaced as a whole."""
    value: object = "x"
    for _ in range(5_000):
        value = [value]
    assert MASK in json.dumps(redactor.value(value))


def test_redacting_twice_changes_nothing_more() -> None:
    """The mark itself is not taken for a secret, by either of the two redactors."""
    text = 'Authorization: Bearer abcdef0123 and {"api_key": "abc def"} at http://u:p@h/'
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert scrub(once) == once


@given(tokens, st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=60, deadline=None)
def test_tokens_are_found_in_any_wrapping(secret: str, before: str, after: str) -> None:
    """Plain, quoted, escaped twice, in a URL, as a key, in base64."""
    joined = f"{before} {secret} {after}"
    wrapped = [
        joined,
        json.dumps(joined),
        json.dumps(json.dumps({"x": joined})),
        f"https://host/x?q={quote(secret)}&r=1",
        html.escape(f'<a href="{secret}">'),
        repr({secret: 1}),
        base64.b64encode(joined.encode("utf-8", "replace")).decode(),
    ]
    for text in wrapped:
        clean = redactor.text(text)
        assert secret not in clean
        assert base64.b64encode(secret.encode())[4:-4].decode() not in clean
    assert secret not in json.dumps(redactor.value({secret: [{"k": (secret,)}]}))


@given(st.text(min_size=8, max_size=30).filter(lambda s: s.strip() == s), st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_registered_values_are_found_in_any_wrapping(secret: str, around: str) -> None:
    """Whatever the value is made of, and however it was written down."""
    mine = Redactor([secret])
    joined = f"{around}{secret}{around}"
    raw = joined.encode("utf-8", "surrogatepass")
    for text in (
        joined,
        json.dumps(joined),
        json.dumps(joined).replace("/", r"\/"),
        json.dumps(joined, ensure_ascii=False),
        quote(raw),
        quote(raw, safe=""),
        html.escape(joined),
        raw.hex(),
    ):
        assert mine.text(text) != text
    encoded = base64.b64encode(raw).decode()
    assert mine.text(encoded) != encoded


@pytest.mark.parametrize("between", ["\u200b", "\u00ad\ufeff"])
def test_invisible_characters_inside_hide_no_registered_value(between: str) -> None:
    """They are shown by nothing, so that what is left can be copied."""
    assert Redactor(["harbour-4711"]).text(f"a {between.join('harbour-4711')} b") == "a *** b"


@given(tokens, st.lists(st.integers(0, 200), max_size=12), st.integers(0, 20))
@settings(max_examples=80, deadline=None)
def test_a_secret_that_comes_in_pieces_is_found(secret: str, cuts: list[int], pad: int) -> None:
    """A stream is searched as one text and cut again where it was cut."""
    text = f"{'好 ' * pad}key: {secret} ok"
    places = sorted({min(cut, len(text)) for cut in cuts})
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    clean = redactor.pieces(pieces)
    assert len(clean) == len(pieces)
    assert "".join(clean) == redactor.text(text)
    assert secret not in "".join(clean)
    assert clean[0] == pieces[0] or secret[0] in pieces[0] or pieces[0] == ""


def test_pieces_without_a_secret_stay_as_they_are() -> None:
    """Pieces come back as they were, the empty ones too."""
    assert redactor.pieces(["a", "", "b c"]) == ["a", "", "b c"]


def test_a_value_too_short_to_be_told_from_text_is_refused() -> None:
    """Registering it would shred everything."""
    with pytest.raises(ValueError, match="at least 4 characters"):
        Redactor(["abc"])


def test_registering_reaches_the_agent_too() -> None:
    """One registration covers errors and observations of the agent as well."""
    register("Zq7-registered-once")
    assert scrub("it is Zq7-registered-once") == redactor.text("it is Zq7-registered-once")


def test_secrets_of_the_environment_are_registered_by_name() -> None:
    """Only variables that are named like secrets, and only values long enough."""
    folders = {"HOME": "/home/someone", "PWD": "/home/someone/a", "OLDPWD": "/home/someone/b"}
    register_environment({"HF_TOKEN": "env value 42 long", **folders})
    assert redactor.text("got env value 42 long from /home/someone/a") == (
        f"got {MASK} from /home/someone/a"
    )


@pytest.mark.parametrize(
    ("url", "hidden", "shown"),
    [
        ("postgres://joe:dbpw445566@h/x", ["dbpw445566"], ["joe"]),
        ("jdbc:mysql://maria2024x:s%40cret%21pw@h:3306/x?a=b", ["s@cret!pw", "s%40cret%21pw",
                                                               "maria2024x"], []),
        ("https://tokenonly77aa@git.example/x.git", ["tokenonly77aa"], ["git.example"]),
        ("amqp://a:first+pw+1@h,amqp://b:second@pw2@h2/v", ["first+pw+1", "second@pw2"], []),
        ("redis://:only-a-password@h", ["only-a-password"], []),
        ("postgres://postgres:postgres@localhost/app", [], ["postgres"]),
        ("http://proxyuser:pw@proxy:3128", [], ["proxyuser", "pw"]),
        ("see http://host/a?mail=somebody@example.org", [], ["somebody", "example.org"]),
    ],
)  # fmt: skip
def test_credentials_in_urls_of_the_environment_are_registered(
    url: str, hidden: list[str], shown: list[str]
) -> None:
    """They are secrets alone, too; names and words that are found everywhere are not."""
    register_environment({"SOME_URL": url})
    for secret in hidden:
        assert redactor.text(f"it was {secret} .") == f"it was {MASK} ."
        assert secret not in scrub(f"it was {secret} .")
    for word in shown:
        assert redactor.text(f"it was {word} .") == f"it was {word} ."


def test_credentials_of_a_request_are_registered() -> None:
    """Bearer, key and cookie, wherever the body quotes them; other headers are words."""
    register_headers({
        "authorization": "Bearer proxkey-0123456789", "X-Api-Key": "xkey99887766",
        "cookie": "theme=dark; sid=cook1e-cook1e=", "user-agent": "some-agent/1.0",
    })  # fmt: skip
    clean = redactor.text("proxkey-0123456789, xkey99887766, cook1e-cook1e=, some-agent/1.0")
    assert clean == f"{MASK}, {MASK}, {MASK}, some-agent/1.0"


@pytest.mark.parametrize(
    "unit",
    ["sk-", "-eyJ", 'password="', "password='\\\"", "://", "token=", "bearer ", "basic aaaaaaaa",
     "%3A%2F%2F", 'secret: \\"', "SG.a-", "-----BEGIN PRIVATE KEY-----", "a", "password "],
)  # fmt: skip
def test_no_text_takes_more_than_linear_time(unit: str) -> None:
    """Hostile repetitions: a pattern that backtracks would not return within the day."""
    text = unit * (200_000 // len(unit))
    assert len(redactor.text(text)) <= len(text) + len(MASK)


def test_a_long_text_is_searched_once_until_another_secret_is_known() -> None:
    """What was found innocent is remembered, and forgotten with every secret that is registered."""
    redactor, text = Redactor(), "the word is swordfish " * 20
    assert redactor.text(text) == redactor.text(text) == text
    redactor.register("swordfish")
    assert redactor.text(text) == text.replace("swordfish", MASK)
    halves = "\ud800 " * 200
    assert redactor.text(halves) == redactor.text(halves) == halves
