"""An observer that turns the events of a run into spans and log records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import structlog
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Link, Span, Status, StatusCode, TracerProvider

from agent_core import events
from harness import semconv
from harness.closings import CLOSINGS, failed
from harness.content import Attribute, Capture, attribute, name
from harness.forks import in_child
from harness.logs import OwnEvent
from harness.metrics import Metrics
from harness.openings import OPENINGS, Opening
from harness.plain import utf8
from harness.run_closings import Closing
from harness.run_state import Attributes, RunState
from harness.trace.last_good import changes_since, context_of
from harness.trace.spans import TraceSpan

if TYPE_CHECKING:
    from agent_core.agent import Agent

_RUN = otel_context.create_key("agentrig-run")
_log = logging.getLogger(__name__)

_ONLY_ON_SPANS = (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.TOOL_DEFINITIONS)

FindRun = Callable[[str], TraceSpan | None]


def watched(agent: Agent, observer: RunObserver) -> Agent:
    """The agent with this observer in place of any other of its kind."""
    others = [each for each in agent.observers if not isinstance(each, RunObserver)]
    return agent.replace(observers=(*others, observer))


@dataclass(slots=True)
class _Open:
    """A span that has begun, and what has to be put back when it ends.

    `process` is the observer's number for the process it began in.
    """

    event: events.Started
    run: RunState
    span: Span
    before: Context
    inside: Context
    began: float
    process: int
    attributes: Mapping[str, Attribute]
    bound: Mapping[str, Token[Any]] | None = None


class RunObserver:
    """Writes spans and records. Nothing that goes wrong in here reaches the run.

    Args:
        last_good: finds an earlier run of an agent, by its name, to link a new one to.
        extra: attributes for the root span of every run.
        meter_provider: where metrics go; OpenTelemetry's global one unless given.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None,
        logger: Any,
        capture: Capture,
        *,
        last_good: FindRun = lambda _: None,
        extra: Mapping[str, Attribute] | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._provider = tracer_provider
        self._logger = logger
        self._capture = capture
        self._last_good = last_good
        self._extra = {key: attribute(value) for key, value in (extra or {}).items()}
        self._metrics = Metrics(meter_provider)
        self._process = 0
        in_child(self._forked)

    def _forked(self) -> None:
        self._process += 1

    def started(self, event: events.Started) -> _Open | None:
        """Begin a span inside the current one and make it the current one."""
        try:
            run, before = _current_run()
            if run and (run.owner is not self or run.silent):
                return None  # the observer of an outer agent sees this event too
            if isinstance(event, events.RunStarted):
                return self._begin_run(event, self._new_run(event, run), before)
            if run is None:
                return None
            if isinstance(event, events.StepStarted):
                run.step = event.index
            return self._begin(event, run, before, _opening(event, run))
        except Exception as error:
            _trouble(error)
            return None

    def ended(self, token: _Open | None, event: events.Ended) -> None:
        """Close the span, write the record, put back what was current before."""
        if token is None:
            return
        if token.process != self._process:  # a fork: the span ends in the process it began in
            _restore(token)
            return
        try:
            self._describe(token, event)
        except Exception as error:
            _trouble(error)
        finally:
            token.span.end()
            _restore(token)

    def _new_run(self, event: events.RunStarted, outer: RunState | None) -> RunState:
        logger = self._logger
        if logger is None and structlog.is_configured():
            logger = structlog.get_logger(semconv.SCOPE)
        tracer = trace.get_tracer(semconv.SCOPE, _version(), self._provider)
        return RunState(
            event,
            self._capture,
            owner=self,
            parent=outer,
            outside=otel_context.get_current(),
            logger=logger,
            tracer=tracer,
        )

    def _begin_run(self, event: events.RunStarted, run: RunState, before: Context) -> _Open:
        run.measured = self._metrics.wanted()
        name, kind, attributes = _opening(event, run)
        attributes |= self._extra
        links = []
        good = self._last_good(event.agent)
        if good:
            links = [Link(context_of(good), {"harness.link": "last_good_run"})]
            attributes |= changes_since(good, attributes)
        return self._begin(event, run, before, (name, kind, attributes), links)

    def _begin(
        self,
        event: events.Started,
        run: RunState,
        before: Context,
        opened: Opening,
        links: Sequence[Link] = (),
    ) -> _Open:
        name, kind, attributes = opened
        span = run.tracer.start_span(name, before, kind, attributes, links)
        inside = trace.set_span_in_context(span, before)
        if isinstance(event, events.RunStarted):
            inside = otel_context.set_value(_RUN, run, inside)
        began = time.perf_counter()
        token = _Open(event, run, span, before, inside, began, self._process, attributes)
        try:
            otel_context.attach(inside)
            if isinstance(event, events.StepStarted):
                token.bound = structlog.contextvars.bind_contextvars(step=event.index)
            elif isinstance(event, events.RunStarted):
                token.bound = structlog.contextvars.bind_contextvars(run_id=run.id)
                run.silent = not span.is_recording() and run.logger is None
                _record(token, "run.start", "info", dict(attributes))
        except BaseException:  # Ctrl-C in here: nobody would get the token that ends the span
            span.end()
            _restore(token)
            raise
        return token

    def _describe(self, token: _Open, event: events.Ended) -> None:
        run = token.run
        closed = _closing(token.event, event, run)
        attributes = closed.attributes
        if closed.error is not None:
            attributes[semconv.ERROR_TYPE], description = closed.error
            token.span.set_status(Status(StatusCode.ERROR, description))
        token.span.set_attributes(attributes)
        if run.logger is None and not run.measured:
            return
        seconds = time.perf_counter() - token.began
        everything = {**token.attributes, **attributes, "ms": round(seconds * 1_000, 3)}
        if run.measured:
            self._metrics.record(token.event, everything, seconds)
        _record(token, closed.record, closed.level, everything)


