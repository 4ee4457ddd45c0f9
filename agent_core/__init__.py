"""A compact ReAct agent whose every gear can be seen and swapped.

The names below are imported when they are first used: `import agent_core` alone costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_core.agent import Agent as Agent
    from agent_core.clock import ManualClock as ManualClock
    from agent_core.clock import SystemClock as SystemClock
    from agent_core.errors import AgentError as AgentError
    from agent_core.errors import ConfigError as ConfigError
    from agent_core.errors import ModelError as ModelError
    from agent_core.errors import ToolError as ToolError
    from agent_core.limits import Limits as Limits
    from agent_core.limits import StopReason as StopReason
    from agent_core.messages import Message as Message
    from agent_core.messages import Reply as Reply
    from agent_core.messages import RunResult as RunResult
    from agent_core.models import OllamaChat as OllamaChat
    from agent_core.models import OpenAIChat as OpenAIChat
    from agent_core.models import ScriptedModel as ScriptedModel
    from agent_core.parsing import parse_reply as parse_reply
    from agent_core.tools import FunctionDefinition as FunctionDefinition
    from agent_core.tools import tool as tool

_HOMES = {
    "Agent": "agent",
    "AgentError": "errors",
    "ConfigError": "errors",
    "FunctionDefinition": "tools",
    "Limits": "limits",
    "ManualClock": "clock",
    "Message": "messages",
    "ModelError": "errors",
    "OllamaChat": "models",
    "OpenAIChat": "models",
    "Reply": "messages",
    "RunResult": "messages",
    "ScriptedModel": "models",
    "StopReason": "limits",
    "SystemClock": "clock",
    "ToolError": "errors",
    "parse_reply": "parsing",
    "tool": "tools",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'agent_core' has no attribute {name!r}")
    return getattr(import_module(f"agent_core.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
