"""An agent as a tool of another: limits, cancellation, recursion, scopes."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.budget import Spent, current_budget
from agent_core.delegation import MAX_DEPTH
from agent_core.errors import ConfigError
from agent_core.events import Ended, RunStarted, Started, ToolStarted
from agent_core.limits import Limits, StopReason
from agent_core.messages import Reply, RunResult, Usage
from agent_core.models import ScriptedModel
from agent_core.tools import running_call

GUARD = 20.0  # seconds: only against hanging


def call(tool: str, **arguments: Any) -> str:
    """An action in the react-json protocol."""
    return f"Action: {json.dumps({'name': tool, 'parameters': arguments})}"


def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing in {where}"


def child(*replies: Any, **options: Any) -> Agent:
    """A helper on scripted replies."""
    return Agent(ScriptedModel(replies, name="child"), [look], name="child", **options)


def parent(helper: Agent, *replies: Any, **options: Any) -> Agent:
    """An agent that has the helper as its tool `ask`."""
    model = ScriptedModel(replies, name="parent")
    return Agent(model, [helper.as_tool("ask", "Knows more.")], name="parent", **options)


def observed(result: RunResult, step: int = 0) -> str:
    """The first observation of a step."""
    return result.steps[step].observations[0].text


def test_the_answer_of_the_inner_agent_is_the_observation() -> None:
    """What the helper answers is what the outer model reads."""
    agent = parent(child("Final Answer: 42"), call("ask", task="6 * 7?"), "Final Answer: so 42")
    result = agent.run("q")
    assert observed(result) == "42"
    assert result.answer == "so 42"


@pytest.mark.parametrize(("language", "words"), [("en", "found no answer"), ("zh", "没有找到答案")])
def test_a_helper_without_an_answer_says_why(language: Any, words: str) -> None:
    """The outer run goes on with an observation that names the reason."""
    helper = child("", "", "", language=language)
    result = parent(helper, call("ask", task="t"), "Final Answer: unknown").run("q")
    assert words in observed(result)
    assert "empty_replies" in observed(result)
    assert not result.steps[0].observations[0].ok
    assert result.answer == "unknown"


def test_a_helper_cannot_take_the_last_step() -> None:
    """Model calls of both together stay within the outer limit, and the outer one can answer."""
    helper = child(*(call("look", where=str(n)) for n in range(50)), limits=Limits(max_steps=50))
    agent = parent(
        helper, call("ask", task="t"), "Final Answer: enough", limits=Limits(max_steps=6)
    )
    result = agent.run("q")
    assert result.answer == "enough"
    asked = len(agent.model.requests) + len(helper.model.requests)  # type: ignore[attr-defined]
    assert asked == 6
    assert "max_steps" in observed(result)


def test_tokens_of_a_helper_count_for_the_outer_run() -> None:
    """Neither goes on when the outer run's tokens are spent."""
    helper = child(*(Reply(call("look", where=str(n)), usage=Usage(50, 0)) for n in range(9)))
    agent = parent(
        helper,
        Reply(call("ask", task="t"), usage=Usage(10, 0)),
        "Final Answer: never asked",
        limits=Limits(token_limit=100),
    )
    result = agent.run("q")
    assert len(helper.model.requests) == 2  # type: ignore[attr-defined]
    assert "token_limit" in observed(result)
    assert result.stop_reason is StopReason.TOKEN_LIMIT
    assert result.usage == Usage(10, 0)


def test_what_a_recorded_helper_spent_counts_as_if_it_ran() -> None:
    """A tape charges the run with steps and tokens that were spent when it was recorded."""

    def ask() -> str:
        """Answer from a tape."""
        budget = current_budget()
        assert budget is not None
        budget.charge(Spent(steps=2, tokens=100))
        return "recorded"

    for limits, reason in (
        (Limits(token_limit=100), StopReason.TOKEN_LIMIT),
        (Limits(max_steps=3), StopReason.MAX_STEPS),
    ):
        model = ScriptedModel([Reply(call("ask"), usage=Usage(10, 0)), "Final Answer: never asked"])
        assert Agent(model, [ask], limits=limits).run("q").stop_reason is reason


