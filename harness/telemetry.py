"""Sinks for traces on the command line, and a word at the end about what arrived where."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from threading import current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import format_trace_id

from harness.content import Attribute, Capture, ContentMode, name
from harness.forks import in_child
from harness.observer import RunObserver, watched
from harness.otel_env import (
    destination,
    export_timeout,
    jaeger_page,
    meter_provider,
    resource_of_process,
)
from harness.otlp_json import FileExporter, encode
from harness.plain import counted, visible
from harness.redact import register_environment
from harness.sinks import Delivery, LostReasons, Sink, close_within, otlp_sink
from harness.trace.console import ConsoleExporter
from harness.trace.last_good import last_good_runs
from harness.trace.spans import TRACES, Trace, traces

if TYPE_CHECKING:
    from agent_core.agent import Agent

CLOSING_SECONDS = 2.5
"""A dead or silent collector holds up the end of the process no longer than this."""

_SHOWN = 3  # addresses of traces; a suite has many


class ExportError(RuntimeError):
    """Spans were lost although `require_export` was asked for."""


class Watch:
    """The sinks of one session; hands out instrumented agents.

    Attributes:
        observer: what it watches them with, to be given to an agent or a replay directly.
        trace_ids: of the traces that have begun.
        ended: spans that have ended and were not taken yet.
    """

    def __init__(self, observer: RunObserver, sinks: list[Sink], file: FileExporter) -> None:
        self.observer = observer
        self._sinks = sinks
        self._file = file
        self._begin()
        in_child(self._begin)

    def _begin(self) -> None:
        self.trace_ids: list[str] = []
        self.ended: list[ReadableSpan] = []

    def instrument(self, agent: Agent) -> Agent:
        """The agent, watched; its spans go to the sinks of this session."""
        return watched(agent, self.observer)

    def take_traces(self) -> list[Trace]:
        """What has been written since the last time, as traces."""
        spans, self.ended = self.ended, []
        return traces([encode(spans)])

    @property
    def path(self) -> Path | None:
        """The file the traces stand in, once there is a span."""
        return self._file.path

    @property
    def deliveries(self) -> list[Delivery]:
        """What became of the spans, a sink at a time."""
        file, *others = [sink.delivery for sink in self._sinks]
        return [replace(file, target=str(self.path or file.target)), *others]

    def summary(self, reason: str = "") -> list[str]:
        """Lines for people: how many spans went where, how many were lost, and the addresses."""
        lines = []
        for each in self.deliveries:
            if not each.exported and not each.lost:
                continue
            line = f"trace: {counted(each.exported, 'span')} to {each.target}"
            if each.lost:
                why = each.reason or reason
                line += f", {each.lost} lost" + (f" ({why})" if why else "")
            lines.append(line)
            if each.exported and (page := jaeger_page(each.target)) is not None:
                shown, more = self.trace_ids[:_SHOWN], self.trace_ids[_SHOWN:]
                lines += [f"trace: {page}/trace/{each_id}" for each_id in shown]
                lines += [f"trace: and {len(more)} more at {page}"] if more else []
        return lines


@contextmanager
def session(
    *,
    otlp: str | None = None,
    content: ContentMode | None = None,
    directory: Path | None = None,
    console: bool = False,
    require_export: bool = False,
    logger: Any = None,
    extra: Mapping[str, Attribute] | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[Watch]:
    """Trace the agents that `Watch.instrument` gives, and say at the end what arrived.

    A file in the directory is always written. SIGTERM ends the process in order while this is
    open: spans are closed and sent, and the exit status is 143.

    Args:
        otlp: base URL of an OTLP/HTTP collector, like `http://localhost:4318`; without it the
            `OTEL_*` variables decide.
        content: what of texts is written; unless given `truncated` in the file, nothing
            over OTLP.
        directory: of the trace files, `.agentrig/traces` unless given.
        console: print the tree of each run on standard error.
        require_export: raise `ExportError` at the end if a span was lost.
        logger: a structlog logger for the records.
        extra: attributes for the root span of every run.
        say: prints a line of the summary; standard error unless given.

    Raises:
        ConfigError: an address or a variable that cannot be followed.
    """
    register_environment(os.environ)
    directory = directory or TRACES
    file = FileExporter(directory)
    sinks, console_asked = _sinks(otlp, content, file, directory)
    provider = TracerProvider(
        resource=resource_of_process(), id_generator=_UnseededIds(), shutdown_on_exit=False
    )
    meters = meter_provider(os.environ)
    observer = RunObserver(
        provider,
        logger,
        Capture(content or "truncated"),
        last_good=last_good_runs(directory),
        extra=extra,
        meter_provider=meters,
    )
    watch = Watch(observer, sinks, file)
    for processor in (*sinks, _Memory(watch)):
        provider.add_span_processor(processor)
    if console or console_asked:
        provider.add_span_processor(SimpleSpanProcessor(ConsoleExporter(sys.stderr)))
    with LostReasons() as reasons, _orderly_sigterm():
        try:
            yield watch
        finally:
            close_within(CLOSING_SECONDS, provider, *([meters] if meters else []))
            for line in _summary(watch, reasons):
                (say or _to_stderr)(line)
    lost = sum(each.lost for each in watch.deliveries)
    if require_export and lost:
        raise ExportError(f"{counted(lost, 'span')} did not arrive, and all of them have to")


def _sinks(
    otlp: str | None, content: ContentMode | None, file: FileExporter, directory: Path
) -> tuple[list[Sink], bool]:
    """The file and, if one is named, the collector; and whether the environment asks for a tree."""
    endpoint, from_environment, console_asked = destination(otlp, os.environ)
    sinks = [Sink(str(directory), file, with_content=content != "none", batch=False)]
    if endpoint or from_environment:
        with_content = content not in {None, "none"}
        timeout = export_timeout(os.environ)
        sinks.append(otlp_sink(endpoint, with_content=with_content, timeout=timeout))
    return sinks, console_asked


def _summary(watch: Watch, reasons: LostReasons) -> Iterator[str]:
    """What became of spans and metrics, for people."""
    yield from watch.summary(reasons.last)
    if reasons.metrics:
        target = name(os.environ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"])
        yield f"metrics: lost on the way to {target} ({reasons.metrics})"


@contextmanager
def _orderly_sigterm() -> Iterator[None]:
    """Turn SIGTERM into `SystemExit`, so that spans are closed; an application's own handler
    stays."""
    ours = current_thread() is main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _UnseededIds(RandomIdGenerator):
    """Ids from the system's randomness: a session that seeds `random` must not repeat a trace."""

    def generate_trace_id(self) -> int:
        """A new trace id."""
        return randbits(128) or 1

    def generate_span_id(self) -> int:
        """A new span id."""
        return randbits(64) or 1


class _Memory(SpanProcessor):
    """Remembers the traces that begin here, and the spans that end."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if span.parent is None and span.context:
            self._watch.trace_ids.append(format_trace_id(span.context.trace_id))

    def on_end(self, span: ReadableSpan) -> None:
        self._watch.ended.append(span)


def _to_stderr(line: str) -> None:
    sys.stderr.write(visible(line) + "\n")
