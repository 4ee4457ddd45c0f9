"""A router: the model that fits, the next one where it fails, each call traced."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.errors import ConfigError, ModelTimeout, ServerError
from agent_core.events import Ended, Failed, ModelCallStarted, Started
from agent_core.gears import ChatModel
from agent_core.limits import StopReason
from agent_core.messages import Message, Reply
from agent_core.models import Route, RouterChat, ScriptedModel

HI = [Message("user", "Hi!")]


def never(_messages: Any) -> bool:
    """A rule that does not fit."""
    return False


def test_it_is_a_chat_model() -> None:
    """An agent takes it like any other; its window is the smallest one."""
    router = RouterChat([
        ScriptedModel([], context_window=4096),
        ScriptedModel([]),
        ScriptedModel([], context_window=2048),
    ])
    assert isinstance(router, ChatModel)
    assert router.context_window == 2048
    assert RouterChat([ScriptedModel([])]).context_window is None


def test_the_first_rule_that_fits_decides() -> None:
    """Rules see the messages; later models are not asked."""
    seen: list[Any] = []

    def rule(messages: Any) -> bool:
        seen.append(messages)
        return True

    chosen, other = ScriptedModel(["chosen"]), ScriptedModel([])
    router = RouterChat([Route(ScriptedModel([]), never), Route(chosen, rule), other])
    assert router.chat(HI).text == "chosen"
    assert seen == [HI]
    assert other.requests == []


def test_a_cheap_call_may_judge_and_may_fail() -> None:
    """A rule that asks a small model decides by its word; without its word it does not fit."""
    judge = ScriptedModel(["easy", "hard", ServerError("down")])
    small, big = ScriptedModel(["small"]), ScriptedModel(["big", "big"])
    router = RouterChat([Route(small, lambda m: judge.chat(m).text == "easy"), big])
    assert [router.chat(HI).text for _ in range(3)] == ["small", "big", "big"]
    assert len(judge.requests) == 3


def test_a_failing_model_is_followed_by_the_next() -> None:
    """Everything that was asked for is asked of the next one too."""
    bad, good = ScriptedModel([ServerError("down")]), ScriptedModel(["ok"])
    reply = RouterChat([bad, good]).chat(HI, tools=[{"a": 1}], stop=["x"], format="json")
    assert reply.text == "ok"
    assert bad.requests == good.requests


def test_a_model_that_does_not_fit_is_better_than_none() -> None:
    """It is asked last, after those whose rule fits have failed."""
    spare = ScriptedModel(["spare"])
    router = RouterChat([Route(spare, never), ScriptedModel([ServerError("down")])])
    assert router.chat(HI).text == "spare"


def test_when_all_fail_the_last_error_comes_out() -> None:
    """Its notes name the others, and the run ends with it."""
    router = RouterChat([
        ScriptedModel([ServerError(name), ServerError(name)])
        for name in ("first", "second", "third")
    ])
    with pytest.raises(ServerError, match="third") as caught:
        router.chat(HI)
    assert caught.value.__notes__ == [
        "before that: ServerError: first",
        "before that: ServerError: second",
    ]
    assert Agent(router).run("q").stop_reason is StopReason.MODEL_ERROR


def test_time_is_shared() -> None:
    """The next model gets what is left; without any it is not asked."""

    class Slow(ScriptedModel):
        """Takes its time and fails."""

        def chat(self, *args: Any, timeout: float | None = None, **how: Any) -> Reply:
            threading.Event().wait(0.05)
            assert timeout is not None
            raise ModelTimeout("too slow")

    late = ScriptedModel(["late"])
    with pytest.raises(ModelTimeout, match="no time was left"):
        RouterChat([Slow([]), late]).chat(HI, timeout=0.01)
    assert late.requests == []
    assert RouterChat([Slow([]), late]).chat(HI, timeout=60).text == "late"


def test_two_half_replies_are_never_mixed() -> None:
    """A model broke off after it began to speak: the next one's reply counts alone, unheard."""

    class Breaks(ScriptedModel):
        """Says something and fails."""

        def chat(self, *args: Any, on_text: Any = None, **how: Any) -> Reply:
            on_text('Action: {"name": "x", "parameters": {}}\n')
            raise ServerError("cut")

    whole = "Thought: a new beginning.\nFinal Answer: whole"
    agent = Agent(RouterChat([Breaks([]), ScriptedModel([whole])]))
    result = agent.run("q")
    assert result.answer == "whole"
    assert not result.steps[0].reply.cut_by_client
    heard: list[str] = []
    router = RouterChat([Breaks([]), ScriptedModel([whole])])

    def hear(piece: str) -> bool:
        heard.append(piece)
        return False

    assert router.chat(HI, on_text=hear).text == whole
    assert heard == ['Action: {"name": "x", "parameters": {}}\n']


def test_each_attempt_is_traced() -> None:
    """Two model calls, the first one failed."""

    class Watch:
        """Notes model calls."""

        def __init__(self) -> None:
            self.heard: list[tuple[str, bool]] = []

        def started(self, event: Started) -> str | None:
            return event.model if isinstance(event, ModelCallStarted) else None

        def ended(self, token: str | None, event: Ended) -> None:
            if token:
                self.heard.append((token, isinstance(event, Failed)))

    watch = Watch()
    routes = [
        ScriptedModel([ServerError("x")], name="a"),
        ScriptedModel(["Final Answer: b"], name="b"),
    ]
    Agent(RouterChat(routes), observers=[watch]).run("q")
    assert watch.heard == [("a", True), ("b", False)]


def test_a_router_without_models_is_refused() -> None:
    """Nothing could ever be asked."""
    with pytest.raises(ConfigError, match="at least one model"):
        RouterChat([])


@pytest.mark.parametrize(
    ("model", "rule"),
    [("cheap", ScriptedModel([])), (ScriptedModel([]), "long"), ("model", None), (None, None)],
)
def test_what_is_no_route_is_told_at_once(model: Any, rule: Any) -> None:
    """Arguments the wrong way round are found when the router is made, not when it is asked."""
    with pytest.raises(ConfigError, match=r"models and Route\(model, when=rule\), got Route\("):
        RouterChat([Route(model, rule)])
