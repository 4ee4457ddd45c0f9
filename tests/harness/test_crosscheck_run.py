"""The cross-check names a trace that lies about its run: steps, decisions, tool calls, texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_core import Agent
from harness import semconv
from harness.cli import main
from harness.redact import register
from harness.sessions.cassette import load_session
from harness.sessions.crosscheck import cross_check
from harness.sessions.replay import replay
from harness.trace.memory import MemoryTraces
from harness.trace.replayed import replayed
from harness.trace.spans import Trace, TraceSpan
from tests.harness.serve_support import record
from tests.harness.sessions_support import record_scripted, response, three_steps

CASSETTES = Path(__file__).parents[2] / "cassettes"
NATIVE = CASSETTES / "native-calc-time-en-stream.yaml"
Change = Callable[[Trace], None]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weather, a sum, the answer; asked in labels."""
    path = tmp_path_factory.mktemp("recorded") / "three.yaml"
    three_steps(path)
    return path


def spans(trace: Trace, kind: str) -> list[TraceSpan]:
    return [span for span in trace.spans() if span.kind == kind]


def parent(trace: Trace, child: TraceSpan) -> TraceSpan:
    return next(span for span in trace.spans() if child in span.children)


def says(kind: str, key: str, value: Any) -> Change:
    def tell(trace: Trace) -> None:
        spans(trace, kind)[0].attributes[key] = value

    return tell


def hides(kind: str, key: str) -> Change:
    def tell(trace: Trace) -> None:
        del spans(trace, kind)[0].attributes[key]

    return tell


def drops(kind: str) -> Change:
    def tell(trace: Trace) -> None:
        span = spans(trace, kind)[0]
        parent(trace, span).children.remove(span)

    return tell


def doubles(kind: str) -> Change:
    def tell(trace: Trace) -> None:
        span = spans(trace, kind)[0]
        other = TraceSpan(
            span.trace_id, "f" * 16, span.parent_id, span.name, span.end, span.end, span.attributes
        )
        parent(trace, span).children.append(other)

    return tell


def swaps_times(kind: str) -> Change:
    def tell(trace: Trace) -> None:
        one, other = spans(trace, kind)[:2]
        one.start, one.end, other.start, other.end = other.start, other.end, one.start, one.end

    return tell


def swaps_attributes(trace: Trace) -> None:
    one, other = spans(trace, "execute_tool")[:2]
    one.attributes, other.attributes = other.attributes, one.attributes


def writes(key: str, before: str, after: str, *, kind: str = "chat") -> Change:
    def tell(trace: Trace) -> None:
        said = spans(trace, kind)[0].attributes
        assert before in said[key]
        said[key] = said[key].replace(before, after)

    return tell


def lies(path: Path, change: Change | None = None) -> list[str]:
    (trace,) = replayed(path)
    if change is not None:
        change(trace)
    file = load_session(path)
    assert file.session is not None
    return cross_check(file, [trace], turns=file.session.trajectory)


TOOL = "execute_tool"
DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drops(TOOL), "step 1: 1 tool call, and 0 execute_tool spans"),
        (doubles(TOOL), "step 1: 1 tool call, and 2 execute_tool spans"),
        (swaps_times(TOOL), "does not lie within the time of harness.step"),
        (swaps_attributes, "step 1: tool of get_weather is 'get_weather', the span says"),
        (says(TOOL, semconv.TOOL_NAME, "zzz"), "step 1: tool of get_weather"),
        (hides(TOOL, semconv.TOOL_NAME), "step 1: tool of get_weather"),
        (says(TOOL, "harness.arguments.sha256", DIGEST), "step 1: arguments of get_weather"),
        (says(TOOL, "harness.observation.sha256", DIGEST), "step 1: observation of get_weather"),
        (says(TOOL, "harness.tool.ok", False), "step 1: success of get_weather is 'True'"),
        (writes(semconv.TOOL_ARGUMENTS, "Lisbon", "Rome", kind=TOOL), "is another text than"),
        (writes(semconv.TOOL_RESULT, "Lisbon", "Rome", kind=TOOL), "is another text than"),
        (says("chat", semconv.FINISH_REASONS, ("length",)), "exchange 1: finish reasons recorded"),
        (hides("chat", semconv.FINISH_REASONS), "exchange 1: finish reasons recorded"),
        (says("chat", semconv.RESPONSE_MODEL, "other"), "exchange 1: model of the reply recorded"),
        (swaps_times("chat"), "does not lie within the time of"),
        (swaps_times("harness.step"), "its steps are [2, 1, 3] in the order of time"),
        (doubles("chat"), "has no attempt span, though it got a reply"),
        (drops("harness.step"), "took 3 steps and has spans of 2"),
        (drops("harness.parse"), "step 1 has no parse span"),
        (says("harness.step", "harness.step.decision", "final_answer"), "step 1: decision is"),
        (says("POST", semconv.ATTEMPT, 9), "are [9] in their order"),
        (says("invoke_agent", semconv.STOP_REASON, "max_steps"), "stop reason is 'final_answer'"),
        (says("invoke_agent", "harness.answer.sha256", DIGEST), "answer is"),
        (says("invoke_agent", "harness.answer", "Rome"), "harness.answer is another text than"),
        (writes(semconv.OUTPUT_MESSAGES, "Lisbon", "Rome"), "exchange 1: text recorded"),
        (writes(semconv.INPUT_MESSAGES, "Lisbon", "Rome"), "are not those that were sent"),
    ],
)  # fmt: skip
def test_liars_about_the_run_are_named(recorded: Path, change: Change, words: str) -> None:
    """Each single lie of a span about what the run did is found and named."""
    found = lies(recorded, change)
    assert any(words in each for each in found), found