@pytest.mark.parametrize("own", [None, 1000.0])
def test_a_helper_ends_when_the_outer_run_has_no_time_left(own: float | None) -> None:
    """The outer run returns on time; the helper is told and does not go on, whatever its limit."""
    left: list[float | None] = []
    ended = threading.Event()

    def wait() -> str:
        """Wait until nobody waits any more."""
        now = running_call()
        budget = current_budget()
        assert now is not None
        assert budget is not None
        left.append(budget.seconds_left())
        now.cancel.wait(GUARD)
        ended.set()
        return "late"

    model = ScriptedModel([call("wait"), "Final Answer: too late"])
    helper = Agent(model, [wait], limits=Limits(tool_timeout=GUARD, time_limit=own))
    agent = parent(helper, call("ask", task="t"), limits=Limits(time_limit=0.3))
    result = agent.run("q")
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert ended.wait(GUARD)
    assert left[0] is not None
    assert left[0] <= 0.3
    assert len(model.requests) == 1


def test_cancellation_passes_down() -> None:
    """Cancelling the outer run ends the helper within its own tool."""
    cancel = threading.Event()

    def stop() -> str:
        """Cancel everything."""
        cancel.set()
        now = running_call()
        assert now is not None
        assert now.cancel.wait(GUARD)
        return "never seen"

    model = ScriptedModel([call("stop"), "Final Answer: no"])
    agent = parent(Agent(model, [stop]), call("ask", task="t"), "Final Answer: no")
    assert agent.run("q", cancel=cancel).stop_reason is StopReason.CANCELLED
    assert len(model.requests) == 1


def test_agents_that_ask_each_other_in_a_circle_end() -> None:
    """The call that is too deep is an observation, and every level can still answer."""
    depths = []

    def endless(_messages: Any) -> str:
        budget = current_budget()
        assert budget is not None
        depths.append(budget.depth)
        last = _messages[-1].content
        return "Final Answer: stop" if last.startswith("Observation") else call("again", task="x")

    model = ScriptedModel([endless] * 99)

    def again(task: str) -> Any:
        """Ask again."""
        return agent.as_tool("again", "Ask again.").function(task)

    agent = Agent(model, [again], limits=Limits(max_steps=40))
    result = agent.run("q")
    assert result.answer == "stop"
    assert max(depths) == MAX_DEPTH - 1


def test_scopes_of_a_helper_lie_inside_its_tool_call() -> None:
    """An observer of both agents hears of everything once, in nested order."""

    class Watch:
        """Notes what begins and ends."""

        def __init__(self) -> None:
            self.heard: list[str] = []

        def started(self, event: Started) -> str | None:
            if not isinstance(event, RunStarted | ToolStarted):
                return None
            name = event.agent if isinstance(event, RunStarted) else event.action.name
            self.heard.append(f"+{name}")
            return name

        def ended(self, token: str | None, event: Ended) -> None:
            if token:
                self.heard.append(f"-{token}")

    watch = Watch()
    helper = child("Final Answer: a", observers=[watch])
    agent = parent(helper, call("ask", task="t"), "Final Answer: b", observers=[watch])
    agent.run("q")
    assert watch.heard == ["+parent", "+ask", "+child", "-child", "-ask", "-parent"]


def test_no_budget_is_left_behind() -> None:
    """After a run nothing bounds the next one."""
    agent = child("Final Answer: a", "Final Answer: b", limits=Limits(max_steps=1))
    assert [agent.run("q").answer, agent.run("q").answer] == ["a", "b"]
    assert current_budget() is None


def test_a_run_with_an_event_of_its_own_ends_with_its_tool_too() -> None:
    """A tool that starts a run by hand cannot make it outlive the outer one."""
    cancel, ended = threading.Event(), threading.Event()
    results: list[RunResult] = []

    def stop_outer(_messages: Any) -> str:
        cancel.set()
        time.sleep(0.2)  # the outer run gives the tool up meanwhile
        return call("look", where="x")

    helper = child(stop_outer, *[call("look", where=str(n)) for n in range(5)])

    def ask() -> str:
        """Ask the helper."""
        results.append(helper.run("task", cancel=threading.Event()))
        ended.set()
        return "answer"

    outer = Agent(ScriptedModel([call("ask")]), [ask])
    assert outer.run("q", cancel=cancel).stop_reason is StopReason.CANCELLED
    assert ended.wait(GUARD)
    assert results[0].stop_reason is StopReason.CANCELLED
    assert len(results[0].steps) == 1


def test_a_timeout_of_nothing_is_refused() -> None:
    """Zero seconds are no way to say "without limit"."""
    with pytest.raises(ConfigError, match="timeout must be positive"):
        child("Final Answer: a").as_tool("ask", "Asks.", timeout=0)
