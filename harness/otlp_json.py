"""Spans as OTLP-JSON lines: the file format of the OpenTelemetry collector."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import INVALID_SPAN_CONTEXT, format_span_id, format_trace_id

from harness.files import open_binary, write_all
from harness.trace.spans import trace_files

KEPT_FILES = 50
"""Trace files in a directory; older ones are removed when a new one is begun."""


class FileExporter(SpanExporter):
    """Appends spans to a file of this process, one line a batch, complete at any time.

    The file is begun with the first span. It is readable by its owner alone.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pid = -1
        self.path: Path | None = None

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write a batch, whole or not at all.

        Raises:
            OSError: a full disk, or a directory that cannot be written.
        """
        line = json.dumps(encode(spans), ensure_ascii=False, separators=(",", ":")) + "\n"
        handle = open_binary(self._file(), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            end = os.fstat(handle).st_size
            try:
                write_all(handle, line.encode("utf-8", "replace"))
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)
        return SpanExportResult.SUCCESS

    def _file(self) -> Path:
        pid = os.getpid()
        if self.path is None or pid != self._pid:  # a fork writes a file of its own
            self._directory.mkdir(parents=True, exist_ok=True)
            prune(self._directory, KEPT_FILES - 1)
            now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
            self._pid, self.path = pid, self._directory / f"{now}-{pid}.jsonl"
        return self.path


def prune(directory: Path, keep: int) -> None:
    """Remove the oldest trace files."""
    for path in trace_files(directory)[:-keep]:
        path.unlink(missing_ok=True)


def encode(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """An `ExportTraceServiceRequest` as JSON: hex ids, integers as decimal text."""
    groups: dict[tuple[int, int], tuple[ReadableSpan, list[dict[str, Any]]]] = {}
    for span in spans:
        key = (id(span.resource), id(span.instrumentation_scope))
        groups.setdefault(key, (span, []))[1].append(_span(span))
    resource_spans = []
    for first, members in groups.values():
        scope = first.instrumentation_scope
        resource_spans.append({
            "resource": {"attributes": _attributes(first.resource.attributes)},
            "scopeSpans": [
                {
                    "scope": {"name": scope.name, "version": scope.version or ""} if scope else {},
                    "spans": members,
                }
            ],
        })
    return {"resourceSpans": resource_spans}


def _span(span: ReadableSpan) -> dict[str, Any]:
    context = span.get_span_context() or INVALID_SPAN_CONTEXT
    encoded: dict[str, Any] = {
        "traceId": format_trace_id(context.trace_id),
        "spanId": format_span_id(context.span_id),
        "name": span.name,
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time or 0),
        "endTimeUnixNano": str(span.end_time or 0),
        "attributes": _attributes(span.attributes or {}),
        "status": {"code": span.status.status_code.value},
    }
    if span.parent is not None:
        encoded["parentSpanId"] = format_span_id(span.parent.span_id)
    if span.status.description:
        encoded["status"]["message"] = span.status.description
    if span.dropped_attributes:
        encoded["droppedAttributesCount"] = span.dropped_attributes
    if span.events:
        encoded["events"] = [
            {
                "timeUnixNano": str(event.timestamp),
                "name": event.name,
                "attributes": _attributes(event.attributes or {}),
            }
            for event in span.events
        ]
    if span.links:
        encoded["links"] = [
            {
                "traceId": format_trace_id(link.context.trace_id),
                "spanId": format_span_id(link.context.span_id),
                "attributes": _attributes(link.attributes or {}),
            }
            for link in span.links
        ]
    return encoded


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else str(value)}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
