"""What an instrumented run remembers between its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4

from opentelemetry.context import Context
from opentelemetry.trace import Tracer

from agent_core.events import ModelCallStarted, RunStarted
from agent_core.messages import Hit, Message
from harness import semconv
from harness.content import (
    ATTRIBUTE_CHARS,
    Attribute,
    Capture,
    digest,
    message_parts,
    message_text,
)
from harness.plain import plain, to_json
from harness.redact import redactor

Attributes = dict[str, Attribute]


class RunState:
    """One run under instrumentation.

    Attributes:
        outside: the context in which the run began.
        over: the run has ended.
        logger: takes the records of this run, or None.
        silent: nobody takes its spans or its records.
        measured: somebody takes its metrics.
        step: index of the current step, None before the first.
        failed_step: the step that an exception ended.
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
        self.measured = False
        self.step: int | None = None
        self.failed_step: int | None = None
        self.request = LastRequest()
        self.digest = LastDigest()
        self.prompt = PromptHistory(capture)
        self.chunks = RetrievedChunks()
        self._counted: list[tuple[str, int]] = []

    def count(self, what: str, number: int = 1) -> None:
        """Add to a total; tools may run at the same time, and fork."""
        self._counted.append((what, number))

    @property
    def totals(self) -> dict[str, int]:
        """What was counted over the run."""
        totals: dict[str, int] = {}
        for what, number in self._counted:
            totals[what] = totals.get(what, 0) + number
        return totals

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


class LastDigest:
    """The digest of a text: a reply is hashed once, though a call and its parse both tell it."""

    def __init__(self) -> None:
        self._last = ("", digest(""))  # one pair: tools may run at the same time

    def __call__(self, text: str) -> str:
        """`sha256:` and 64 hex digits."""
        known, found = self._last
        if text is not known:
            found = digest(text)
            self._last = (text, found)
        return found


class LastRequest:
    """What is sent along with a prompt seldom changes, so it is described once."""

    def __init__(self) -> None:
        self._last: tuple[Any, Attributes] = (None, {})

    def described(
        self, event: ModelCallStarted, describe: Callable[[ModelCallStarted], Attributes]
    ) -> Attributes:
        """The attributes of all in this event that is no message."""
        key = (
            event.model, event.provider, event.url, event.stream, event.context_window,
            len(event.tools), redactor.generation, event.options,
        )  # fmt: skip
        known, attributes = self._last
        if key != known:
            attributes = describe(event)
            self._last = ((*key[:-1], plain(event.options)), attributes)  # theirs may change
        return attributes


class PromptHistory:
    """Describes each prompt by what is new in it.

    A history grows at its end, so a message is hashed and captured once, whatever its length.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._messages: tuple[Message, ...] = ()
        self._start_over()

    def _start_over(self) -> None:
        self._hash = sha256()
        self._chars = 0
        self._fragments: list[str] = []
        self._was_cut = False

    def put(self, attributes: Attributes, messages: Sequence[Message]) -> Sequence[Message]:
        """Write what is known of this prompt; give its messages that the last one did not have."""
        now = tuple(messages)
        known = len(self._messages)
        if now[:known] != self._messages:
            known = 0
            self._start_over()
            attributes["harness.prompt.rewritten"] = True  # trimmed: the server's cache is lost
        self._messages = now
        new = now[known:]
        if self._capture.on:
            self._keep(new)
        # Role, characters and digest of each. One text for all: an array costs more, and no store
        # searches in arrays.
        lines = ""
        for message in new:
            text = message_text(message)
            self._chars += len(text)
            lines += f"{message.role} {len(text)} {digest(text)[7:23]}; "
        self._hash.update(lines.encode())
        attributes["harness.prompt.messages"] = len(now)
        attributes["harness.prompt.new"] = lines[:-2]
        attributes["harness.prompt.chars"] = self._chars
        attributes["harness.prompt.sha256"] = "sha256:" + self._hash.hexdigest()
        return new

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

    def _keep(self, new: Sequence[Message]) -> None:
        third = ATTRIBUTE_CHARS[self._capture.mode] // 3  # so that the first two always fit
        for message in new:
            fragment, was_cut = self._capture.json(message_parts(message), limit=third)
            self._fragments.append(fragment)
            self._was_cut |= was_cut


class RetrievedChunks:
    """Which retrieved chunks reach a prompt, and which only in part.

    Attributes:
        waiting: texts of the chunks that the next prompt is expected to hold, by their ids.
    """

    _BEGINNING = 60  # characters by which a chunk that was cut is recognised

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}

    def add(self, hits: Sequence[Hit]) -> None:
        """Expect these in the next prompt."""
        for hit in hits:
            self.waiting[hit.chunk.id] = hit.chunk.text.strip()

    def seen_in(self, new: Sequence[Message]) -> tuple[list[str], list[str]]:
        """Ids of the chunks that stand in these messages as a whole, and in part."""
        text = "\n".join(message.content for message in new)
        whole, part = [], []
        for identity, chunk in self.waiting.items():
            if any(form in text for form in (chunk, to_json(chunk)[1:-1])):
                whole.append(identity)
            elif any(form[: self._BEGINNING] in text for form in (chunk, to_json(chunk)[1:-1])):
                part.append(identity)
        self.waiting = {}
        return whole, part
