"""What is watched while a fault strikes: the spans and the log, the steps and their requests."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider

from agent_core.events import Ended, Started, StepEnded
from agent_core.messages import Step
from harness.content import Capture
from harness.faults.course import Course, Line, Stage
from harness.logs import json_logger
from harness.observer import RunObserver


class Telemetry(SpanProcessor):
    """Collects the spans and log records of one trial after the other.

    Args:
        content: whether texts are written too, for faults that bring a secret.
    """

    def __init__(self, *, content: bool) -> None:
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(self)
        self._log = io.BytesIO()
        self.observer = RunObserver(
            provider, json_logger(self._log), Capture("full" if content else "none")
        )
        self.begun = 0
        self.spans: list[ReadableSpan] = []

    def clear(self) -> None:
        """Forget the last trial."""
        self.begun = 0
        self.spans = []
        self._log.seek(0)
        self._log.truncate()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Count what has begun."""
        self.begun += 1

    def on_end(self, span: ReadableSpan) -> None:
        """Keep what has ended."""
        self.spans.append(span)

    def kinds(self) -> Counter[str]:
        """How many spans have ended, by the first word of their name."""
        return Counter(span.name.partition(" ")[0] for span in self.spans)

    def text(self) -> str:
        """All that was written about the trial, to search in."""
        spans = [
            (each.name, dict(each.attributes or {}), each.status.description,
             [(event.name, dict(event.attributes or {})) for event in each.events])
            for each in self.spans
        ]  # fmt: skip
        return repr(spans) + self._log.getvalue().decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Seen:
    """A step as it was made.

    Attributes:
        line: where its reply came from.
        asked_by: number of the request whose answer it is.
    """

    step: Step
    line: Line
    turn: int
    asked_by: int


class Steps:
    """An observer that keeps each step with the request that led to it."""

    def __init__(self, course: Course, stage: Stage) -> None:
        self._course = course
        self._stage = stage
        self.seen: list[Seen] = []

    def started(self, event: Started) -> None:
        """Nothing is known yet."""

    def ended(self, token: Any, event: Ended) -> None:
        """Keep a step."""
        if isinstance(event, StepEnded):
            number = len(self._stage.requests) - 1
            self.seen.append(Seen(event.step, self._course.line, self._course.turn, number))
