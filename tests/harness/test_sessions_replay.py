"""Replay runs the agent again without its server: from the tape come replies, tools, search, time."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import requests

from agent_core.agent import Agent
from agent_core.limits import Limits, StopReason
from agent_core.messages import Chunk
from agent_core.rag import DenseRetriever, OllamaEmbedder
from harness.sessions.cassette import load_session, parse_session, render_session
from harness.sessions.errors import SessionFormatError
from harness.sessions.format import AgentSource, ModelSource, Turn
from harness.sessions.plan import Plan
from harness.sessions.record import record
from harness.sessions.replay import replay
from tests.harness.replay_support import assistant, city_only, parts, with_notes, with_weather
from tests.harness.sessions_support import (
    ANSWER,
    ASSISTANT,
    SUM,
    WEATHER,
    Action,
    edited,
    ollama_reply,
    ollama_stream,
    plan,
    record_scripted,
    response,
    serving,
    three_steps,
    version_scripts,
)


def test_an_unchanged_agent_replays_green_and_offline(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No difference, no divergence, no socket."""

    def refuse(*args: object) -> None:
        raise AssertionError("a connection during a replay")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    report = replay(recorded)
    assert report.ok
    assert report.in_words() == []
    assert report.drift.total == 3
    assert report.drift.causes == ()
    assert report.results[0].answer == "It is fine 😀 and the sum is 5."


def test_tools_are_taped_and_do_not_run(recorded: Path) -> None:
    """A tool that would fail now gives what it gave; look-up and validation do run."""

    def broken(city: str, unit: str = "celsius") -> str:
        raise AssertionError("the tool ran")

    report = replay(recorded, factory=with_weather(function=broken, convert=dict))
    assert report.ok
    assert [step.observations[0].ok for step in report.results[0].steps[:2]] == [True, True]


def test_live_tools_are_a_choice(recorded: Path) -> None:
    """With `live` the tool runs, and another result is a changed observation."""

    def other(city: str, unit: str = "celsius") -> str:
        return "it rains"

    factory = with_weather(function=other, convert=dict)
    report = replay(recorded, factory=factory, tools="live")
    assert not report.ok
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.what) == (1, "observation")
    assert "observation" in parts(report)
    assert replay(recorded, tools="live").ok


def test_a_stricter_schema_is_seen_though_tools_are_taped(recorded: Path) -> None:
    """Coercion and validation are today's: arguments that are refused now never reach the tape."""
    parameters = city_only(maxLength=2)
    report = replay(recorded, factory=with_weather(parameters=parameters))
    assert not report.ok
    assert "schema of tool `get_weather`" in parts(report)
    assert report.unused_calls
    assert report.divergence is not None
    assert report.divergence.step == 1


def test_a_failing_tool_fails_again_without_running(tmp_path: Path) -> None:
    """A recorded failure comes from the tape with its type and words."""
    path = tmp_path / "s.yaml"
    call = json.dumps({"name": "get_weather", "parameters": {"city": "Atlantis"}})
    done = record_scripted(
        path, ollama_reply(f"Thought: t\nAction: {call}"), ollama_reply("Final Answer: none")
    )
    assert not done.results[0].steps[0].observations[0].ok
    session = load_session(path).session
    assert session is not None
    assert session.tape[0].failure is not None
    report = replay(path, factory=with_weather(function=lambda city, unit: 1, convert=dict))
    assert report.ok
    assert report.results[0].steps[0].observations == tuple(
        dataclasses.replace(each, seconds=report.results[0].steps[0].observations[0].seconds)
        for each in done.results[0].steps[0].observations
    )


def test_the_retriever_is_taped(tmp_path: Path) -> None:
    """What was found is found again without a search."""
    path = tmp_path / "s.yaml"
    record_scripted(path, ollama_reply(ANSWER), factory=with_notes(asleep=False))
    session = load_session(path).session
    assert session is not None
    assert session.searches[0].hits[0].text == "The lighthouse is 41 m high."
    assert replay(path, factory=with_notes(asleep=True)).ok


