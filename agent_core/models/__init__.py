"""Chat models: Ollama, OpenAI-compatible servers, a script, and a router."""

from agent_core.models.ollama import OllamaChat
from agent_core.models.openai import OpenAIChat
from agent_core.models.policy import RetryPolicy, Timeouts
from agent_core.models.router import Route, RouterChat
from agent_core.models.scripted import ScriptedModel, ScriptedRequest
from agent_core.models.secret import Secret

__all__ = [
    "OllamaChat",
    "OpenAIChat",
    "RetryPolicy",
    "Route",
    "RouterChat",
    "ScriptedModel",
    "ScriptedRequest",
    "Secret",
    "Timeouts",
]
