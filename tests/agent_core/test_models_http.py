"""The HTTP layer: what is asked again, after how long, and what every failure is called."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from email.utils import format_datetime

import pytest
import requests

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
    ModelTimeout,
    RateLimited,
    ServerError,
    StreamCut,
)
from agent_core.events import AttemptEnded, AttemptStarted, Ended, Failed, Started, watching
from agent_core.messages import Message
from agent_core.models import OllamaChat, OpenAIChat, RetryPolicy, Timeouts
from harness.faults import FaultServer, Received, Response
from tests.agent_core.http_support import ASK, DONE, NOW, OK, failure

pytestmark = pytest.mark.usefixtures("clean_environment")


class Attempts:
    """An observer that keeps the HTTP attempts."""

    def __init__(self) -> None:
        self.started_events: list[AttemptStarted] = []
        self.ended_events: list[AttemptEnded | Failed] = []

    def started(self, event: Started) -> bool:
        if isinstance(event, AttemptStarted):
            self.started_events.append(event)
        return isinstance(event, AttemptStarted)

    def ended(self, token: bool, event: Ended) -> None:
        if token:
            assert isinstance(event, AttemptEnded | Failed)
            self.ended_events.append(event)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_a_passing_failure_is_asked_again_after_growing_waits(status: int) -> None:
    """Two failures, two waits, one reply; nothing is asked again after that."""
    clock = ManualClock(NOW)
    with FaultServer([Response(status), Response(status), OK]) as server:
        model = OllamaChat("m", base_url=server.url, clock=clock, retry=RetryPolicy(wait=0.5))
        assert model.chat(ASK).text == "ok"
        model.close()
    assert len(server.requests) == 3
    assert len({each.body for each in server.requests}) == 1
    assert clock.monotonic() == 0.5 + 1.0


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


def test_an_error_that_stays_is_raised_after_the_allowed_attempts() -> None:
    """Attempts, status and the server's words are in the error."""
    with FaultServer([Response(503, {"error": "overloaded"})] * 9) as server:
        error = failure(server, retry=RetryPolicy(attempts=4))
    assert isinstance(error, ServerError)
    assert (error.attempts, error.status, len(server.requests)) == (4, 503, 4)
    assert "503: overloaded" in str(error)


