"""Several models behind one: chosen by rules, and the next one where one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agent_core.errors import ConfigError, ModelError, ModelTimeout
from agent_core.gears import ChatModel, OnText
from agent_core.messages import JsonObject, JsonValue, Message, Reply

Rule = Callable[[Sequence[Message]], bool]


@dataclass(frozen=True, slots=True)
class Route:
    """A model, and when to take it; without a rule it is taken always."""

    model: ChatModel
    when: Rule | None = None


class RouterChat:
    """Asks the first model whose rule fits; where that fails, the others in their order.

    Each attempt is a model call of its own in a trace. Models whose rule does not fit are asked
    last, rather than not at all. A rule that itself asks a model is asked at every call; where
    that fails, it does not fit.

    Args:
        routes: models with their rules, best first; bare models fit always.
        name: said in results.

    Raises:
        ConfigError: there is no route, or one without a model.

    Example:
        >>> from agent_core.models import ScriptedModel
        >>> small, big = ScriptedModel(["from small"]), ScriptedModel(["from big"])
        >>> router = RouterChat([Route(small, when=lambda m: len(m[-1].content) < 80), big])
        >>> router.chat([Message("user", "Hi!")]).text
        'from small'
        >>> router.chat([Message("user", "Compare these two contracts: " + "…" * 80)]).text
        'from big'
    """

    provider = "router"

    def __init__(self, routes: Sequence[Route | ChatModel], *, name: str = "router") -> None:
        self.routes = tuple(each if isinstance(each, Route) else Route(each) for each in routes)
        if not self.routes:
            raise ConfigError("a router needs at least one model, got none")
        for each in self.routes:
            has_rule = each.when is None or callable(each.when)
            if not (isinstance(each.model, ChatModel) and has_rule):
                got = f"Route({type(each.model).__name__}, when={type(each.when).__name__})"
                raise ConfigError(f"a router takes models and Route(model, when=rule), got {got}")
        self.name = name
        windows = [each.model.context_window for each in self.routes]
        # A prompt has to fit whichever model gets it.
        self.context_window = min((each for each in windows if each is not None), default=None)

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
        """Ask; see `HttpChat.chat`.

        Raises:
            ModelError: what the last model raised; its notes name the others.
        """
        until = None if timeout is None else time.monotonic() + timeout
        heard = _Heard(on_text)
        failures: list[ModelError] = []
        for model in self._order(messages):
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                failures.append(ModelTimeout(f"no time was left to ask {model.name!r}"))
                break
            try:
                return model.chat(
                    messages,
                    tools=tools,
                    stop=stop,
                    format=format,
                    on_text=heard.listener(),
                    timeout=left,
                )
            except ModelError as error:
                failures.append(error)
        last = failures[-1]
        for each in failures[:-1]:
            last.add_note(f"before that: {type(each).__name__}: {each}")
        raise last

    def _order(self, messages: Sequence[Message]) -> Iterator[ChatModel]:
        """The models as they are asked; a rule is asked when its turn comes."""
        passed_over = []
        for route in self.routes:
            if route.when is None or _fits(route.when, messages):
                yield route.model
            else:
                passed_over.append(route.model)
        yield from passed_over


def _fits(rule: Rule, messages: Sequence[Message]) -> bool:
    try:
        return rule(messages)
    except ModelError:  # of a model that was to judge; its scope has told the observers
        return False


class _Heard:
    """Passes text on from one model only: nobody can tell two half replies apart."""

    def __init__(self, on_text: OnText | None) -> None:
        self._on_text = on_text
        self._spoken = False

    def listener(self) -> OnText | None:
        """What the next model gets as `on_text`: None once another has spoken."""
        return None if self._spoken or self._on_text is None else self._hear

    def _hear(self, piece: str) -> bool:
        assert self._on_text is not None
        self._spoken = True
        return self._on_text(piece)
