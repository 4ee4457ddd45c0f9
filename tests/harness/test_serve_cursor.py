"""A cursor knows which recorded requests are answered, whose turn it is, and who went astray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.sessions.cassette import load_session
from harness.sessions.cursor import Cursor
from harness.sessions.exchange import Request
from harness.sessions.format import SessionFile, Take, Traffic
from harness.sessions.forms import same_form
from tests.harness.serve_support import ANSWER, ASKED, FIRST, QUESTION, tool_turn


def cursor_of(path: Path, *seconds: float) -> Cursor:
    """A conversation of two requests, a second apart, which took so long each."""
    file = load_session(tool_turn(path))
    takes = [Take(exchange=n, at=n, seconds=each) for n, each in enumerate(seconds)]
    return Cursor("x", SessionFile(None, file.exchanges, traffic=Traffic(takes=takes)))


def form(*messages: Any) -> Request:
    """A request as it is compared."""
    body = json.dumps({**FIRST, "messages": messages}).encode()
    return same_form(Request("POST", "http://127.0.0.1:11434/api/chat", {}, body))


@pytest.mark.parametrize(
    ("seconds", "early"), [((0.5, 0.5), [(1, 0)]), ((1.5, 0.5), []), ((0.0, 0.0), [(1, 0)])]
)
def test_a_request_before_its_turn_is_noted_unless_both_were_under_way(
    tmp_path: Path, seconds: tuple[float, float], early: list[tuple[int, int]]
) -> None:
    """Requests that overlapped when they were recorded have no order."""
    cursor = cursor_of(tmp_path / "c.yaml", *seconds)
    cursor.answer(1)
    cursor.answer(0)
    assert cursor.early == early


def test_a_client_that_a_wrong_reply_did_not_mislead_gets_no_second_reply(tmp_path: Path) -> None:
    """Once it has gone on as recorded, whatever else it asks is compared as it stands."""
    astray = form(QUESTION, ASKED, {"role": "user", "content": ANSWER})
    misled = cursor_of(tmp_path / "a.yaml", 0.5, 0.5)
    misled.mislead(0)
    assert misled.without_detours(astray) == misled.requests[0]  # asked again: the model mends it
    steady = cursor_of(tmp_path / "b.yaml", 0.5, 0.5)
    steady.mislead(0)
    steady.answer(1)
    assert steady.without_detours(astray) == astray
    assert steady.unused == []
