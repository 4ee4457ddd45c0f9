"""Where spans go, with a count of what arrived: `force_flush` says yes even when nothing did."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize, register_after_fork
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from requests.adapters import HTTPAdapter

from agent_core.models.address import is_loopback
from harness import semconv
from harness.content import name
from harness.forks import in_child

OTLP_TIMEOUT = 2.0
"""Seconds one export may take with its retries, unless an `OTEL_*` variable asks for less."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of the spans of a sink. `reason` says why some were lost, if it is known."""

    target: str
    exported: int
    lost: int
    reason: str = ""


class Sink(SpanProcessor):
    """A span processor that counts what went in and what arrived.

    Args:
        target: for people: a URL or a path.
        with_content: whether texts of model, user and tools go to this sink.
        batch: send from a thread of its own, instead of at once.
    """

    def __init__(
        self, target: str, exporter: SpanExporter, *, with_content: bool, batch: bool
    ) -> None:
        self.target = target
        self._counting = _CountingExporter(exporter, with_content)
        kind = BatchSpanProcessor if batch else SimpleSpanProcessor
        self._processor = kind(self._counting)
        self._begin_count()
        in_child(self._begin_count)
        if batch:  # the end of such a child runs nothing else
            register_after_fork(self, _flush_at_exit)

    def _begin_count(self) -> None:
        """Count from nothing: the spans that wait are sent by the process they ended in."""
        self._ended = 0
        self._lock = Lock()
        self._counting.exported = 0
        self._counting.reason = ""

    @property
    def delivery(self) -> Delivery:
        """The count so far. What has not been confirmed counts as lost."""
        exported = self._counting.exported
        reason = self._counting.reason
        return Delivery(self.target, exported, max(self._ended - exported, 0), reason)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing is known yet."""

    def on_end(self, span: ReadableSpan) -> None:
        """Count, then pass on."""
        if span.context and span.context.trace_flags.sampled:
            with self._lock:
                self._ended += 1
            self._processor.on_end(span)

    def shutdown(self) -> None:
        """Send what is left."""
        self._processor.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what is left now."""
        return bool(self._processor.force_flush(timeout_millis))

    def refused(self, number: int, reason: str) -> None:
        """A collector that answered well has refused some of the spans."""
        self._counting.exported -= number
        self._counting.reason = reason


def _flush_at_exit(sink: Sink) -> None:
    Finalize(None, sink.force_flush, exitpriority=0)


class _CountingExporter(SpanExporter):
    def __init__(self, exporter: SpanExporter, with_content: bool) -> None:
        self._exporter = exporter
        self._with_content = with_content
        self.exported = 0
        self.reason = ""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if not self._with_content:
            spans = [_without_content(span) for span in spans]
        try:
            result = self._exporter.export(spans)
        except OSError as error:  # of a file, such as a full disk
            self.reason = error.strerror or str(error)
            return SpanExportResult.FAILURE
        if result is SpanExportResult.SUCCESS:
            self.exported += len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def otlp_sink(endpoint: str | None, *, with_content: bool, timeout: float) -> Sink:
    """A sink for an OTLP/HTTP endpoint, or for the one that the `OTEL_*` variables name."""
    session = _Session()
    exporter = OTLPSpanExporter(
        endpoint,
        timeout=timeout,
        session=session,
        # A trace is text that repeats itself; loopback does not care.
        compression=None if endpoint is None else Compression.Gzip,
    )
    target = endpoint or exporter._endpoint  # resolved from the environment there
    session.trust_env = not is_loopback(urlsplit(target).hostname or "")  # no proxy on the way
    sink = Sink(name(target), exporter, with_content=with_content, batch=True)

    def read_refusals(response: requests.Response, *_args: Any, **_more: Any) -> None:
        number, reason = refused_spans(response)
        if number:
            sink.refused(number, reason)

    session.hooks["response"].append(read_refusals)
    return sink


class _Session(requests.Session):
    """A session whose connections are of this process: a forked child makes its own."""

    def __init__(self) -> None:
        super().__init__()
        in_child(self._connect_anew)

    def _connect_anew(self) -> None:
        self.mount("https://", HTTPAdapter())
        self.mount("http://", HTTPAdapter())


def close_within(seconds: float, *providers: TracerProvider | MeterProvider) -> None:
    """Send what is left; what is not done in time is left behind."""
    threads = [Thread(target=provider.shutdown, daemon=True) for provider in providers]
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0.0))


class LostReasons(logging.Handler):
    """Keeps what the exporters say on the standard log, for one line at the end.

    Attributes:
        last: the last words about spans.
        metrics: why metrics were lost; empty when none were.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = self.metrics = ""
        self._logger = logging.getLogger("opentelemetry")
        self._propagate = self._logger.propagate

    def emit(self, record: logging.LogRecord) -> None:
        """Remember the last one, without secrets."""
        words = name(record.getMessage())
        if "metric" not in record.name:
            self.last = words
        elif record.levelno >= logging.ERROR:  # less is that it is tried again
            self.metrics = words

    def __enter__(self) -> LostReasons:
        self._logger.addHandler(self)
        self._logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = self._propagate


def refused_spans(response: requests.Response) -> tuple[int, str]:
    """How many spans a good answer refuses (`partial_success`), and why."""
    if response.status_code != 200:
        return 0, ""
    try:
        if "json" in response.headers.get("Content-Type", ""):
            partial = response.json().get("partialSuccess") or {}
            return int(partial.get("rejectedSpans", 0)), name(str(partial.get("errorMessage", "")))
        refused = ExportTraceServiceResponse.FromString(response.content).partial_success
    except Exception:  # not what the header says it is: then nothing is known to be refused
        return 0, ""
    return refused.rejected_spans, name(refused.error_message)


def _without_content(span: ReadableSpan) -> ReadableSpan:
    attributes = span.attributes or {}
    if semconv.CONTENT.isdisjoint(attributes) and semconv.CONTENT_MODE not in attributes:
        return span
    kept = {key: attributes[key] for key in attributes if key not in semconv.CONTENT}
    if semconv.CONTENT_MODE in kept:
        kept[semconv.CONTENT_MODE] = "none"
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=kept,
        events=span.events,
        links=span.links,
        kind=span.kind,
        instrumentation_scope=span.instrumentation_scope,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
    )
