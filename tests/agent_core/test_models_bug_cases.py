"""Cases after public bug reports about model clients; `source` names the report.

Each is served from the loopback by a server that behaves as the case says, streamed and not,
and everything the case expects is checked. What concerns the loop is checked on an agent.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.errors import ContextOverflow, ModelError
from agent_core.limits import Limits, StopReason
from agent_core.messages import Message, Reply, RunResult, ToolCall
from agent_core.models import OllamaChat, OpenAIChat, RetryPolicy
from harness.faults import FaultServer, Received, Response

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(
        json.loads,
        (Path(__file__).parent.parent / "data" / "bug_cases_http.jsonl")
        .read_text(encoding="utf-8")
        .splitlines(),
    )
}
ABOUT_THE_LOOP = {"http-03", "http-36", "http-37", "http-41", "http-45"}
ASK = [Message("user", "hi")]


@dataclass
class Outcome:
    """What a client made of a case."""

    reply: Reply | None = None
    error: ModelError | None = None
    requests: list[Received] = field(default_factory=list)
    waited: float = 0.0
    seconds: float = 0.0
    base_url: str = ""


def response(given: dict[str, Any]) -> Response:
    """The response that a case describes."""
    chunks = given.get("chunks_b64")
    return Response(
        given.get("status", 200),
        given.get("body", ""),
        headers=given.get("headers", {}),
        chunks=[base64.b64decode(each) for each in chunks] if chunks else None,
    )


def script(given: dict[str, Any]) -> Iterator[Response]:
    """The response of the case, then what follows it, else the same again."""
    yield response(given)
    then = given.get("then")
    while True:
        if then is None:
            yield response(given)
        else:
            message = {"role": "assistant", "content": then["content"]}
            choice = {"message": message, "finish_reason": "stop"}
            yield Response(then["status"], {"choices": [choice], "message": message, "done": True})


def model_for(api: str, base_url: str, **settings: Any) -> OllamaChat | OpenAIChat:
    """The client of a route."""
    if api.startswith("ollama"):
        return OllamaChat("m", base_url=base_url, **settings)
    return OpenAIChat("m", base_url=f"{base_url}/v1", api_key="", **settings)


def ask(given: dict[str, Any], *, stream: bool) -> Outcome:
    """Put one question to a server that behaves as the case says."""
    clock = ManualClock(datetime(2026, 11, 30, tzinfo=UTC))
    outcome = Outcome()
    with FaultServer(script(given)) as server:
        outcome.base_url = server.url
        if given.get("server") == "connection refused":
            with socket.create_server(("127.0.0.1", 0)) as free:
                outcome.base_url = f"http://127.0.0.1:{free.getsockname()[1]}"
        model = model_for(given["api"], outcome.base_url, stream=stream, clock=clock)
        began = time.monotonic()
        try:
            outcome.reply = model.chat(ASK)
        except ModelError as error:
            outcome.error = error
        outcome.seconds = time.monotonic() - began
        model.close()
        outcome.requests = server.requests
    outcome.waited = clock.monotonic()
    return outcome


def calls_of(reply: Reply) -> list[dict[str, Any]]:
    """Calls in the words of the cases; arguments decoded where they are text."""
    return [
        {
            "tool": call.name,
            "args": json.loads(call.arguments)
            if isinstance(call.arguments, str)
            else call.arguments,
        }
        for call in reply.tool_calls
    ]


def words_are_there(text: str, expect: dict[str, Any], base_url: str) -> bool:
    """Whether an error says what the case wants said."""
    wanted = [
        base_url if each == "the base URL" else each for each in expect.get("message_mentions", [])
    ]
    any_of = expect.get("message_mentions_any", [text])
    return all(each in text for each in wanted) and any(each in text for each in any_of)


CHECKED = {
    "content", "done_reason", "tool_calls", "calls", "result", "raises", "raises_within_seconds",
    "message_mentions", "message_mentions_any", "message_chars_at_most", "retryable", "class",
    "waits_seconds_at_least", "waits_seconds_at_most", "never", "why", "both_give",
}  # fmt: skip


def check(expect: dict[str, Any], outcome: Outcome) -> None:
    """Every expectation of a case, one by one."""
    assert expect.keys() <= CHECKED, "an expectation that nothing checks"
    reply, error = outcome.reply, outcome.error
    if expect.get("raises") or "raises_within_seconds" in expect:
        assert error is not None, f"no error, but {reply!r}"
        text = str(error)
        assert words_are_there(text, expect, outcome.base_url), text
        assert len(text) <= expect.get("message_chars_at_most", 2000)
        assert outcome.seconds < expect.get("raises_within_seconds", 30)
        if "retryable" in expect:
            assert (error.attempts > 1) is expect["retryable"]
        if "class" in expect:
            assert isinstance(error, ContextOverflow)
        assert not re.search(r"\w+Error\b|HTTPConnectionPool", text), "a library's own words"
        return
    assert error is None, f"{error!r}"
    assert reply is not None
    for key in ("content", "result"):
        if key in expect:
            assert reply.text == expect[key]
    if "done_reason" in expect:
        assert reply.finish_reason == expect["done_reason"]
    if "tool_calls" in expect:
        assert len(reply.tool_calls) == expect["tool_calls"]
    for key in ("calls", "both_give"):
        if key in expect:
            wanted = expect[key]
            assert calls_of(reply) == (wanted if isinstance(wanted, list) else [wanted])
    cap = RetryPolicy().max_wait
    at_most = expect.get("waits_seconds_at_most", cap)
    assert expect.get("waits_seconds_at_least", 0) <= outcome.waited
    assert outcome.waited <= (at_most if isinstance(at_most, int | float) else cap)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", sorted(CASES.keys() - ABOUT_THE_LOOP))
def test_a_reported_bug_is_not_ours(name: str, stream: bool) -> None:
    """What careful people expect of a client, whether or not it asked for a stream."""
    case = CASES[name]
    for given in case["input"].get("pair", [case["input"]]):
        check(case["expect"], ask(given, stream=stream))


def run(given: dict[str, Any], tool: Any, question: str = "hi", **settings: Any) -> RunResult:
    """An agent with one tool on a server that behaves as the case says."""
    with FaultServer(script(given)) as server:
        model = model_for(given["api"], server.url)
        agent = Agent(model, [tool], limits=Limits(max_steps=4), **settings)
        result = agent.run(question)
        model.close()
    return result


def test_arguments_of_earlier_calls_go_out_in_each_routes_own_form() -> None:
    """http-03: an object on one route, JSON text on the other."""
    case = CASES["http-03"]
    assert "JSON object on the native route, JSON text" in case["expect"]["outgoing"]
    arguments = {"city": "Oslo"}
    history = [*ASK, Message("assistant", "", (ToolCall("c", "get_weather", arguments),))]
    sent: list[Any] = []
    done = {"message": {"content": "ok"}, "done": True, "choices": [{"message": {"content": ""}}]}
    with FaultServer(lambda _: Response(body=done)) as server:
        for api in ("ollama", "openai"):
            model = model_for(api, server.url)
            model.chat(history)
            model.close()
        sent = [
            each.json()["messages"][1]["tool_calls"][0]["function"]["arguments"]
            for each in server.requests
        ]
    assert sent == [arguments, json.dumps(arguments)]


@pytest.mark.parametrize("protocol", ["native", "react-json"])
def test_thinking_alone_is_neither_an_answer_nor_an_action(protocol: Any) -> None:
    """http-36: the model is asked again, and in the end the run says that replies were empty."""
    called: list[str] = []

    def get_weather(city: str) -> str:
        """Weather of a city."""
        called.append(city)
        return "sunny"

    result = run(CASES["http-36"]["input"], get_weather, protocol=protocol)
    assert result.stop_reason is StopReason.EMPTY_REPLIES
    assert len(result.steps) > 1
    assert (result.answer, called) == (None, [])


def test_a_prompt_that_the_server_cut_is_reported() -> None:
    """http-37: far fewer tokens were read than sent, and nothing else says so."""

    def lookup(query: str) -> str:
        """Look something up."""
        return query

    given = CASES["http-37"]["input"]
    question = "Remember the word. " * (given["sent_chars"] // 19)
    result = run(given, lookup, question, protocol="native")
    notes = " ".join(note.text for step in result.steps for note in step.notes)
    assert any(word in notes for word in CASES["http-37"]["expect"]["mentions_any"]), notes


def test_a_native_call_that_was_cut_by_length_does_not_run() -> None:
    """http-41: the empty arguments are the server's, not the model's."""
    executions: list[str] = []

    def delete_all(confirm: bool = True) -> str:
        """Delete everything."""
        executions.append(str(confirm))
        return "deleted"

    result = run(CASES["http-41"]["input"], delete_all, protocol="native")
    assert len(executions) == CASES["http-41"]["expect"]["tool_executions"]
    assert result.answer is None


@pytest.mark.parametrize("protocol", ["native", "react-json", "react-labels"])
def test_a_call_written_as_text_is_a_call(protocol: Any) -> None:
    """http-45: JSON in the text, cut over two records; it is no answer to a user."""
    executions: list[str] = []

    def list_stations() -> str:
        """List the stations."""
        executions.append("list")
        return "North, South"

    result = run(CASES["http-45"]["input"], list_stations, protocol=protocol)
    assert executions
    assert result.answer is None
