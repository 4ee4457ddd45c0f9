"""Cases after public bug reports on tracing and logging; each names its source."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import structlog

from agent_core.agent import Agent
from agent_core.limits import Limits
from agent_core.messages import Message, Reply, ToolCall, Usage
from agent_core.models import ScriptedModel
from harness import instrument, semconv, telemetry
from harness.content import Capture, attribute
from harness.logs import json_logger
from harness.observer import RunObserver
from tests.harness.agents import ANSWER, CALL, Spans, get_weather, the_trace, weather_agent
from tests.harness.event_script import PlannedStep, drive
from tests.harness.otlp_receiver import otlp_receiver


@pytest.fixture(autouse=True)
def _nothing_is_complained_of(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No `Mixed types`, no `Invalid type`, no `different Context`, no trouble of ours."""
    caplog.set_level(logging.WARNING)
    yield
    said = [r.getMessage() for r in caplog.get_records("call")]
    assert said == []


def native_calls(*cities: str) -> Reply:
    """A reply with parallel native calls."""
    calls = (ToolCall(f"c{n}", "get_weather", {"city": city}) for n, city in enumerate(cities))
    return Reply("", tuple(calls), finish_reason="tool_calls", usage=Usage(10, 5))


@pytest.mark.parametrize("timeout", [0.5, 30.0])
def test_tools_in_worker_threads_have_one_trace(spans: Spans, timeout: float) -> None:
    """Their spans stand in the tree of the run that started them.

    Source: huggingface/smolagents#1840 (trace-01).
    """
    agent = Agent(
        ScriptedModel([native_calls("北京", "上海"), Reply("晴")]),
        [get_weather],
        protocol="native",
        limits=Limits(tool_timeout=timeout),
    )
    instrument(agent, tracer_provider=spans.provider).run("?")
    trace = the_trace(spans)
    steps = trace.root.find("harness.step")
    assert [tool.parent_id for tool in trace.root.find("execute_tool")] == [steps[0].span_id] * 2


def test_concurrent_tools_leave_no_orphan(spans: Spans) -> None:
    """Calls of tools that run at once all hang in the one trace.

    Source: microsoft/agent-framework#6357 (trace-03).
    """
    replies: list[Reply] = []
    for round_ in range(20):
        replies += [native_calls(f"a{round_}", f"b{round_}", f"c{round_}")]
    agent = Agent(
        ScriptedModel([*replies, Reply("晴")]),
        [get_weather],
        protocol="native",
        limits=Limits(max_steps=30),
    )
    instrument(agent, tracer_provider=spans.provider).run("?")
    assert len(the_trace(spans).root.find("execute_tool")) == 60


def test_a_silent_collector_does_not_hang_the_exit(tmp_path: Path) -> None:
    """A collector that never answers costs spans, and no end of the process.

    Source: open-telemetry/opentelemetry-python#2284 (trace-05).
    """
    with otlp_receiver(silent=True) as receiver:
        began = time.monotonic()
        with telemetry.session(otlp=receiver.url, directory=tmp_path, say=lambda _: None) as watch:
            drive(watch.observer, [PlannedStep()])
        assert time.monotonic() - began < 10


def test_a_script_that_ends_after_the_answer_loses_nothing(tmp_path: Path) -> None:
    """What was not sent yet is sent before the process ends.

    Source: drt-hub/drt#658 (trace-06).
    """
    with otlp_receiver() as receiver:
        with telemetry.session(otlp=receiver.url, directory=tmp_path, say=lambda _: None) as watch:
            drive(watch.observer, [PlannedStep()] * 3)
        assert len(receiver.traces()[0].spans()) == 15


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        (["a", 1, None], False),
        ([], False),
        ([1, 2.5], False),
        ([True, 1], False),
        ([None], False),
        (None, False),
        (2**70, False),
        ([2**70], False),
        (b"\xff\xfe\x00" * 1_000, True),
        ("x" * 5_000, True),
        ({"k": ["v", 1]}, False),
        ({1: {2}}, False),
        (Message("user", "北京"), False),
        ([Message("user", "北京")], False),
        (float("nan"), False),
        (object(), False),
    ],
)
def test_any_value_becomes_an_attribute(spans: Spans, value: Any, marked: bool) -> None:
    """Mixed, nested, huge or odd: it is written as something a store takes.

    Source: open-telemetry/opentelemetry-python#3161, #4604 (trace-09, -10),
    huggingface/smolagents#201 (trace-23).
    """
    with spans.provider.get_tracer("t").start_as_current_span("s") as span:
        span.set_attribute("k", attribute(value, limit=1_000))
    (found,) = the_trace(spans).spans()
    assert "k" in found.attributes
    assert ("…[+" in str(found.attributes["k"])) is marked


