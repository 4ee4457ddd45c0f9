"""Lint of recorded replies: bodies that are none, prose, and tokens that nothing shows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.sessions.cassette import load_session
from harness.sessions.format import SessionFile
from harness.sessions.lint import Finding, lint, lint_session
from tests.harness.serve_support import (
    CALL,
    FIRST,
    STREAMED,
    cassette,
    interaction,
    ndjson,
    record,
    sse,
)
from tests.harness.sessions_support import record_scripted, response, three_steps

WHOLE = json.dumps(record("Thought: I look.\nFinal Answer: It is fine in Lisbon."))
STREAM = ndjson(record("Final ", done=False), record("Answer: fine", done=False), record())
CHUNK = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Fine."}}]}
END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
COMPLETION = {"choices": [{"message": {"role": "assistant", "content": "Fine."}}]}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps in labels and JSON."""
    return three_steps(tmp_path_factory.mktemp("good") / "three.yaml").path


def with_reply(path: Path, body: str, number: int = 1) -> SessionFile:
    """The session with another body for one of its replies."""
    file = load_session(path)
    exchanges = list(file.exchanges)
    old = exchanges[number - 1]
    exchanges[number - 1] = replace(old, response=replace(old.response, body=body.encode()))
    return replace(file, exchanges=tuple(exchanges))


def unparsable(found: list[Finding]) -> list[str]:
    """What is said of replies that cannot be read."""
    return [each.words for each in found if each.rule == "unparsable-reply"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/api/chat", WHOLE[:-80], "JSON that is damaged or was cut"),
        ("/api/chat", "", "the body is empty"),
        ("/api/chat", "  \n", "the body is empty"),
        ("/api/chat", "<html>login</html>", "HTML, not JSON"),
        ("/api/chat", "[]", "JSON, but no object"),
        ("/api/chat", "null", "not JSON"),
        ("/api/chat", "upstream timed out", "not JSON"),
        ("/api/chat", "{}", "JSON that is no reply"),
        ("/api/chat", '{"models": []}', "JSON that is no reply"),
        ("/api/chat", STREAM.rpartition("\n{")[0], "stops before its end"),
        ("/api/chat", STREAM[:-40], "stops before its end"),
        ("/api/chat", STREAM[:100] + STREAM[140:], "damaged"),
        ("/api/generate", '{"response": "Fi', "damaged"),
        ("/v1/chat/completions", json.dumps(COMPLETION)[:-5], "damaged"),
        ("/v1/chat/completions", "{}", "no reply of this API"),
        ("/v1/chat/completions", sse(CHUNK, END)[:90], "stops before its end"),
    ],
)
def test_a_good_status_with_a_body_that_is_no_reply(
    tmp_path: Path, path: str, body: str, words: str
) -> None:
    """Whatever a proxy, a power cut or an editor left of it."""
    file = cassette(tmp_path / "c.yaml", interaction(FIRST, body, path=path))
    (said,) = unparsable(lint([file]))
    assert words in said


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", WHOLE),
        ("/api/chat", json.dumps(json.loads(WHOLE), separators=(" , ", " : "))),
        ("/api/chat", STREAM),
        ("/api/chat", '{"error": "the runner has stopped"}'),
        ("/api/chat", ndjson(record("Fi", done=False), {"error": "the runner has stopped"})),
        ("/api/generate", '{"response": "Fine.", "done": true}'),
        ("/v1/chat/completions", json.dumps(COMPLETION)),
        ("/v1/chat/completions", sse(CHUNK, END)),
        ("/v1/chat/completions", f"data: {json.dumps(CHUNK)}\n\ndata: {json.dumps(END)}\n\n"),
        ("/api/tags", "[]"),
    ],
)
def test_a_body_that_is_a_reply_or_tells_an_error(tmp_path: Path, path: str, body: str) -> None:
    """Whole or streamed; an error that the server reports is read as it was meant."""
    file = cassette(tmp_path / "c.yaml", interaction(STREAMED, body, path=path))
    assert unparsable(lint([file])) == []