def test_the_clock_of_the_recording_is_the_clock_of_the_replay(tmp_path: Path) -> None:
    """A date in the prompt is the recorded one, and a time limit ends where it ended."""
    path = tmp_path / "s.yaml"

    def dated(model: Any, *, clock: Any, **kwargs: Any) -> Agent:
        agent = assistant(model, clock=clock, **kwargs)
        return agent.replace(instructions=f"It is {clock.now().isoformat()}.")

    done = record_scripted(path, ollama_reply(SUM), ollama_reply(ANSWER), factory=dated)
    assert done.file.session is not None
    assert len(done.file.session.clock.now) == 1
    report = replay(path, factory=dated)
    assert report.ok
    last = done.file.takes[-1]
    assert report.results[0].seconds == pytest.approx(last.at + last.seconds)


def test_a_session_that_ran_out_of_time_does_so_again(tmp_path: Path) -> None:
    """The time limit is reached at the same step, without waiting for it."""
    path = tmp_path / "s.yaml"
    slow = edited(assistant, lambda agent: agent.replace(limits=Limits(time_limit=1.5)))
    done = record_scripted(path, ollama_reply(SUM), ["wait"], factory=slow)
    assert done.results[0].stop_reason is StopReason.TIME_LIMIT
    report = replay(path, factory=slow)
    assert report.in_words() == []
    assert report.results[0].stop_reason is StopReason.TIME_LIMIT


def test_several_turns_go_on_from_each_other(tmp_path: Path) -> None:
    """The second question sees the first; both are replayed and compared."""
    path = tmp_path / "s.yaml"
    done = record_scripted(
        path,
        *(ollama_reply(text) for text in (WEATHER, ANSWER, SUM, ANSWER)),
        questions=["The weather?", "And 2 + 3?"],
    )
    assert len(done.results) == 2
    assert "The weather?" in done.file.exchanges[2].request.body.decode()
    report = replay(path)
    assert report.ok
    assert len(report.results) == 2
    early = edited(assistant, lambda agent: agent.replace(limits=Limits(max_steps=1)))
    shorter = replay(path, factory=early)
    assert shorter.divergence is not None
    assert (shorter.divergence.turn, shorter.divergence.step) == (1, 2)


@pytest.mark.parametrize("protocol", ["react-json", "react-labels", "native"])
@pytest.mark.parametrize("stream", [False, True])
def test_every_protocol_replays_streamed_and_not(
    tmp_path: Path, protocol: str, stream: bool
) -> None:
    """What the client sends and reads is the same from the tape."""
    path = tmp_path / "s.yaml"
    said = {
        "react-json": SUM,
        "native": json.dumps({"name": "calculator", "arguments": {"expression": "2 + 3"}}),
    }
    first = said.get(
        protocol, 'Thought: t\nAction: calculator\nAction Input: {"expression": "2 + 3"}'
    )
    replies = [first, "The sum is 5." if protocol == "native" else ANSWER]
    scripts = [ollama_stream(*each) if stream else ollama_reply(each) for each in replies]
    factory = edited(assistant, lambda agent: agent.replace(protocol=protocol))
    done = record_scripted(path, *scripts, stream=stream, factory=factory)
    assert done.results[0].stop_reason is StopReason.FINAL_ANSWER
    assert len(done.results[0].steps) == 2
    report = replay(path, factory=factory)
    assert report.in_words() == []
    assert report.results[0].answer == done.results[0].answer


