"""Tools: what they are, how their arguments are made valid, how they are run."""

from agent_core.tools.arguments import identify
from agent_core.tools.calculator import calculator
from agent_core.tools.coercion import coerce
from agent_core.tools.current_time import current_time
from agent_core.tools.definition import FunctionDefinition, define, tool
from agent_core.tools.executor import DEFAULT_DEBUG_KEYS, FunctionCallExecutor
from agent_core.tools.inert import inert
from agent_core.tools.jsonable import clean_text, jsonable
from agent_core.tools.runner import RunningCall, ThreadRunner, running_call
from agent_core.tools.validation import SchemaValidator
from agent_core.tools.wording import ArgumentError

__all__ = [
    "DEFAULT_DEBUG_KEYS",
    "ArgumentError",
    "FunctionCallExecutor",
    "FunctionDefinition",
    "RunningCall",
    "SchemaValidator",
    "ThreadRunner",
    "calculator",
    "clean_text",
    "coerce",
    "current_time",
    "define",
    "identify",
    "inert",
    "jsonable",
    "running_call",
    "tool",
]
