"""The way of a clean reply: labels, strict JSON, nothing else. C does the work."""

from __future__ import annotations

from agent_core.messages import ParsedReply


def parse_clean(text, tools, finish_reason, max_chars):  # type: ignore
    return None
