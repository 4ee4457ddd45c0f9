"""The loop's own cost: a scripted run beside a bare `for` loop that does the same work.

The bare loop builds the same messages, decodes the same JSON and calls the same function: what
is left is what the agent adds (parsing, validation, guards, records).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from agent_core.agent import Agent
from agent_core.limits import Limits
from agent_core.models import ScriptedModel

STEPS = [5, 50, 200]


def double(number: int) -> int:
    """Double a number.

    Args:
        number: the number
    """
    return 2 * number


def replies(steps: int) -> list[str]:
    """One action a step, each another one, then the answer."""
    actions = [
        f'Thought: go on.\nAction: {{"name": "double", "parameters": {{"number": {i}}}}}'
        for i in range(steps - 1)
    ]
    return [*actions, "Thought: done.\nFinal Answer: finished"]


@pytest.mark.parametrize("steps", STEPS)
def test_agent(benchmark: BenchmarkFixture, steps: int) -> None:
    """The agent, tools run in their threads."""
    script = replies(steps)
    limits = Limits(max_steps=steps)

    def once() -> Any:
        return Agent(ScriptedModel(script), [double], limits=limits).run("q")

    result = benchmark(once)
    assert result.answer == "finished"


@pytest.mark.parametrize("steps", STEPS)
def test_bare_loop(benchmark: BenchmarkFixture, steps: int) -> None:
    """The same work without an agent."""
    script = replies(steps)

    def once() -> str:
        messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "q"}]
        for text in script:
            if "Final Answer:" in text:
                return text.split("Final Answer:")[1].strip()
            call = json.loads(text.split("Action:")[1])
            result = double(**call["parameters"])
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": f"Observation: {result}"},
            ]
        return ""

    assert benchmark(once) == "finished"