def test_a_native_call_that_is_left_out_is_named() -> None:
    """The message of a reply on its span has all the calls that were recorded."""
    change = writes(semconv.OUTPUT_MESSAGES, '"type":"tool_call"', '"type":"other"')
    assert any("calls in the message recorded 2" in each for each in lies(NATIVE, change))


@pytest.mark.parametrize("name", sorted(path.stem for path in CASSETTES.glob("*.yaml")))
def test_true_traces_are_believed(name: str) -> None:
    """The traces of every recorded session agree with it and with what the run did."""
    memory = MemoryTraces(replayed=True)
    path = CASSETTES / f"{name}.yaml"
    report = replay(path, observers=[memory.observer], traces=memory.traces)
    assert (memory.traces() != [], report.lies, report.ok) == (True, (), True)


@pytest.mark.parametrize("content", ["none", "truncated", "full"])
def test_texts_that_are_cut_are_no_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """However much of the texts is written, long ones too, a true trace is believed."""
    monkeypatch.chdir(tmp_path)
    arguments = ["replay", str(CASSETTES), "--content", content, "--json"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert {len(each["lies"]) for each in json.loads(done.stdout)["sessions"]} == {0}


def scripted(text: str, **more: Any) -> list[bytes]:
    """A reply with everything but ASCII escaped, as some servers write it."""
    return [response(200, json.dumps(record(text, **more)).encode())]


ODD_CALL = {"function": {"name": "get_weather", "arguments": {"city": "Lis\ud83d"}}}
ODD = {
    "half a pair": [scripted("Thought: \ud83d\nFinal Answer: half \ud83d of it")],
    "half a pair in a call": [
        scripted('Thought: x\nAction: {"name": "calculator", "parameters": {"expression": "\ud83d"}}'),
        scripted("Final Answer: no"),
    ],
    "half a pair in a native call": [
        scripted("\ud83d", tool_calls=[ODD_CALL]),
        scripted("Final Answer: no"),
    ],
    "control characters": [scripted("Thought: a\u2028b\nFinal Answer: a\u0000b\u001b[0m")],
    "what looks cut": [scripted('Final Answer: a …[+3 chars] *** {"omitted":1}')],
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_texts_are_no_lies(tmp_path: Path, name: str) -> None:
    """What a span cannot hold as it came is held against what it can hold of it."""
    path = tmp_path / "odd.yaml"
    record_scripted(path, *ODD[name])
    memory = MemoryTraces(replayed=True)
    report = replay(path, observers=[memory.observer], traces=memory.traces)
    assert (report.lies, report.ok) == ((), True)


def test_a_secret_of_a_live_tool_is_no_lie(tmp_path: Path) -> None:
    """It is hidden in the golden trajectory and digested as it is on the span."""
    secret = "a-live-tool-says-74391"
    register(secret)

    def unlock() -> str:
        """Give the key."""
        return f"the key is {secret}"

    def keeper(model: Any, *, clock: Any, **how: Any) -> Agent:
        return Agent(model, [unlock], clock=clock, **how)

    path = tmp_path / "live.yaml"
    asked = 'Thought: x\nAction: {"name": "unlock", "parameters": {}}'
    record_scripted(path, scripted(asked), scripted("Final Answer: done"), factory=keeper)
    assert secret not in path.read_text(encoding="utf-8")
    memory = MemoryTraces(replayed=True)
    how: Any = {"factory": keeper, "tools": "live", "observers": [memory.observer]}
    report = replay(path, traces=memory.traces, **how)
    assert (report.lies, report.ok) == ((), True)
