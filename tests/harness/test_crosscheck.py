"""The cross-check names a trace that lies about its recording, and is silent about a true one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_core.messages import Usage
from harness import semconv
from harness.cli import main
from harness.sessions.cassette import load_session
from harness.sessions.crosscheck import cross_check
from harness.sessions.format import SessionFile, Take
from harness.sessions.replay import replay
from harness.sessions.trajectory import miscounts
from harness.trace.replayed import replayed
from harness.trace.spans import Trace, TraceSpan
from tests.harness.serve_support import CALL, record
from tests.harness.sessions_support import ollama_reply, record_scripted, response, three_steps


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps, the first of which needed two attempts."""
    path = tmp_path_factory.mktemp("recorded") / "three.yaml"
    native = [response(200, json.dumps(record("One moment.", tool_calls=[CALL])).encode())]
    busy = [response(503, b'{"error": "busy"}')]
    record_scripted(path, busy, native, ollama_reply("Final Answer: 晴"))
    return path


def calls(trace: Trace) -> list[TraceSpan]:
    return [span for span in trace.spans() if span.kind == "chat"]


def attempts(trace: Trace) -> list[TraceSpan]:
    return [span for span in trace.spans() if semconv.ATTEMPT in span.attributes]


def lie(key: str, value: Any, *, call: int = 0) -> Callable[[Trace], None]:
    def tell(trace: Trace) -> None:
        calls(trace)[call].attributes[key] = value

    return tell


def miscount(key: str, value: int, *, kind: str) -> Callable[[Trace], None]:
    def tell(trace: Trace) -> None:
        trace.root.find(kind)[0].attributes[key] = value

    return tell


def drop_attempt(trace: Trace) -> None:
    step = calls(trace)[1]
    step.children.remove(next(each for each in step.children if each in attempts(trace)))


def drop_retry(trace: Trace) -> None:
    calls(trace)[0].children.pop(0)


def invent_attempt(trace: Trace) -> None:
    one = attempts(trace)[-1]
    other = {**one.attributes, "harness.request.sha256": "0" * 64}
    calls(trace)[1].children.append(
        TraceSpan(one.trace_id, "f" * 16, one.parent_id, one.name, one.end, one.end, other)
    )


def swap(trace: Trace) -> None:
    first, last = attempts(trace)[0], attempts(trace)[-1]
    first.start, last.start = last.start, first.start


def other_arguments(trace: Trace) -> None:
    said = calls(trace)[0].attributes
    said[semconv.OUTPUT_MESSAGES] = said[semconv.OUTPUT_MESSAGES].replace("北京", "上海")


def test_a_true_trace_agrees(recorded: Path) -> None:
    """As it was written; and with content off, when less can be compared."""
    (trace,) = replayed(recorded)
    assert len(attempts(trace)) == 3
    assert cross_check(load_session(recorded), [trace]) == []
    for span in calls(trace):
        del span.attributes[semconv.OUTPUT_MESSAGES]
    assert cross_check(load_session(recorded), [trace]) == []


def test_what_was_asked_before_the_run_needs_no_attempt(recorded: Path) -> None:
    """An index may be built before a run; its exchanges belong to no span."""
    file = load_session(recorded)
    assert file.session is not None
    url = file.exchanges[0].request.url.replace("/api/chat", "/api/embed")
    embedding = replace(
        file.exchanges[0], request=replace(file.exchanges[0].request, url=url, body=b"{}")
    )
    takes = [Take(exchange=len(file.exchanges)), *file.session.takes]
    session = file.session.model_copy(update={"takes": takes})
    longer = SessionFile(session, (*file.exchanges, embedding))
    (trace,) = replayed(recorded)
    assert cross_check(longer, [trace]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lie(semconv.INPUT_TOKENS, 21), "exchange 2: prompt tokens recorded 20, the span says 21"),
        (lie(semconv.OUTPUT_TOKENS, 8, call=1), "exchange 3: reply tokens recorded 9, the span"),
        (lie(semconv.REQUEST_MODEL, "n"), "exchange 2: model recorded 'm', the span says 'n'"),
        (lie("harness.finish_reason", "length"), "exchange 2: finish reason recorded 'stop'"),
        (lie("harness.reply.sha256", "x", call=1), "exchange 3: the text is another one"),
        (lie("harness.reply.tool_calls", 2), "exchange 2: tool calls recorded 1, the span says 2"),
        (lie("harness.attempts", 3), "says 3 attempts and has 2 attempt spans"),
        (lie("harness.attempts", 1), "says 1 attempts and has 2 attempt spans"),
        (other_arguments, 'exchange 2: arguments of get_weather recorded \'{"city":"北京"}\''),
        (drop_attempt, "exchange 3 has no attempt span"),
        (drop_retry, "says 2 attempts and has 1 attempt span"),
        (invent_attempt, "belongs to no exchange"),
        (swap, "out of its order"),
        (
            miscount("harness.step.input_tokens", 19, kind="harness.step"),
            "step 1 says 19 harness.step.input_tokens, its model call 20",
        ),
        (
            miscount("harness.total_input_tokens", 90, kind="invoke_agent"),
            "says 90 harness.total_input_tokens, its steps 110",
        ),
        (
            miscount("harness.total_output_tokens", 99, kind="invoke_agent"),
            "says 99 harness.total_output_tokens, its steps",
        ),
    ],
)
def test_liars_are_named(recorded: Path, change: Callable[[Trace], None], words: str) -> None:
    """Each single lie of a span about the recording is found and named."""
    (trace,) = replayed(recorded)
    change(trace)
    found = cross_check(load_session(recorded), [trace])
    assert any(words in each for each in found), found


def test_a_traced_replay_is_checked(recorded: Path, tmp_path: Path) -> None:
    """A replay fails for a trace that lies, and only for that."""
    assert replay(recorded).ok
    (trace,) = replayed(recorded)
    assert replay(recorded, traces=lambda: [trace]).ok
    calls(trace)[0].attributes[semconv.INPUT_TOKENS] = 21
    report = replay(recorded, traces=lambda: [trace])
    assert not report.ok
    assert report.in_words() == ["trace: exchange 2: prompt tokens recorded 20, the span says 21"]


def test_a_run_that_counts_less_than_its_steps_is_found(recorded: Path) -> None:
    """Without a trace, too; more is no error, because a summary is counted and is no step."""
    (result,) = replay(recorded).results
    assert list(miscounts([result])) == []
    last = replace(result, usage=result.steps[-1].reply.usage)
    assert [(each.turn, each.what) for each in miscounts([result, last])] == [(2, "tokens")]
    more = replace(result, usage=result.usage + Usage(100, 10))
    assert list(miscounts([more])) == []


def test_the_command_checks_what_it_traces(tmp_path: Path, monkeypatch: Any) -> None:
    """`replay --content …` holds each session's trace against it."""
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        three_steps(tmp_path / "cassettes" / f"{name}.yaml")
    done = CliRunner().invoke(main, ["replay", "cassettes", "--content", "full", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert [each["lies"] for each in told["sessions"]] == [[], []]
