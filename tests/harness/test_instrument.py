"""An instrumented agent makes one tree of spans a run, whatever happens in it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import structlog
from opentelemetry import context as otel_context
from opentelemetry.trace import NoOpTracerProvider
from structlog.testing import CapturingLogger

from agent_core.errors import ServerError, ToolError
from agent_core.events import Failed, RunStarted
from agent_core.limits import Limits, StopReason
from agent_core.messages import Message, RunResult
from harness import instrument, semconv
from harness.content import Capture
from harness.observer import RunObserver
from harness.run_state import Attributes, PromptHistory
from harness.trace.explain import explain
from harness.trace.spans import Trace, TraceSpan
from tests.harness.agents import ANSWER, CALL, Spans, get_weather, weather_agent
from tests.harness.event_script import PlannedStep, drive


@pytest.fixture
def spans() -> Spans:
    """Where the spans of a test go."""
    return Spans()


@pytest.fixture(autouse=True)
def _no_trouble(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither the harness nor OpenTelemetry may complain while a test runs."""
    yield
    said = [r for r in caplog.get_records("call") if r.name.startswith(("harness", "opentel"))]
    assert [record.getMessage() for record in said] == []


def the_trace(spans: Spans) -> Trace:
    """The only trace; it has to be one tree."""
    (found,) = spans.traces()
    assert found.complete
    return found


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
    """It was asked for."""
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


def test_a_run_that_raises_does_not_adopt_the_next_one(spans: Spans) -> None:
    """The context is restored on every way out."""
    observer = RunObserver(spans.provider, None, Capture("none"))
    with pytest.raises(RuntimeError):
        drive(observer, [PlannedStep(raises=RuntimeError("boom"))])
    drive(observer, [PlannedStep()])
    assert [each.root.failed for each in spans.traces()] == [True, False]


