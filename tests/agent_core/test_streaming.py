"""A run as a stream of events: complete, in order, and ended by whoever stops listening."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.agent import Agent
from agent_core.answer_text import AnswerText
from agent_core.errors import ServerError
from agent_core.limits import StopReason
from agent_core.messages import Action, Observation, Reply, RunResult, ToolCall
from agent_core.models import ScriptedModel
from agent_core.streaming import AnswerPiece, StreamEvent, Thought

GUARD = 20.0  # seconds: only against hanging
LONG = "Forty-two is the answer to that, as far as anybody here can tell."


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def act(query: str) -> str:
    """A thought and an action."""
    return (
        f"Thought: look\nAction: {json.dumps({'name': 'search', 'parameters': {'query': query}})}"
    )


def shown(events: Iterable[StreamEvent]) -> str:
    """What a user has on the screen in the end."""
    text = ""
    for event in events:
        if isinstance(event, AnswerPiece):
            text = event.text if event.replaces else text + event.text
    return text


def test_events_come_in_the_order_of_happening() -> None:
    """Thought, action, observation, answer, result; ids pair actions with observations."""
    agent = Agent(ScriptedModel([act("it"), f"Thought: done\nFinal Answer: {LONG}"]), [search])
    events = list(agent.stream("q"))
    assert events[:3] == [
        Thought("look"),
        Action("search", {"query": "it"}, "call_1_1"),
        events[2],
    ]
    assert isinstance(events[2], Observation)
    assert (events[2].action_id, events[2].text) == ("call_1_1", "found it")
    result = events[-1]
    assert isinstance(result, RunResult)
    assert shown(events) == result.answer == LONG
    pieces = [each for each in events if isinstance(each, AnswerPiece)]
    assert len(pieces) > 5  # it grows
    assert [each.text for each in events if isinstance(each, Thought)] == ["look", "done"]
    assert events.index(Thought("done")) < events.index(pieces[0])


@pytest.mark.parametrize(
    ("protocol", "reply"),
    [
        ("react-json", f"Thought: t\n**Final Answer:** {LONG}\nObservation: made up"),
        (
            "react-labels",
            f"思考：想\n最终答案：{LONG}\n第二行，也属于这个回答，并且足够长，不会是标签。",
        ),
        ("native", f"{LONG}\n\n- one\n- two"),
        ("native", "Short."),
        ("react-json", "Final Answer: a\n```\nObservation: quoted\n```\nend"),
    ],
)
def test_pieces_add_up_to_the_answer(protocol: Any, reply: str) -> None:
    """Whatever the protocol, the screen shows in the end what the result holds."""
    events = list(Agent(ScriptedModel([reply]), [search], protocol=protocol).stream("q"))
    result = events[-1]
    assert isinstance(result, RunResult)
    assert result.answer
    assert shown(events) == result.answer


@pytest.mark.parametrize("end", ["\nObservation\nmade up", "\nObservation: no", "</answer>"])
def test_what_may_end_the_answer_is_held_back(end: str) -> None:
    """Nothing is shown that has to be taken back."""
    events = list(Agent(ScriptedModel([f"Final Answer: {LONG}{end}"]), [search]).stream("q"))
    pieces = [each for each in events if isinstance(each, AnswerPiece)]
    assert "".join(each.text for each in pieces) == LONG
    assert not any(each.replaces for each in pieces)


@settings(max_examples=150, deadline=None)
@given(
    lines=st.lists(
        st.sampled_from([
            "Thought: hm", "Final Answer: yes, it is", "Final Answer:", "最终答案：是的",
            "Observation: no", "<think>", "</think>", "```", LONG, "- a <b> c", "  ", "Final",
            'Action: {"name": "search", "parameters": {"query": "x"}}',
        ]),
        max_size=6,
    ),
    protocol=st.sampled_from(["react-json", "react-labels", "native"]),
    called=st.booleans(),
)  # fmt: skip
def test_the_screen_is_right_for_any_reply(lines: list[str], protocol: Any, called: bool) -> None:
    """A wrong guess about a growing reply is taken back."""
    calls = (ToolCall("c", "search", {"query": "x"}),) if called and protocol == "native" else ()
    first = Reply("\n".join(lines), calls, finish_reason="stop")
    replies: list[Reply | str] = [
        first,
        "Final Answer: end",
        "Final Answer: end",
        "Final Answer: end",
    ]
    events = list(Agent(ScriptedModel(replies), [search], protocol=protocol).stream("q"))
    result = events[-1]
    assert isinstance(result, RunResult)
    assert shown(events) == (result.answer or "")


def test_a_quoted_label_is_no_answer() -> None:
    """Inside thinking nothing is shown."""
    watch = AnswerText("react-json")
    text = f"<think>\nFinal Answer: {LONG}\n</think>\n"
    assert "".join(map(watch.feed, text)) == ""


def test_refused_actions_are_observed_too() -> None:
    """An action that is not run still has its observation in the stream."""
    agent = Agent(ScriptedModel([*[act("a")] * 4, "Final Answer: b"]), [search])
    seen = [each for each in agent.stream("q") if isinstance(each, Observation)]
    assert [each.ok for each in seen] == [True, True, False, False]
    assert [each.action_id for each in seen] == [f"call_{n}_1" for n in range(1, 5)]


def test_what_happens_inside_a_tool_stays_there() -> None:
    """The events of an agent inside a tool are not the user's."""
    inner = Agent(ScriptedModel([act("inside"), f"Final Answer: {LONG}"]), [search])
    ask = 'Action: {"name": "ask", "parameters": {"task": "t"}}'
    outer = Agent(ScriptedModel([ask, "Final Answer: outer"]), [inner.as_tool("ask", "Asks.")])
    events = list(outer.stream("q"))
    assert [each.name for each in events if isinstance(each, Action)] == ["ask"]
    assert [each.tool for each in events if isinstance(each, Observation)] == ["ask"]
    assert shown(events) == "outer"


