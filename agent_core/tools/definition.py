"""What a tool is: a function, what the model is told of it, and how it may be run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from agent_core.errors import ConfigError
from agent_core.messages import JsonObject
from agent_core.tools.schema import modern
from agent_core.tools.signature import describe_function
from agent_core.tools.validation import SchemaValidator

_NAME = re.compile(r"[\w-]{1,64}")

Approve = Callable[[JsonObject], bool]
Convert = Callable[[JsonObject], dict[str, Any]]


@dataclass(frozen=True)
class FunctionDefinition:
    """A tool. `define` and `tool` make one from a function; this constructor takes any schema.

    Attributes:
        name: letters (Chinese ones too), digits, `_` and `-`; at most 64.
        description: what the model is told.
        parameters: a JSON Schema 2020-12 of an object; None for a tool without arguments.
            Unless the function takes `**kwargs`, arguments that the schema does not name are
            refused.
        function: called with the arguments as keywords; it may be `async`.
        timeout: seconds it may take; None leaves it to the executor.
        repeatable: the same call again and again is fine (polling).
        approve: asked with the arguments before each call; False, or raising, refuses it.
        drop: keys removed from the result wherever they stand; None means the executor's.
        category: tools of one category stand together in the prompt, under its name.
        convert: valid arguments to the values that the function takes.

    Raises:
        ConfigError: a name, schema or timeout that cannot work.
    """

    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=dict)
    function: Callable[..., Any] = field(kw_only=True)
    timeout: float | None = None
    repeatable: bool = False
    approve: Approve | None = None
    drop: frozenset[str] | None = None
    category: str | None = None
    convert: Convert = field(default=dict, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"a tool's name must be 1 to 64 letters, digits, '_' or '-', got {self.name!r}; "
                "pass name=... to choose one"
            )
        if not callable(self.function):
            raise ConfigError(f"tool {self.name!r}: expected a function, got {self.function!r}")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(f"tool {self.name!r}: timeout must be positive, got {self.timeout!r}")
        if isinstance(self.drop, str):
            raise ConfigError(f"tool {self.name!r}: drop must be a set of keys, got {self.drop!r}")
        object.__setattr__(self, "parameters", self._checked_parameters())

    @cached_property
    def validator(self) -> SchemaValidator:
        """The compiled schema of the arguments."""
        return SchemaValidator(self.parameters)

    def as_api_tool(self) -> JsonObject:
        """The form in which both APIs take a tool."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": deepcopy(self.parameters),
        }
        return {"type": "function", "function": function}

    def _checked_parameters(self) -> JsonObject:
        parameters = deepcopy(self.parameters) or {}
        if not isinstance(parameters, dict):
            raise ConfigError(
                f"tool {self.name!r}: parameters must be a JSON Schema, got {parameters!r}"
            )
        parameters = {"type": "object", "properties": {}, **modern(parameters)}
        if parameters["type"] != "object":
            raise ConfigError(
                f"tool {self.name!r}: the arguments must be an object, "
                f"got a schema of type {parameters['type']!r}"
            )
        try:
            SchemaValidator(parameters)
        except ConfigError as error:
            raise ConfigError(f"tool {self.name!r}: {error}") from error
        self._close(parameters)
        return parameters

    def _close(self, parameters: JsonObject) -> None:
        """Without `**kwargs`, an argument that the function does not know would be a TypeError."""
        try:
            accepted = inspect.signature(self.function).parameters
        except (ValueError, TypeError):  # some built-ins have no signature
            return
        if any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
            return
        unknown = sorted(parameters["properties"].keys() - accepted.keys())
        if unknown:
            raise ConfigError(
                f"tool {self.name!r}: its schema names {unknown}, but the function takes "
                f"{sorted(accepted)}"
            )
        parameters.setdefault("additionalProperties", False)


def define(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    repeatable: bool = False,
    approve: Approve | None = None,
    drop: frozenset[str] | None = None,
    category: str | None = None,
) -> FunctionDefinition:
    """Make a tool from a function: its signature gives the schema, its docstring the words.

    Raises:
        ConfigError: a parameter that no JSON object can fill (`*args`), or a type that JSON
            Schema cannot describe.
    """
    described = describe_function(function)
    return FunctionDefinition(
        name=described.name if name is None else name,
        description=described.description if description is None else description,
        parameters=described.parameters,
        function=function,
        timeout=timeout,
        repeatable=repeatable,
        approve=approve,
        drop=drop,
        category=category,
        convert=described.convert,
    )


@overload
def tool(function: Callable[..., Any], /) -> FunctionDefinition: ...
@overload
def tool(**overrides: Any) -> Callable[[Callable[..., Any]], FunctionDefinition]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **overrides: Any
) -> FunctionDefinition | Callable[[Callable[..., Any]], FunctionDefinition]:
    """Decorate a function to make it a tool: `@tool`, or `@tool(timeout=5)` as in `define`."""
    if function is not None:
        return define(function)
    return lambda decorated: define(decorated, **overrides)
