"""An instrumented agent makes one tree of spans a run, and the root says how it ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import context as otel_context

from agent_core.errors import ServerError, ToolError
from agent_core.limits import Limits, StopReason
from harness import instrument, semconv
from harness.content import Capture
from harness.observer import RunObserver
from harness.trace.explain import explain
from harness.trace.spans import TraceSpan
from tests.harness.agents import ANSWER, CALL, Spans, get_weather, the_trace, weather_agent
from tests.harness.event_script import PlannedStep, drive

pytestmark = pytest.mark.usefixtures("no_trouble")


def outline(span: TraceSpan) -> Any:
    """Names, nested."""
    return [span.name, *map(outline, span.children)] if span.children else span.name


def test_a_run_is_one_tree(spans: Spans) -> None:
    """A run holds its steps, a step its call, parse and tool."""
    agent = instrument(weather_agent(), tracer_provider=spans.provider)
    assert agent.run("天气？").answer == "晴，25°C"
    step = ["harness.step", "chat scripted", "harness.parse", "execute_tool get_weather"]
    assert outline(the_trace(spans).root) == ["invoke_agent weather", step, step[:-1]]


def test_no_status_is_ever_set_to_ok(spans: Spans) -> None:
    """OK is final: a failure that is noticed later could not be said any more."""
    agent = instrument(weather_agent(["", CALL, ANSWER]), tracer_provider=spans.provider)
    agent.run("天气？")
    assert '"status_code": "OK"' not in spans.text()
    assert '"status_code": "UNSET"' in spans.text()


def test_the_agent_given_is_left_as_it_was(spans: Spans) -> None:
    """Instrumenting makes a new agent."""
    agent = weather_agent()
    instrument(agent, tracer_provider=spans.provider)
    agent.run("天气？")
    assert spans.traces() == []


def test_instrumenting_twice_is_instrumenting_once(spans: Spans) -> None:
    """The later settings hold, and there is one span each."""
    unused = Spans()
    agent = instrument(weather_agent(), tracer_provider=unused.provider, content="full")
    instrument(agent, tracer_provider=spans.provider).run("天气？")
    assert unused.traces() == []
    assert len(the_trace(spans).root.find("harness.step")) == 2


def test_other_observers_stay(spans: Spans) -> None:
    """Only an observer of the same kind is replaced."""

    class Mine:
        def started(self, event: object) -> None: ...
        def ended(self, token: object, event: object) -> None: ...

    mine = Mine()
    agent = instrument(weather_agent(observers=[mine]), tracer_provider=spans.provider)
    assert mine in agent.observers


def test_an_agent_that_is_a_tool_of_another_is_in_its_tree(spans: Spans) -> None:
    """Also when both were instrumented, each for itself: no span comes twice."""
    inner = instrument(weather_agent(name="inner"), tracer_provider=spans.provider)

    def ask(question: str) -> str:
        """Ask the other agent."""
        return inner.run(question).answer or ""

    call = 'Action: ask\nAction Input: {"question": "天气？"}'
    outer = weather_agent([call, ANSWER], [ask], name="outer")
    instrument(outer, tracer_provider=spans.provider).run("?")
    root = the_trace(spans).root
    (tool,) = root.find("execute_tool")
    (child,) = tool.children
    assert child.name == "invoke_agent inner"
    assert child.attributes[semconv.PARENT_RUN_ID] == root.attributes[semconv.RUN_ID]
    assert len([s for s in the_trace(spans).spans() if s.kind == "invoke_agent"]) == 2


def _raises(error: BaseException) -> Callable[[], str]:
    def boom() -> str:
        """Fail."""
        raise error

    return boom


BOOM = "Action: boom\nAction Input: {}"

BAD = "Action: get_weather\nAction Input: {'city': "


@pytest.mark.parametrize(
    ("replies", "gears", "reason"),
    [
        ([CALL, ANSWER], {}, StopReason.FINAL_ANSWER),
        ([ServerError("busy", status=503, attempts=3)], {}, StopReason.MODEL_ERROR),
        ([BAD] * 3, {}, StopReason.FORMAT_ERRORS),
        ([""] * 3, {}, StopReason.EMPTY_REPLIES),
        ([CALL] * 9, {"limits": Limits(max_steps=1)}, StopReason.MAX_STEPS),
        ([CALL] * 9, {"limits": Limits(token_limit=1)}, StopReason.TOKEN_LIMIT),
        ([CALL] * 9, {"limits": Limits(stop_repeat=3)}, StopReason.REPEATED_ACTION),
    ],
)
def test_the_root_says_why_the_run_ended(
    spans: Spans, replies: list[Any], gears: dict[str, Any], reason: StopReason
) -> None:
    """Stop reason, status, kind of error, failed step and one line without content."""
    agent = instrument(weather_agent(replies, **gears), tracer_provider=spans.provider)
    result = agent.run("天气？")
    assert result.stop_reason is reason
    root = the_trace(spans).root
    assert root.attributes[semconv.STOP_REASON] == reason.value
    assert root.failed is (reason is not StopReason.FINAL_ANSWER)
    if root.failed:
        last = max(len(result.steps), 1)
        assert root.attributes[semconv.FAILED_STEP] == last
        assert root.error.startswith(f"{reason.value} in step {last}")
        assert root.attributes[semconv.ERROR_TYPE] in {reason.value, "ServerError"}


def test_a_cancelled_run_is_no_error(spans: Spans) -> None:
    """Its spans have no error status, since somebody asked for the end."""
    cancel = threading.Event()
    cancel.set()
    agent = instrument(weather_agent(), tracer_provider=spans.provider)
    assert agent.run("天气？", cancel=cancel).stop_reason is StopReason.CANCELLED
    assert not the_trace(spans).root.failed


def test_a_failed_tool_is_an_error_of_its_own_span_only(spans: Spans) -> None:
    """The run went on and ended well."""
    boom = _raises(ToolError("no such city"))
    agent = instrument(weather_agent([BOOM, ANSWER], [boom]), tracer_provider=spans.provider)
    agent.run("天气？")
    assert [s.name for s in the_trace(spans).spans() if s.failed] == ["execute_tool boom"]


@pytest.mark.parametrize(
    ("raised", "stop"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(143), "interrupted"),  # SIGTERM, as the command line passes it on
        (SystemExit(), "exception"),
        (GeneratorExit(), "exception"),
    ],
    ids=repr,
)
def test_an_aborted_run_closes_every_span_as_an_error(
    spans: Spans, raised: BaseException, stop: str
) -> None:
    """It does not look fine, and leaves the context as it was."""
    observer = RunObserver(spans.provider, None, Capture("none"))
    before = otel_context.get_current()
    with pytest.raises(type(raised)):
        drive(observer, [PlannedStep(), PlannedStep(raises=raised)])
    assert otel_context.get_current() == before
    root = the_trace(spans).root
    assert root.attributes[semconv.STOP_REASON] == stop
    assert not any("model call failed" in line for line in explain(the_trace(spans)))
    failed = [span.name for span in the_trace(spans).spans() if span.failed]
    assert failed == ["invoke_agent weather", "harness.step", "chat qwen"]
    assert all(
        span.attributes[semconv.ERROR_TYPE] == type(raised).__name__
        for span in the_trace(spans).spans()
        if span.failed
    )


@pytest.mark.parametrize("content", ["none", "truncated", "full"])
def test_texts_are_written_only_when_asked_for(spans: Spans, content: Any) -> None:
    """Question, prompt, reply, arguments, result and error texts follow the setting."""
    texts = ["SYSTEM_MARK", "QUESTION_MARK", "THOUGHT_MARK", "ARG_MARK", "RESULT_MARK",
             "ERROR_MARK", "ANSWER_MARK"]  # fmt: skip

    def look(city: str) -> str:
        """Look."""
        return "RESULT_MARK"

    replies = [
        'Thought: THOUGHT_MARK\nAction: look\nAction Input: {"city": "ARG_MARK"}',
        BOOM,
        "Thought: done\nFinal Answer: ANSWER_MARK",
    ]
    boom = _raises(ValueError("ERROR_MARK"))
    agent = weather_agent(replies, [look, boom], instructions="SYSTEM_MARK")
    instrument(agent, tracer_provider=spans.provider, content=content).run("QUESTION_MARK")
    found = [text for text in texts if text in spans.text()]
    assert found == ([] if content == "none" else texts)


def test_names_of_spans_hold_no_text_of_the_model(spans: Spans) -> None:
    """A tool that the model invented has no name on the span."""
    observer = RunObserver(spans.provider, None, Capture("none"))
    drive(observer, [PlannedStep(tool="SELECT secret FROM users"), PlannedStep()])
    assert "SELECT" not in spans.text()
    (tool,) = the_trace(spans).root.find("execute_tool")
    assert tool.name == "execute_tool"
    assert tool.attributes["harness.tool.unknown"] == 1


def test_steps_and_parses_carry_no_gen_ai_attribute(spans: Spans) -> None:
    """A trace page would take them for calls of a model or a tool."""
    instrument(weather_agent(), tracer_provider=spans.provider).run("?")
    for span in the_trace(spans).root.find("harness.step", "harness.parse"):
        assert not [key for key in span.attributes if key.startswith("gen_ai.")]


def test_what_is_searched_for_is_a_scalar(spans: Spans) -> None:
    """Stores match arrays only as a whole."""
    instrument(weather_agent(["```json\n" + CALL, CALL + ",", ANSWER]),
               tracer_provider=spans.provider).run("?")  # fmt: skip
    tool = the_trace(spans).root.find("execute_tool")[0]
    assert tool.attributes["harness.coercion.str_to_int"] == 1
    assert tool.attributes[semconv.COERCIONS] == ["$.days:str>int"]


def test_an_unknown_content_setting_is_refused() -> None:
    """Loudly, before anything runs."""
    with pytest.raises(ValueError, match="none, truncated, full"):
        instrument(weather_agent(), content="some")  # type: ignore[arg-type]


def test_the_default_tool_is_documented() -> None:
    """The tool of these tests works by itself."""
    assert get_weather("x") == "x: sunny for 1 days"