def test_leaving_the_stream_cancels_the_run() -> None:
    """The tool that runs is told, and the model is not asked again."""
    told = threading.Event()

    def wait() -> None:
        """Wait until nobody waits any more."""
        from agent_core.tools import running_call

        now = running_call()
        assert now is not None
        if now.cancel.wait(GUARD):
            told.set()

    model = ScriptedModel(['Action: {"name": "wait", "parameters": {}}', "Final Answer: no"])
    for event in Agent(model, [wait]).stream("q"):
        if isinstance(event, Action):
            break
    assert told.wait(GUARD)
    assert len(model.requests) == 1


def test_cancelling_ends_the_stream_with_the_partial_result() -> None:
    """Whoever holds the event can end the run; the stream still ends with its result."""
    cancel = threading.Event()
    agent = Agent(ScriptedModel([act("a"), act("b"), "Final Answer: no"]), [search])
    for event in agent.stream("q", cancel=cancel):
        if isinstance(event, Action):
            cancel.set()
    assert isinstance(event, RunResult)
    assert event.stop_reason is StopReason.CANCELLED
    assert event.steps


def test_a_stream_that_ends_cancels_nothing() -> None:
    """The caller's event is not set by an end or an error: it may be shared with other runs."""

    def broken(_messages: Any) -> str:
        raise ZeroDivisionError

    cancel = threading.Event()
    agent = Agent(ScriptedModel(["Final Answer: a", "Final Answer: b", broken]))
    for answer in ("a", "b"):
        *_, last = agent.stream("q", cancel=cancel)
        assert isinstance(last, RunResult)
        assert last.answer == answer
    with pytest.raises(ZeroDivisionError):
        list(agent.stream("q", cancel=cancel))
    assert not cancel.is_set()


def test_errors_come_out_of_the_stream() -> None:
    """A model error is a result as ever; a programming error is raised where the caller is."""
    *_, last = Agent(ScriptedModel([ServerError("down")])).stream("q")
    assert isinstance(last, RunResult)
    assert last.stop_reason is StopReason.MODEL_ERROR

    def broken(_messages: Any) -> str:
        raise ZeroDivisionError("broken model")

    with pytest.raises(ZeroDivisionError, match="broken model"):
        list(Agent(ScriptedModel([broken])).stream("q"))


def test_the_agent_itself_is_unchanged() -> None:
    """Streaming adds no observer and no model to the agent it is called on."""
    agent = Agent(ScriptedModel(["Final Answer: a", "Final Answer: b"]))
    model = agent.model
    list(agent.stream("q"))
    assert (agent.observers, agent.model) == ((), model)
    assert agent.run("q").answer == "b"
