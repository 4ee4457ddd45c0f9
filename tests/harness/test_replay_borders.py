"""Replay with other chunk borders: the same bytes, the same run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests
from click.testing import CliRunner

from harness.cli import main
from harness.sessions.borders import BORDERS, Borders
from harness.sessions.cassette import load_session
from harness.sessions.exchange import Exchange, Request, Response
from harness.sessions.format import ErrorTake, SessionFile, Take
from harness.sessions.player import Player, replay_session
from harness.sessions.replay import replay
from tests.harness.sessions_support import ollama_stream, record_scripted

PIECES = ("Thought: 港口", "在这里。\nFinal ", "Answer: 晴 😀")


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded stream of four lines, with Chinese in it."""
    path = tmp_path_factory.mktemp("streamed") / "s.yaml"
    record_scripted(path, ollama_stream(*PIECES), stream=True)
    return path


def chunks(path: Path, borders: Borders | None) -> list[bytes]:
    """The reply of the first request, in the chunks in which a client gets it."""
    player = Player(load_session(path), borders=borders)
    sent = player.request(0)
    with replay_session(player) as http:
        reply = http.post(sent.url, data=sent.body, stream=True)
        return list(reply.iter_content(None))


@pytest.mark.parametrize("borders", BORDERS)
def test_other_borders_change_neither_bytes_nor_run(streamed: Path, borders: Borders) -> None:
    """Whatever the border, the replay is green and the answer is whole."""
    assert b"".join(chunks(streamed, borders)) == b"".join(chunks(streamed, None))
    report = replay(streamed, borders=borders)
    assert report.ok, report.in_words()
    assert report.results[0].answer == "晴 😀"


def test_the_borders_are_where_they_were_asked_for(streamed: Path) -> None:
    """At lines, inside characters, inside JSON, nowhere."""
    assert len(chunks(streamed, "once")) == 1
    lines = chunks(streamed, "lines")
    assert len(lines) == len(PIECES) + 1
    assert all(json.loads(line) for line in lines)
    for each in chunks(streamed, "mid-utf8")[1:]:
        with pytest.raises(UnicodeDecodeError):
            each.decode()
    for each in chunks(streamed, "mid-json")[:-1]:
        with pytest.raises(json.JSONDecodeError):
            json.loads(each)


def test_events_of_v1_are_cut_too_and_a_whole_reply_is_not() -> None:
    """A body that is no stream has no borders."""
    request = Request("POST", "http://h/v1/chat/completions", {}, b"{}")
    events = [b'data: {"a": "\xe6', b'\xb8\xaf"}\n\ndata: [DONE]\n\n']
    kind = {"Content-Type": ["text/event-stream"]}
    whole = Response(200, "OK", {"Content-Type": ["application/json"]}, b'{"a": "\xe6\xb8\xaf"}')
    exchanges = (
        Exchange(request, Response(200, "OK", kind, b"".join(events))),
        Exchange(request, whole),
    )
    player = Player(SessionFile(None, exchanges), borders="mid-utf8")
    with replay_session(player) as http:
        got = [list(http.post(request.url, data=b"{}", stream=True).iter_content(None))
               for _ in range(2)]  # fmt: skip
    assert got == [events, [whole.body]]


def test_a_stream_that_broke_breaks_at_the_same_byte() -> None:
    """What had arrived is cut elsewhere; the failure comes after it, as it did."""
    body = b'{"message": {"content": "\xe6\xb8\xaf"}}\n{"mess'
    error = ErrorTake(
        kind="reset",
        after=len(body),
        request={"method": "POST", "uri": "http://h/api/chat", "body": "{}", "headers": {}},
        response={
            "status": {"code": 200, "message": "OK"},
            "headers": {"Content-Type": ["application/x-ndjson"]},
            "body": {"string": body.decode()},
        },
    )
    player = Player(SessionFile(None, (), (Take(error=error, sizes=[len(body)]),)), borders="lines")
    with replay_session(player) as http:
        reply = http.post("http://h/api/chat", data=b"{}", stream=True).iter_content(None)
        assert [next(reply), next(reply)] == body.splitlines(keepends=True)
        with pytest.raises(requests.RequestException, match="reset"):
            next(reply)


def test_the_command_takes_the_names_of_serve(streamed: Path) -> None:
    """`--borders mid-json` on the command line."""
    done = CliRunner().invoke(main, ["replay", str(streamed), "--borders", "mid-json"])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(main, ["replay", str(streamed), "--borders", "mid-air"])
    assert done.exit_code == 2
    assert all(name in done.output for name in BORDERS)
