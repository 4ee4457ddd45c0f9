"""What a server says over HTTP: what every failure is called, and what is sent at all."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator

import pytest

from agent_core.clock import ManualClock
from agent_core.errors import (
    AuthenticationFailed,
    BadRequest,
    BadResponse,
    ConfigError,
    ConnectionFailed,
    ContextOverflow,
    ModelError,
    ModelNotFound,
    StreamCut,
)
from agent_core.messages import Message
from agent_core.models import OllamaChat, OpenAIChat, RetryPolicy, Timeouts
from harness.faults import FaultServer, Received, Response
from tests.agent_core.http_support import ASK, DONE, NOW, OK, failure

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (Response(400, {"error": "bad"}), BadRequest),
        (Response(401, {"error": {"message": "no key"}}), AuthenticationFailed),
        (Response(403, "<html>forbidden</html>"), AuthenticationFailed),
        (Response(404, {"error": "model 'm' not found"}), ModelNotFound),
        (Response(404, "404 page not found"), BadRequest),
        (Response(404, {"detail": "Not Found"}), BadRequest),
        (Response(405, "method not allowed"), BadRequest),
        (Response(409, {"error": "conflict"}), BadRequest),
        (Response(413, "too big"), BadRequest),
        (Response(418), BadRequest),
        (Response(422, {"detail": [{"msg": "field required"}]}), BadRequest),
        (Response(400, {"error": {"code": "context_length_exceeded"}}), ContextOverflow),
        (Response(400, {"error": "input exceeds the context length 4096"}), ContextOverflow),
        (Response(500, {"error": 'option "top_k" must be of type int'}), BadRequest),
        (Response(500, {"error": "invalid format: x"}), BadRequest),
        (Response(500, {"error": "the request exceeds the available context size"}),
         ContextOverflow),
        (Response(204), BadResponse),
        (Response(304), BadResponse),
        (Response(200, "<!DOCTYPE html><title>Sign in</title>"), BadResponse),
        (Response(200, b""), BadResponse),
        (Response(raw=b"HTTP/1.1 200 OK\r\nConte"), BadResponse),
        (Response(200, [1, 2]), BadResponse),
        (Response(200, "null"), BadResponse),
        (Response(200, {}), BadResponse),
        (Response(200, {"done": True}), BadResponse),
        (Response(200, {"message": None, "done": True}), BadResponse),
        (Response(200, {"message": {"content": {"a": 1}}, "done": True}), BadResponse),
        (Response(200, b'{"message": {"content": 1e999}}'), BadResponse),
        (Response(200, b'{"message": ' + b"[" * 100_000), BadResponse),
        (Response(200, {"message": {"content": "Hel"}, "done": False}), StreamCut),
    ],
)  # fmt: skip
def test_what_will_not_get_better_is_asked_once(response: Response, kind: type[ModelError]) -> None:
    """Requests that are wrong and answers that are no answers are not repeated."""
    with FaultServer([response, OK]) as server:
        error = failure(server)
    assert type(error) is kind
    assert (len(server.requests), error.attempts) == (1, 1)
    assert error.status == response.status
    assert str(error).startswith((server.url, f"the stream from {server.url}"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_connection_is_kept_over_the_calls(stream: bool) -> None:
    """Replies are read to their very end, so one connection serves them all."""
    chunks = [b'{"message": {"content": "ok"}, "done": true}\n'] if stream else None
    with FaultServer(lambda _: Response(body=DONE, chunks=chunks)) as server:
        model = OllamaChat("m", base_url=server.url, stream=stream)
        assert [model.chat(ASK).text for _ in range(5)] == ["ok"] * 5
        model.close()
    assert server.connections == 1


def test_nobody_listens() -> None:
    """The error names the address and what to start."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    model = OllamaChat("m", base_url=f"http://127.0.0.1:{port}", clock=ManualClock(NOW))
    with pytest.raises(ConnectionFailed, match=rf"127\.0\.0\.1:{port} \(Connection refused\); is "
                                               r"`ollama serve` running") as caught:  # fmt: skip
        model.chat(ASK)
    assert caught.value.attempts == 3
    assert "HTTPConnectionPool" not in str(caught.value)


def test_a_name_that_does_not_exist() -> None:
    """Resolution fails like a refused connection, with its own reason."""
    model = OllamaChat("m", base_url="http://no-such-host.invalid", clock=ManualClock(NOW))
    with pytest.raises(ConnectionFailed, match=r"nothing answers at http://no-such-host\.invalid"):
        model.chat(ASK)


def test_errors_of_a_proxy_in_html_are_short_and_name_the_status() -> None:
    """Two kilobytes of padding tell nobody anything, control characters even less."""
    page = "<html>\x1b[2J<title>502: Bad gateway</title>" + "<div>pad</div>" * 5000
    with FaultServer(
        lambda _: Response(502, page, headers={"Content-Type": "text/html"})
    ) as server:
        error = failure(server)
    assert "502: Bad gateway" in str(error)
    assert len(str(error)) < 600
    assert str(error).isprintable()