def test_foreign_options_and_tools_do_no_harm(spans: Spans) -> None:
    """With 60 tools and foreign options the key attributes are there.

    Source: BerriAI/litellm#34828 (trace-13).
    """
    tools = []
    for number in range(60):

        def tool(city: str) -> str:
            """Do something."""
            return city

        tool.__name__ = f"tool_{number}"
        tools.append(tool)
    reply = Reply("晴", usage=Usage(10, 5), finish_reason="stop", model="m")
    agent = Agent(ScriptedModel([reply]), tools, protocol="native")
    instrument(agent, tracer_provider=spans.provider, content="full").run("?")
    (chat,) = the_trace(spans).root.find("chat")
    assert chat.attributes[semconv.REQUEST_MODEL] == "scripted"
    assert chat.attributes[semconv.INPUT_TOKENS] == 10
    assert chat.attributes[semconv.OUTPUT_TOKENS] == 5
    assert chat.attributes[semconv.FINISH_REASONS] == ["stop"]
    assert chat.dropped_attributes == 0


def test_the_message_of_an_exception_is_content(spans: Spans) -> None:
    """Without content its words are in no span.

    Source: thoughtbot/opentelemetry-instrumentation-ruby_llm#39 (trace-14).
    """

    def boom() -> str:
        """Fail."""
        raise RuntimeError("customer mail: a.b@example.org")

    written = io.BytesIO()
    agent = weather_agent(["Action: boom\nAction Input: {}", ANSWER], [boom])
    instrument(agent, tracer_provider=spans.provider, logger=json_logger(written)).run("?")
    (tool,) = the_trace(spans).root.find("execute_tool")
    assert tool.failed
    assert tool.attributes[semconv.ERROR_TYPE] == "RuntimeError"
    assert "a.b@example.org" not in spans.text()
    assert "a.b@example.org" not in written.getvalue().decode()


@pytest.mark.parametrize("content", ["none", "full"])
@pytest.mark.parametrize(
    "reply",
    [
        Reply(""),
        Reply("", thinking="only thoughts", usage=Usage(None, 7)),
        Reply("Final Answer: 晴", usage=Usage(), finish_reason=None, model=None),
        Reply("", (ToolCall(None, "", None),)),
        Reply("", (ToolCall("x", "nowhere", "{broken"),)),
    ],
)
def test_what_the_client_tolerates_the_trace_tolerates(
    spans: Spans, content: Any, reply: Reply
) -> None:
    """Odd replies are no crash of the observer.

    Source: pydantic/logfire#64 (trace-16).
    """
    agent = Agent(ScriptedModel([reply, ANSWER]), [get_weather])
    instrument(agent, tracer_provider=spans.provider, content=content).run("?")
    trace = the_trace(spans)
    assert "harness.trouble" not in {key for span in trace.spans() for key in span.attributes}


class _Odd:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [{uuid4(): 1, (1, 2): "x"}, object(), _Odd(), {_Odd(): 1}])
def test_any_value_can_be_logged(value: Any) -> None:
    """Whatever is logged becomes a line of JSON.

    Source: hynek/structlog#265 (trace-18), elastic/ecs-logging-python#41 (trace-19).
    """
    written = io.BytesIO()
    json_logger(written).info("e", value=value)
    assert json.loads(written.getvalue())["event"] == "e"


def test_a_tool_in_a_thread_logs_with_the_run_id(spans: Spans) -> None:
    """What a tool logs in its thread names the run it belongs to.

    Source: hynek/structlog#425 (trace-20).
    """
    written = io.BytesIO()
    log = json_logger(written)

    def look(city: str) -> str:
        """Look."""
        assert threading.current_thread() is not threading.main_thread()
        log.info("tool.looked")
        return city

    agent = weather_agent(['Action: look\nAction Input: {"city": "x"}', ANSWER], [look])
    instrument(agent, tracer_provider=spans.provider).run("?")
    record = json.loads(written.getvalue())
    assert record["run_id"] == the_trace(spans).root.attributes[semconv.RUN_ID]


def test_a_run_that_raises_leaves_nothing_bound(spans: Spans) -> None:
    """The next record names no run that is over.

    Source: jrobichaud/django-structlog#76 (trace-21).
    """
    observer = RunObserver(spans.provider, None, Capture("none"))
    with structlog.contextvars.bound_contextvars(service_name="shop"):
        with pytest.raises(RuntimeError):
            drive(observer, [PlannedStep(raises=RuntimeError("boom"))])
        seen: list[dict[str, Any]] = []
        plan = PlannedStep(in_tool=lambda: seen.append(structlog.contextvars.get_contextvars()))
        drive(observer, [plan, PlannedStep()])
        assert structlog.contextvars.get_contextvars() == {"service_name": "shop"}
    first, second = (each.root.attributes[semconv.RUN_ID] for each in spans.traces())
    assert seen == [{"service_name": "shop", "run_id": second, "step": 1}]
    assert first != second


def test_async_callers_keep_their_runs_apart(spans: Spans) -> None:
    """Each gets a trace of its own, whatever ran in between.

    Source: open-telemetry/opentelemetry-python-genai#513 (trace-22).
    """

    async def one() -> None:
        agent = instrument(weather_agent([CALL, ANSWER]), tracer_provider=spans.provider)
        await asyncio.sleep(0)
        agent.run("?")

    async def main() -> None:
        await asyncio.gather(*(one() for _ in range(5)))

    asyncio.run(main())
    assert [trace.complete for trace in spans.traces()] == [True] * 5