def _record(token: _Open, event: str, level: str, fields: dict[str, Any]) -> None:
    """Write a record; what else belongs into it is added to these fields."""
    run = token.run
    if run.logger is None:
        return
    if run.capture.on:  # the trace has them; a record is one line
        for key in _ONLY_ON_SPANS:
            fields.pop(key, None)
    fields["run_id"] = run.id
    fields["step"] = run.step
    span = token.span.get_span_context()
    if span.is_valid:
        fields["trace_id"] = f"{span.trace_id:032x}"
        fields["span_id"] = f"{span.span_id:016x}"
    try:
        getattr(run.logger, level)(OwnEvent(event, fields), **fields)
    except Exception as error:  # a full disk, a processor of the user's
        _trouble(error)


def _opening(event: events.Started, run: RunState) -> Opening:
    """The opening, or a bare one where describing it failed: the span must exist."""
    try:
        return OPENINGS[type(event)](event, run)
    except Exception as error:
        _trouble(error)
        attributes: Attributes = {"harness.trouble": type(error).__name__}
        return type(event).__name__, trace.SpanKind.INTERNAL, attributes


def _closing(started: events.Started, event: events.Ended, run: RunState) -> Closing:
    try:
        if isinstance(event, events.Failed):
            return failed(started, event.error, run)
        return CLOSINGS[type(event)](event, run)
    except Exception as error:
        _trouble(error)
        return Closing({"harness.trouble": name(type(error).__name__)}, "harness.trouble")


@cache
def _version() -> str:
    return version("agentrig")


def _current_run() -> tuple[RunState | None, Context]:
    """The run that is under way, if any, and the context, which is not that of a run that ended
    elsewhere and could not restore it."""
    current = otel_context.get_current()
    run = current.get(_RUN)
    if not isinstance(run, RunState):
        return None, current
    if not run.over:
        return run, current
    otel_context.attach(run.outside)
    structlog.contextvars.unbind_contextvars("run_id", "step")
    return _current_run()


def _restore(token: _Open) -> None:
    """Restore the context, unless something else is current by now.

    A generator that is closed elsewhere, or late, must not change the context it is closed in;
    and a token of another context cannot be given back. So what was current is set again.
    """
    current = otel_context.get_current()
    if isinstance(token.event, events.RunStarted):
        token.run.over = True
        if current.get(_RUN) is not token.run:
            return
    elif current is not token.inside:
        return
    otel_context.attach(token.before)
    if not token.bound:
        return
    try:
        structlog.contextvars.reset_contextvars(**token.bound)
    except ValueError:  # bound in another context: there is nothing to restore in this one
        structlog.contextvars.unbind_contextvars(*token.bound)


def _trouble(error: Exception) -> None:
    """Say on the standard library's log that watching failed; never what it was given."""
    _log.warning("a span or a record could not be written: %s", utf8(type(error).__name__))