@pytest.mark.parametrize(
    ("asked", "waited"),
    [
        ("7", 7.0),
        ("0", 0.5),
        ("-5", 0.5),
        ("1.5", 1.5),
        ("7, 7", 7.0),
        ("86400", 30.0),
        (format_datetime(NOW + timedelta(seconds=20), usegmt=True), 20.0),
        (format_datetime(NOW - timedelta(days=900), usegmt=True), 0.5),
        (format_datetime(NOW + timedelta(days=900), usegmt=True), 30.0),
        ("Mon, 04 Mar 99999 10:00:00 GMT", 0.5),
        ("soon", 0.5),
        ("nan", 0.5),
        ("inf", 0.5),
        ("", 0.5),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured_and_bounded(status: int, asked: str, waited: float) -> None:
    """Seconds or a date, in reason; anything else is the client's own wait."""
    clock = ManualClock(NOW)
    busy = Response(status, {"error": "slow down"}, headers={"Retry-After": asked})
    with FaultServer([busy, OK]) as server:
        model = OllamaChat("m", base_url=server.url, clock=clock)
        assert model.chat(ASK).text == "ok"
        model.close()
    assert clock.monotonic() == waited


def test_an_error_says_how_long_the_server_asks_to_wait() -> None:
    """Whoever catches it may wait longer than the client does."""
    busy = Response(429, {"error": "slow down"}, headers={"Retry-After": "86400"})
    with FaultServer([busy]) as server:
        error = failure(server, retry=RetryPolicy(attempts=1))
    assert isinstance(error, RateLimited)
    assert error.retry_after == 86400.0


def test_a_spent_quota_is_not_a_rate() -> None:
    """429 for want of money does not pass by waiting."""
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with FaultServer([Response(429, body), OK]) as server:
        assert isinstance(failure(server), RateLimited)
    assert len(server.requests) == 1


def test_no_wait_goes_beyond_the_time_that_is_left() -> None:
    """A run that has 5 s left does not wait 7 s; the server's error comes at once."""
    clock = ManualClock(NOW)
    busy = Response(503, {"error": "busy"}, headers={"Retry-After": "7"})
    with FaultServer([busy, OK]) as server:
        error = failure(server, clock=clock, timeout=5.0)
    assert isinstance(error, ServerError)
    assert (len(server.requests), clock.monotonic()) == (1, 0.0)


@pytest.mark.parametrize(
    "broken",
    [
        Response(reset=True),
        Response(raw=b""),
        Response(raw=b"SSH-2.0-x\r\n"),
        Response(body=DONE, cut_after=10),
        Response(body=DONE, cut_after=10, reset=True),
        Response(body=DONE, framing="chunked", cut_after=10),
        Response(raw=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
    ],
)
def test_a_broken_connection_is_tried_again(broken: Response) -> None:
    """Before the response or inside a body that is needed whole."""
    with FaultServer([broken, OK]) as server:
        model = OllamaChat("m", base_url=server.url, clock=ManualClock(NOW))
        assert model.chat(ASK).text == "ok"
        model.close()
    with FaultServer([broken] * 3) as server:
        error = failure(server)
    assert isinstance(error, ConnectionFailed)
    assert error.attempts == 3


def test_a_server_that_closes_kept_connections_is_asked_on_a_new_one() -> None:
    """Keep-alive that is not kept costs nobody a reply."""
    with FaultServer(lambda _: Response(body=DONE, close=True)) as server:
        model = OllamaChat("m", base_url=server.url)
        assert [model.chat(ASK).text for _ in range(3)] == ["ok"] * 3
        model.close()


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


def test_silence_is_a_timeout_and_not_asked_again() -> None:
    """A server too slow to answer does not get the same work twice."""
    with FaultServer([Response(silent=True), OK]) as server:
        error = failure(server, timeouts=Timeouts(read=0.1))
    assert isinstance(error, ModelTimeout)
    assert "read timeout" in str(error)
    assert (error.attempts, len(server.requests)) == (1, 1)


def test_a_timeout_is_asked_again_where_the_policy_says_so() -> None:
    """It is the user's choice."""
    with FaultServer([Response(silent=True), OK]) as server:
        model = OllamaChat(
            "m", base_url=server.url, timeouts=Timeouts(read=0.1),
            retry=RetryPolicy(wait=0.0, timeouts=True),
        )  # fmt: skip
        assert model.chat(ASK).text == "ok"
        model.close()


def test_text_that_was_heard_is_not_asked_for_again() -> None:
    """Whoever listens would hear it twice."""
    heard: list[str] = []

    def on_text(piece: str) -> bool:
        heard.append(piece)
        return False

    stuck = Response(chunks=[LINE, LINE], pause=30.0)
    with FaultServer([stuck, OK]) as server:
        model = OllamaChat(
            "m", base_url=server.url, stream=True, timeouts=Timeouts(read=0.2),
            retry=RetryPolicy(timeouts=True),
        )  # fmt: skip
        with pytest.raises(ModelTimeout):
            model.chat(ASK, on_text=on_text)
        model.close()
    assert (heard, len(server.requests)) == (["a"], 1)


LINE = b'{"message": {"content": "a"}, "done": false}\n'
DONE_LINE = b'{"message": {"content": "b"}, "done": true}\n'


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "slow",
    [
        Response(silent=True),
        Response(body=DONE, drip=0.05),
        Response(chunks=[LINE] * 1000, pause=0.05),
        Response(chunks=[LINE] * 1000, pause=0.05, framing="length"),
        Response(chunks=[LINE] * 1000, pause=0.05, framing="close"),
        Response(body=DONE, delay=30),
        Response(500, body=b"x" * 1000, drip=0.05),
    ],
    ids=["silent", "drip", "chunks", "length", "close", "delay", "error body"],
)
def test_the_time_that_is_left_bounds_everything(slow: Response, stream: bool) -> None:
    """A drip that never lets the read timeout strike ends on time all the same."""
    with FaultServer([slow]) as server:
        model = OllamaChat("m", base_url=server.url, stream=stream, retry=RetryPolicy(attempts=1))
        began = time.monotonic()
        with pytest.raises((ModelTimeout, ServerError)):
            model.chat(ASK, timeout=0.15)
        assert time.monotonic() - began < 5
        model.close()


def test_no_single_read_waits_longer_than_what_is_left() -> None:
    """While the request was out, nearly all of the time went by: the next read is cut short."""
    clock = ManualClock(NOW)

    def answer(_: Received) -> Response:
        clock.advance(99.9)
        return Response(chunks=[LINE, DONE_LINE], pause=2.0)

    with FaultServer(answer) as server:
        model = OllamaChat("m", base_url=server.url, stream=True, clock=clock)
        with pytest.raises(ModelTimeout):
            model.chat(ASK, timeout=100.0)
        model.close()


def test_a_session_of_the_callers_keeps_the_time_too() -> None:
    """Between the pieces, whatever its adapters are."""
    slow = Response(chunks=[LINE] * 1000, pause=0.02)
    with FaultServer([slow]) as server, requests.Session() as session:
        model = OllamaChat("m", base_url=server.url, stream=True, session=session)
        with pytest.raises(ModelTimeout, match="the time that was left"):
            model.chat(ASK, timeout=0.2)


def test_no_time_left_means_no_request() -> None:
    """A run that is over asks nothing."""
    attempts = Attempts()
    with FaultServer([OK]) as server, watching(attempts):
        error = failure(server, timeout=0.0)
    assert isinstance(error, ModelTimeout)
    assert (error.attempts, server.requests, attempts.started_events) == (0, [], [])


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
    """The status has been said."""
    with FaultServer(lambda _: Response(400, chunks=[b"x" * 65536] * 4000)) as server:
        error = failure(server)
    assert isinstance(error, BadRequest)


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


def test_each_attempt_is_an_event_of_its_own() -> None:
    """Number, size and hash of what goes out; status, reason and wait of what comes back."""
    attempts = Attempts()
    with FaultServer([Response(503, "busy"), Response(reset=True), OK]) as server:
        model = OllamaChat("m", base_url=server.url, clock=ManualClock(NOW))
        with watching(attempts):
            model.chat(ASK)
        model.close()
    sent = len(server.requests[0].body)
    assert [(each.number, each.body_bytes) for each in attempts.started_events] == [
        (1, sent), (2, sent), (3, sent)
    ]  # fmt: skip
    assert len({each.body_sha256 for each in attempts.started_events}) == 1
    assert attempts.ended_events == [
        AttemptEnded(503, 4, "ServerError", "http_503", 0.5),
        AttemptEnded(None, None, "ConnectionFailed", "connection", 1.0),
        AttemptEnded(200, len(OK.pieces()[0]), None, None, None),
    ]


def test_the_last_attempt_names_no_retry() -> None:
    """Nothing follows it."""
    attempts = Attempts()
    with FaultServer(lambda _: Response(503)) as server, watching(attempts):
        failure(server, retry=RetryPolicy(attempts=2))
    reasons = [each.retry_reason for each in attempts.ended_events if hasattr(each, "retry_reason")]
    assert reasons == ["http_503", None]


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


def test_an_interruption_passes_through_and_leaves_no_connection() -> None:
    """Ctrl-C while text arrives is Ctrl-C; the server is told by the closed connection."""

    def interrupt(_: str) -> bool:
        raise KeyboardInterrupt

    with FaultServer([Response(chunks=[LINE] * 100, pause=0.01), OK]) as server:
        model = OllamaChat("m", base_url=server.url, stream=True)
        with pytest.raises(KeyboardInterrupt):
            model.chat(ASK, on_text=interrupt)
        assert model.chat(ASK).text == "ok"
        model.close()
    assert server.connections == 2


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
