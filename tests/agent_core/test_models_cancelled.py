"""A cancelled run lets go of the model: at once, wherever the answer stands."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.events import Ended, Failed, ModelCallStarted, Started
from agent_core.gears import ChatModel
from agent_core.limits import Limits, StopReason
from agent_core.messages import RunResult
from agent_core.models import OllamaChat, OpenAIChat, RetryPolicy, RouterChat, ScriptedModel
from agent_core.streaming import AnswerPiece
from harness.faults import FaultServer, Received, Response

FAR_FUTURE = 30.0  # seconds: only a guard against hanging
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    """A line of a reply, as a chunk."""
    line = json.dumps({"message": {"role": "assistant", "content": text}, "done": False}).encode()
    return b"%x\r\n%s\n\r\n" % (len(line) + 1, line)


ANSWERING = [HEAD, chunk("Thought: I know.\nFinal Answer: It is"), chunk(" fine and")]


class Stalling:
    """Sends what it is given, then says nothing more and waits for the client to leave."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts
        self.sent = threading.Event()
        self.left = threading.Event()
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            for part in self._parts:
                connection.sendall(part)
            self.sent.set()
            try:
                while connection.recv(65536):
                    pass
            except ConnectionResetError:
                pass
            self.left.set()


class Failures:
    """An observer that keeps what model calls failed with."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def started(self, event: Started) -> bool:
        return isinstance(event, ModelCallStarted)

    def ended(self, token: bool, event: Ended) -> None:
        if token and isinstance(event, Failed):
            self.said.append(str(event.error))


@contextmanager
def stalling(*parts: bytes) -> Iterator[Stalling]:
    server = Stalling(list(parts))
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize(
    "parts", [[], ANSWERING[:1], ANSWERING], ids=["no-head", "no-text", "mid-answer"]
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_cancelled_run_ends_and_closes_the_response(parts: list[bytes], stream: bool) -> None:
    """Neither the server nor the caller waits for what nobody wants."""
    cancel = threading.Event()
    with stalling(*parts) as server:
        model = OllamaChat("m", base_url=server.url, stream=stream)

        def cancelling() -> None:
            server.sent.wait(FAR_FUTURE)
            time.sleep(0.1)
            cancel.set()

        threading.Thread(target=cancelling, daemon=True).start()
        heard = Failures()
        result = Agent(model, observers=[heard]).run("q", cancel=cancel)
        assert server.left.wait(FAR_FUTURE)
        model.close()
    assert result.stop_reason is StopReason.CANCELLED
    assert (result.answer, result.error) == (None, None)
    assert heard.said
    assert all("given up: the run was cancelled" in each for each in heard.said)
    assert server.connections == 1


def test_a_cancelled_run_does_not_wait_for_the_next_attempt() -> None:
    """A server that asks for ten minutes of patience does not hold up who has none left."""
    cancel = threading.Event()

    def busy(_: Received) -> Response:
        threading.Timer(0.1, cancel.set).start()
        return Response(503, headers={"Retry-After": "600"})

    results: list[RunResult] = []
    with FaultServer(busy) as server:
        model = OllamaChat("m", base_url=server.url, retry=RetryPolicy(max_wait=600))
        run = threading.Thread(
            target=lambda: results.append(Agent(model).run("q", cancel=cancel)), daemon=True
        )
        run.start()
        run.join(FAR_FUTURE)
        model.close()
    assert [each.stop_reason for each in results] == [StopReason.CANCELLED]
    assert len(server.requests) == 1


def test_inside_a_run_waits_are_as_long_as_outside() -> None:
    """To look up now and then makes them neither longer nor shorter."""
    answered = Response(body={"message": {"content": "Final Answer: ok"}, "done": True})
    clock = ManualClock(datetime(2026, 11, 30, tzinfo=UTC))
    with FaultServer([Response(503), Response(503), answered]) as server:
        model = OllamaChat("m", base_url=server.url, clock=clock)
        result = Agent(model, clock=clock).run("q", cancel=threading.Event())
        model.close()
    assert (result.answer, result.seconds) == ("ok", 1.5)


def test_leaving_a_stream_closes_the_response() -> None:
    """Whoever has read enough of an answer just leaves; the server is told."""
    with stalling(*ANSWERING) as server:
        model = OllamaChat("m", base_url=server.url, stream=True)
        for event in Agent(model).stream("q"):
            if isinstance(event, AnswerPiece):
                break
        assert server.left.wait(FAR_FUTURE)
        model.close()


def test_leaving_before_anything_came_closes_it_too() -> None:
    """A stream that was begun and never read to its first event."""
    cancel = threading.Event()
    with stalling() as server:
        model = OllamaChat("m", base_url=server.url, stream=True)
        stream = Agent(model).stream("q", cancel=cancel)
        last: list[Any] = []
        reader = threading.Thread(target=lambda: last.extend(stream), daemon=True)
        reader.start()
        assert server.sent.wait(FAR_FUTURE)
        cancel.set()
        assert server.left.wait(FAR_FUTURE)
        reader.join(FAR_FUTURE)
        model.close()
    assert last[-1].stop_reason is StopReason.CANCELLED


def test_a_router_asks_nobody_else_for_a_cancelled_run() -> None:
    """Giving up is no failure that another model could make good."""
    cancel = threading.Event()
    with stalling(*ANSWERING) as first, stalling() as second:
        routes: list[ChatModel] = [
            OllamaChat("m", base_url=first.url),
            OpenAIChat("m", base_url=second.url),
        ]

        def cancelling() -> None:
            first.sent.wait(FAR_FUTURE)
            cancel.set()

        threading.Thread(target=cancelling, daemon=True).start()
        result = Agent(RouterChat(routes)).run("q", cancel=cancel)
        assert first.left.wait(FAR_FUTURE)
    assert result.stop_reason is StopReason.CANCELLED
    assert second.connections == 0


def test_a_run_inside_a_tool_lets_go_when_the_tool_is_given_up() -> None:
    """The time of the outer run ends the model call of the inner one."""
    with stalling(*ANSWERING) as server:
        inner = Agent(OllamaChat("m", base_url=server.url), name="inner")
        ask = 'Action: {"name": "ask", "parameters": {"task": "x"}}'
        outer = Agent(
            ScriptedModel([ask, "Final Answer: without"]),
            [inner.as_tool("ask", "Knows.", timeout=0.3)],
            limits=Limits(time_limit=FAR_FUTURE),
        )
        result = outer.run("q")
        assert server.left.wait(FAR_FUTURE)
    assert result.answer == "without"
    assert not result.steps[0].observations[0].ok
