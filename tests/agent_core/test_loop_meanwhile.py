"""What happens while the model answers or a tool runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.errors import RetrievalError
from agent_core.limits import Limits, StopReason
from agent_core.messages import Hit, Message, Reply, RunResult, ToolCall
from agent_core.models import ScriptedModel
from agent_core.tools import FunctionCallExecutor
from tests.agent_core.loop_support import ANSWER, SEARCH, search


class Live:
    """A model that does something while it answers, and keeps how it was asked."""

    name = "live"
    provider = "test"
    context_window: int | None = None

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.reply = Reply("", (ToolCall("c", "search", {"query": "a"}),))
        self.stopped: list[bool] = []
        self.timeouts: list[float | None] = []

    def chat(self, messages: Sequence[Message], **asked: Any) -> Reply:
        """Say a part, let something happen, say the rest."""
        self.timeouts.append(asked["timeout"])
        self.stopped.append(asked["on_text"]("Thought: let me "))
        self.meanwhile()
        self.stopped.append(asked["on_text"]("see. "))
        return self.reply


class TestMeanwhile:
    """What happens while the model answers or a tool runs."""

    @pytest.mark.parametrize("protocol", ["react-json", "native"])
    def test_a_cancelled_reply_is_not_read_on_and_decides_nothing(self, protocol: Any) -> None:
        """Reading stops, and the tool that the reply asks for does not run."""
        cancel = threading.Event()
        model = Live(cancel.set)
        ran: list[str] = []

        def search(query: str) -> None:
            """Search."""
            ran.append(query)

        agent = Agent(model, [search], protocol=protocol)
        result = agent.run("q", cancel=cancel)
        assert model.stopped == [False, True]
        assert result.stop_reason is StopReason.CANCELLED
        assert (len(result.steps), ran) == (1, [])

    @pytest.mark.parametrize("protocol", ["react-json", "native"])
    def test_half_an_answer_is_none(self, protocol: Any) -> None:
        """What stands where the cancellation cut a reply is not taken for its answer."""
        cancel = threading.Event()
        model = Live(cancel.set)
        model.reply = Reply("Final Answer: forty-", cut_by_client=True)
        result = Agent(model, [search], protocol=protocol).run("q", cancel=cancel)
        assert (result.stop_reason, result.answer) == (StopReason.CANCELLED, None)
        assert result.steps[0].reply.text == "Final Answer: forty-"

    def test_the_model_gets_the_time_that_is_left(self) -> None:
        """Not all of it again at each step; without a limit there is none."""
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        model = Live(lambda: clock.advance(10))
        agent = Agent(model, [search], clock=clock, limits=Limits(time_limit=25))
        assert agent.run("q").stop_reason is StopReason.TIME_LIMIT
        assert model.timeouts == [25, 15, 5]
        free = Live(lambda: None)
        Agent(free, [search], limits=Limits(max_steps=1)).run("q")
        assert free.timeouts == [None]

    def test_ctrl_c_in_a_tool_leaves_a_step_and_a_history(self) -> None:
        """The action that was interrupted is answered, as not run to its end."""

        class Interrupted(FunctionCallExecutor):
            def execute(self, action: Any, **how: Any) -> Any:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            Agent(ScriptedModel([SEARCH % "a"]), executor=Interrupted([search])).run("q")
        partial: RunResult = caught.value.partial_result  # type: ignore[attr-defined]
        (step,) = partial.steps
        (observation,) = step.observations
        assert observation.error is not None
        assert observation.error.kind == "cancelled"
        assert [each.role for each in partial.messages] == ["system", "user", "assistant", "user"]
        assert partial.messages[-1].content.startswith("Observation: ")

    @pytest.mark.parametrize(
        "away", [RetrievalError("the index is away"), ConnectionError("the index is away")]
    )
    def test_a_failing_search_ends_the_run_typed(self, away: Exception) -> None:
        """A retriever that is down is an ending, not an exception, whatever its client raises."""

        class Down:
            name = "down"

            def retrieve(self, query: str, top_k: int = 3) -> Sequence[Hit]:
                raise away

        model = ScriptedModel([ANSWER])
        result = Agent(model, [search], retriever=Down()).run("q")
        assert result.stop_reason is StopReason.MODEL_ERROR
        assert isinstance(result.error, RetrievalError)
        assert "the index is away" in str(result.error)
        assert model.requests == []
