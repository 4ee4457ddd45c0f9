"""Execute an action: look up, coerce, fill in, validate, approve, run, clean, cap."""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from copy import copy, deepcopy
from threading import Event
from typing import Any, Self

from agent_core.errors import ConfigError, ToolError
from agent_core.events import ToolEnded, ToolStarted, scope
from agent_core.gears import ToolRunner
from agent_core.messages import (
    Action,
    JsonObject,
    JsonValue,
    Language,
    Observation,
    ToolFailure,
)
from agent_core.tools.arguments import key_of, prepare
from agent_core.tools.definition import FunctionDefinition, define
from agent_core.tools.inert import inert
from agent_core.tools.jsonable import clean_text, cut_middle, describe_exception, jsonable
from agent_core.tools.runner import ThreadRunner
from agent_core.tools.schema import Path, json_path
from agent_core.tools.texts import TEXTS
from agent_core.tools.wording import explain

DEFAULT_DEBUG_KEYS = frozenset({
    "_debug",
    "debug",
    "debug_info",
    "_trace",
    "trace_id",
    "span_id",
    "_internal",
    "_meta",
    "_raw",
})
"""Keys that tools add for their developers; they cost the model tokens and tell it nothing."""


class FunctionCallExecutor:
    """Executes actions with a set of tools.

    Args:
        tools: plain functions or definitions; names must differ.
        runner: what calls the function. A replay puts its tape here.
        language: of the texts for the model.
        timeout: seconds for a tool that has no timeout of its own.
        max_chars: an observation longer than this keeps its head and its tail.
        drop_keys: keys removed from results, unless a tool names its own.

    Raises:
        ConfigError: two tools have the same name, or a number is not positive.
    """

    def __init__(
        self,
        tools: Iterable[Callable[..., Any] | FunctionDefinition] = (),
        *,
        runner: ToolRunner | None = None,
        language: Language = "en",
        timeout: float = 30.0,
        max_chars: int = 8_000,
        drop_keys: Iterable[str] = DEFAULT_DEBUG_KEYS,
    ) -> None:
        self._definitions: dict[str, FunctionDefinition] = {}
        for each in tools:
            definition = each if isinstance(each, FunctionDefinition) else define(each)
            if definition.name in self._definitions:
                raise ConfigError(f"two tools are named {definition.name!r}; rename one of them")
            self._definitions[definition.name] = definition
        if not timeout > 0 or max_chars <= 0:
            raise ConfigError(
                f"timeout and max_chars must be positive, got {timeout!r} and {max_chars!r}"
            )
        if language not in TEXTS:
            raise ConfigError(f"language must be one of {sorted(TEXTS)}, got {language!r}")
        self.runner = runner or ThreadRunner()
        self.language: Language = language
        self.timeout = timeout
        self.max_chars = max_chars
        self.drop_keys = frozenset(drop_keys)

    @property
    def definitions(self) -> Mapping[str, FunctionDefinition]:
        """The tools by name, in the order they were given."""
        return self._definitions

    def replace(self, **changes: Any) -> Self:
        """Give a copy with some arguments of the constructor changed.

        A subclass stays what it is; its own constructor is not called again.
        """
        arguments = FunctionCallExecutor.__init__.__kwdefaults__ or ()
        kept = {key: getattr(self, key) for key in arguments}
        kept["tools"] = self._definitions.values()
        twin = copy(self)
        FunctionCallExecutor.__init__(twin, **{**kept, **changes})
        return twin

    def execute(
        self, action: Action, *, timeout: float | None = None, cancel: Event | None = None
    ) -> Observation:
        """Execute one action. Whatever happens becomes an observation, never an `Exception`.

        Args:
            timeout: what is left of the run, in seconds; a tool's own timeout may be shorter.
            cancel: set it to stop waiting for the tool.
        """
        call = _Call(self, action)
        with scope(ToolStarted(action, key_of(action, call.prepared))) as execution:
            observation = call.execute(timeout, cancel)
            execution.end(ToolEnded(observation, call.raw))
        return observation


