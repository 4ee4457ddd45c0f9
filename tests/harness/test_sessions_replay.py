"""Replay: nothing changed, or what did, and where."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests

from agent_core.agent import Agent
from agent_core.limits import Limits, StopReason
from agent_core.messages import Chunk, Hit
from agent_core.rag import DenseRetriever, OllamaEmbedder
from agent_core.tools import FunctionCallExecutor, define
from harness.sessions.cassette import load_session, parse_session, render_session
from harness.sessions.drift import SEVERITY, Cause
from harness.sessions.errors import SessionFormatError
from harness.sessions.format import AgentSource, ModelSource, Turn
from harness.sessions.plan import Plan
from harness.sessions.record import record
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.sources import Factory, named_factory
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

assistant: Factory = named_factory(ASSISTANT)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps: weather, a sum, the answer."""
    path = tmp_path_factory.mktemp("sessions") / "three.yaml"
    three_steps(path)
    return path


def with_tools(change: Callable[[list[Any]], list[Any]]) -> Factory:
    """The assistant with edited tool definitions."""

    def edit(agent: Agent) -> Agent:
        assert isinstance(agent.executor, FunctionCallExecutor)
        tools = change(list(agent.executor.definitions.values()))
        return agent.replace(executor=agent.executor.replace(tools=tools))

    return edited(assistant, edit)


def with_weather(**changes: Any) -> Factory:
    """The assistant with another definition of `get_weather`."""
    return with_tools(
        lambda tools: [
            dataclasses.replace(each, **changes) if each.name == "get_weather" else each
            for each in tools
        ]
    )


def parts(report: Report) -> list[str]:
    return [cause.part for cause in report.drift.causes]


