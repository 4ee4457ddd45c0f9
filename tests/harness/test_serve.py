"""Serve: any client gets the recorded replies, and is told what it asks otherwise."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from harness.sessions.format import Take
from harness.sessions.pacing import moments
from harness.sessions.serve import serve
from tests.harness.serve_support import (
    ANSWER,
    ASKED,
    CALL,
    FIRST,
    QUESTION,
    SECOND,
    SEEN,
    ask,
    cassette,
    interaction,
    ndjson,
    record,
    sse,
    tool_turn,
)
from tests.harness.sessions_support import three_steps

COUNTED = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}


def chunk(delta: Any, reason: str | None = None, **more: Any) -> Any:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [choice]} | more  # fmt: skip


def test_a_conversation_is_answered_and_judged(tmp_path: Path) -> None:
    """Each recorded request gets its reply, byte for byte; all of them were asked for."""
    path = tool_turn(tmp_path / "tour.yaml")
    with serve([path]) as server:
        assert ask(server, FIRST).json() == record(tool_calls=[CALL])
        half = server.verdict()
        assert ask(server, SECOND).json()["message"]["content"] == ANSWER
        verdict = server.verdict()
    assert half.in_words() == [
        "session tour: 1 of 2 recorded requests was not sent, the first is request 2"
    ]
    assert (verdict.ok, verdict.answered, verdict.in_words()) == (True, 2, [])


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"tools": [], "format": "", "options": {}, "keep_alive": None},
        {"options": {"stop": None}, "think": None, "images": []},
    ],
)
def test_empty_defaults_of_clients_do_not_count(tmp_path: Path, extra: Any) -> None:
    """What one client sends empty and another leaves out is the same request."""
    messages = [{**QUESTION, "images": None}, {**ASKED, "content": None}, {**SEEN, "thinking": ""}]
    with serve([tool_turn(tmp_path / "tour.yaml")]) as server:
        assert ask(server, {**SECOND, **extra, "messages": messages}).status_code == 200


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{**SEEN, "content": "雨"}], "request 1 comes nearest and differs in: "),
        ([SEEN], "request 2 comes nearest (1 message in common) and differs in: "),
        ([QUESTION, ASKED, {**SEEN, "content": "雨"}], " (2 messages in common) and differs in: "),
    ],
)
def test_numbers_agree_with_their_nouns(tmp_path: Path, messages: Any, words: str) -> None:
    """None is not spoken of, one is one message."""
    with serve([tool_turn(tmp_path / "tour.yaml")]) as server:
        assert words in ask(server, {**SECOND, "messages": messages}).json()["error"]


def test_a_request_more_than_was_recorded_is_told_first(tmp_path: Path) -> None:
    """The number is the cause; the request that shares most is the nearest, or else the latest."""
    other, more = {"role": "user", "content": "上海呢？"}, {"role": "user", "content": "谢谢"}
    answered = "session tour: all 2 recorded requests were answered, and this is one more; request "
    with serve([tool_turn(tmp_path / "tour.yaml")]) as server:
        for each in (FIRST, SECOND):
            assert ask(server, each).status_code == 200
        for messages, words in (
            ([*SECOND["messages"], more], "2 comes nearest (3 messages in common)"),
            ([other, ASKED, SEEN], "2 comes nearest (2 messages in common)"),
            ([other], "2 comes nearest and"),
            ([QUESTION], "1 has been answered already"),
        ):
            told = ask(server, {**SECOND, "messages": messages}).json()["error"]
            assert told.startswith(answered + words)
    with serve([tmp_path / "tour.yaml"], repeat=True) as server:
        for each in (FIRST, SECOND):
            assert ask(server, each).status_code == 200
        told = ask(server, {**SECOND, "messages": [other]}).json()["error"]
        assert told.startswith("session tour: no recorded request fits; ")


def test_what_fits_nothing_is_refused_with_the_reason(tmp_path: Path) -> None:
    """409 with the drift; a client that tries again is counted once, and nothing is used up."""
    with serve([tool_turn(tmp_path / "tour.yaml")]) as server:
        other = {**FIRST, "messages": [{"role": "user", "content": "上海呢？"}]}
        refused = [ask(server, other) for _ in range(2)]
        assert ask(server, FIRST).status_code == 200
        again = ask(server, FIRST)
        verdict = server.verdict()
    assert [each.status_code for each in refused] == [409, 409]
    assert refused[0].headers["x-should-retry"] == "false"
    told = refused[0].json()
    assert "request 1 comes nearest" in told["error"]
    assert [each["part"] for each in told["drift"]["causes"]] == ["question"]
    assert told["drift"]["causes"][0]["after"] == "上海呢？"
    assert again.json()["error"] == "session tour: request 1 has been answered already"
    assert len(verdict.refused) == 2
    assert not verdict.ok


def test_options_and_model_are_part_of_the_request(tmp_path: Path) -> None:
    """An option that was not sent when it was recorded is another request, and named."""
    with serve([tool_turn(tmp_path / "tour.yaml")]) as server:
        told = ask(server, {**FIRST, "model": "n", "options": {"seed": 7}}).json()
    assert {each["part"] for each in told["drift"]["causes"]} == {"model", "option `seed`"}


def test_only_times_differ(tmp_path: Path) -> None:
    """A prompt that holds the hour is served: nothing else differs."""

    def asked(hour: str) -> Any:
        return {**FIRST, "messages": [{"role": "user", "content": f"Now: 2026-11-30 {hour}:00"}]}

    path = cassette(tmp_path / "c.yaml", interaction(asked("12"), json.dumps(record("noon"))))
    with serve([path]) as server:
        assert ask(server, asked("15")).json()["message"]["content"] == "noon"
        assert server.verdict().ok


def test_order_is_judged(tmp_path: Path) -> None:
    """The second request before the first is answered, and told of."""
    with serve([tool_turn(tmp_path / "tour.yaml")]) as server:
        ask(server, SECOND)
        ask(server, FIRST)
        assert server.verdict().in_words() == [
            "session tour: the recorded request 2 came before request 1"
        ]


def test_the_session_is_chosen_by_what_was_said(tmp_path: Path) -> None:
    """Of two sessions that begin alike each conversation goes on in its own."""
    paths = [
        tool_turn(tmp_path / "one.yaml", answer="one"),
        tool_turn(tmp_path / "two.yaml", seen="雨", answer="two"),
    ]
    other = {**SEEN, "content": "雨"}
    with serve(paths) as server:
        assert ask(server, FIRST).status_code == 200
        wet = ask(server, {**FIRST, "messages": [QUESTION, ASKED, other]})
        named = ask(server, SECOND, "/s/two/api/chat")
        unnamed = ask(server, SECOND)
        assert wet.json()["message"]["content"] == "two"
        assert named.status_code == 409
        assert "session two" in named.json()["error"]
        assert unnamed.json()["message"]["content"] == "one"


@pytest.mark.parametrize("field", ["content", "thinking"])
def test_a_reply_that_came_whole_is_streamed(tmp_path: Path, field: str) -> None:
    """Asked to stream, the same reply comes in pieces that say the same together."""
    reply = record(tool_calls=[CALL])
    reply["message"][field] = "a bc  d\n"
    path = cassette(tmp_path / "c.yaml", interaction(FIRST, json.dumps(reply)))
    with serve([path]) as server:
        got = ask(server, {key: FIRST[key] for key in ("model", "messages")}, stream=True)
        lines = [json.loads(line) for line in got.iter_lines()]
    assert got.headers["Content-Type"] == "application/x-ndjson"
    said = [line["message"] for line in lines]
    assert "".join(each.get(field, "") for each in said) == "a bc  d\n"
    assert [call for each in said for call in each.get("tool_calls", [])] == [CALL]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["eval_count"] == 7


def test_a_stream_is_given_whole(tmp_path: Path) -> None:
    """Not asked to stream, the recorded lines come as one object."""
    lines = [
        record(done=False, thinking="hm "),
        record("北", done=False),
        record("京", done=False),
        record(done=False, tool_calls=[CALL]),
        record(),
    ]
    path = cassette(tmp_path / "c.yaml", interaction({**FIRST, "stream": True}, ndjson(*lines)))
    with serve([path]) as server:
        got = ask(server, FIRST).json()
    assert got == record("北京", thinking="hm ", tool_calls=[CALL])


def test_v1_streams_and_does_not(tmp_path: Path) -> None:
    """Events become one completion, and a completion becomes events, usage when asked for."""
    call = {"id": "call_1", "type": "function", "index": 0}
    function = {"name": "get_weather", "arguments": '{"city"'}
    chunks = [
        chunk({"role": "assistant", "content": "We"}),
        chunk({"content": "ll"}),
        chunk({"tool_calls": [{**call, "function": function}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": ': "北京"}'}}]}),
        chunk({}, "tool_calls"),
        {**chunk({}), "choices": [], "usage": COUNTED},
    ]
    streamed = {**FIRST, "stream": True, "stream_options": {"include_usage": True}}
    path = "/v1/chat/completions"
    events = {"Content-Type": ["text/event-stream"]}
    as_stream = cassette(
        tmp_path / "a.yaml", interaction(streamed, sse(*chunks), path=path, headers=events)
    )
    with serve([as_stream], repeat=True) as server:
        whole = ask(server, FIRST, path).json()
        same = ask(server, streamed, path)
    assert same.content.decode() == sse(*chunks)
    assert whole["usage"] == COUNTED
    choice = whole["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Well", "tool_calls")
    made = choice["message"]["tool_calls"][0]["function"]
    assert made == {"name": "get_weather", "arguments": '{"city": "北京"}'}
    as_whole = cassette(tmp_path / "b.yaml", interaction(FIRST, json.dumps(whole), path=path))
    with serve([as_whole], repeat=True) as server:
        counted = ask(server, streamed, path).text
        uncounted = ask(server, {**FIRST, "stream": True}, path).text
    assert counted.endswith("data: [DONE]\n\n")
    assert ("usage" in counted, "usage" in uncounted) == (True, False)


def test_a_refused_request_to_v1_has_its_form_of_errors(tmp_path: Path) -> None:
    """`error` is an object there, as its clients expect."""
    path = cassette(tmp_path / "c.yaml", interaction(FIRST, "{}", path="/v1/chat/completions"))
    with serve([path]) as server:
        error = ask(server, {**FIRST, "seed": 1}, "/v1/chat/completions").json()["error"]
    assert error["type"] == "not_recorded"
    assert "option `seed`" in error["message"]


@pytest.mark.parametrize("stream", [True, False])
def test_errors_come_as_they_were(tmp_path: Path, stream: bool) -> None:
    """A recorded 404 is served as it is, whatever was asked for."""
    body = '{"error":"model \'m\' not found"}'
    path = cassette(tmp_path / "c.yaml", interaction(FIRST, body, status=404, headers={}))
    with serve([path]) as server:
        got = ask(server, {**FIRST, "stream": stream})
    assert (got.status_code, got.text) == (404, body)


def test_a_server_behind_a_path_and_a_gateway(tmp_path: Path) -> None:
    """Recorded elsewhere, under another host and prefix, embeddings or a generation."""
    asked = {"model": "m", "prompt": "hi"}
    path = cassette(
        tmp_path / "c.yaml",
        interaction(asked, '{"embedding": [0.5]}', path="/api/embeddings", host="https://x.test/p"),
        interaction({**asked, "stream": False}, '{"response": "yes", "done": true}',
                    path="/api/generate", host="http://localhost:1"),
    )  # fmt: skip
    with serve([path]) as server:
        assert ask(server, asked, "/api/embeddings").json() == {"embedding": [0.5]}
        lines = ask(server, asked, "/api/generate").text.splitlines()
        assert [json.loads(line)["response"] for line in lines] == ["yes", ""]
        assert server.verdict().ok


def test_pace_follows_the_recording(tmp_path: Path) -> None:
    """The moments are those of `created_at`, after loading and reading the prompt."""
    lines = [
        record("a", done=False, at="00.000"),
        record("b", done=False, at="00.250"),
        record(at="00.500") | {"load_duration": 100_000_000, "prompt_eval_duration": 50_000_000},
    ]
    path = cassette(tmp_path / "c.yaml", interaction({**FIRST, "stream": True}, ndjson(*lines)))
    began = time.monotonic()
    with serve([path], pace=0.2) as server:
        got = ask(server, {**FIRST, "stream": True})
    assert time.monotonic() - began >= 0.2 * 0.65
    assert got.text == ndjson(*lines)
    pieces = [each.encode() for each in ndjson(*lines).splitlines(keepends=True)]
    assert moments(pieces, Take(exchange=0)) == pytest.approx([0.15, 0.4, 0.65])
    ours = Take(exchange=0, sizes=[len(pieces[0]) - 1, 1 + len(pieces[1]) + len(pieces[2])],
                times=[0.5, 2.0])  # fmt: skip
    assert moments(pieces, ours) == [2.0, 2.0, 2.0]
    odd = [each.replace(b".250Z", b".250").replace(b".500Z", b" o'clock") for each in pieces]
    assert moments(odd, Take(exchange=0)) == pytest.approx([0.15, 0.15, 0.15])
    with pytest.raises(ValueError, match="pace must be from 0"):
        serve([path], pace=2)


def test_a_server_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    """The end of the block ends a slow reply too, and the client sees it cut."""
    lines = [record("a", done=False), record(at="50.000")]
    path = cassette(tmp_path / "c.yaml", interaction({**FIRST, "stream": True}, ndjson(*lines)))
    with serve([path], pace=1) as server:
        got = ask(server, {**FIRST, "stream": True}, stream=True)
        pieces = got.iter_content(None)
        next(pieces)
    with pytest.raises(requests.RequestException):
        next(pieces)


def test_facts_come_from_provenance_and_requests(tmp_path: Path) -> None:
    """Version, models and what they can do; asking is no part of the conversation."""
    path = tmp_path / "three.yaml"
    three_steps(path)
    with serve([path]) as server, requests.Session() as http:
        http.trust_env = False
        get = {route: http.get(server.url + route, timeout=10)
               for route in ("/", "/api/version", "/api/tags", "/api/ps", "/v1/models")}  # fmt: skip
        shown = ask(server, {"model": "m"}, "/api/show").json()
        missing = ask(server, {"model": "n"}, "/api/show")
        assert http.head(server.url, timeout=10).status_code == 200
        assert server.verdict().refused == ()
    assert get["/"].text == "Ollama is running"
    assert get["/api/version"].json() == {"version": "0.24.0"}
    tag = get["/api/tags"].json()["models"][0]
    assert (tag["name"], tag["digest"]) == ("m", "0123abcd")
    assert get["/v1/models"].json()["data"][0]["id"] == "m"
    assert get["/api/ps"].json() == {"models": []}
    assert "completion" in shown["capabilities"]
    assert (missing.status_code, missing.json()) == (404, {"error": "model 'n' not found"})


def test_recorded_facts_come_first(tmp_path: Path) -> None:
    """A recorded list of models is given as it was, and need not be asked for."""
    tags = interaction(None, '{"models":[]}', path="/api/tags", method="GET")
    path = cassette(tmp_path / "c.yaml", {**tags, "request": {**tags["request"], "body": None}})
    with serve([path]) as server, requests.Session() as http:
        http.trust_env = False
        assert server.verdict().ok
        assert http.get(f"{server.url}/api/tags", timeout=10).text == '{"models":[]}'


def test_repeat_answers_as_often_as_asked(tmp_path: Path) -> None:
    """For trying by hand: nothing is used up; two replies to one request take turns."""
    replies = [interaction(FIRST, json.dumps(record(text))) for text in ("one", "two")]
    with serve([cassette(tmp_path / "c.yaml", *replies)], repeat=True) as server:
        got = [ask(server, FIRST).json()["message"]["content"] for _ in range(3)]
        assert got == ["one", "two", "one"]
        assert server.verdict().ok
