"""Secrets do not leave in texts; ordinary words do."""

from __future__ import annotations

import html
import re
import time
from urllib.parse import quote

import pytest

from agent_core.scrub import mask, names_secret, register_secret, scrub
from agent_core.tools import jsonable
from agent_core.tools.jsonable import describe_exception


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (
            "503 for url http://h/v1/x?key=AIzaTESTKEY1234567890",
            "503 for url http://h/v1/x?key=***",
        ),
        ("http://h/x?api_key=plainword&x=1", "http://h/x?api_key=***&x=1"),
        ("http://user:pass@host/x", "http://***@host/x"),
        ("key sk-test-ABCDEFGHIJKLMNOP is wrong", "key *** is wrong"),
        ("Authorization: Bearer abcdef123456", "Authorization: ***"),
        ("{'Authorization': 'Token abcdef'}", "{'Authorization': '***'}"),
        ("OPENAI_API_KEY='abcdefgh'", "OPENAI_API_KEY='***'"),
        ('{"password": "abcdefgh"}', '{"password": "***"}'),
        ("ghp_0123456789abcdefghij", "***"),
        ("hf_abcdefghijklmnop", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM", "***"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
        ("LTAI5tAbCdEfGhIjKlMn", "***"),
        ("sk_abcdefgh12345 and xoxz-abcdefgh123", "*** and ***"),
        ("Basic dXNlcjpwYXNz", "Basic ***"),
        ("password: hunter22", "password: ***"),
        ("awssecret: wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "awssecret: ***"),
        ("密码：hunter22", "密码：***"),
        ("密码为hunter22，已失效", "密码为***，已失效"),
        ('{"auth":{"secret":{"value":"abcdef1234567890"}}}', '{"auth":{"secret":{"value":"***"}}}'),
        (
            "{'credentials': {'user': 'joe', 'key': 'x'}}",
            "{'credentials': {'user': 'joe', 'key': '***'}}",
        ),
        ('{"password": ["tugboat47", "b"]}', '{"password": [***]}'),
        ("[('X-Api-Key', 'hunter22')]", "[('X-Api-Key', '***')]"),
        ("(b'authorization', b'hunter22')", "(b'authorization', b'***')"),
        ("{'key': 'api_key', 'value': 'hunter22'}", "{'key': 'api_key', 'value': '***'}"),
        ('<add key="ApiKey" value="hunter22"/>', '<add key="ApiKey" value="***"/>'),
        ("password=&quot;hunter22&quot;", "password=&quot;***&quot;"),
        ("mysql -uroot -phunter22 db", "mysql -uroot -p*** db"),
        ("['mysqldump', '-u', 'root', '-phunter22']", "['mysqldump', '-u', 'root', '-p***']"),
        ("sshpass -p hunter22 ssh h", "sshpass -p *** ssh h"),
        ("docker login -u joe -p hunter22", "docker login -u joe -p ***"),
        ("redis-cli -h h -a hunter22 ping", "redis-cli -h h -a *** ping"),
        ("['--db-password', 'hunter22']", "['--db-password', '***']"),
        ('curl --user "joe:hunter22" h', 'curl --user "***" h'),
        ("the password hunter2pw88 was refused", "the password *** was refused"),
        ("Incorrect API key provided: hunter2pw88.", "Incorrect API key provided: ***"),
        ("| password | hunter2pw88 |", "| password | *** |"),
        ("machine h login joe password hunter2pw88", "machine h login joe password ***"),
        ("user=joe pass=hunter22", "user=joe pass=***"),
        (
            "no model (Authorization: Bearer abcdef123456). Get it",
            "no model (Authorization: ***). Get it",
        ),
        ("no model (authorization: abcdef123456); get it", "no model (authorization: ***); get it"),
        ("[Authorization: Digest response=6629fae4]", "[Authorization: ***]"),
        ("（Cookie: a=b1; c=d2）\nnot found", "（Cookie: ***）\nnot found"),
        ("(see <curl -u joe:hunter22>)", "(see <curl -u ***>)"),
        ("Authorization: f(abcdef1)", "Authorization: ***"),
        ("Authorization: ab)cdef1", "Authorization: ***"),
    ],
)
def test_credentials_are_masked(text: str, clean: str) -> None:
    """By shape and by the name before them; the rest stays, and twice is once."""
    assert scrub(text) == clean
    assert scrub(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 1234567",
        "unknown key: 'cityname'",
        "token: expected string",
        "a task-1234567890 on a desk-abcdefghij",
        "password: required",
        "Authorization: required by the server",
        "a basic understanding of the pk_users_constraint",
        "密码：必填",
        "sort_key=lastname",
        "http://host/path?q=word",
        "mail me@example.org",
        '{"password": ["This field is required.", "At least 8 characters."]}',
        '{"properties": {"password": {"type": "string"}}, "required": ["password", "user"]}',
        "the password is wrong, and the api key is missing",
        "a password reset at https://host1/reset",
        "compass=northeast1 bypass: 12345678",
        "mysql -p, docker run -p 8080:80 img, ssh -p 2222 host1, mkdir -p /a/b1",
        "('password', 8) and login('joe')",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    """An error has to remain readable."""
    assert scrub(text) == text


def test_a_registered_value_is_masked_in_every_form() -> None:
    """As it is, in a URL, in JSON; a value that holds another one as a whole."""
    register_secret("top secret/ß")
    register_secret("top secret/ß and more")
    assert (
        scrub("a top secret/ß b top%20secret%2F%C3%9F c top+secret%2F%C3%9F") == "a *** b *** c ***"
    )
    assert mask('"top secret/\\u00df"') == '"***"'
    assert mask("top secret/ß and more") == "***"


SPELT = "sk-weird.key+with/odd_chars&77"


@pytest.mark.parametrize(
    "spelled",
    [
        quote(SPELT),
        quote(SPELT, safe="").lower(),
        quote(quote(SPELT, safe=""), safe=""),
        "".join(f"%{ord(c):02X}" for c in SPELT),
        "".join(f"\\u{ord(c):04x}" for c in SPELT),
        "".join(f"\\x{ord(c):02x}" for c in SPELT),
        "".join(f"&#{ord(c)};" for c in SPELT),
        "".join(f"&#x{ord(c):X};" for c in SPELT),
        SPELT.replace("s", "\\u0073").replace("&", "\\\\u0026"),
        SPELT.replace("/", "\\\\\\/"),
        re.sub(r"([\W_])", r"\\\1", SPELT),  # as for Markdown
        SPELT.replace("+", "&plus;").replace("&77", "&amp;77"),
        html.escape(html.escape(SPELT)),
        "\u200b".join(SPELT),
        SPELT[:5] + "\u00ad" + SPELT[5:],
        SPELT[:5] + "\ufeff\u2060" + SPELT[5:],
    ],
)
def test_a_registered_value_is_masked_however_it_is_spelled_out(spelled: str) -> None:
    """A model or a server may write any character in another way; what is around it stays."""
    register_secret(SPELT)
    before, after = "\\u00e9 %41 &lt; ", " \u200b&gt; %42 \\/"
    assert scrub(before + spelled + after) == f"{before}***{after}"
    assert mask(f"{spelled},{spelled}") == "***,***"


@pytest.mark.parametrize("value", ["密钥是港口灯塔", "9081726354", "_._._._._"])
def test_a_value_of_few_kinds_of_characters_is_found_too(value: str) -> None:
    """And nothing else of the text is touched."""
    register_secret(value)
    escaped = "".join(f"\\u{ord(c):04x}" for c in value)
    assert scrub(f"& % \\x & {escaped} % \\x &") == "& % \\x & *** % \\x &"


def test_a_value_that_cleaning_puts_together_is_masked() -> None:
    """A tool's result or error with a terminal's codes inside the key."""
    register_secret(SPELT)
    torn = f"{SPELT[:9]}\x1b[0m{SPELT[9:]}"
    assert jsonable({torn: [torn]}) == {"***": ["***"]}
    assert describe_exception(ValueError(torn)) == "***"


@pytest.mark.parametrize("value", [None, "", "abc"])
def test_a_value_too_short_to_tell_is_not_registered(value: str | None) -> None:
    """Masking it would make every text unreadable."""
    register_secret(value)
    assert mask("abcdef") == "abcdef"


@pytest.mark.parametrize(
    "name",
    ["api_key", "apiKey", "X-Auth-Token", "password", "密码", "cookie", "key", "awssecret"],
)
def test_names_of_secrets_are_known(name: str) -> None:
    """In the ways people write them."""
    assert names_secret(name)


@pytest.mark.parametrize("name", ["keyword", "monkey", "city", "tokenizer", "keyboard", ""])
def test_other_names_are_not(name: str) -> None:
    """A word that only contains one."""
    assert not names_secret(name)


@pytest.mark.parametrize(
    "piece",
    ["a_", "key", "://", "eyJaaaaaa.", "sk-", "key=", "api-", "Bearer ", "x", "-----BEGIN ",
     "\\", "%25", "&amp;", "&#0", "\u200b", "\\u0073", "sk-\\u00"],
)  # fmt: skip
def test_time_grows_with_the_text_only(piece: str) -> None:
    """No shape searches a text again and again."""
    began = time.monotonic()
    scrub(piece * 40_000)
    assert time.monotonic() - began < 20
