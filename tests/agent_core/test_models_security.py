"""Keys and prompts go to the server that the user named, and keys are shown nowhere."""

from __future__ import annotations

import logging
import socket
import traceback
from pathlib import Path

import pytest
import requests

from agent_core.clock import ManualClock
from agent_core.errors import BadRequest, BadResponse, ConfigError, ConnectionFailed, ModelError
from agent_core.events import Ended, Started, watching
from agent_core.models import OllamaChat, OpenAIChat
from harness.faults import FaultServer, Response
from tests.agent_core.http_support import ASK, DONE, KEY, NOW, OK, V1_OK, failure

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.mark.parametrize("own_session", [True, False])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_refused_with_the_address_they_name(status: int, own_session: bool) -> None:
    """Neither prompt nor key goes where the user did not send it."""
    with FaultServer([OK] * 2) as elsewhere, requests.Session() as session:
        location = elsewhere.url.replace("//", "//user:sword-fish-77@") + "/api?token=abcdefgh12345"
        redirect = Response(status, headers={"Location": location})
        with FaultServer([redirect, OK]) as server:
            error = failure(server, api_key=KEY, session=None if own_session else session)
    assert isinstance(error, BadResponse)
    assert f"({status})" in str(error)
    assert elsewhere.url.removeprefix("http://") in str(error)
    assert "base_url" in str(error)
    assert "sword-fish-77" not in str(error)
    assert "abcdefgh12345" not in str(error)
    assert elsewhere.requests == []
    assert len(server.requests) == 1


def test_no_proxy_and_no_netrc_on_loopback(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What the environment says is for other machines."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password sword-fish-77\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    with FaultServer([]) as proxy, FaultServer([OK] * 3) as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
            model = OllamaChat("m", base_url=url)
            assert model.chat(ASK).text == "ok"
            model.close()
        with requests.Session() as session:
            assert OllamaChat("m", base_url=server.url, session=session).chat(ASK).text == "ok"
    assert proxy.requests == []
    assert [each.headers.get("authorization") for each in server.requests] == [None] * 3


def test_a_proxy_is_used_for_other_machines_without_netrc(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The usual variables hold elsewhere; `.netrc` never adds a credential."""
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password sword-fish-77\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    with FaultServer([OK]) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        model = OllamaChat("m", base_url="http://ollama.example:11434")
        assert model.chat(ASK).text == "ok"
        model.close()
    assert proxy.requests[0].path == "http://ollama.example:11434/api/chat"
    assert "authorization" not in proxy.requests[0].headers


def test_a_proxy_that_is_down_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names its address without its password."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://user:sword-fish-77@127.0.0.1:{port}")
    monkeypatch.setenv("http_proxy", f"http://user:sword-fish-77@127.0.0.1:{port}")
    for scheme in ("http", "https"):
        model = OllamaChat("m", base_url=f"{scheme}://ollama.example", clock=ManualClock(NOW))
        with pytest.raises(ConnectionFailed, match=r"the proxy for \w+://ollama.example") as caught:
            model.chat(ASK)
        assert "sword-fish-77" not in str(caught.value)


def test_cookies_are_not_kept() -> None:
    """A server does not mark its clients."""
    response = Response(body=DONE, headers={"Set-Cookie": "id=1"})
    with FaultServer([response, OK]) as server:
        model = OllamaChat("m", base_url=server.url)
        model.chat(ASK)
        model.chat(ASK)
        model.close()
    assert "cookie" not in server.requests[1].headers


def test_keys_are_sent_as_bearer_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """From an argument or the environment; none, or an empty one, sends nothing."""
    with FaultServer(lambda _: V1_OK) as server:
        base_url = server.url + "/v1"
        OpenAIChat("m", base_url=base_url, api_key=KEY).chat(ASK)
        OpenAIChat("m", base_url=base_url).chat(ASK)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        OpenAIChat("m", base_url=base_url).chat(ASK)
        OpenAIChat("m", base_url=base_url, api_key="").chat(ASK)
    sent = [each.headers.get("authorization") for each in server.requests]
    assert sent == [f"Bearer {KEY}", None, f"Bearer {KEY}", None]


def test_credentials_in_a_url_are_sent_and_never_shown() -> None:
    """They become a header; URL, errors and repr are clean."""
    with FaultServer([Response(404, "no user:sword-fish-77 here")]) as server:
        url = server.url.replace("//", "//user:sword-fish-77@")
        model = OllamaChat("m", base_url=url)
        with pytest.raises(BadRequest) as caught:
            model.chat(ASK)
        model.close()
    assert server.requests[0].headers["authorization"] == "Basic dXNlcjpzd29yZC1maXNoLTc3"
    for text in (str(caught.value), repr(caught.value), repr(model)):
        assert "sword-fish-77" not in text


def leaks(text: str) -> bool:
    """Whether any form of the key is in a text."""
    return KEY in text or KEY[3:] in text


@pytest.mark.parametrize(
    "response",
    [
        Response(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}),
        Response(500, f"<html>Authorization: Bearer {KEY}</html>"),
        Response(400, {"error": f"for url http://h/v1?key={KEY}"}),
        Response(200, f"debug: {KEY}"),
        Response(200, {"error": {"message": f"bad key {KEY}"}}),
        Response(200, {"choices": [{"message": {"content": {"k": KEY}}}]}),
        Response(302, headers={"Location": f"http://h/?api_key={KEY}"}),
        Response(raw=f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
        Response(reset=True),
    ],
)
def test_a_key_is_in_no_error_repr_traceback_log_or_event(
    response: Response, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the server echoes."""
    seen: list[object] = []

    class Everything:
        def started(self, event: Started) -> None:
            seen.append(event)

        def ended(self, token: object, event: Ended) -> None:
            seen.append(event)

    caplog.set_level(logging.DEBUG)
    with FaultServer(lambda _: response) as server, watching(Everything()):
        model = OpenAIChat("m", base_url=f"{server.url}/v1", api_key=KEY, clock=ManualClock(NOW))
        with pytest.raises(ModelError) as caught:
            model.chat(ASK)
        model.close()
    error = caught.value
    shown = "".join(traceback.format_exception(error, chain=True))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert error.__cause__ is None
    for text in (str(error), repr(error), shown, repr(model), repr(vars(model)), caplog.text):
        assert not leaks(text)
    assert len(seen) >= 4
    assert not leaks(repr(seen))


def test_a_key_in_the_query_of_a_url_is_refused() -> None:
    """It would stand in every log of every library on the way."""
    with pytest.raises(ConfigError, match=r"\?key=\*\*\*") as caught:
        OpenAIChat("m", base_url=f"https://h/v1?key={KEY}")
    assert not leaks(str(caught.value))


def test_a_key_that_no_header_can_carry_is_refused_unseen() -> None:
    """A line break in a key would be a second header."""
    with pytest.raises(ConfigError, match="api_key") as caught:
        OpenAIChat("m", base_url="https://h/v1", api_key="sk-密钥-ABCDEFGH")
    assert "密钥" not in str(caught.value)
    with pytest.raises(ConfigError, match="api_key"):
        OpenAIChat("m", base_url="https://h/v1", api_key="sk-a\r\nX-Other: b")
