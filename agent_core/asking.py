"""Asking the model: what is sent of the history, and what the server's counts tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_core.budget import Budget
from agent_core.context import estimate_prompt, swallowed_note, truncation_note, with_usage
from agent_core.gears import OnText
from agent_core.messages import JsonObject, JsonValue, Message, Reply, StepNote

if TYPE_CHECKING:
    from agent_core.agent import Agent

_ANSWER_RESERVE = 1024  # tokens kept free for the reply when the model's own limit is unknown


class Asking:
    """The model calls of one run.

    Attributes:
        sent: the last prompt.
        prompt_tokens: what the server counted for it.
        estimate_ratio: the server's count for one estimated token.
    """

    def __init__(self, agent: Agent, budget: Budget) -> None:
        self._agent = agent
        self._budget = budget
        self.sent: list[Message] = []
        self.prompt_tokens: int | None = None
        self.estimate_ratio = 1.0

    def ask(
        self,
        messages: Sequence[Message],
        task: int,
        *,
        tools: Sequence[JsonObject] = (),
        stop: Sequence[str] = (),
        format: JsonValue = None,
        on_text: OnText | None = None,
    ) -> tuple[Reply, list[StepNote]]:
        """Send what memory shows of the history; give the reply and notes about it.

        Args:
            messages: the whole history.
            task: index of the message that holds the current task.
        """
        agent = self._agent
        view = agent.memory.view(messages, task=task, budget=self._room(tools))
        estimate = estimate_prompt(view, tools)
        reply = agent.model.chat(
            view,
            tools=tools,
            stop=stop,
            format=format,
            on_text=on_text,
            timeout=self._budget.seconds_left(),
        )
        notes = self._notes(reply, view, estimate)
        if len(view) < len(messages):
            gone = len(messages) - len(view)
            notes.insert(0, StepNote("history_trimmed", f"{gone} older messages were summarised"))
        reply = with_usage(reply, estimate)
        if reply.usage.estimated:
            notes.append(StepNote("usage_estimated", "the server gave no token counts"))
        elif reply.usage.prompt_tokens:
            self.estimate_ratio = reply.usage.prompt_tokens / max(1, estimate)
        self.sent, self.prompt_tokens = view, reply.usage.prompt_tokens
        self._budget.spend(reply.usage)
        return reply, notes

    def _notes(self, reply: Reply, view: list[Message], estimate: int) -> list[StepNote]:
        """What the server kept quiet about, and what the client cut."""
        model, native = self._agent.model, self._agent.protocol == "native"
        grew = view[: len(self.sent)] == self.sent and len(view) > len(self.sent) > 0
        truncated = truncation_note(
            reply,
            window=model.context_window,
            estimate=estimate,
            previous=self.prompt_tokens,
            grew=grew,
        )
        notes = [note for note in (truncated, swallowed_note(reply, native=native)) if note]
        if reply.finish_reason == "length":
            notes.append(StepNote("output_cut", "the reply ends where the server's limit was"))
        if reply.cut_by_client:
            notes.append(StepNote("cut_by_client", "reading stopped before the reply had ended"))
        return notes

    def _room(self, tools: Sequence[JsonObject]) -> int | None:
        """Estimated tokens that the messages may take, by the server's last count."""
        window = self._agent.model.context_window
        if window is None:
            return None
        reserve = min(_ANSWER_RESERVE, window // 4)
        return int((window - reserve) / max(1.0, self.estimate_ratio)) - estimate_prompt((), tools)
