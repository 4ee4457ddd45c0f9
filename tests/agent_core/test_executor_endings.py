"""A tool that raises, hangs, is cancelled or needs approval ends in an observation."""

from __future__ import annotations

import signal
import threading
import time
from contextvars import ContextVar
from typing import Any

import pytest
from pydantic import BaseModel

from agent_core.errors import ToolError
from agent_core.messages import Action, JsonObject, ToolFailure
from agent_core.scrub import register_secret
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, define, running_call
from tests.agent_core.tools_support import execute, weather


@pytest.mark.parametrize(
    "error",
    [
        ValueError("went wrong"),
        SystemExit("went wrong"),
        KeyboardInterrupt("went wrong"),
        GeneratorExit("went wrong"),
        BaseException("went wrong"),
        ExceptionGroup("went wrong", [ValueError("inside")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_tool_raises_is_an_observation(error: BaseException) -> None:
    """Type and message, no traceback, and the run goes on."""

    def fail() -> None:
        raise error

    observation = execute(fail)
    assert observation.error is not None
    assert observation.error.kind == "exception"
    assert observation.error.type == type(error).__name__
    assert "went wrong" in observation.text
    assert "Traceback" not in observation.text


def test_a_tool_error_is_told_in_its_own_words() -> None:
    """`ToolError` is how a tool speaks to the model."""

    def fail() -> None:
        raise ToolError("ask for one city at a time")

    assert execute(fail).text == "Error: ask for one city at a time"


def test_an_exception_that_cannot_be_printed_is_named() -> None:
    """Even `str` of it may raise."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def fail() -> None:
        raise Broken

    assert "Broken" in execute(fail).text


def test_secrets_do_not_leave_through_an_exception_or_a_result() -> None:
    """Registered values and token shapes are masked; pydantic's input values are left out."""
    register_secret("hunter2-hunter2")

    def fail() -> None:
        raise RuntimeError("no access with hunter2-hunter2 or sk-abcdefgh12345678")

    class Login(BaseModel):
        password: int

    def leak() -> JsonObject:
        return {"header": "hunter2-hunter2"}

    def refuse() -> None:
        Login.model_validate({"password": "s3cret-word"})

    text = "".join(execute(tool).text for tool in (fail, leak, refuse))
    for secret in ("hunter2", "sk-abc", "s3cret-word"):
        assert secret not in text


def test_a_hanging_tool_is_given_up_in_time_and_learns_of_it() -> None:
    """The shortest of the tool's, the executor's and the run's time counts."""
    seen: list[Any] = []

    def hang() -> None:
        call = running_call()
        assert call is not None
        seen.append(call)
        call.cancel.wait(30)

    tool = define(hang, timeout=20)
    began = time.monotonic()
    observation = FunctionCallExecutor([tool]).execute(Action("hang", {}), timeout=0.05)
    assert time.monotonic() - began < 10
    assert observation.error == ToolFailure("timeout", "Timeout", "the tool did not return in time")
    assert "did not return in time" in observation.text
    assert seen[0].cancel.wait(10), "nobody waits any more, and the tool can see it"


def test_a_tools_own_timeout_counts() -> None:
    """It is shorter than the executor's here."""
    release = threading.Event()
    tool = define(lambda: release.wait(30), name="slow", timeout=0.05)
    observation = FunctionCallExecutor([tool], timeout=20).execute(Action("slow", {}))
    release.set()
    assert observation.error is not None
    assert observation.seconds < 15


@pytest.mark.parametrize("kind", ["timeout", "cancelled"])
def test_a_run_at_its_end_begins_nothing(kind: str) -> None:
    """A tool that nobody will wait for is not started."""
    ran: list[int] = []
    cancel = threading.Event()
    if kind == "cancelled":
        cancel.set()
    executor = FunctionCallExecutor([define(lambda: ran.append(1), name="tool")])
    left = 0.0 if kind == "timeout" else 10.0
    observation = executor.execute(Action("tool", {}), timeout=left, cancel=cancel)
    assert observation.error is not None
    assert observation.error.kind == kind
    assert ran == []


def test_cancelling_ends_the_wait() -> None:
    """Set from another thread while the tool runs."""
    cancel, release = threading.Event(), threading.Event()

    def hang() -> None:
        cancel.set()
        release.wait(30)

    observation = FunctionCallExecutor([define(hang)]).execute(Action("hang", {}), cancel=cancel)
    release.set()
    assert observation.error is not None
    assert observation.error.kind == "cancelled"


def test_a_child_may_ask_how_much_time_is_left() -> None:
    """`running_call` gives the deadline inside a tool, and None outside."""

    def left() -> float:
        call = running_call()
        assert call is not None
        return call.time_left()

    assert running_call() is None
    assert 0 < float(execute(left, timeout=5).text) <= 5


def test_a_real_ctrl_c_is_not_swallowed() -> None:
    """It belongs to whoever runs the agent; the tool is left behind and learns of it."""
    seen: list[Any] = []

    def interrupt() -> None:
        call = running_call()
        assert call is not None
        seen.append(call)
        signal.pthread_kill(main, signal.SIGINT)
        call.cancel.wait(30)

    main = threading.get_ident()
    executor = FunctionCallExecutor([interrupt])
    with pytest.raises(KeyboardInterrupt):
        executor.execute(Action("interrupt", {}))
    assert seen[0].cancel.is_set()


def test_context_variables_reach_the_tool() -> None:
    """And what the tool sets does not come back."""
    variable: ContextVar[str] = ContextVar("variable", default="none")
    variable.set("outside")

    def look() -> str:
        seen = variable.get()
        variable.set("inside")
        return seen

    assert execute(look).text == "outside"
    assert variable.get() == "outside"


def test_tools_run_in_daemon_threads() -> None:
    """One that is left behind does not keep the process alive."""
    assert execute(lambda: threading.current_thread().daemon).text == "true"


@pytest.mark.parametrize(
    ("approve", "kind"),
    [
        (lambda given: True, None),
        (lambda given: False, "not_approved"),
        (lambda given: 1 / 0, "not_approved"),
    ],
    ids=["yes", "no", "broken"],
)
def test_a_tool_that_needs_approval_runs_only_with_it(approve: Any, kind: str | None) -> None:
    """Whoever cannot be asked has not agreed."""
    ran: list[str] = []
    tool = FunctionDefinition(
        "tool",
        parameters={"properties": {"path": {"type": "string"}}},
        function=lambda **given: ran.append(given["path"]),
        approve=approve,
    )
    observation = FunctionCallExecutor([tool]).execute(Action("tool", {"path": "/"}))
    assert (observation.error.kind if observation.error else None) == kind
    assert ran == (["/"] if kind is None else [])


def test_approval_sees_what_would_run_and_cannot_change_it() -> None:
    """It is asked with coerced arguments and defaults, on a copy."""
    asked: list[JsonObject] = []

    def approve(arguments: JsonObject) -> bool:
        asked.append(dict(arguments))
        arguments["days"] = 99
        return True

    tool = define(weather, approve=approve)
    observation = FunctionCallExecutor([tool]).execute(
        Action("weather", {"city": "x", "days": "3"})
    )
    assert asked == [{"city": "x", "days": 3}]
    assert observation.arguments == {"city": "x", "days": 3}
