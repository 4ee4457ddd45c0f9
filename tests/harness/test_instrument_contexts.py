"""Spans and log records have their place, whatever threads and generators do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from typing import Any

import pytest
import structlog
from structlog.testing import CapturingLogger

from agent_core.events import Failed, RunStarted
from agent_core.limits import Limits
from harness import instrument, semconv
from harness.content import Capture
from harness.observer import RunObserver
from tests.harness.agents import ANSWER, CALL, Spans, the_trace, weather_agent
from tests.harness.event_script import PlannedStep, drive

pytestmark = pytest.mark.usefixtures("no_trouble")


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
