"""A recorded session of twelve steps, agents with a defect, and checks that it fails."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from agent_core.agent import Agent
from agent_core.gears import ChatModel, Clock
from agent_core.limits import Limits
from agent_core.messages import (
    Action,
    Actions,
    FinalAnswer,
    Observation,
    ParsedReply,
    Reply,
    RunResult,
)
from agent_core.parsing import StandardParser
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, calculator, current_time
from harness.demo.world import get_weather
from harness.sessions.checks import Call, assert_trajectory
from harness.sessions.record import Recorded
from tests.harness.sessions_support import ollama_reply, record_scripted

CITIES = ("Oslo", "Rome", "Lisbon", "Lima", "Bonn")


def patient(model: ChatModel, *, clock: Clock, **how: Any) -> Agent:
    """A small agent with as many steps as it wants."""
    tools: list[Callable[..., Any] | FunctionDefinition]
    tools = [get_weather, calculator, current_time(clock)]
    return Agent(model, tools, clock=clock, limits=Limits(max_steps=20), name="patient", **how)


def call(tool: str, **arguments: object) -> str:
    text = json.dumps({"name": tool, "parameters": arguments}, ensure_ascii=False)
    return f"Thought: next on my list\nAction: {text}"


def long_replies() -> list[str]:
    """Twelve: weather and sums in turn, step 3 is Lisbon and step 10 is 2 + 3, then an answer."""
    cities = iter(CITIES * 2)
    replies = [
        call("get_weather", city=next(cities)) if number % 2 == 0
        else call("calculator", expression=f"{number} + {10 * number}")
        for number in range(11)
    ]  # fmt: skip
    replies[2] = call("get_weather", city="Lisbon")
    replies[9] = call("calculator", expression="2 + 3")
    return [*replies, "Thought: That was the list.\nFinal Answer: Lisbon is sunny, the sum is 5."]


def record_long(path: Path, **how: Any) -> Recorded:
    """Twelve steps by a scripted server, through the real recorder: no model was asked."""
    scripts = (ollama_reply(text) for text in long_replies())
    return record_scripted(path, *scripts, factory=patient, **how)


def calls_of(result: RunResult) -> Iterator[Action]:
    for step in result.steps:
        if isinstance(step.parsed.decision, Actions):
            yield from step.parsed.decision.actions


def not_both(result: RunResult) -> None:
    """Fails when Lisbon was asked for and, later, 2 + 3 was computed."""
    made = [json.dumps(each.arguments) for each in calls_of(result)]
    lisbon = [place for place, each in enumerate(made) if "Lisbon" in each]
    five = [place for place, each in enumerate(made) if "2 + 3" in each]
    assert not (lisbon and five and lisbon[0] < five[0])


def no_lisbon(result: RunResult) -> bool:
    """A check that says False instead of raising."""
    return not any("Lisbon" in str(each.arguments) for each in calls_of(result))


def by_trajectory(result: RunResult) -> None:
    """Fails since the sum came without the weather of Paris before it."""
    wanted = [Call("calculator"), Call("get_weather", {"city": "Paris", "unit": "celsius"})]
    assert_trajectory(result, calls=wanted, order="in_order")


_turns = count()


def now_and_then(result: RunResult) -> None:
    """Fails every other time."""
    assert next(_turns) % 2


def interrupting(result: RunResult) -> None:
    """Somebody presses Ctrl-C."""
    if len(result.steps) < 12:
        raise KeyboardInterrupt
    raise AssertionError


class Watching(FunctionCallExecutor):
    """An executor whose observations are changed on their way out."""

    def __init__(self, *args: Any, change: Callable[[Observation], Observation], **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.change = change

    def execute(self, action: Action, **how: Any) -> Observation:
        return self.change(super().execute(action, **how))


def two_observations(model: Any, **how: Any) -> Agent:
    """A defect in two places: the weather of Lisbon, and the sum 2 + 3, read otherwise."""

    def change(seen: Observation) -> Observation:
        if seen.arguments == {"city": "Lisbon", "unit": "celsius"}:
            return replace(seen, text=f"{seen.text} (about)")
        if seen.arguments == {"expression": "2 + 3"}:
            return replace(seen, text=f"= {seen.text}")
        return seen

    agent = patient(model, **how)
    given = {k: v for k, v in vars(agent.executor).items() if not k.startswith("_")}
    executor = Watching(agent.executor.definitions.values(), change=change, **given)
    return agent.replace(executor=executor)


def described_otherwise(model: Any, **how: Any) -> Agent:
    """A tool's description was reworded."""
    agent = patient(model, **how)
    tools = [
        replace(each, description=f"{each.description} Exactly.")
        if each.name == "calculator" else each
        for each in agent.executor.definitions.values()
    ]  # fmt: skip
    assert isinstance(agent.executor, FunctionCallExecutor)
    return agent.replace(executor=agent.executor.replace(tools=tools))


def instructed_otherwise(model: Any, **how: Any) -> Agent:
    """One more line in the system prompt."""
    agent = patient(model, **how)
    return agent.replace(instructions=f"{agent.instructions}\nBe brief.")


class _Answering(StandardParser):
    """Takes a call for an answer."""

    def parse(self, reply: Reply, tools: Any) -> ParsedReply:
        parsed = super().parse(reply, tools)
        if "2 + 3" in reply.text:
            return replace(parsed, decision=FinalAnswer("5", labelled=True))
        return parsed


class _Raising(StandardParser):
    """Raises on one reply."""

    def parse(self, reply: Reply, tools: Any) -> ParsedReply:
        if "2 + 3" in reply.text:
            raise RuntimeError("no sums today")
        return super().parse(reply, tools)


def ends_early(model: Any, **how: Any) -> Agent:
    """A parser that takes a call for an answer."""
    return patient(model, **how).replace(parser=_Answering("react-json", "en"))


def raises(model: Any, **how: Any) -> Agent:
    """A parser that raises."""
    return patient(model, **how).replace(parser=_Raising("react-json", "en"))
