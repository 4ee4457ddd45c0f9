"""An agent with one tool on scripted replies, for the tests of the loop."""

from __future__ import annotations

from typing import Any

from agent_core.agent import Agent
from agent_core.messages import RunResult
from agent_core.models import ScriptedModel

SEARCH = (
    "Thought: look it up because I do not know.\n"
    'Action: {"name": "search", "parameters": {"query": "%s"}}'
)

ANSWER = "Thought: enough.\nFinal Answer: forty-two"


def search(query: str) -> str:
    """Search the archive.

    Args:
        query: what to look for
    """
    return f"found {query}"


def run(*replies: Any, **options: Any) -> RunResult:
    """Run an agent with one tool on scripted replies."""
    options.setdefault("tools", [search])
    tools = options.pop("tools")
    question = options.pop("question", "What is it?")
    return Agent(ScriptedModel(replies), tools, **options).run(question)
