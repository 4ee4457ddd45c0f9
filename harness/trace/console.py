"""A sink that prints the tree of a run when the run has ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from rich.console import Console

from harness.otlp_json import encode
from harness.trace.spans import traces
from harness.trace.tree import print_trace


class ConsoleExporter(SpanExporter):
    """Collects spans and prints each trace when its root arrives, which comes last."""

    def __init__(self, stream: IO[str]) -> None:
        self._console = Console(file=stream, highlight=False)
        self._waiting: dict[int, list[ReadableSpan]] = {}

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep the spans; print those of a finished trace."""
        for span in spans:
            if span.context is None:
                continue
            trace_id = span.context.trace_id
            self._waiting.setdefault(trace_id, []).append(span)
            if span.parent is None:
                self._print(trace_id)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Print what is left: runs inside a span of the application, or cut short."""
        for trace_id in list(self._waiting):
            self._print(trace_id)

    def _print(self, trace_id: int) -> None:
        for trace in traces([encode(self._waiting.pop(trace_id))]):
            print_trace(trace, self._console)