def test_an_unchanged_agent_replays_green_and_offline(
    session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No difference, no divergence, no socket."""

    def refuse(*args: object) -> None:
        raise AssertionError("a connection during a replay")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    report = replay(session)
    assert report.ok
    assert report.in_words() == []
    assert report.drift.total == 3
    assert report.drift.causes == ()
    assert report.results[0].answer == "It is fine 😀 and the sum is 5."


def test_a_changed_description_is_one_reason_for_all_steps(session: Path) -> None:
    """Every prompt differs; the report names the one word's home and not its echoes."""
    report = replay(session, factory=with_weather(description="The weather of one city."))
    assert not report.ok
    assert report.in_words() == [
        "3 of 3 steps differ for one reason: description of tool `get_weather`"
        " (and with it: system text on tool `get_weather`)"
    ]
    (cause,) = report.drift.causes
    assert cause.severity == "warn"
    assert cause.after == "The weather of one city."
    assert report.divergence is None


def city_only(**words: Any) -> dict[str, Any]:
    """The schema of the weather tool with other words."""
    return {
        "type": "object",
        "properties": {"city": {"type": "string", **words}, "unit": {"type": "string"}},
        "required": ["city"],
    }


EDITS: dict[str, tuple[Factory, list[str]]] = {
    "nothing": (assistant, []),
    "description": (
        with_weather(description="Weather.\n\nIn two paragraphs."),
        ["description of tool `get_weather`"],
    ),
    "schema": (
        with_weather(parameters=city_only(description="which city")),
        ["schema of tool `get_weather`"],
    ),
    "schema the model is not shown": (
        with_weather(
            parameters={
                **define(lambda: None, name="x").parameters,
                "properties": {
                    "city": {
                        "type": "string",
                        "description": "the city's name, for example Paris or 巴黎",
                        "maxLength": 99,
                    },
                    "unit": {
                        "type": "string",
                        "description": "the unit of the temperature",
                        "default": "celsius",
                        "enum": ["celsius", "fahrenheit"],
                    },
                },
                "required": ["city"],
            }
        ),
        ["schema of tool `get_weather`"],
    ),
    "new tool": (
        with_tools(lambda tools: [*tools, define(lambda: 1, name="dice", description="A dice.")]),
        ["tool `dice` is new"],
    ),
    "tool gone": (
        with_tools(lambda tools: [each for each in tools if each.name != "get_current_time"]),
        ["tool `get_current_time` is gone"],
    ),
    "order of tools": (with_tools(lambda tools: tools[::-1]), ["order of the tools"]),
    "system text": (
        edited(assistant, lambda agent: agent.replace(instructions="Be brief.")),
        ["system text"],
    ),
    "examples": (edited(assistant, lambda agent: agent.replace(examples=())), ["system text"]),
    "two at once": (
        edited(
            with_weather(description="Weather."),
            lambda agent: agent.replace(instructions="Be brief."),
        ),
        ["description of tool `get_weather`", "system text"],
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_exactly_the_edited_part_is_named(session: Path, name: str) -> None:
    """Each edit is one cause, and nothing else is reported."""
    factory, causes = EDITS[name]
    report = replay(session, factory=factory)
    assert sorted(parts(report)) == sorted(causes)
    assert report.ok is not bool(causes)


@pytest.mark.parametrize(
    ("old", "new", "cause", "severity"),
    [
        ('"temperature": 0', '"temperature": 0.7', "option `temperature`", "fail"),
        ('"num_ctx": 8192', '"num_ctx": 4096', "option `num_ctx`", "fail"),
        ('"model": "m"', '"model": "other"', "model", "fail"),
        ("/api/chat", "/api/chatter", "address", "fail"),
        ("Weather in Lisbon", "Weather in Porto", "question", "fail"),
        (
            'Observation: {\\"city\\": \\"Lisbon',
            'Result: {\\"city\\": \\"Lisbon',
            "observation",
            "fail",
        ),
        ("I need the weather.", "I need weather.", "assistant message", "fail"),
        ('"temperature": 0', '"temperature": 0.0', None, "ignorable"),
    ],
)
def test_each_part_of_a_request_has_its_name(
    session: Path, old: str, new: str, cause: str | None, severity: str
) -> None:
    """What was recorded otherwise is found under the name of its part."""
    file = load_session(session)
    assert file.session is not None
    compact = {old: new, old.replace('": ', '":'): new.replace('": ', '":')}
    exchanges = []
    for exchange in file.exchanges:
        body, url = exchange.request.body.decode(), exchange.request.url
        for before, after in compact.items():
            if '"' not in before or before in body:
                body, url = body.replace(before, after), url.replace(before, after)
        request = dataclasses.replace(exchange.request, body=body.encode(), url=url)
        exchanges.append(dataclasses.replace(exchange, request=request))
    assert exchanges != list(file.exchanges)
    report = replay(dataclasses.replace(file, exchanges=tuple(exchanges)))
    shown = [each for each in report.drift.causes if each.severity != "ignorable"]
    assert [each.part for each in shown] == ([] if cause is None else [cause])
    assert report.drift.severity == severity


def test_a_time_in_a_message_is_volatile_and_a_mask_is_suggested(tmp_path: Path) -> None:
    """A clock that was not taken from the agent shows as what it is; it fails nothing."""
    path = tmp_path / "s.yaml"
    stamps = iter(["2026-11-30T12:00:00Z", "2026-12-01T08:30:00Z"])

    def clocked(*args: Any, **kwargs: Any) -> Agent:
        agent = assistant(*args, **kwargs)
        return agent.replace(instructions=f"It is {next(stamps)} now.")

    record_scripted(path, ollama_reply(ANSWER), factory=clocked)
    report = replay(path, factory=clocked)
    (cause,) = report.drift.causes
    assert (cause.part, cause.severity) == ("system text", "volatile")
    assert cause.mask
    assert report.ok


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (1, "diverges at step 2: recorded calculator({\"expression\":\"2 + 3\"}), "
            "now the run ends with max_steps"),
        (2, "diverges at step 3: recorded the final answer, now the run ends with max_steps"),
    ],
)  # fmt: skip
def test_a_run_that_stops_early_is_named_by_its_step(session: Path, limit: int, words: str) -> None:
    """Another limit of the loop: the step that is missing, and no list of consequences."""
    factory = edited(assistant, lambda agent: agent.replace(limits=Limits(max_steps=limit)))
    report = replay(session, factory=factory)
    assert not report.ok
    assert report.in_words() == [f"the run {words}"]


class FirstWordParser:
    """A parser that takes every reply for an answer."""

    def parse(self, reply: Any, tools: Any) -> Any:
        from agent_core.messages import FinalAnswer, ParsedReply

        return ParsedReply(None, None, FinalAnswer(reply.text[:5]))


def test_another_decision_stops_a_strict_replay_there(session: Path) -> None:
    """The first step that decides otherwise is named; nothing after it is asked."""
    factory = edited(assistant, lambda agent: agent.replace(parser=FirstWordParser()))
    report = replay(session, factory=factory)
    assert not report.ok
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.what) == (1, "decision")
    assert "get_weather" in report.divergence.recorded
    assert report.drift.total == 1


def test_lenient_reports_and_does_not_fail(session: Path) -> None:
    """The same report, another verdict."""
    report = replay(session, factory=with_weather(description="Weather."), mode="lenient")
    assert report.ok
    assert parts(report) == ["description of tool `get_weather`"]


def test_fail_on_fail_lets_warnings_pass(session: Path) -> None:
    """The bar is the caller's; a changed message is over both."""
    assert replay(session, factory=with_weather(description="W."), fail_on="fail").ok
    asked = edited(assistant, lambda agent: agent.replace(language="zh"))
    assert not replay(session, factory=asked, fail_on="fail").ok


