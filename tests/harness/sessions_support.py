"""A scripted server on loopback, and sessions made with it, for the tests of sessions."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.sessions.format import AgentSource, ModelSource, Turn
from harness.sessions.plan import Plan
from harness.sessions.record import Recorded, record
from harness.sessions.sources import Factory, named_factory

ASSISTANT = "harness.demo.agents:assistant"
FAR_FUTURE = 30.0  # seconds: only a guard against hanging

Action = bytes | str | float
"""What the server does: send bytes, "close", "reset", or wait so many seconds."""


class ScriptedServer:
    """Answers the n-th connection with the n-th script, then closes it.

    Every request's bytes are kept in `requests`; `connections` counts.
    """

    def __init__(self, scripts: Sequence[Sequence[Action]]) -> None:
        self._scripts = list(scripts)
        self.requests: list[bytes] = []
        self.connections = 0
        self.go_on = threading.Event()  # scripts with "wait" wait for it
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def add(self, *scripts: Sequence[Action]) -> None:
        self._scripts += scripts

    def close(self) -> None:
        self.go_on.set()
        # On Linux closing a listening socket does not wake a blocked accept.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(FAR_FUTURE)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                self.connections += 1
                self.requests.append(_read_request(connection))
                script = self._scripts.pop(0) if self._scripts else [response(500, b"{}")]
                self._play(connection, script)

    def _play(self, connection: socket.socket, script: Sequence[Action]) -> None:
        for action in script:
            if isinstance(action, bytes):
                connection.sendall(action)
            elif action == "wait":
                self.go_on.wait(FAR_FUTURE)
            elif action == "reset":
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                return


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n")
         if line.lower().startswith(b"content-length:")),
        0,
    )  # fmt: skip
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def serving(*scripts: Sequence[Action]) -> Iterator[ScriptedServer]:
    server = ScriptedServer(scripts)
    try:
        yield server
    finally:
        server.close()


def response(
    status: int, body: bytes, content_type: str = "application/json", **headers: str
) -> bytes:
    lines = [f"HTTP/1.1 {status} Status", f"Content-Type: {content_type}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


def stream_head(content_type: str = "application/x-ndjson") -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n"
        "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def ollama_line(text: str, *, done: bool = False) -> bytes:
    value: dict[str, Any] = {
        "model": "m",
        "created_at": "2026-11-30T12:00:00Z",
        "message": {"role": "assistant", "content": text},
        "done": done,
    }
    if done:
        value |= {"done_reason": "stop", "prompt_eval_count": 90, "eval_count": 9}
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def ollama_reply(text: str) -> list[Action]:
    return [response(200, ollama_line(text, done=True).strip())]


def ollama_stream(*pieces: str) -> list[Action]:
    lines = [chunk(ollama_line(piece)) for piece in pieces]
    return [stream_head(), *lines, chunk(ollama_line("", done=True)), chunk(b"")]


def version_scripts() -> list[list[Action]]:
    """What a recording asks before it begins: the server's version and its models."""
    tags = {"models": [{"name": "m:latest", "digest": "0123abcd"}]}
    return [
        [response(200, b'{"version": "0.24.0"}')],
        [response(200, json.dumps(tags).encode())],
    ]


WEATHER = (
    "Thought: I need the weather.\n"
    'Action: {"name": "get_weather", "parameters": {"city": "Lisbon"}}'
)
SUM = 'Thought: Now the sum.\nAction: {"name": "calculator", "parameters": {"expression": "2 + 3"}}'
ANSWER = "Thought: I know all.\nFinal Answer: It is fine 😀 and the sum is 5."


def plan(url: str, *questions: str, stream: bool = False, **agent: Any) -> Plan:
    return Plan(
        AgentSource(factory=ASSISTANT, **agent),
        ModelSource(name="m", base_url=url, stream=stream, options={"temperature": 0}),
        tuple(Turn(question=each) for each in questions or ("Weather in Lisbon, and 2 + 3?",)),
    )


def record_scripted(
    path: Path,
    *scripts: Sequence[Action],
    questions: Sequence[str] = (),
    stream: bool = False,
    factory: Factory | None = None,
    **how: Any,
) -> Recorded:
    """Record a session of the demo assistant with a server that answers by script."""
    with serving(*version_scripts(), *scripts) as server:
        return record(
            plan(server.url, *questions, stream=stream),
            factory or named_factory(ASSISTANT),
            path,
            **how,
        )


def three_steps(path: Path, **how: Any) -> Recorded:
    """Weather, a sum, the answer."""
    return record_scripted(path, *(ollama_reply(text) for text in (WEATHER, SUM, ANSWER)), **how)


def edited(factory: Factory, change: Callable[[Any], Any]) -> Factory:
    """A factory whose agent is changed after it was built."""
    return lambda *args, **kwargs: change(factory(*args, **kwargs))