class _Call:
    """One action on its way through the executor; its steps in the order they happen."""

    def __init__(self, executor: FunctionCallExecutor, action: Action) -> None:
        self.executor = executor
        self.action = action
        self.texts = TEXTS[executor.language]
        self.definition = executor.definitions.get(action.name)
        self.prepared = (
            prepare(self.definition, action.arguments, executor.language)
            if self.definition is not None
            else None
        )
        self.arguments: JsonObject | None = None
        self.raw: JsonValue = None
        self.seconds = 0.0

    def execute(self, timeout: float | None, cancel: Event | None) -> Observation:
        if self.definition is None or self.prepared is None:
            return self._failed(self._unknown())
        definition, arguments = self.definition, self.prepared.value
        if self.prepared.errors:
            problems = explain(self.prepared.errors, self.executor.language)
            return self._failed(ToolFailure("invalid_arguments", "InvalidArguments", problems))
        assert isinstance(arguments, dict)
        refusal = self._refusal(definition, arguments)
        if refusal is not None:
            return self._failed(refusal)
        outcome = self._run(definition, arguments, timeout, cancel)
        if isinstance(outcome, ToolFailure):
            if outcome.kind == "invalid_arguments":  # its own types refused them: it did not run
                self.arguments = None
            return self._failed(outcome)
        self.raw = outcome
        return self._succeeded(definition, outcome)

    def _unknown(self) -> ToolFailure:
        names = list(self.executor.definitions)
        message = self.texts.available.format(names=", ".join(names) or self.texts.none)
        near = difflib.get_close_matches(self.action.name[:64], names, n=1)
        if near:
            message += self.texts.did_you_mean.format(name=near[0])
        return ToolFailure("unknown_tool", "UnknownTool", message)

    def _refusal(self, definition: FunctionDefinition, arguments: JsonObject) -> ToolFailure | None:
        if definition.approve is None:
            return None
        try:
            if definition.approve(deepcopy(arguments)):
                return None
            return ToolFailure("not_approved", "NotApproved", "")
        except Exception as error:  # a question that fails is no consent
            return ToolFailure("not_approved", type(error).__name__, describe_exception(error))

    def _run(
        self,
        definition: FunctionDefinition,
        arguments: JsonObject,
        timeout: float | None,
        cancel: Event | None,
    ) -> JsonValue | ToolFailure:
        allowed = definition.timeout or self.executor.timeout
        allowed = allowed if timeout is None else min(allowed, timeout)
        self.arguments = deepcopy(arguments)  # the tool may change what it is given
        began = time.monotonic()
        try:
            return self.executor.runner.run(definition, arguments, timeout=allowed, cancel=cancel)
        except Exception as error:  # a runner of someone else's
            return ToolFailure("exception", type(error).__name__, describe_exception(error))
        finally:
            self.seconds = time.monotonic() - began

    def _succeeded(self, definition: FunctionDefinition, value: JsonValue) -> Observation:
        drop = self.executor.drop_keys if definition.drop is None else definition.drop
        dropped: list[str] = []
        value = _without(value, drop, (), dropped)
        text = value if isinstance(value, str) else _json(value)
        if value is None or not text.strip():
            text = self.texts.no_output
        return self._observation(text, dropped=tuple(dropped))

    def _failed(self, failure: ToolFailure) -> Observation:
        """Put a failure into words for the model; the failure itself stays as it was."""
        name, texts = self.action.name[:64], self.texts
        if failure.kind == "exception" and failure.type == ToolError.__name__:
            text = texts.tool_error.format(message=failure.message)
        else:
            template: str = getattr(texts, failure.kind)
            text = template.format(name=name, type=failure.type, message=failure.message)
        return self._observation(text.rstrip(), error=failure)

    def _observation(
        self, text: str, *, error: ToolFailure | None = None, dropped: tuple[str, ...] = ()
    ) -> Observation:
        limit, total = self.executor.max_chars, len(text)
        marker = self.texts.cut.format(total=total)
        # Cut twice: before the work, since most of a huge text is not kept anyway, and after
        # it, since quoting makes text longer.
        text = cut_middle(text, 4 * limit, marker)
        text = inert(clean_text(text), tuple(self.executor.definitions))
        capped = cut_middle(text, limit, marker)
        text_was_cut = total > 4 * limit or len(text) > limit
        return Observation(
            action_id=self.action.id,
            tool=self.action.name,
            text=capped,
            ok=error is None,
            error=error,
            coercions=self.prepared.coercions if self.prepared else (),
            dropped=dropped,
            seconds=self.seconds,
            truncated_from=total if text_was_cut else None,
            arguments=self.arguments,
        )


def _json(value: JsonValue) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):  # a runner of someone else's gave what is no JSON
        return json.dumps(jsonable(value), ensure_ascii=False)


def _without(value: JsonValue, keys: frozenset[str], path: Path, dropped: list[str]) -> JsonValue:
    """A copy without the named keys; their paths are added to `dropped`."""
    if isinstance(value, list):
        return [_without(each, keys, (*path, n), dropped) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, each in value.items():
        if key in keys:
            dropped.append(json_path((*path, key)))
        else:
            kept[key] = _without(each, keys, (*path, key), dropped)
    return kept