def test_every_kind_of_difference_has_a_severity() -> None:
    """The table is complete, and a description warns while a message fails."""
    assert set(SEVERITY.values()) == {"warn", "fail"}
    assert (SEVERITY["description"], SEVERITY["message"]) == ("warn", "fail")


def test_tools_are_taped_and_do_not_run(session: Path) -> None:
    """A tool that would fail now gives what it gave; look-up and validation do run."""

    def broken(city: str, unit: str = "celsius") -> str:
        raise AssertionError("the tool ran")

    report = replay(session, factory=with_weather(function=broken, convert=dict))
    assert report.ok
    assert [step.observations[0].ok for step in report.results[0].steps[:2]] == [True, True]


def test_live_tools_are_a_choice(session: Path) -> None:
    """With `live` the tool runs, and another result is a changed observation."""

    def other(city: str, unit: str = "celsius") -> str:
        return "it rains"

    factory = with_weather(function=other, convert=dict)
    report = replay(session, factory=factory, tools="live")
    assert not report.ok
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.what) == (1, "observation")
    assert "observation" in parts(report)
    assert replay(session, tools="live").ok


def test_a_stricter_schema_is_seen_though_tools_are_taped(session: Path) -> None:
    """Coercion and validation are today's: arguments that are refused now never reach the tape."""
    parameters = city_only(maxLength=2)
    report = replay(session, factory=with_weather(parameters=parameters))
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


class OnePassage:
    """A retriever that finds one passage, until it is told not to be asked."""

    name = "notes"

    def __init__(self, *, asleep: bool = False) -> None:
        self._asleep = asleep

    def retrieve(self, query: str, top_k: int = 5) -> list[Hit]:
        assert not self._asleep
        return [Hit(Chunk("c1", "The lighthouse is 41 m high.", "notes", 0, 28, {"k": 1}), 0.5)]


def test_the_retriever_is_taped(tmp_path: Path) -> None:
    """What was found is found again without a search."""
    path = tmp_path / "s.yaml"

    def with_notes(*, asleep: bool) -> Factory:
        notes = OnePassage(asleep=asleep)
        return edited(assistant, lambda agent: agent.replace(retriever=notes))

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


def test_a_native_tool_changes_in_the_request_itself(tmp_path: Path) -> None:
    """With native calls the definitions stand in the body; the cause has the same name."""
    path = tmp_path / "s.yaml"
    native = edited(assistant, lambda agent: agent.replace(protocol="native"))
    record_scripted(path, ollama_reply("It is 5."), factory=native)
    report = replay(
        path,
        factory=edited(
            with_weather(description="W."), lambda agent: agent.replace(protocol="native")
        ),
    )
    assert report.in_words() == [
        "1 of 1 step differs for one reason: description of tool `get_weather`"
    ]


def test_a_request_too_many_is_told(session: Path, tmp_path: Path) -> None:
    """An agent that asks more than was recorded gets an error and a verdict, not a hang."""
    path = tmp_path / "s.yaml"
    record_scripted(path, ollama_reply(WEATHER), [response(404, b'{"error":"model not found"}')])
    file = load_session(path)
    assert file.session is not None
    text = render_session(file).replace("stop_reason: model_error", "stop_reason: max_steps")
    assert not replay(parse_session(text)).ok


def test_the_report_has_a_json_form(session: Path) -> None:
    """Everything in it can be written as JSON and says what the words say."""
    report = replay(session, factory=with_weather(description="W."))
    data = json.loads(json.dumps(report.as_json()))
    assert data["ok"] is False
    assert data["steps"] == 3
    assert data["causes"][0]["part"] == "description of tool `get_weather`"
    assert data["causes"][0]["requests"] == [1, 2, 3]
    assert data["words"] == report.in_words()


def test_one_reason_in_some_steps_only_says_so() -> None:
    """The count is of the steps in which it is seen."""
    from harness.sessions.drift import Drift

    cause = Cause("message", "observation", "fail", (2, 3))
    assert Drift(4, (cause,)).in_words() == ["2 of 4 steps differ for one reason: observation"]
    unseen = Cause("schema", "schema of tool `t`", "warn", ())
    assert Drift(4, (unseen,)).in_words() == ["not seen in any request: schema of tool `t`"]
    assert Drift(4, (cause, unseen)).in_words()[0] == "2 of 4 steps differ for 2 reasons:"
    alone = Cause("message", "observation", "fail", (1,))
    assert Drift(1, (alone, unseen)).in_words()[0] == "1 of 1 step differs for 2 reasons:"
