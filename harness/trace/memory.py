"""Traces in memory, with all their texts: of sessions that are replayed, and of tests."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_core.agent import Agent
from harness import semconv
from harness.content import Capture
from harness.observer import RunObserver, watched
from harness.otlp_json import encode
from harness.trace.spans import Trace, traces


class MemoryTraces:
    """Watches agents and keeps the traces of their runs.

    Args:
        replayed: the runs are replays, which their traces are to say.

    Attributes:
        observer: what it watches them with, to be given to an agent or a replay directly.
    """

    def __init__(self, *, replayed: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        extra = {semconv.REPLAY: True} if replayed else None
        self.observer = RunObserver(provider, None, Capture("full"), extra=extra)

    def watch(self, agent: Agent) -> Agent:
        """The agent, watched."""
        return watched(agent, self.observer)

    def traces(self) -> list[Trace]:
        """What has ended so far, oldest first."""
        return traces([encode(self._exporter.get_finished_spans())])

    @property
    def last(self) -> Trace:
        """The trace of the last run.

        Raises:
            IndexError: no agent was watched, or none has run.
        """
        found = self.traces()
        if not found:
            raise IndexError("no run was traced: give the agent to `watch` and run what it returns")
        return found[-1]
