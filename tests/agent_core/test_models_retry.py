"""What is asked again, after how long, and how each attempt is told."""

from __future__ import annotations

from datetime import timedelta
from email.utils import format_datetime

import pytest

from agent_core.clock import ManualClock
from agent_core.errors import ConnectionFailed, RateLimited, ServerError
from agent_core.events import AttemptEnded, watching
from agent_core.models import OllamaChat, RetryPolicy
from harness.faults import FaultServer, Response
from tests.agent_core.http_support import ASK, DONE, NOW, OK, Attempts, failure

pytestmark = pytest.mark.usefixtures("clean_environment")


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


def test_no_number_of_attempts_is_too_large_for_the_wait() -> None:
    """The wait doubles up to its limit and stays there, after thousands of attempts too."""
    policy = RetryPolicy(attempts=5_000, wait=0.5, max_wait=30)
    assert [policy.wait_after(number, None) for number in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert policy.wait_after(4_999, None) == 30


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
    """Its event gives neither a reason nor a wait, since nothing follows it."""
    attempts = Attempts()
    with FaultServer(lambda _: Response(503)) as server, watching(attempts):
        failure(server, retry=RetryPolicy(attempts=2))
    reasons = [each.retry_reason for each in attempts.ended_events if hasattr(each, "retry_reason")]
    assert reasons == ["http_503", None]
