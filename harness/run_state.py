"""What an instrumented run remembers between its events."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from threading import Lock
from typing import Any
from uuid import uuid4

from opentelemetry.context import Context
from opentelemetry.trace import Tracer

from agent_core.events import RunStarted
from agent_core.messages import Hit, Message
from harness import semconv
from harness.content import (
    ATTRIBUTE_CHARS,
    Attribute,
    Capture,
    message_digest,
    message_parts,
)
from harness.plain import to_json

Attributes = dict[str, Attribute]


class RunState:
    """One run under instrumentation.

    Attributes:
        outside: the context in which the run began.
        over: the run has ended.
        logger: takes the records of this run, or None.
        silent: nobody takes its spans or its records.
        step: index of the current step, None before the first.
        failed_step: the step that an exception ended.
        totals: what is counted over the run.
    """

    def __init__(
        self,
        event: RunStarted,
        capture: Capture,
        *,
        owner: object,
        parent: RunState | None,
        outside: Context,
        logger: Any,
        tracer: Tracer,
    ) -> None:
        self.id = uuid4().hex
        self.parent_id = parent.id if parent else None
        self.owner = owner
        self.outside = outside
        self.over = False
        self.agent = event.agent
        self.tools: Mapping[str, Any] = event.tools
        self.capture = capture
        self.logger = logger
        self.tracer = tracer
        self.silent = False
        self.step: int | None = None
        self.failed_step: int | None = None
        self.prompt = PromptHistory(capture)
        self.chunks = RetrievedChunks()
        self.totals: Counter[str] = Counter()
        self._lock = Lock()

    def count(self, what: str, number: int = 1) -> None:
        """Add to a total; tools may run at the same time."""
        with self._lock:
            self.totals[what] += number

    def put_text(self, attributes: Attributes, key: str, text: str | None) -> None:
        """Write a text that is content, if content is on."""
        if self.capture.on and text:
            self._put(attributes, key, self.capture.text(text))

    def put_json(self, attributes: Attributes, key: str, value: Any) -> None:
        """Write a value that is content as JSON, if content is on."""
        if self.capture.on:
            self._put(attributes, key, self.capture.json(value))

    def _put(self, attributes: Attributes, key: str, captured: tuple[str, bool]) -> None:
        text, was_cut = captured
        attributes[key] = text
        if was_cut:
            self.count(semconv.TRUNCATED_ATTRIBUTES)

    def put_messages(self, attributes: Attributes) -> None:
        """Write the messages of the prompt, if content is on."""
        if self.capture.on:
            self._put(attributes, semconv.INPUT_MESSAGES, self.prompt.captured())


class PromptHistory:
    """Describes each prompt by what is new in it.

    A history grows at its end, so a message is hashed and captured once, whatever its length.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._messages: list[Message] = []
        self._hash = sha256()
        self._chars = 0
        self._fragments: list[str] = []
        self._was_cut = False

    def update(self, messages: Sequence[Message]) -> tuple[Attributes, list[Message]]:
        """The attributes of this prompt, and its messages that the last one did not have."""
        known = len(self._messages)
        grew = len(messages) >= known and all(map(operator.is_, self._messages, messages))
        if not grew:
            known = 0
            self._messages, self._hash, self._chars, self._fragments = [], sha256(), 0, []
        new = list(messages[known:])
        lines = [self._append(message) for message in new]
        attributes: Attributes = {
            "harness.prompt.messages": len(messages),
            "harness.prompt.chars": self._chars,
            "harness.prompt.sha256": "sha256:" + self._hash.hexdigest(),
            # One text: an array costs more, and no store searches in arrays.
            "harness.prompt.new": "; ".join(lines),
        }
        if not grew:
            attributes["harness.prompt.rewritten"] = True  # trimmed: the server's cache is lost
        return attributes, new

    def captured(self) -> tuple[str, bool]:
        """The messages as JSON, with those in the middle left out where there are too many."""
        limit = ATTRIBUTE_CHARS[self._capture.mode]
        head = self._fragments[:2]
        room = limit - sum(map(len, head)) - 100
        first = len(self._fragments)
        while first > len(head) and room >= len(self._fragments[first - 1]) + 1:
            first -= 1
            room -= len(self._fragments[first]) + 1
        omitted = first - len(head)
        marker = [f'{{"role":"omitted","parts":[],"count":{omitted}}}'] if omitted else []
        text = "[" + ",".join(head + marker + self._fragments[first:]) + "]"
        return text, omitted > 0 or self._was_cut

    def _append(self, message: Message) -> str:
        """Take a message in; its role, characters and the first 16 digits of its digest."""
        size, fingerprint = message_digest(message)
        self._hash.update(fingerprint.encode("ascii"))
        self._chars += size
        self._messages.append(message)
        if self._capture.on:
            third = ATTRIBUTE_CHARS[self._capture.mode] // 3  # so that the first two always fit
            fragment, was_cut = self._capture.json(message_parts(message), limit=third)
            self._fragments.append(fragment)
            self._was_cut |= was_cut
        return f"{message.role} {size} {fingerprint.removeprefix('sha256:')[:16]}"


class RetrievedChunks:
    """Which retrieved chunks reach a prompt, and which only in part."""

    _BEGINNING = 60  # characters by which a chunk that was cut is recognised

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}

    def add(self, hits: Sequence[Hit]) -> None:
        """Expect these in the next prompt."""
        for hit in hits:
            self._waiting[hit.chunk.id] = hit.chunk.text.strip()

    def seen_in(self, new: Sequence[Message]) -> tuple[list[str], list[str]]:
        """Ids of the chunks that stand in these messages as a whole, and in part."""
        if not self._waiting:
            return [], []
        text = "\n".join(message.content for message in new)
        whole, part = [], []
        for identity, chunk in self._waiting.items():
            if any(form in text for form in (chunk, to_json(chunk)[1:-1])):
                whole.append(identity)
            elif any(form[: self._BEGINNING] in text for form in (chunk, to_json(chunk)[1:-1])):
                part.append(identity)
        self._waiting = {}
        return whole, part
