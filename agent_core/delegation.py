"""An agent as a tool of another: bounded by what the outer run has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_core.budget import current_budget
from agent_core.errors import ToolError
from agent_core.messages import Language
from agent_core.tools.definition import FunctionDefinition

if TYPE_CHECKING:
    from agent_core.agent import Agent

MAX_DEPTH = 4
"""So many runs may be inside one another; agents that ask each other in a circle end here."""

_NO_LIMIT = 86_400.0  # seconds; what the outer run has left is less, or nobody set a limit

_TASK: dict[Language, str] = {
    "en": "the task, complete in itself: this agent sees nothing of the conversation",
    "zh": "完整的任务：这个智能体看不到之前的对话",
}
_NO_ANSWER: dict[Language, str] = {
    "en": "{name} found no answer ({reason}); do it another way or answer with what you have",
    "zh": "{name} 没有找到答案（{reason}）；请换一种做法，或用已有的结果回答",
}
_TOO_DEEP: dict[Language, str] = {
    "en": "{name} was not asked: agents are already nested {depth} deep; answer it yourself",
    "zh": "没有询问 {name}：智能体已经嵌套了 {depth} 层；请自己回答",
}


def agent_tool(
    agent: Agent, name: str, description: str, *, timeout: float | None
) -> FunctionDefinition:
    """Make an agent a tool; see `Agent.as_tool`."""

    def ask(task: str) -> str:
        budget = current_budget()
        depth = 0 if budget is None else budget.depth + 1
        if depth >= MAX_DEPTH:
            raise ToolError(_TOO_DEEP[agent.language].format(name=name, depth=depth))
        result = agent.run(task)
        if result.answer is None:
            text = _NO_ANSWER[agent.language]
            raise ToolError(text.format(name=name, reason=result.stop_reason))
        return result.answer

    task = {"type": "string", "description": _TASK[agent.language]}
    parameters = {"type": "object", "properties": {"task": task}, "required": ["task"]}
    return FunctionDefinition(
        name,
        description,
        parameters,
        function=ask,
        timeout=_NO_LIMIT if timeout is None else timeout,
    )
