"""Serve and requests that no client should send: each is answered, and the next one, too."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from harness.sessions.serve import serve
from tests.harness.serve_support import ANSWER, ASKED, QUESTION, SEEN, ask, tool_turn

ROUTES = ("/api/chat", "/v1/chat/completions", "/api/generate", "/api/show", "/api/embed", "/x")
BODIES = (
    b"",
    b"{",
    b"[1]",
    b"null",
    b"\xff\xfe",
    b'{"messages": 1}',
    b'{"messages": [1, "a", null, []]}',
    b'{"messages": [{"role": 1, "content": {}}]}',
    b'{"messages": [{"content": [{"type": "text"}]}], "tools": {"a": 1}, "options": [1]}',
    b'{"messages": [{"tool_calls": [1, {"function": 1}]}]}',
    b'{"model": {"a": 1}, "messages": {}}',
    b'{"model": ["m"]}',
    b'{"model": 7, "stream": "yes", "stream_options": 1}',
    b'{"a": ' * 3000,
    b'{"messages": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    b'{"messages": [{"content": "\\ud800"}]}',
    b'{"n": NaN, "m": 1e999, "k": ' + b"9" * 6000 + b"}",
)


@pytest.mark.parametrize("route", ROUTES)
def test_whatever_comes_is_refused_by_a_status(tmp_path: Path, route: str) -> None:
    """With a reason in the API's form; and the conversation goes on as if nothing had been."""
    path = tool_turn(tmp_path / "tour.yaml")
    with serve([path]) as server, requests.Session() as http:
        http.trust_env = False
        for body in BODIES:
            reply = http.post(f"{server.url}{route}", data=body, timeout=20)
            assert reply.status_code in {400, 404, 409}, body
            assert reply.json()["error"]
        for messages in ([QUESTION], [QUESTION, ASKED, SEEN]):
            end = ask(server, {"model": "m", "messages": messages, "stream": False})
        assert end.json()["message"]["content"] == ANSWER
