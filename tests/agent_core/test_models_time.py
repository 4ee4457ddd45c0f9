"""Silence, slow drips and interruptions: no reply takes longer than the time that is left."""

from __future__ import annotations

import time

import pytest
import requests

from agent_core.clock import ManualClock
from agent_core.errors import ModelTimeout, ServerError
from agent_core.events import watching
from agent_core.models import OllamaChat, RetryPolicy, Timeouts
from harness.faults import FaultServer, Received, Response
from tests.agent_core.http_support import ASK, DONE, NOW, OK, Attempts, failure

pytestmark = pytest.mark.usefixtures("clean_environment")


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
