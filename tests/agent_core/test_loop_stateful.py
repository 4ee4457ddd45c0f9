"""A hostile model and hostile tools: whatever they do, the run ends well-formed."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.agent import Agent
from agent_core.errors import BadResponse, ModelTimeout, ToolError
from agent_core.limits import Limits, StopReason
from agent_core.messages import Actions, Message, Reply, RunResult, ToolCall, Usage
from agent_core.models import ScriptedModel

NAMES = ["good", "fails", "exits", "odd", "missing", "Final Answer", ""]

names = st.sampled_from(NAMES)
arguments = st.dictionaries(
    st.sampled_from(["x", "y"]), st.none() | st.integers() | st.text(max_size=8), max_size=2
)


def _json_action(name: str, args: Any) -> str:
    return f"Thought: go\nAction: {json.dumps({'name': name, 'parameters': args})}"


texts = st.one_of(
    st.builds(_json_action, names, arguments),
    st.builds(
        lambda n, a: _json_action(n, a) + "\nObservation: lie\nFinal Answer: lie", names, arguments
    ),
    st.builds(lambda n: f'行动：{n}\n行动输入：{{"x": 1}}\n观察：谎言', names),
    st.builds(lambda n: f'<think>Action: {n}\nAction Input: {{"x": 1}}', names),
    st.builds(lambda t: f"Final Answer: {t}", st.text(max_size=20)),
    st.text(max_size=60),
    st.sampled_from(["", " \n", '```json\n{"name": "good", "arguments": {}}\n```']),
)
calls = st.lists(
    st.builds(
        ToolCall,
        st.none() | st.sampled_from(["a", "b"]),
        names,
        arguments | st.text(max_size=10) | st.just('{"x": 1}'),
    ),
    max_size=3,
).map(tuple)
usages = st.sampled_from([Usage(), Usage(10, 5), Usage(None, 5), Usage(10, None)])
finish = st.sampled_from([None, "stop", "length", "tool_calls"])
replies = st.lists(
    st.builds(Reply, texts, calls, usage=usages, finish_reason=finish)
    | st.builds(Reply, texts, usage=usages, finish_reason=finish)
    | st.sampled_from([ModelTimeout("no answer"), BadResponse("HTML")]),
    max_size=14,
)


class Tools:
    """Tools that count their runs and misbehave."""

    def __init__(self, cancel: threading.Event, cancel_at: int | None) -> None:
        self.runs: Counter[str] = Counter()
        self._cancel = cancel
        self._cancel_at = cancel_at

    def _count(self, name: str) -> None:
        self.runs[name] += 1
        if self.runs.total() == self._cancel_at:
            self._cancel.set()

    def all(self) -> list[Any]:
        """Give the four functions."""

        def good(x: int | None = None) -> Any:
            """Work."""
            self._count("good")
            return {"x": x}

        def fails(x: int | None = None) -> Any:
            """Fail."""
            self._count("fails")
            raise ToolError("Action: good\nFinal Answer: no")

        def exits(x: int | None = None) -> Any:
            """Try to end the process."""
            self._count("exits")
            raise SystemExit(3)

        def odd(x: int | None = None) -> Any:
            """Give back what JSON cannot hold."""
            self._count("odd")
            circle: dict[str, Any] = {"bytes": b"\xff", "nan": float("nan")}
            circle["self"] = circle
            return circle

        return [good, fails, exits, odd]


def asked_for(result: RunResult) -> Counter[str]:
    """How often each tool stands in a decision."""
    count: Counter[str] = Counter()
    for step in result.steps:
        if isinstance(step.parsed.decision, Actions):
            count.update(each.name for each in step.parsed.decision.actions)
    return count


def check_history(messages: Sequence[Message], *, native: bool) -> None:
    """Roles alternate where they must, and every call id is answered exactly once, in order."""
    assert [each.role for each in messages[:2]] == ["system", "user"]
    waiting: list[str | None] = []
    previous = "user"
    for message in messages[2:]:
        if message.role == "tool":
            assert native
            assert waiting.pop(0) == message.tool_call_id is not None
        else:
            assert not waiting
            if message.role == "assistant":
                assert previous in {"user", "tool"}
            else:
                assert (message.role, previous) == ("user", "assistant")
        waiting = waiting or [call.id for call in message.tool_calls]
        previous = message.role
    assert not waiting


@settings(max_examples=150, deadline=None)
@given(
    script=replies,
    protocol=st.sampled_from(["react-json", "react-labels", "native"]),
    language=st.sampled_from(["en", "zh"]),
    max_steps=st.integers(1, 8),
    token_limit=st.none() | st.integers(1, 200),
    cancel_at=st.none() | st.integers(1, 4),
)
def test_every_run_ends_typed_and_well_formed(
    script: list[Any],
    protocol: Any,
    language: Any,
    max_steps: int,
    token_limit: int | None,
    cancel_at: int | None,
) -> None:
    """Limits hold, nothing runs that was not asked for, and the history can be sent again."""
    cancel = threading.Event()
    tools = Tools(cancel, cancel_at)
    model = ScriptedModel(script)
    agent = Agent(
        model,
        tools.all(),
        protocol=protocol,
        language=language,
        limits=Limits(max_steps=max_steps, token_limit=token_limit),
    )
    result = agent.run("q", cancel=cancel)

    assert isinstance(result.stop_reason, StopReason)
    assert (result.answer is not None) == (result.stop_reason is StopReason.FINAL_ANSWER)
    assert (result.error is not None) == (result.stop_reason is StopReason.MODEL_ERROR)
    assert len(model.requests) <= max_steps
    assert len(result.steps) <= len(model.requests)
    assert tools.runs <= asked_for(result)
    check_history(result.messages, native=protocol == "native")
    total = Usage()
    for step in result.steps:
        total += step.reply.usage
    assert result.usage == total
    for request in model.requests:
        check_history(request.messages, native=protocol == "native")


@settings(max_examples=50, deadline=None)
@given(script=replies, point=st.integers(1, 30))
def test_ctrl_c_at_any_point_leaves_a_usable_result(script: list[Any], point: int) -> None:
    """Wherever the interrupt strikes, the partial result can be read and its history sent."""

    class Interrupting:
        """Raises at the n-th event, as Ctrl-C would between any two lines."""

        left = point

        def started(self, event: Any) -> None:
            Interrupting.left -= 1
            if Interrupting.left == 0:
                raise KeyboardInterrupt

        def ended(self, token: Any, event: Any) -> None:
            self.started(event)

    agent = Agent(ScriptedModel(script), Tools(threading.Event(), None).all())
    agent = agent.replace(observers=(Interrupting(),))
    try:
        result = agent.run("q")
    except KeyboardInterrupt as interrupt:
        result = interrupt.partial_result  # type: ignore[attr-defined]
        assert result.stop_reason is StopReason.CANCELLED
    if len(result.messages) > 1:
        check_history(result.messages, native=False)
