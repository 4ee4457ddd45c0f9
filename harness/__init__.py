"""Watches, records, replays, tests and traces an agent, from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from agent_core import Agent
    from harness.content import ContentMode

__all__ = ["instrument"]


def instrument(
    agent: Agent,
    *,
    tracer_provider: TracerProvider | None = None,
    logger: Any = None,
    content: ContentMode = "none",
) -> Agent:
    """Give the same agent, watched: a run becomes one tree of spans, and a record an event.

    Instrumenting twice is instrumenting once; the later settings hold. An agent that is a tool
    of another belongs to the tree of the outer one.

    Args:
        tracer_provider: where spans go; OpenTelemetry's global one unless given.
        logger: a structlog logger; structlog's own unless given, and nothing is logged as long
            as the application has not configured structlog (`harness.logs.configure` does).
        content: whether prompts, replies, arguments, results and messages of errors may be
            written: not at all, cut, or whole. Sizes and digests always are.

    Returns:
        A new agent; the one given is left as it was.

    Raises:
        ValueError: `content` is none of the three.
    """
    from harness.content import Capture  # noqa: PLC0415 - OpenTelemetry takes a while to load
    from harness.observer import RunObserver, watched  # noqa: PLC0415

    return watched(agent, RunObserver(tracer_provider, logger, Capture(content)))