def test_an_abandoned_generator_leaves_the_context_alone(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    """A run inside a generator that is closed later, or elsewhere, disturbs nobody."""
    observer = RunObserver(spans.provider, None, Capture("none"))
    run = RunStarted("a", "q", "m", "native", "en", {}, "", {})

    def stream() -> Generator[str, None, None]:
        token = observer.started(run)
        try:
            yield "piece"
        except GeneratorExit as left:
            observer.ended(token, Failed(left))
            raise

    started = stream()
    next(started)
    # Closed in another thread, whose context is another one.
    closer = threading.Thread(target=started.close)
    closer.start()
    closer.join()
    drive(RunObserver(spans.provider, None, Capture("none")), [PlannedStep()])
    assert "different Context" not in caplog.text
    assert structlog.contextvars.get_contextvars() == {}
    abandoned, following = spans.traces()
    assert abandoned.root.attributes[semconv.ERROR_TYPE] == "GeneratorExit"
    assert following.complete
    assert not following.root.failed


def test_tools_in_threads_keep_their_parent(spans: Spans) -> None:
    """With a timeout a tool runs in a thread of its own; spans in it have their place."""
    mine = spans.provider.get_tracer("mine")

    def slow(city: str) -> str:
        """Look."""
        with mine.start_as_current_span("inner"):
            return city

    call = 'Action: slow\nAction Input: {"city": "x"}'
    agent = weather_agent([call, ANSWER], [slow], limits=Limits(tool_timeout=5.0))
    instrument(agent, tracer_provider=spans.provider).run("?")
    (inner,) = [span for span in the_trace(spans).spans() if span.name == "inner"]
    assert inner.parent_id == the_trace(spans).root.find("execute_tool")[0].span_id


def test_runs_in_parallel_stay_apart(spans: Spans) -> None:
    """Twenty runs in threads make twenty trees without orphans."""
    agents = [
        instrument(weather_agent(), tracer_provider=spans.provider, logger=CapturingLogger())
        for _ in range(20)
    ]
    threads = [threading.Thread(target=agent.run, args=("?",)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(spans.traces()) == 20
    assert all(each.complete and len(each.spans()) == 8 for each in spans.traces())


def test_an_async_caller_gets_one_tree_a_run(
    spans: Spans, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent is called in threads of an event loop, under a span of the caller."""
    agent = instrument(weather_agent([CALL, ANSWER] * 2), tracer_provider=spans.provider)
    mine = spans.provider.get_tracer("mine")

    async def main() -> None:
        with mine.start_as_current_span("request"):
            await asyncio.to_thread(agent.run, "?")

    asyncio.run(main())
    (request,) = the_trace(spans).roots
    assert [child.name for child in request.children] == ["invoke_agent weather"]
    assert "different Context" not in caplog.text


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


def test_a_long_history_keeps_what_matters(spans: Spans) -> None:
    """300 messages and 60 tools: model, tokens and finish reason are still there."""
    observer = RunObserver(spans.provider, None, Capture("full"))
    drive(observer, [PlannedStep(), PlannedStep()], history=300)
    for chat in the_trace(spans).root.find("chat"):
        assert chat.dropped_attributes == 0
        assert chat.attributes[semconv.OPERATION] == "chat"
        assert chat.attributes[semconv.REQUEST_MODEL] == "qwen"
        assert chat.attributes[semconv.INPUT_TOKENS] == 100
        assert chat.attributes[semconv.FINISH_REASONS] == ["stop"]
        messages = json.loads(chat.attributes[semconv.INPUT_MESSAGES])
        assert messages[0]["role"] == "system"
        assert len(chat.attributes[semconv.INPUT_MESSAGES]) <= 64_000


def test_huge_texts_are_cut_with_a_marker_and_stay_json(spans: Spans) -> None:
    """The cut is ours, says how much is missing, and is counted on the root."""
    observer = RunObserver(spans.provider, None, Capture("truncated"))
    huge = {"text": 'say "好"\n' * 100_000, "list": list(range(50_000))}
    drive(observer, [PlannedStep(arguments=huge, observation="x" * 500_000), PlannedStep()])
    root = the_trace(spans).root
    tool = root.find("execute_tool")[0]
    arguments = tool.attributes[semconv.TOOL_ARGUMENTS]
    assert len(arguments) <= 8_000
    assert json.loads(arguments)
    assert tool.attributes[semconv.TOOL_RESULT].endswith(f"…[+{500_000 - 8_000} chars]")
    assert root.attributes[semconv.TRUNCATED_ATTRIBUTES] >= 2


def test_lone_surrogates_lose_nothing(spans: Spans) -> None:
    """In names, messages, arguments and attributes."""
    bad = "a\ud83d b"
    observer = RunObserver(spans.provider, None, Capture("full"))
    drive(
        observer,
        [PlannedStep(text=bad, arguments={bad: bad}, observation=bad), PlannedStep()],
        agent=f"agent {bad}",
        question=bad,
        answer=bad,
    )
    spans.text().encode("utf-8")
    assert the_trace(spans).root.name.startswith("invoke_agent agent a")


class _Hostile:
    """An object that can be neither described nor serialised."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_objects_that_cannot_be_serialised_do_no_harm(spans: Spans) -> None:
    """Arguments are foreign: anything may be in them."""
    odd = {"o": _Hostile(), "b": b"\xff\xfe\x00", "m": ["a", 1, None], "n": float("nan")}
    cycle: list[Any] = []
    cycle.append(cycle)
    observer = RunObserver(spans.provider, None, Capture("full"))
    drive(observer, [PlannedStep(arguments={**odd, "c": cycle}), PlannedStep()])
    arguments = the_trace(spans).root.find("execute_tool")[0].attributes[semconv.TOOL_ARGUMENTS]
    assert json.loads(arguments)["m"] == ["a", 1, None]


def test_without_a_tracer_provider_nothing_is_done() -> None:
    """A run without anyone who listens has no spans and works as ever."""
    agent = instrument(weather_agent(), tracer_provider=NoOpTracerProvider())
    assert agent.run("?").answer == "晴，25°C"


def test_the_run_goes_on_when_the_logger_and_the_processor_raise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Watching may fail; the run does not."""

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise OSError("disk full")

    spans = Spans()
    agent = instrument(weather_agent(), tracer_provider=spans.provider, logger=Broken())
    result: RunResult = agent.run("?")
    assert result.answer == "晴，25°C"
    assert len(the_trace(spans).spans()) == 8
    assert "could not be written: OSError" in caplog.text
    caplog.clear()


def test_a_provider_that_raises_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    """Not even when no span can be begun."""

    class Broken(NoOpTracerProvider):
        def get_tracer(self, *args: Any, **more: Any) -> Any:
            raise RuntimeError("no tracer")

    assert instrument(weather_agent(), tracer_provider=Broken()).run("?").answer == "晴，25°C"
    caplog.clear()


def test_records_carry_the_ids_of_their_spans(spans: Spans) -> None:
    """Every record's span exists in the trace; run and step stand beside it."""
    logger = CapturingLogger()
    instrument(weather_agent(), tracer_provider=spans.provider, logger=logger).run("?")
    found = the_trace(spans)
    ids = {span.span_id for span in found.spans()}
    assert len(logger.calls) == len(ids) + 1
    assert logger.calls[0].args[0] == "run.start"
    for call in logger.calls:
        assert call.kwargs["trace_id"] == found.trace_id
        assert call.kwargs["span_id"] in ids
        assert call.kwargs["run_id"] == found.root.attributes[semconv.RUN_ID]
        assert "step" in call.kwargs


def test_records_of_tools_carry_the_run_and_nothing_stays_bound(spans: Spans) -> None:
    """A tool's own logger sees run and step, in a thread too; afterwards only the caller's."""
    seen: list[dict[str, Any]] = []

    def look(city: str) -> str:
        """Look."""
        seen.append(structlog.contextvars.get_contextvars())
        return city

    call = 'Action: look\nAction Input: {"city": "x"}'
    with structlog.contextvars.bound_contextvars(service_name="shop"):
        first = instrument(weather_agent([call, ANSWER], [look]), tracer_provider=spans.provider)
        first.run("?")
        assert structlog.contextvars.get_contextvars() == {"service_name": "shop"}
        with pytest.raises(KeyboardInterrupt):
            drive(
                RunObserver(spans.provider, None, Capture("none")),
                [PlannedStep(raises=KeyboardInterrupt())],
            )
        assert structlog.contextvars.get_contextvars() == {"service_name": "shop"}
    (bound,) = seen
    assert bound["step"] == 1
    assert bound["run_id"] == spans.traces()[0].root.attributes[semconv.RUN_ID]


def test_a_prompt_has_one_digest_however_it_grew() -> None:
    """At once, message by message, or after another one that had to be trimmed."""
    messages = [Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    told = []
    for prompts in ([messages], [messages[:1], messages[:2], messages], [messages[1:], messages]):
        history = PromptHistory(Capture("none"))
        for prompt in prompts:
            attributes: Attributes = {}
            history.put(attributes, prompt)
        told.append(attributes)
    assert {each["harness.prompt.messages"] for each in told} == {3}
    assert len({each["harness.prompt.sha256"] for each in told}) == 1
    assert [each.get("harness.prompt.rewritten") for each in told] == [None, None, True]


def test_unsampled_runs_cost_no_work_and_break_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nested events of a run that nobody takes are passed over."""
    caplog.set_level(logging.DEBUG)
    observer = RunObserver(NoOpTracerProvider(), None, Capture("full"))
    assert drive(observer, [PlannedStep(), PlannedStep()]).answer


def test_an_unknown_content_setting_is_refused() -> None:
    """Loudly, before anything runs."""
    with pytest.raises(ValueError, match="none, truncated, full"):
        instrument(weather_agent(), content="some")  # type: ignore[arg-type]


def test_the_default_tool_is_documented() -> None:
    """The tool of these tests works by itself."""
    assert get_weather("x") == "x: sunny for 1 days"
