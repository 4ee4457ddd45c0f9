"""Run a tool in a thread of its own: on time, whatever the tool does."""

from __future__ import annotations

import inspect
import time
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from agent_core.messages import JsonObject, JsonValue, ToolFailure
from agent_core.tools.definition import FunctionDefinition
from agent_core.tools.jsonable import describe_exception, describe_refusal, jsonable

_POLL = 0.02  # seconds between two looks at the cancel event
_MAX_ASYNC_ITEMS = 10_000
_CANCELLED = ToolFailure("cancelled", "Cancelled", "the run was cancelled")
_TIMED_OUT = ToolFailure("timeout", "Timeout", "the tool did not return in time")


@dataclass(frozen=True, slots=True)
class RunningCall:
    """What a tool may ask about its own call; a child agent inherits both.

    Attributes:
        deadline: on `time.monotonic`'s scale.
        cancel: set when nobody waits for the result any more.
    """

    deadline: float
    cancel: Event = field(default_factory=Event)

    def time_left(self) -> float:
        """Seconds until the call is given up."""
        return max(0.0, self.deadline - time.monotonic())


_current: ContextVar[RunningCall | None] = ContextVar("running_call", default=None)


def running_call() -> RunningCall | None:
    """The call that this code runs in, or None outside a tool."""
    return _current.get()


class ThreadRunner:
    """Runs each call in a daemon thread with the caller's context variables.

    A tool past its time, or whose run was cancelled, is left behind: its thread goes on until
    the tool returns, holds up neither the run nor the exit of the process, and its result is
    dropped.
    """

    def run(
        self,
        tool: FunctionDefinition,
        arguments: JsonObject,
        *,
        timeout: float,
        cancel: Event | None = None,
    ) -> JsonValue | ToolFailure:
        """Call the tool; give its JSON-safe result, or why there is none. `cancel` is obeyed
        within a few hundredths of a second."""
        if cancel and cancel.is_set():
            return _CANCELLED
        if timeout <= 0:  # do not begin what nobody will wait for
            return _TIMED_OUT
        call = RunningCall(time.monotonic() + timeout)
        work = _Work(tool, arguments)
        context = copy_context()
        context.run(_current.set, call)
        thread = Thread(target=context.run, args=(work,), name=f"tool-{tool.name}", daemon=True)
        try:
            thread.start()
            return work.wait(call, cancel)
        except RuntimeError as error:  # from `start`: the machine has no thread left
            return ToolFailure("exception", type(error).__name__, describe_exception(error))
        finally:  # also when Ctrl-C comes, even before the thread runs: nobody waits any more
            call.cancel.set()


class _Work:
    """One call, from converting its arguments to a JSON-safe result."""

    def __init__(self, tool: FunctionDefinition, arguments: JsonObject) -> None:
        self.tool = tool
        self.arguments = arguments
        self.done = Event()
        self.outcome: JsonValue | ToolFailure = None

    def __call__(self) -> None:
        try:
            self.outcome = self._call()
        except BaseException as error:  # SystemExit and the like, too, are only this tool's
            self.outcome = ToolFailure("exception", type(error).__name__, describe_exception(error))
        finally:
            self.done.set()

    def _call(self) -> JsonValue | ToolFailure:
        try:
            values = self.tool.convert(self.arguments)
        except Exception as error:  # a validator of the tool's own types refused
            return ToolFailure("invalid_arguments", type(error).__name__, describe_refusal(error))
        result = self.tool.function(**values)
        if inspect.isawaitable(result) or isinstance(result, AsyncIterator):
            import asyncio  # noqa: PLC0415 - 40 ms that only such tools need

            result = asyncio.run(_finished(result))
        if not isinstance(result, Iterator):
            return jsonable(result)
        failures: list[Exception] = []
        drawn = jsonable(_drawn(result, failures))  # which bounds what it yields
        if failures:
            raise failures[0]
        return drawn

    def wait(self, call: RunningCall, cancel: Event | None) -> JsonValue | ToolFailure:
        while True:
            left = call.time_left()
            if self.done.wait(min(left, _POLL) if cancel else left):
                return self.outcome
            if cancel and cancel.is_set():
                return _CANCELLED
            if left == 0.0:
                return _TIMED_OUT


def _drawn(items: Iterator[Any], failures: list[Exception]) -> Iterator[Any]:
    """What a generator yields. It is the tool's own code: that it raises is the tool's failure."""
    try:
        yield from items
    except Exception as error:
        failures.append(error)


async def _finished(result: Any) -> Any:
    """Await a coroutine; collect what an async generator yields, up to a bound."""
    if not isinstance(result, AsyncIterator):
        return await result
    items = []
    async for each in result:
        items.append(each)
        if len(items) >= _MAX_ASYNC_ITEMS:
            break
    return items
