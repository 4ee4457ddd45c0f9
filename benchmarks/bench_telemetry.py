"""What watching costs: the observer against the bare SDK and structlog writing the same.

A run of five steps has 20 spans and 21 records. The bare side is given the same names,
attributes and records, computed beforehand, and the same sinks: a batch processor with an
exporter that does nothing, and a structlog JSON logger that writes to memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status
from structlog.testing import CapturingLogger

from harness.content import Capture
from harness.logs import OwnEvent, json_logger
from harness.observer import RunObserver
from tests.harness.event_script import PlannedStep, drive

PLANS = [PlannedStep(attempts=()) for _ in range(5)]


class _Nowhere(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class _Silent:
    """An observer that does nothing: what is left is the script itself."""

    def started(self, event: object) -> None: ...

    def ended(self, token: object, event: object) -> None: ...


@pytest.fixture(scope="module")
def provider() -> TracerProvider:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(_Nowhere(), max_queue_size=100_000))
    return made


def _observed(provider: TracerProvider, plans: Any) -> Callable[[], Any]:
    sink = io.BytesIO()
    observer = RunObserver(provider, json_logger(sink), Capture("none"))

    def run() -> None:
        sink.seek(0)
        drive(observer, plans)

    return run


def _bare(provider: TracerProvider) -> Callable[[], Any]:
    """Write what a run wrote, from a list."""
    exporter, logger = InMemorySpanExporter(), CapturingLogger()
    recording = TracerProvider(shutdown_on_exit=False)
    recording.add_span_processor(SimpleSpanProcessor(exporter))
    drive(RunObserver(recording, logger, Capture("none")), PLANS)
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    assert len(spans) == 20
    assert len(logger.calls) == 21
    records = {call.kwargs["span_id"]: call for call in logger.calls[1:]}
    children: dict[Any, list[Any]] = {}
    for span in spans:
        children.setdefault(span.parent and span.parent.span_id, []).append(span)
    sink = io.BytesIO()
    log = json_logger(sink)
    tracer = provider.get_tracer("bare")
    (root,) = children[None]
    first = logger.calls[0]

    def write(span: Any) -> None:
        identity = span.context.span_id
        keys = list(span.attributes)
        half = len(keys) // 2
        made = tracer.start_span(
            span.name, kind=span.kind, attributes={key: span.attributes[key] for key in keys[:half]}
        )
        token = otel_context.attach(trace.set_span_in_context(made))
        if span is root:
            log.info(OwnEvent(first.args[0]), **first.kwargs)
        for child in children.get(identity, ()):
            write(child)
        made.set_attributes({key: span.attributes[key] for key in keys[half:]})
        if not span.status.is_ok:
            made.set_status(Status(span.status.status_code))
        record = records[f"{identity:016x}"]
        log.info(OwnEvent(record.args[0]), **record.kwargs)
        made.end()
        otel_context.detach(token)

    def run() -> None:
        sink.seek(0)
        write(root)

    return run


@pytest.mark.benchmark(group="a run of 5 steps")
def test_script_alone(benchmark: Any) -> None:
    """The events without anyone who watches: to be taken off the next."""
    benchmark(drive, _Silent(), PLANS)


@pytest.mark.benchmark(group="a run of 5 steps")
def test_observer(benchmark: Any, provider: TracerProvider) -> None:
    """20 spans and 21 records out of events."""
    benchmark(_observed(provider, PLANS))


@pytest.mark.benchmark(group="a run of 5 steps")
def test_bare_sdk_and_structlog(benchmark: Any, provider: TracerProvider) -> None:
    """The same spans and records, computed beforehand."""
    benchmark(_bare(provider))


@pytest.mark.benchmark(group="a run of 5 steps")
def test_observer_without_sdk(benchmark: Any) -> None:
    """Instrumented, but nobody takes spans or records."""
    benchmark(drive, RunObserver(None, None, Capture("none")), PLANS)


@pytest.mark.parametrize("steps", [5, 200])
@pytest.mark.benchmark(group="a run of N steps; extra_info has the cost of a step")
def test_length_of_the_run(benchmark: Any, provider: TracerProvider, steps: int) -> None:
    """A message is hashed once: a step costs the same however many came before it."""
    plans = [PlannedStep(attempts=()) for _ in range(steps)]
    benchmark(_observed(provider, plans))
    if benchmark.stats is not None:
        benchmark.extra_info["us_per_step"] = benchmark.stats.stats.min * 1e6 / steps


@pytest.mark.benchmark(group="one model call")
def test_our_model_calls(benchmark: Any, provider: TracerProvider) -> None:
    """Our part of a call: digest, attributes, span, record."""
    from agent_core.events import ModelCallEnded, ModelCallStarted, RunStarted, scope, watching
    from agent_core.messages import Message, Reply, Usage

    observer = RunObserver(provider, None, Capture("none"))
    messages = [Message("system", "You are helpful."), Message("user", "Hello")]
    started = ModelCallStarted("qwen", "ollama", "http://h:1/api/chat", messages, (), {}, False)
    ended = ModelCallEnded(Reply("Hi", usage=Usage(10, 5), finish_reason="stop", model="qwen"))

    def call() -> None:
        with scope(started) as chat:
            chat.end(ended)

    run = RunStarted("a", "q", "m", "native", "en", {}, "", {})
    with watching(observer), scope(run):
        benchmark(call)


@pytest.mark.benchmark(group="one model call")
def test_util_genai_model_calls(benchmark: Any, provider: TracerProvider) -> None:
    """The reference implementation of the conventions, for the same call."""
    util = pytest.importorskip("opentelemetry.util.genai.handler")
    handler = util.TelemetryHandler(tracer_provider=provider)

    def call() -> None:
        with handler.inference(
            "ollama", request_model="qwen", server_address="h", server_port=1
        ) as made:
            made.input_tokens, made.output_tokens = 10, 5
            made.finish_reasons = ["stop"]
            made.response_model_name = "qwen"

    benchmark(call)
