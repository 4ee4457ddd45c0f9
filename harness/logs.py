"""Log records: one JSON line each, or coloured text for people. Logging never raises.

Every record inside a run carries `trace_id`, `span_id`, `run_id` and `step`, also those that a
tool writes with its own structlog logger, in a thread or not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import IO, Any, Protocol, Self, cast

import structlog
from opentelemetry import trace

from harness.plain import one_line, plain, to_json, utf8, visible
from harness.redact import redactor

try:
    from orjson import dumps as _orjson
except ImportError:  # no dependency of ours; five times faster where it happens to be there
    _orjson = None  # type: ignore[assignment]

Record = MutableMapping[str, Any]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


_ADDED_KEYS = {"event", "level", "timestamp", "trace_id", "span_id"}


class _Stream(Protocol):
    def write(self, data: Any, /) -> Any: ...

    def flush(self) -> Any: ...


def json_logger(stream: IO[bytes], *, level: str = "info") -> Any:
    """A structlog logger of its own, for `instrument`, that writes JSON lines to a stream."""
    return structlog.wrap_logger(
        _Writer(stream, b"\n"),
        processors=_processors(render_json),
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        cache_logger_on_first_use=True,
    )


def configure(stream: Any = None, *, console: bool = False, level: str = "info") -> None:
    """Set structlog up for the whole process, so that records of tools carry the ids too.

    Args:
        stream: a binary stream for JSON lines, a text stream for `console`; standard error
            unless given.
        console: text for people instead of JSON.
        level: the least level that is written.
    """
    if console:
        text_stream = stream or sys.stderr
        render = structlog.dev.ConsoleRenderer(colors=text_stream.isatty(), pad_event_to=16)
        processors = _processors(_for_terminals(cast("structlog.typing.Processor", render)))
        factory = _factory(text_stream, "\n")
    else:
        processors = _processors(render_json)
        factory = _factory(stream or sys.stderr.buffer, b"\n")
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def add_ids(_logger: Any, _method: str, record: Record) -> Record:
    """Add `trace_id` and `span_id` of the current span, unless the record has them."""
    if "trace_id" not in record:
        span = trace.get_current_span().get_span_context()
        if span.is_valid:
            record["trace_id"] = f"{span.trace_id:032x}"
            record["span_id"] = f"{span.span_id:016x}"
    return record


class OwnEvent(str):
    """The name of an event whose `fields` have been redacted before they got here."""

    fields: Mapping[str, Any]

    def __new__(cls, name: str, fields: Mapping[str, Any]) -> Self:
        made = super().__new__(cls, name)
        made.fields = fields
        return made


def redact(_logger: Any, _method: str, record: Record) -> Record:
    """Take secrets out of every key and value."""
    event = record.get("event")
    if not isinstance(event, OwnEvent):
        clean: Record = redactor.value(plain(dict(record)))
        return clean
    for key in record.keys() - event.fields.keys() - _ADDED_KEYS:  # bound by the application
        record[key] = redactor.value({key: plain(record[key])})[key]
    return record


def render_json(_logger: Any, _method: str, record: Record) -> bytes:
    """One line of JSON, whatever the values are."""
    if _orjson is not None:
        try:
            return _orjson(record)
        except TypeError:  # lone surrogates, large integers, keys that are no strings, objects
            pass
    return to_json(record).encode("utf-8")


def _processors(render: structlog.typing.Processor) -> list[structlog.typing.Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        add_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        redact,
        render,
    ]


def _for_terminals(render: structlog.typing.Processor) -> structlog.typing.Processor:
    """Make a renderer that never raises and whose values cannot steer the terminal."""

    def rendered(logger: Any, method: str, record: Record) -> str:
        try:
            for key, value in record.items():
                if isinstance(value, str):  # a traceback has lines, a value has none
                    record[key] = visible(value) if key == "exception" else one_line(value)
            return utf8(str(render(logger, method, record)))
        except Exception:
            return to_json(record)

    return rendered


def _factory(stream: _Stream, end: Any) -> Callable[..., _Writer]:
    return lambda *_: _Writer(stream, end)


class _Writer:
    """Writes one record at a time; a closed stream or a full disk loses it and no more."""

    def __init__(self, stream: _Stream, end: Any) -> None:
        self._stream = stream
        self._end = end

    def msg(self, message: Any) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(message + self._end)  # one call, so that threads do not mix lines
            self._stream.flush()

    debug = info = warning = error = critical = fatal = log = exception = failure = warn = msg