def test_a_damaged_reply_of_a_session_is_told_with_its_number(good: Path) -> None:
    """Also in the middle of a session, whose other replies are read as before."""
    found = lint_session(with_reply(good, WHOLE[:-80], number=2), good)
    assert [each.where for each in found if each.rule == "unparsable-reply"] == ["reply 2"]


def test_a_run_that_a_bad_body_ended_has_recorded_just_that(tmp_path: Path) -> None:
    """The session says itself that the model failed: its content, not its defect."""
    path = tmp_path / "failed.yaml"
    record_scripted(path, [response(200, b"<html>login</html>")])
    assert unparsable(lint([path])) == []


@pytest.mark.parametrize(
    "text", ["I think you should convert.", "It is 21 degrees in Lisbon.", "好的，我来查一下。"]
)
def test_prose_where_an_action_was_recorded(good: Path, text: str) -> None:
    """Today's loop would ask again; in native calls, or where it was so recorded, it is known."""
    file = with_reply(good, json.dumps(record(text)))
    (said,) = unparsable(lint_session(file, good))
    assert "prose without a label" in said
    assert file.session is not None
    agent = file.session.agent.model_copy(update={"protocol": "native"})
    native = file.session.model_copy(update={"agent": agent})
    assert unparsable(lint_session(replace(file, session=native), good)) == []
    turn = file.session.trajectory[0]
    steps = [turn.steps[0].model_copy(update={"decision": "unlabelled_answer"}), *turn.steps[1:]]
    known = file.session.model_copy(
        update={"trajectory": [turn.model_copy(update={"steps": steps})]}
    )
    assert unparsable(lint_session(replace(file, session=known), good)) == []
    second = with_reply(good, json.dumps(record(text)), number=2)
    assert len(unparsable(lint_session(replace(second, session=known), good))) == 1


@pytest.mark.parametrize(
    ("tokens", "more", "swallowed"),
    [
        (900, {}, True),
        (60, {}, False),
        (900, {"thinking": "I should think about Lisbon for a while. " * 60}, False),
        (900, {"tool_calls": [{"function": {"name": "f", "arguments": {"x": "many words " * 300}}}]},
         False),
        (900, {"tool_calls": [CALL]}, True),
    ],
    ids=["far-beyond", "close", "thinking", "long-calls", "short-calls"],
)  # fmt: skip
def test_more_tokens_than_a_reply_can_hold(
    tmp_path: Path, tokens: int, more: Any, swallowed: bool
) -> None:
    """Text, thinking and calls together hold so many at most; double that is beyond all doubt."""
    reply = record("It is 21 degrees in Lisbon today, and the sun shines all the day.", **more)
    body = json.dumps(reply | {"eval_count": tokens})
    path = cassette(tmp_path / "c.yaml", interaction(FIRST, body))
    assert ("output-swallowed" in [each.rule for each in lint([path])]) == swallowed


@pytest.mark.parametrize("part", ["provenance", "tools", "tape", "trajectory", "interactions"])
def test_a_session_that_is_cut_is_never_clean(good: Path, tmp_path: Path, part: str) -> None:
    """At whatever line of a part of it: no YAML, no session, or a reply that is none."""
    lines = good.read_text(encoding="utf-8").splitlines(keepends=True)
    (begin,) = [n for n, line in enumerate(lines) if line.strip() == f"{part}:"][:1]
    for end in range(begin, min(begin + 60, len(lines) - 1), 4):
        path = tmp_path / f"{end}.yaml"
        path.write_text("".join(lines[:end]), encoding="utf-8")
        assert {"unreadable", "unparsable-reply"}.intersection(each.rule for each in lint([path]))


def test_what_tools_asked_a_model_is_looked_at_too(good: Path) -> None:
    """Tokens and ends of replies count wherever they came from; decisions are the agent's."""
    reply = record("It is 21 degrees.") | {"done_reason": "length", "eval_count": 900}
    file = with_reply(good, json.dumps(reply), number=2)
    assert file.session is not None
    takes = list(file.session.takes)
    takes[1] = takes[1].model_copy(update={"within": 1})
    session = file.session.model_copy(update={"takes": takes})
    found = lint_session(replace(file, session=session), good)
    rules = [each.rule for each in found if each.where == "reply 2"]
    assert rules == ["length", "output-swallowed"]
