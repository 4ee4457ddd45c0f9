"""The GenAI metrics: how long calls, tools and runs take, and what tokens they use.

Without a meter provider (the command line sets one only where a metrics endpoint is named) the
instruments of OpenTelemetry do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import metrics

from agent_core import events
from harness import semconv
from harness.content import Attribute

_LABELS = (
    semconv.OPERATION, semconv.PROVIDER, semconv.REQUEST_MODEL, semconv.RESPONSE_MODEL,
    semconv.SERVER_ADDRESS, semconv.SERVER_PORT, semconv.AGENT_NAME, semconv.TOOL_NAME,
    semconv.TOOL_TYPE, semconv.ERROR_TYPE,
)  # fmt: skip


class Metrics:
    """The instruments, on the global meter provider unless another is given."""

    def __init__(self, provider: metrics.MeterProvider | None = None) -> None:
        self._provider = provider
        meter = metrics.get_meter(semconv.SCOPE, meter_provider=provider)
        seconds = semconv.SECONDS_BUCKETS
        self._durations: dict[type, metrics.Histogram] = {
            kind: meter.create_histogram(name, "s", explicit_bucket_boundaries_advisory=buckets)
            for kind, name, buckets in (
                (events.ModelCallStarted, semconv.CLIENT_DURATION, seconds),
                (events.ToolStarted, semconv.TOOL_DURATION, seconds),
                (events.RunStarted, semconv.AGENT_DURATION, semconv.AGENT_SECONDS_BUCKETS),
            )
        }
        self._tokens = meter.create_histogram(
            semconv.CLIENT_TOKENS,
            "{token}",
            explicit_bucket_boundaries_advisory=semconv.TOKEN_BUCKETS,
        )

    def wanted(self) -> bool:
        """Whether anybody takes them: the providers of the API itself only stand in for one."""
        provider = self._provider or metrics.get_meter_provider()
        return type(provider).__module__.split(".")[:2] != ["opentelemetry", "metrics"]

    def record(
        self, event: events.Started, attributes: Mapping[str, Attribute], seconds: float
    ) -> None:
        """Measure what has ended; unknown token counts are not measured."""
        duration = self._durations.get(type(event))
        if duration is None:
            return
        labels = {key: attributes[key] for key in _LABELS if key in attributes}
        duration.record(seconds, labels)
        for kind, key in (("input", semconv.INPUT_TOKENS), ("output", semconv.OUTPUT_TOKENS)):
            number = attributes.get(key)
            if isinstance(number, int):
                self._tokens.record(number, {**labels, semconv.TOKEN_TYPE: kind})