def sse(*deltas: dict[str, Any], reason: str = "stop") -> bytes:
    """A stream of `/v1/chat/completions`."""
    ends = [{"delta": {}, "finish_reason": reason}]
    events = [{"choices": [{"index": 0, **each}]} for each in [{"delta": d} for d in deltas] + ends]
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    lines = [f"data: {json.dumps(each)}\n\n" for each in [*events, usage]]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def test_the_openai_api_replays_with_calls_in_pieces(tmp_path: Path) -> None:
    """Server-sent events, a native call spelled out over chunks, no key in the file."""
    path = tmp_path / "s.yaml"
    call = {"index": 0, "id": "call_1", "function": {"name": "calculator", "arguments": '{"expr'}}
    rest = {"index": 0, "function": {"arguments": 'ession": "2 + 3"}'}}
    calls = sse({"tool_calls": [call]}, {"tool_calls": [rest]}, reason="tool_calls")
    scripts = [
        [response(200, body, "text/event-stream")] for body in (calls, sse({"content": "It is 5."}))
    ]
    native = edited(assistant, lambda agent: agent.replace(protocol="native"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test-ABCDEFGHIJKLMNOP")
        with serving(*version_scripts(), *scripts) as server:
            model = ModelSource(api="openai", name="m", base_url=f"{server.url}/v1", stream=True)
            planned = Plan(AgentSource(factory=ASSISTANT), model, (Turn(question="2 + 3?"),))
            done = record(planned, native, path)
            assert b"Bearer sk-test-ABCDEFGHIJKLMNOP" in server.requests[-1]
    assert done.results[0].answer == "It is 5."
    assert "ABCDEFGHIJ" not in path.read_text(encoding="utf-8")
    report = replay(path, factory=native)
    assert report.in_words() == []
    assert report.results[0].answer == "It is 5."


def test_requests_of_an_agent_inside_a_tool_belong_to_the_tool(tmp_path: Path) -> None:
    """Taped, the inner agent does not run and its requests are not missed; live, it does."""
    path = tmp_path / "s.yaml"

    def nested(model: Any, *, clock: Any, **kwargs: Any) -> Agent:
        inner = Agent(model, [], clock=clock)

        def ask_expert(question: str) -> str:
            """Ask an expert."""
            return inner.run(question).answer or "none"

        return Agent(model, [ask_expert], clock=clock, **kwargs)

    call = json.dumps({"name": "ask_expert", "parameters": {"question": "Why?"}})
    texts = (f"Thought: t\nAction: {call}", "Final Answer: because", "Final Answer: so")
    done = record_scripted(path, *(ollama_reply(text) for text in texts), factory=nested)
    assert [take.within for take in done.file.takes] == [None, 0, None]
    taped, live = replay(path, factory=nested), replay(path, factory=nested, tools="live")
    assert (taped.in_words(), live.in_words()) == ([], [])
    assert (taped.drift.total, live.drift.total) == (2, 3)


def test_requests_of_a_search_belong_to_the_search(tmp_path: Path) -> None:
    """Taped, the question is not embedded again; what the factory embeds still is."""
    path = tmp_path / "s.yaml"

    def embedding(*rows: list[float]) -> list[Action]:
        return [response(200, json.dumps({"model": "m", "embeddings": rows}).encode())]

    def searching(model: Any, *, clock: Any, http: requests.Session, **kwargs: Any) -> Agent:
        embedder = OllamaEmbedder("m", base_url=server.url, session=http, clock=clock)
        chunk = Chunk("a", "It leaves at six.", "ferry", 0, 17)
        return Agent(model, retriever=DenseRetriever(embedder, [chunk]), clock=clock, **kwargs)

    scripts = [embedding([1.0, 0.0]), embedding([0.8, 0.6]), ollama_reply("Final Answer: six")]
    with serving(*version_scripts(), *scripts) as server:
        done = record(plan(server.url, "When does it leave?"), searching, path)
    assert done.results[0].answer == "six"
    assert [take.within for take in done.file.takes] == [None, 0, None]
    report = replay(path, factory=searching)
    assert report.in_words() == []
    assert report.ok


def test_a_session_without_its_golden_trajectory_is_no_check(tmp_path: Path) -> None:
    """What was cut off by hand must not pass because nothing is left to compare."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    file = load_session(path)
    assert file.session is not None
    session = file.session.model_copy(update={"trajectory": []})
    with pytest.raises(SessionFormatError, match="golden trajectory for each of 1 turns, got 0"):
        replay(dataclasses.replace(file, session=session))


def test_a_request_too_many_is_told(recorded: Path, tmp_path: Path) -> None:
    """An agent that asks more than was recorded gets an error and a verdict, not a hang."""
    path = tmp_path / "s.yaml"
    record_scripted(path, ollama_reply(WEATHER), [response(404, b'{"error":"model not found"}')])
    file = load_session(path)
    assert file.session is not None
    text = render_session(file).replace("stop_reason: model_error", "stop_reason: max_steps")
    assert not replay(parse_session(text)).ok
