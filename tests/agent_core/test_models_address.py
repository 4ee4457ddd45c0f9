"""Addresses in all the spellings that people use."""

from __future__ import annotations

import pytest

from agent_core.errors import ConfigError
from agent_core.models import OllamaChat, Secret
from agent_core.models.address import is_loopback, ollama_address, parse_address


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (None, "http://127.0.0.1:11434"),
        ("", "http://127.0.0.1:11434"),
        ("  ", "http://127.0.0.1:11434"),
        ("10.0.0.5", "http://10.0.0.5:11434"),
        ("10.0.0.5:1234", "http://10.0.0.5:1234"),
        ("example.org", "http://example.org:11434"),
        ("example.org/", "http://example.org:11434"),
        ("example.org:8080/ollama/", "http://example.org:8080/ollama"),
        (":1234", "http://127.0.0.1:1234"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://0.0.0.0:8000", "http://127.0.0.1:8000"),
        ("http://example.org", "http://example.org"),
        ("HTTP://Example.org:80", "http://example.org"),
        ("https://example.org", "https://example.org"),
        ("https://example.org:11434/a/b/", "https://example.org:11434/a/b"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("::1", "http://[::1]:11434"),
        ("[::]:1234", "http://[::1]:1234"),
        ("http://[fe80::1]:1234/", "http://[fe80::1]:1234"),
        (' "127.0.0.1:11434" ', "http://127.0.0.1:11434"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(
    host: str | None, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host, port, scheme, IPv6, slashes, quotes; an address to listen on is one to call."""
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    if host is not None:
        monkeypatch.setenv("OLLAMA_HOST", host)
    assert ollama_address().url == url


@pytest.mark.parametrize("host", ["ftp://h", "http://h:port", "http://h:99999", "http://[::1"])
def test_what_is_no_address_is_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the name of the setting."""
    monkeypatch.setenv("OLLAMA_HOST", host)
    with pytest.raises(ConfigError, match="OLLAMA_HOST"):
        ollama_address()


def test_the_environment_is_read_unless_an_address_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the caller names wins over the variable."""
    monkeypatch.setenv("OLLAMA_HOST", "example.org:1234")
    assert "http://example.org:1234/api/chat" in repr(OllamaChat("m"))
    assert "http://h:11434/api/chat" in repr(OllamaChat("m", base_url="h"))


def test_credentials_are_taken_out_of_the_url() -> None:
    """They are kept apart, masked; a query that is no secret stays."""
    address = parse_address("https://us%65r:p%40ssword1@h:444/v1/?api-version=2", what="base_url")
    assert address.join("/chat") == "https://h:444/v1/chat?api-version=2"
    assert address.userinfo is not None
    assert address.userinfo.reveal() == "user:p@ssword1"
    assert "ssword1" not in repr(address)


def test_a_secret_does_not_show_itself() -> None:
    """Neither printed nor formatted."""
    secret = Secret("sk-test-0123456789")
    assert f"{secret} {secret!r} {[secret]}".count("***") == 3
    assert "sk-test" not in f"{secret} {secret!r} {[secret]}"


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True), ("LOCALHOST.", True), ("a.localhost", True), ("127.0.0.1", True),
        ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("::ffff:127.0.0.1", True),
        ("0.0.0.0", True), ("10.0.0.1", False), ("example.org", False), ("localhost.org", False),
        ("128.0.0.1", False), ("::2", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_is_told_from_everywhere_else(host: str, here: bool) -> None:
    """Names and numbers of this machine."""
    assert is_loopback(host) is here
