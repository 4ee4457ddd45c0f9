"""Replay under threads: every request its own reply, and no socket."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import requests

from harness.sessions.exchange import Exchange, Request, Response
from harness.sessions.format import SessionFile, Take
from harness.sessions.player import Player, ReplayAdapter, replay_session
from tests.harness.sessions_support import response, serving

THREADS, EACH = 8, 64


class EscapedError(OSError):
    """A connection was opened during a replay."""


@contextmanager
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """Refuse and count every connection of this process."""
    seen: list[object] = []

    def refuse(self: socket.socket, address: object) -> None:
        seen.append(address)
        raise EscapedError(f"a connection to {address!r}")

    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr(socket.socket, "connect_ex", refuse)
        yield seen


def many(url: str, count: int, *, twins: bool = False) -> SessionFile:
    """A cassette of many requests, all to one address; `twins` asks everything twice."""
    exchanges = []
    for number in range(count):
        asked = number // 2 if twins else number
        body = json.dumps({"model": "m", "n": asked}).encode()
        said = json.dumps({"reply": number}).encode()
        request = Request("POST", f"{url}/api/chat", {}, body)
        exchanges.append(Exchange(request, Response(200, "OK", {}, said)))
    return SessionFile(None, tuple(exchanges))


def test_eight_threads_get_512_right_replies_and_open_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Shared and fresh sessions alike; the live server at the address sees nothing."""
    with serving() as server:
        player = Player(many(server.url, THREADS * EACH))
        shared = replay_session(player)
        wrong: list[int] = []

        def ask(thread: int) -> None:
            for number in range(thread, THREADS * EACH, THREADS):
                http = shared if number % 2 else replay_session(player)
                body = json.dumps({"model": "m", "n": number}).encode()
                got = http.post(f"{server.url}/api/chat", data=body).json()
                if got != {"reply": number}:
                    wrong.append(number)

        with guarded(monkeypatch) as connections, ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(ask, range(THREADS)))
        assert connections == []
        assert wrong == []
        assert server.connections == 0
    assert len(player.served) == 512
    assert player.unused == []
    assert all(each.sent is None for each in player.served)


def test_equal_requests_from_threads_get_each_reply_once() -> None:
    """A request that was recorded twice has two replies; nobody gets one twice."""
    url = "http://localhost:1"
    player = Player(many(url, 256, twins=True))
    replies: list[int] = []
    lock = threading.Lock()

    def ask(number: int) -> None:
        with replay_session(player) as http:
            body = json.dumps({"model": "m", "n": number // 2}).encode()
            got = http.post(f"{url}/api/chat", data=body).json()["reply"]
        with lock:
            replies.append(got)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(ask, range(256)))
    assert sorted(replies) == list(range(256))


@pytest.mark.parametrize(
    "escape",
    [
        lambda url: requests.Session().post(url, data=b"{}", timeout=5),
        lambda url: urllib.request.urlopen(url, data=b"{}", timeout=5),
        lambda url: socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), 5),
    ],
    ids=["a fresh Session", "urllib", "a raw socket"],
)
def test_the_guard_of_these_tests_catches_what_escapes(
    monkeypatch: pytest.MonkeyPatch, escape: Callable[[str], object]
) -> None:
    """A connection planted in a tool is seen, so that 0 connections above means something."""
    with serving([response(200, b"{}")]) as server:
        with guarded(monkeypatch) as connections, pytest.raises(OSError, match="a connection to"):
            escape(server.url)
        assert server.connections == 0
    assert len(connections) == 1


def test_requests_that_overlapped_may_come_in_another_order() -> None:
    """Order counts only between requests that were not under way at the same time."""
    from harness.sessions.drift import drift_of

    exchanges = many("http://h", 3).exchanges
    takes = (
        Take(exchange=0, at=0.0, seconds=1.0),
        Take(exchange=1, at=0.5, seconds=1.0),
        Take(exchange=2, at=2.0, seconds=1.0),
    )

    def causes(order: list[int]) -> list[str]:
        player = Player(SessionFile(None, exchanges, takes))
        with replay_session(player) as http:
            for number in order:
                http.post("http://h/api/chat", data=exchanges[number].request.body)
        return [cause.part for cause in drift_of(player).causes]

    assert causes([0, 1, 2]) == []
    assert causes([1, 0, 2]) == []
    assert causes([0, 2, 1]) == ["request 2 is the recorded request 3, before request 2"]


def test_an_adapter_can_be_mounted_on_a_session_of_ones_own() -> None:
    """`requests.Session.mount` is all it takes."""
    url = "http://localhost:1"
    http = requests.Session()
    http.mount("http://", ReplayAdapter(Player(many(url, 1))))
    body = json.dumps({"model": "m", "n": 0}).encode()
    assert http.post(f"{url}/api/chat", data=body).json() == {"reply": 0}


@pytest.mark.parametrize(("path", "shape"), [("/api/chat", str), ("/v1/chat/completions", dict)])
def test_a_request_too_many_is_answered_409(path: str, shape: type) -> None:
    """The client hears it in the form of its API, and the player keeps it."""
    player = Player(SessionFile(None, ()))
    with replay_session(player) as http:
        answer = http.post(f"http://localhost:1{path}", data=b"{}")
    assert answer.status_code == 409
    assert isinstance(answer.json()["error"], shape)
    assert player.served[0].number is None
