"""Small real agents on scripted models, for tests of what watches them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_core.agent import Agent
from agent_core.models import ScriptedModel
from harness.otlp_json import encode
from harness.trace.spans import Trace, traces

CALL = 'Thought: look\nAction: get_weather\nAction Input: {"city": "北京", "days": "3"}'
ANSWER = "Thought: done\nFinal Answer: 晴，25°C"


def get_weather(city: str, days: int = 1) -> str:
    """Weather of a city.

    Args:
        city: which.
        days: how many.
    """
    return f"{city}: sunny for {days} days"


def weather_agent(
    replies: Sequence[Any] = (CALL, ANSWER),
    tools: Sequence[Callable[..., Any]] = (get_weather,),
    **gears: Any,
) -> Agent:
    """An agent that looks the weather up and answers."""
    return Agent(ScriptedModel(list(replies)), list(tools), **{"name": "weather", **gears})


class Spans:
    """A tracer provider that keeps what was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def traces(self) -> list[Trace]:
        """The traces, read back from their exported form."""
        return traces([encode(self._exporter.get_finished_spans())])

    def text(self) -> str:
        """Everything that was exported, as text to search in."""
        return "\n".join(span.to_json() for span in self._exporter.get_finished_spans())


def the_trace(spans: Spans) -> Trace:
    """The only trace; it has to be one tree."""
    (found,) = spans.traces()
    assert found.complete
    return found
