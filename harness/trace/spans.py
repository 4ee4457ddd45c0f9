"""Traces as they were exported: read from OTLP-JSON lines, as trees of spans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_core.errors import AgentError

TRACES = Path(".agentrig/traces")
"""Where the command line keeps traces, under the current directory."""

STATUS_ERROR = 2


class TraceFileError(AgentError):
    """A file that holds no trace, or not the one that was asked for."""


@dataclass(slots=True)
class TraceSpan:
    """One exported span with its children, in the order in which they began.

    Times are nanoseconds since 1970; `error` is the description of a span that failed.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    attributes: dict[str, Any]
    failed: bool = False
    error: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    dropped_attributes: int = 0
    children: list[TraceSpan] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """How long it took."""
        return (self.end - self.start) / 1e6

    @property
    def kind(self) -> str:
        """The first word of the name, like `chat` or `execute_tool`."""
        return self.name.split(" ", 1)[0]

    def walk(self) -> Iterator[TraceSpan]:
        """This span and everything below it, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, *kinds: str) -> list[TraceSpan]:
        """Spans of these kinds here and below, those of child agents left out."""
        found = [self] if self.kind in kinds else []
        for child in self.children:
            if child.kind != "invoke_agent":
                found += child.find(*kinds)
        return found


@dataclass(slots=True)
class Trace:
    """One trace. `roots` are spans without a parent in it; a complete one has exactly one."""

    trace_id: str
    roots: list[TraceSpan]
    source: Path | None = None

    @property
    def root(self) -> TraceSpan:
        """The first root: the run, where it is complete."""
        runs = [span for span in self.roots if span.kind == "invoke_agent"]
        return (runs or self.roots)[0]

    @property
    def complete(self) -> bool:
        """Whether every span has its parent."""
        return len(self.roots) == 1 and not self.roots[0].parent_id

    def spans(self) -> list[TraceSpan]:
        """All spans, depth first."""
        return [span for root in self.roots for span in root.walk()]


def trace_files(directory: Path) -> list[Path]:
    """The trace files of a directory, oldest first (their names begin with the time)."""
    return sorted(directory.glob("*.jsonl")) if directory.is_dir() else []


def read_traces(path: Path) -> list[Trace]:
    """The traces of a file, oldest first. A line that a crash cut is passed over.

    Raises:
        TraceFileError: no file, or no span in it.
    """
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise TraceFileError(f"cannot read {str(path)!r}: {error.strerror}") from None
    lines = text.split("\n")  # `splitlines` splits at more, and a text inside may hold that
    requests = [request for line in lines if (request := _parsed(line)) is not None]
    found = traces(requests)
    if not found:
        raise without_spans(path)
    for each in found:
        each.source = path
    return found


def without_spans(path: Path) -> TraceFileError:
    """The error about a file that is none of traces."""
    return TraceFileError(
        f"{str(path)!r} holds no span; expected lines of OTLP-JSON"
        ' ({"resourceSpans": […]}), as `agentrig run` writes them'
    )


def traces(requests: Iterable[Any]) -> list[Trace]:
    """The traces in export requests (as JSON objects), oldest first."""
    by_trace: dict[str, list[TraceSpan]] = {}
    for request in requests:
        for span in _spans(request):
            by_trace.setdefault(span.trace_id, []).append(span)
    found = [Trace(trace_id, _tree(spans)) for trace_id, spans in by_trace.items()]
    return sorted(found, key=lambda trace: trace.root.start)


def narrowed(request: Any, trace_id: str) -> dict[str, Any]:
    """An export request (as a JSON object) with the spans of one trace only."""
    groups = [
        {**group, "scopeSpans": scopes}
        for group in _dicts(request, "resourceSpans")
        if (scopes := [
            {**scope, "spans": spans}
            for scope in _dicts(group, "scopeSpans")
            if (spans := [
                span for span in _dicts(scope, "spans")
                if str(span.get("traceId")).lower() == trace_id
            ])
        ])
    ]  # fmt: skip
    return {"resourceSpans": groups}


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _spans(request: Any) -> Iterator[TraceSpan]:
    for group in _dicts(request, "resourceSpans"):
        resource = _attributes(group.get("resource", {}))
        for scope in _dicts(group, "scopeSpans"):
            for span in _dicts(scope, "spans"):
                if isinstance(span.get("traceId"), str) and isinstance(span.get("spanId"), str):
                    yield _span(span, resource)


def _dicts(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects in a list of objects; what is none is passed over, the file may be any."""
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _span(span: dict[str, Any], resource: dict[str, Any]) -> TraceSpan:
    status = span.get("status")
    status = status if isinstance(status, dict) else {}
    return TraceSpan(
        trace_id=span["traceId"].lower(),
        span_id=span["spanId"].lower(),
        parent_id=str(span.get("parentSpanId") or "").lower(),
        name=str(span.get("name", "")),
        start=_integer(span.get("startTimeUnixNano")),
        end=_integer(span.get("endTimeUnixNano")),
        attributes=_attributes(span),
        failed=status.get("code") in {STATUS_ERROR, "STATUS_CODE_ERROR"},
        error=str(status.get("message", "")),
        resource=resource,
        links=tuple(str(link.get("traceId", "")) for link in _dicts(span, "links")),
        dropped_attributes=_integer(span.get("droppedAttributesCount")),
    )


def _tree(spans: list[TraceSpan]) -> list[TraceSpan]:
    """Hang every span under its parent; those without one, or in a circle, are roots."""
    known = {span.span_id: span for span in spans}
    roots = []
    for span in sorted(known.values(), key=lambda each: (each.start, -each.end)):
        parent = known.get(span.parent_id)
        if parent is None or parent is span or _below(span, parent, known):
            roots.append(span)
        else:
            parent.children.append(span)
    return roots


def _below(ancestor: TraceSpan, span: TraceSpan, known: Mapping[str, TraceSpan]) -> bool:
    seen: set[str] = set()
    at: TraceSpan | None = span
    while at is not None and at.span_id not in seen:
        if at is ancestor:
            return True
        seen.add(at.span_id)
        at = known.get(at.parent_id)
    return False


def _attributes(holder: Any) -> dict[str, Any]:
    return {
        str(each.get("key")): _value(each.get("value", {})) for each in _dicts(holder, "attributes")
    }


def _value(value: Any) -> Any:
    if not isinstance(value, dict) or not value:
        return None
    kind, content = next(iter(value.items()))
    if kind == "intValue":
        return _integer(content)
    if kind == "arrayValue":
        return [_value(item) for item in _dicts(content, "values")]
    return content


def _integer(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0
