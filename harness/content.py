"""What of a text may be written on a span: nothing, a cut piece or all; its size and digest always.

Content is redacted first, then cut with a marker; JSON stays JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Literal

from agent_core.messages import Message, Reply, ToolCall
from harness.plain import plain, to_json, utf8
from harness.redact import redactor

ContentMode = Literal["none", "truncated", "full"]

MODES: tuple[ContentMode, ...] = ("none", "truncated", "full")
NAME_CHARS = 200
"""Names, kinds and messages of errors are cut here."""
ATTRIBUTE_CHARS = {"truncated": 8_000, "full": 64_000}
"""One attribute holds at most this much: a huge one can fail the export of a whole batch."""
STRING_CHARS = {"truncated": 1_000, "full": 60_000}
"""One string inside captured JSON holds at most this much."""

Scalar = str | bool | int | float
Attribute = Scalar | Sequence[str] | Sequence[int] | Sequence[float]


def digest(text: str) -> str:
    """`sha256:` and 64 hex digits: two runs can be compared without their content."""
    return "sha256:" + sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def name(text: str, limit: int = NAME_CHARS) -> str:
    """A short text that may stand on a span or in a record: redacted, valid UTF-8, cut."""
    clean = redactor.text(text)
    if not clean.isascii():
        clean = utf8(clean)
    return clean if len(clean) <= limit else cut(clean, limit)


def cut(text: str, limit: int) -> str:
    """The beginning, and a marker that says how much is missing."""
    if len(text) <= limit:
        return text
    marker = f"…[+{len(text) - limit} chars]"
    return text[:limit] + marker


def attribute(value: Any, limit: int = NAME_CHARS) -> Attribute:
    """Any value as OpenTelemetry takes it; what it would refuse becomes JSON text."""
    if isinstance(value, str):
        return name(value, limit)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, bytes):
        return name(str(plain(value)), limit)
    if isinstance(value, list | tuple):
        kinds = {type(item) for item in value}
        if kinds <= {str}:
            return [name(item, limit) for item in value]
        if kinds in ({int}, {float}, {bool}) and all(abs(item) < 2**63 for item in value):
            return list(value)
    return cut(to_json(redactor.value(plain(value))), limit)


class Capture:
    """The policy of one instrumentation.

    Attributes:
        on: whether content may be written at all.
    """

    def __init__(self, mode: ContentMode) -> None:
        if mode not in MODES:
            raise ValueError(f"content must be one of {', '.join(MODES)}, got {mode!r}")
        self.mode = mode
        self.on = mode != "none"

    def text(self, text: str) -> tuple[str, bool]:
        """A text as it may be written, and whether it had to be cut."""
        clean = utf8(redactor.text(text))
        limit = ATTRIBUTE_CHARS[self.mode]
        return cut(clean, limit), len(clean) > limit

    def json(self, value: Any, *, limit: int | None = None) -> tuple[str, bool]:
        """A value as JSON text, cut inside so that it stays JSON, and whether it was cut."""
        clean = redactor.value(plain(value))
        limit = limit or ATTRIBUTE_CHARS[self.mode]
        text = to_json(_shortened(clean, STRING_CHARS[self.mode]))
        was_cut = text != to_json(clean)
        if len(text) > limit:
            text, was_cut = _fitted(clean, limit), True
        return text, was_cut


def message_parts(message: Message) -> dict[str, Any]:
    """A message in the form of the GenAI conventions."""
    if message.role == "tool":
        parts = [
            {"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}
        ]
    else:
        parts = [{"type": "text", "content": message.content}] if message.content else []
        parts += [_call_part(call) for call in message.tool_calls]
    return {"role": message.role, "parts": parts}


def reply_parts(reply: Reply) -> dict[str, Any]:
    """A reply in the form of the GenAI conventions."""
    parts: list[dict[str, Any]] = []
    if reply.thinking:
        parts.append({"type": "reasoning", "content": reply.thinking})
    if reply.text:
        parts.append({"type": "text", "content": reply.text})
    parts += [_call_part(call) for call in reply.tool_calls]
    return {"role": "assistant", "parts": parts}


def message_text(message: Message) -> str:
    """All that a message holds beside its role."""
    if not message.tool_calls:
        return message.content
    return message.content + to_json([[call.name, call.arguments] for call in message.tool_calls])


def _call_part(call: ToolCall) -> dict[str, Any]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}


def _shortened(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(value, limit)
    if isinstance(value, list):
        return [_shortened(item, limit) for item in value]
    if isinstance(value, dict):
        return {cut(key, NAME_CHARS): _shortened(item, limit) for key, item in value.items()}
    return value


def _fitted(value: Any, limit: int) -> str:
    """Valid JSON within the limit: shorter strings, then items left out of the middle."""
    for string_chars in (limit // 8, limit // 32, 80):
        text = to_json(_shortened(value, string_chars))
        if len(text) <= limit:
            return text
    if isinstance(value, list):
        items = [_shortened(item, limit // 32) for item in value]
        head, tail, kept = items[:2], list[Any](), 0
        room = limit - len(to_json(head)) - 100
        for item in reversed(items[2:]):
            room -= len(to_json(item)) + 1
            if room < 0:
                break
            tail.insert(0, item)
            kept += 1
        fitted = to_json([*head, {"omitted": len(items) - 2 - kept}, *tail])
        if len(fitted) <= limit:
            return fitted
    return to_json(cut(to_json(value), limit // 2 - 50))  # escaping doubles it at worst
