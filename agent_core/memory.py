"""What the model sees of a long history: the task and the latest rounds, the rest in brief."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agent_core.context import estimate_prompt
from agent_core.errors import ConfigError
from agent_core.events import MemoryEnded, MemoryStarted, scope
from agent_core.messages import Language, Message
from agent_core.parsing.labels import label_at

_HEADERS: dict[Language, str] = {
    "en": "Summary of earlier rounds (shortened):",
    "zh": "较早轮次的摘要（已缩短）：",
}
_UNSAID: dict[Language, str] = {
    "en": "- ({count} older messages are left out)",
    "zh": "- （更早的 {count} 条消息已省略）",
}
_LINE_CHARS = 160
_OPEN_CHARS = 300  # of a point that is open
_OPEN_POINTS = 8  # of messages that have no line of their own

_OPEN = re.compile(
    r"\b(?:still|missing|open|unknown|unclear|not yet|to ?do|remains?|need(?:s|ed)?)\b"
    r"|还[缺差没未要需]|缺少?|未知|尚未|待|剩下|需要",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[。！？；])|(?<=[.!?;])\s+")


def said_lines(message: Message) -> Iterator[str]:
    """What the agent thought and answered, line by line, without labels and actions."""
    if message.role == "assistant":
        for line in message.content.splitlines():
            label = label_at(line, 0)
            if label is None:
                yield line
            elif label.kind not in {"action", "input"}:
                yield line[label.end :].strip()


def open_points(line: str) -> Iterator[str]:
    """The sentences of a line that name something which is not settled."""
    for sentence in _SENTENCE_END.split(line):
        if _OPEN.search(sentence):
            yield sentence if len(sentence) <= _OPEN_CHARS else sentence[:_OPEN_CHARS] + "…"


class WindowMemory:
    """Keeps the system prompt, the task and the last rounds; summarises the rest in place.

    A round is an assistant message with what answered it. Rounds leave in blocks, so that
    the prompt stays append-only (and the server's prompt cache useful) for most steps.

    Args:
        rounds: rounds that are always shown, unless the budget is too small for them.
        block: how many rounds leave at a time.
        language: of the summary's heading.
    """

    def __init__(self, rounds: int = 10, *, block: int = 5, language: Language = "en") -> None:
        if not all(type(each) is int and each >= 1 for each in (rounds, block)):
            raise ConfigError(f"rounds and block must be at least 1, got {rounds!r} and {block!r}")
        self.rounds = rounds
        self.block = block
        self.language: Language = language

    def view(
        self, messages: Sequence[Message], *, task: int, budget: int | None = None
    ) -> list[Message]:
        """Give what is sent: everything, or a shorter history with a summary in the task."""
        starts = [i for i, each in enumerate(messages) if each.role == "assistant"]
        dropped = -(-max(0, len(starts) - self.rounds) // self.block) * self.block
        lines = len(messages)
        while True:
            out = min(dropped, len(starts))
            view = self._without(messages, task, starts, out, lines)
            if budget is None or estimate_prompt(view) <= budget or not lines:
                break
            if dropped < len(starts) - 1:
                dropped += self.block
            else:  # what is left is too long because so much is summarised
                lines = min(lines, len(messages) - len(view)) // 2
        if len(view) == len(messages):
            return view
        with scope(MemoryStarted("trim")) as memory:
            removed = sum(len(m.content) for m in messages) - sum(len(m.content) for m in view)
            memory.end(MemoryEnded(len(messages) - len(view), max(0, removed)))
        return view

    def _without(
        self,
        messages: Sequence[Message],
        task: int,
        starts: list[int],
        dropped: int,
        lines: int,
    ) -> list[Message]:
        """Leave out the oldest `dropped` rounds: of earlier turns first, then of this one.

        The summary has a line for each message that is gone, for the last `lines` of them.
        """
        if not dropped:
            return list(messages)
        earlier = [i for i in starts if i < task]
        current = [i for i in starts if i > task]
        from_earlier = min(dropped, len(earlier))
        from_current = dropped - from_earlier
        head = [each for each in messages[:task] if each.role == "system"]
        first = task
        if from_earlier < len(earlier):
            first = _next_user(messages, earlier[from_earlier], task)
        after = current[from_current] if from_current < len(current) else len(messages)
        gone = [*messages[len(head) : first], *messages[task + 1 : after]]
        question = messages[task]
        content = f"{question.content}\n\n{_summary(gone, self.language, lines)}"
        return [*head, *messages[first:task], replace(question, content=content), *messages[after:]]


def _next_user(messages: Sequence[Message], start: int, end: int) -> int:
    """Where a user speaks next: some servers insist that a history begins with the user."""
    return next((i for i in range(start, end) if messages[i].role == "user"), end)


def _summary(gone: Sequence[Message], language: Language, limit: int) -> str:
    lines = [_HEADERS[language]]
    unsaid = max(0, len(gone) - limit)
    if unsaid:
        lines.append(_UNSAID[language].format(count=unsaid))
    if limit:  # else there is no room for anything
        points = dict.fromkeys(point for each in gone[:unsaid] for point in _points(each))
        lines += [f"- assistant: {point}" for point in list(points)[-_OPEN_POINTS:]]
    for message in gone[unsaid:]:
        calls = ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
        text = " ".join(f"{message.content} {calls}".split())
        shown = text if len(text) <= _LINE_CHARS else text[:_LINE_CHARS] + "…"
        lines.append(f"- {message.role}: {shown}")
        lines += [f"  {point}" for point in _points(message) if point not in shown]
    return "\n".join(lines)


def _points(message: Message) -> list[str]:
    """What a message leaves open, each on one line."""
    return [" ".join(point.split()) for line in said_lines(message) for point in open_points(line)]