def test_an_error_body_without_end_is_left_alone() -> None:
    """The status has been said: the client leaves long before it has read what a reply may have."""
    sent: list[int] = []

    def endless() -> Iterator[bytes]:
        while len(sent) < 4_000:
            sent.append(65_536)
            yield b"x" * 65_536

    with FaultServer(lambda _: Response(400, chunks=endless())) as server:
        error = failure(server)
    assert isinstance(error, BadRequest)
    assert sum(sent) < 32 * 1024 * 1024  # what fits into the buffers of both sides is much less


def test_a_gigantic_reply_is_refused() -> None:
    """Memory is bounded, streamed or not."""

    def endless(_: Received) -> Response:
        return Response(chunks=[b" " * (1 << 20)] * 40)

    with FaultServer(endless) as server:
        assert "bytes" in str(failure(server))
        assert isinstance(failure(server, stream=True), BadResponse)


def test_compressed_replies_are_understood_and_broken_ones_are_named() -> None:
    """The client asks for none, but some servers and proxies compress all the same."""
    headers = {"Content-Encoding": "gzip"}
    packed = gzip.compress(b'{"message": {"content": "\xe5\x8c\x97"}, "done": true}')
    with FaultServer([Response(body=packed, headers=headers)]) as server:
        model = OllamaChat("m", base_url=server.url)
        assert model.chat(ASK).text == "北"
        model.close()
    assert server.requests[0].headers["accept-encoding"] == "identity"
    with FaultServer([Response(body=DONE, headers=headers)]) as server:
        assert "Content-Encoding" in str(failure(server))
    with FaultServer([Response(body=packed[:-20], headers=headers)]) as server:
        assert "damaged or was cut" in str(failure(server))


def test_content_type_and_charset_are_not_believed() -> None:
    """JSON is UTF-8 whatever a header says, with or without a byte order mark."""
    body = b'\xef\xbb\xbf{"message": {"content": "\xe5\x8c\x97\xe4\xba\xac"}, "done": true}'
    for kind in ("text/html; charset=gbk", "text/plain; charset=iso-8859-1", "application/x", ""):
        with FaultServer([Response(body=body, headers={"Content-Type": kind})]) as server:
            model = OllamaChat("m", base_url=server.url)
            assert model.chat(ASK).text == "北京"
            model.close()


@pytest.fixture
def slow_server() -> Iterator[FaultServer]:
    """A server that answers each request after a moment."""

    def answer(request: Received) -> Response:
        text = request.json()["messages"][0]["content"]
        return Response(body={"message": {"content": text}, "done": True}, delay=0.02)

    with FaultServer(answer) as server:
        yield server


def test_threads_may_share_a_client(slow_server: FaultServer) -> None:
    """Eight threads get their own answers."""
    model = OllamaChat("m", base_url=slow_server.url)
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(8):
            text = f"{number}/{turn}"
            if model.chat([Message("user", text)], timeout=20).text != text:
                wrong.append(text)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    model.close()
    assert (wrong, len(slow_server.requests)) == ([], 64)


@pytest.mark.parametrize(
    ("base_url", "kind", "words"),
    [
        ("https://127.0.0.1:{port}", ConnectionFailed, "no secure connection"),
        ("http://.example.org", BadRequest, "is no address to send to"),
        ("http://{{}}:1", ModelError, "http://{{}}:1"),
    ],
)
def test_addresses_that_lead_nowhere(base_url: str, kind: type[ModelError], words: str) -> None:
    """Each says what is wrong, none is taken for a busy server."""
    with FaultServer([OK]) as server:
        url = base_url.format(port=server.url.rpartition(":")[2])
        model = OllamaChat("m", base_url=url, clock=ManualClock(NOW))
        with pytest.raises(kind, match=words.format()):
            model.chat(ASK)
        model.close()


def test_what_json_cannot_hold_is_an_error_of_the_program() -> None:
    """An option that is an object, or not a number: nothing is sent."""
    for wrong in (object(), float("nan"), {1, 2}):
        model = OllamaChat("m", base_url="http://127.0.0.1:1", options={"x": wrong})
        with pytest.raises(ConfigError, match="cannot be written as JSON"):
            model.chat(ASK)


def test_settings_that_make_no_sense_are_refused() -> None:
    """When the client is built, not when it is used."""
    for wrong in ({"connect": 0.0}, {"read": -1.0}):
        with pytest.raises(ConfigError, match="timeouts"):
            Timeouts(**wrong)
    with pytest.raises(ConfigError, match="attempts"):
        RetryPolicy(attempts=0)
    with pytest.raises(ConfigError, match="num_ctx"):
        OllamaChat("m", num_ctx=0)
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIChat("m", base_url=" ")
