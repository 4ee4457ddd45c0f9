"""A model that says what it is told to say: for tests, demos and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeAlias

from agent_core.errors import ConfigError, ModelError, ScriptExhausted
from agent_core.events import ModelCallEnded, ModelCallStarted, scope
from agent_core.gears import OnText
from agent_core.messages import JsonObject, JsonValue, Message, Reply

_PIECE = 4  # characters a piece, about what a model sends at a time

Answer: TypeAlias = str | Reply | ModelError
Script: TypeAlias = Answer | Callable[[Sequence[Message]], Answer]


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What a scripted model was asked."""

    messages: tuple[Message, ...]
    tools: tuple[JsonObject, ...] = ()
    stop: tuple[str, ...] = ()
    format: JsonValue = None


class ScriptedModel:
    """Gives its replies in order, and records what it was asked in `requests`.

    Args:
        replies: texts, `Reply` objects, errors to raise, or functions of the messages that
            give one of these.
        name: its name in events and results.
        context_window: tokens, for agents that keep their prompts below it.

    Raises:
        ConfigError: one text in place of a list.
    """

    provider = "scripted"

    def __init__(
        self,
        replies: Iterable[Script],
        *,
        name: str = "scripted",
        context_window: int | None = None,
    ) -> None:
        if isinstance(replies, str | bytes):  # its letters would be the replies
            raise ConfigError(f"replies must be a list of them, got one text: {replies!r:.80}")
        self.name = name
        self.context_window = context_window
        self.requests: list[ScriptedRequest] = []
        self._replies = iter(replies)
        self._lock = Lock()

    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[JsonObject] = (),
        stop: Sequence[str] = (),
        format: JsonValue = None,
        on_text: OnText | None = None,
        timeout: float | None = None,
    ) -> Reply:
        """Give the next reply.

        Raises:
            ModelError: the script says so.
            ScriptExhausted: there is no next reply.
        """
        event = ModelCallStarted(
            model=self.name,
            provider=self.provider,
            url="",
            messages=messages,
            tools=tools,
            options={"stop": list(stop)} if stop else {},
            stream=on_text is not None,
            context_window=self.context_window,
        )
        with scope(event) as call:
            request = ScriptedRequest(tuple(messages), tuple(tools), tuple(stop), format)
            reply = _spoken(self._next(request), on_text)
            call.end(ModelCallEnded(reply))
        return reply

    def _next(self, request: ScriptedRequest) -> Reply:
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            script = next(self._replies, None)
        if script is None:
            raise ScriptExhausted(
                f"{self.name!r} was asked {number} times but has {number - 1} replies; add a "
                "reply, or end the run earlier"
            )
        answer = script(request.messages) if callable(script) else script
        if isinstance(answer, ModelError):
            raise answer
        if isinstance(answer, str):
            return Reply(answer, finish_reason="stop", model=self.name)
        if not isinstance(answer, Reply):
            raise ConfigError(
                "a scripted reply is a text, a Reply, a ModelError, or a function that gives one "
                f"of these, got {answer!r}"
            )
        return answer


def _spoken(reply: Reply, on_text: OnText | None) -> Reply:
    """Hand a reply out in pieces, as a stream would."""
    if on_text is None:
        return reply
    for end in range(_PIECE, len(reply.text) + _PIECE, _PIECE):
        if on_text(reply.text[end - _PIECE : end]) and end < len(reply.text):
            return replace(reply, text=reply.text[:end], finish_reason=None, cut_by_client=True)
    return reply
