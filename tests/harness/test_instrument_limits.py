"""Watching survives what is huge, broken or not there, and the run does not notice."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from opentelemetry.trace import NoOpTracerProvider

from agent_core.events import ModelCallStarted
from agent_core.messages import Message, RunResult
from harness import instrument, semconv
from harness.content import Capture
from harness.observer import RunObserver
from harness.run_state import Attributes, LastRequest, PromptHistory
from tests.harness.agents import Spans, the_trace, weather_agent
from tests.harness.event_script import PlannedStep, drive

pytestmark = pytest.mark.usefixtures("no_trouble")


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


def test_options_that_were_changed_in_place_are_described_anew() -> None:
    """What goes with a prompt is described once, for as long as it stays the same."""
    options: dict[str, Any] = {"stop": ["a"]}
    event = ModelCallStarted("m", "p", "http://h", [], (), options, False, None)
    asked: list[str] = []

    def describe(event: ModelCallStarted) -> Attributes:
        asked.append(str(event.options))
        return {"options": asked[-1]}

    request = LastRequest()
    for _ in range(2):
        assert request.described(event, describe) == {"options": "{'stop': ['a']}"}
    options["stop"].append("b")
    assert request.described(event, describe) == {"options": "{'stop': ['a', 'b']}"}
    assert len(asked) == 2


def test_unsampled_runs_cost_no_work_and_break_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nested events of a run that nobody takes are passed over."""
    caplog.set_level(logging.DEBUG)
    observer = RunObserver(NoOpTracerProvider(), None, Capture("full"))
    assert drive(observer, [PlannedStep(), PlannedStep()]).answer
