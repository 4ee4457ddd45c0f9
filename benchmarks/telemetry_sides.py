"""What `bench_telemetry` compares: the same run and the same model call, told by each side."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import structlog
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from opentelemetry.util.genai.handler import TelemetryHandler
from structlog.testing import CapturingLogger

from agent_core.events import ModelCallEnded, ModelCallStarted, RunStarted, scope, watching
from agent_core.messages import Message, Reply, Usage
from harness.content import Capture, digest
from harness.logs import json_logger
from harness.observer import RunObserver
from harness.run_state import PromptHistory
from tests.harness.event_script import PlannedStep, drive

Task = Callable[[], Any]

RUN = RunStarted("a", "q", "m", "native", "en", {}, "", {})


class Nowhere(SpanExporter):
    """The end of every trace."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


class Silent:
    """An observer that does nothing: what is left is the script that tells of a run."""

    def started(self, event: object) -> None: ...

    def ended(self, token: object, event: object) -> None: ...


def to_nowhere() -> TracerProvider:
    """The provider that all sides share."""
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(Nowhere(), max_queue_size=100_000))
    return made


def plans(steps: int) -> list[PlannedStep]:
    """Steps without HTTP attempts: four spans each, but for the last, which calls no tool."""
    return [PlannedStep(attempts=()) for _ in range(steps)]


# --- A run ----------------------------------------------------------------------------------------
def script_alone(steps: int) -> Task:
    """The events without anyone who watches: to be taken off what watching costs."""
    planned = plans(steps)
    return lambda: drive(Silent(), planned)


def observed(provider: TracerProvider, steps: int) -> Task:
    """Our spans and records."""
    sink, planned = io.BytesIO(), plans(steps)
    observer = RunObserver(provider, json_logger(sink), Capture("none"))

    def run() -> None:
        sink.seek(0)
        drive(observer, planned)

    return run


def bare(provider: TracerProvider, steps: int) -> Task:
    """The same spans and records from a list, by the SDK and structlog's fast configuration."""
    spans, logger = recorded(steps)
    records = {call.kwargs["span_id"]: call for call in logger.calls[1:]}
    children: dict[Any, list[Any]] = {}
    for span in spans:
        halves = list((span.attributes or {}).items())
        middle = len(halves) // 2
        planned = (span, dict(halves[:middle]), dict(halves[middle:]))
        children.setdefault(span.parent and span.parent.span_id, []).append(planned)
    sink = io.BytesIO()
    log = plain_logger(sink)
    tracer = provider.get_tracer("bare")

    def write(span: ReadableSpan, first: Any, second: Any) -> None:
        made = tracer.start_span(span.name, kind=span.kind, attributes=first)
        token = otel_context.attach(trace.set_span_in_context(made))
        identity = span.context.span_id if span.context else 0
        if span.parent is None:
            log.info(*logger.calls[0].args, **logger.calls[0].kwargs)
        for child in children.get(identity, ()):
            write(*child)
        made.set_attributes(second)
        record = records[f"{identity:016x}"]
        log.info(*record.args, **record.kwargs)
        made.end()
        otel_context.detach(token)

    def run() -> None:
        sink.seek(0)
        write(*children[None][0])

    return run


def recorded(steps: int) -> tuple[Sequence[ReadableSpan], CapturingLogger]:
    """What a run writes."""
    exporter, logger = InMemorySpanExporter(), CapturingLogger()
    recording = TracerProvider(shutdown_on_exit=False)
    recording.add_span_processor(SimpleSpanProcessor(exporter))
    drive(RunObserver(recording, logger, Capture("none")), plans(steps))
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    assert len(spans) == 4 * steps
    assert len(logger.calls) == 4 * steps + 1
    return spans, logger


def plain_logger(sink: io.BytesIO) -> Any:
    """Structlog as its documentation advises for speed, without anything of ours."""
    try:
        from orjson import dumps
    except ImportError:

        def dumps(value: Any, default: Any = None) -> bytes:
            return json.dumps(value, default=default).encode()

    return structlog.wrap_logger(
        structlog.BytesLogger(sink),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(serializer=dumps),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        cache_logger_on_first_use=True,
    )


# --- A model call ---------------------------------------------------------------------------------
OPTIONS = {"temperature": 0.0, "seed": 7, "num_predict": 512}
ENDED = ModelCallEnded(Reply("Hi", usage=Usage(10, 5), finish_reason="stop", model="qwen"))


def our_call() -> Task:
    """Our part of a call inside a run; the prompt has two new messages each time."""
    events = cycle([_asked(messages) for messages in range(2, 42, 2)])

    def call() -> None:
        with scope(next(events)) as chat:
            chat.end(ENDED)

    return call


def _asked(messages: int) -> ModelCallStarted:
    prompt = HISTORY[:messages]
    return ModelCallStarted(
        "qwen", "ollama", "http://h:1/api/chat", prompt, (), OPTIONS, False, 8192
    )


HISTORY = [Message("user" if n % 2 else "assistant", f"message {n}, " * 10) for n in range(42)]


@contextmanager
def watched_run(provider: TracerProvider) -> Iterator[None]:
    """A run that we watch."""
    with watching(RunObserver(provider, None, Capture("none"))), scope(RUN):
        yield


def util_call(provider: TracerProvider, more: Callable[[], dict[str, Any]] = dict) -> Task:
    """The reference implementation, told the same of request and reply.

    Args:
        more: gives attributes that no convention has.
    """
    handler = TelemetryHandler(tracer_provider=provider)

    def call() -> None:
        with handler.inference(
            "ollama", request_model="qwen", server_address="h", server_port=1
        ) as made:
            made.temperature, made.seed, made.max_tokens = 0.0, 7, 512
            made.input_tokens, made.output_tokens = 10, 5
            made.finish_reasons = ["stop"]
            made.response_model_name = "qwen"
            made.attributes.update(more())

    return call


def bare_call(provider: TracerProvider, attributes: dict[str, Any]) -> Task:
    """The span of a model call with these attributes, without anything to work them out."""
    tracer = provider.get_tracer("bare")
    half = len(attributes) // 2
    first = dict(list(attributes.items())[:half])
    second = dict(list(attributes.items())[half:])

    def call() -> None:
        span = tracer.start_span("chat qwen", kind=SpanKind.CLIENT, attributes=first)
        token = otel_context.attach(trace.set_span_in_context(span))
        span.set_attributes(second)
        span.end()
        otel_context.detach(token)

    return call


def call_attributes() -> dict[str, Any]:
    """What stands on our span of a model call."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with watched_run(provider):
        our_call()()
    return dict(exporter.get_finished_spans()[0].attributes or {})


def own(attributes: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Gives those that no convention has: sizes and digests are worked out for each call."""
    same = ("harness.options.sha256", "harness.context_window", "harness.finish_reason")
    given = {key: attributes[key] for key in same}
    prompts = cycle([_asked(messages).messages for messages in range(2, 42, 2)])
    history = PromptHistory(Capture("none"))

    def tell() -> dict[str, Any]:
        told = given.copy()
        history.put(told, next(prompts))
        told["harness.reply.chars"] = len(ENDED.reply.text)
        told["harness.reply.sha256"] = digest(ENDED.reply.text)
        return told

    assert tell().keys() == {key for key in attributes if key.startswith("harness.")}
    return tell
