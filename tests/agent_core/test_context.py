"""What a server kept quiet about: prompts that it cut, output that did not arrive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_core.agent import Agent
from agent_core.context import (
    estimate_prompt,
    estimate_tokens,
    most_tokens,
    swallowed_note,
    truncation_note,
)
from agent_core.messages import Message, Reply, ToolCall, Usage
from agent_core.models import OllamaChat, ScriptedModel
from harness.faults import FaultServer, Response

EXCHANGES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "context_notes.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]
DEFAULT_WINDOW = 4096  # of the recording server


def name_of(exchange: dict[str, Any]) -> str:
    return str(exchange["source"]).rpartition(": ")[2]


def messages_of(exchange: dict[str, Any]) -> list[Message]:
    """The prompt as it was sent."""
    return [
        Message(each["role"], each.get("content") or "", calls_of(each))
        for each in exchange["request"]["messages"]
    ]


def calls_of(message: dict[str, Any]) -> tuple[ToolCall, ...]:
    calls = [each["function"] for each in message.get("tool_calls") or []]
    return tuple(ToolCall(None, each["name"], each["arguments"]) for each in calls)


def reply_of(exchange: dict[str, Any]) -> Reply:
    """The reply as a client gives it."""
    body = exchange["response"]
    usage = Usage(body.get("prompt_eval_count"), body.get("eval_count"))
    message = body["message"]
    return Reply(message["content"], calls_of(message), usage=usage)


def window_of(exchange: dict[str, Any]) -> int:
    return int(exchange["request"].get("options", {}).get("num_ctx", DEFAULT_WINDOW))


@pytest.mark.parametrize("exchange", EXCHANGES, ids=name_of)
def test_recorded_exchanges_are_judged_right(exchange: dict[str, Any]) -> None:
    """Each real loss is reported, and none of the ordinary exchanges of three models is."""
    reply, messages = reply_of(exchange), messages_of(exchange)
    tools = exchange["request"].get("tools") or []
    notes = [
        truncation_note(
            reply,
            window=window_of(exchange),
            estimate=estimate_prompt(messages, tools),
            previous=None,
            grew=False,
        ),
        swallowed_note(reply, native=bool(tools)),
    ]
    expected = [exchange["note"]] if exchange["note"] else []
    assert [note.kind for note in notes if note] == expected


@pytest.mark.parametrize("exchange", [e for e in EXCHANGES if e["note"]], ids=name_of)
def test_a_loss_stands_in_the_step(exchange: dict[str, Any]) -> None:
    """Through client and loop, with the window that the client asked for.

    A long history never gets so far: the loop keeps it below the window.
    """
    *history, last = messages_of(exchange)
    with FaultServer([Response(body=exchange["response"])] * 3) as server:
        model = OllamaChat("m", base_url=server.url, options={"num_ctx": window_of(exchange)})
        result = Agent(model, protocol="native").run(last.content, history)
        model.close()
    sent = server.requests[0].json()
    assert sent["options"]["num_ctx"] == window_of(exchange)
    kinds = [note.kind for note in result.steps[0].notes]
    if len(history) > 1:
        assert "history_trimmed" in kinds
        assert estimate_prompt(messages_of({"request": sent})) < window_of(exchange)
    else:
        assert exchange["note"] in kinds


def noted(count: int | None, **how: Any) -> bool:
    """Whether a prompt count is taken for a sign of truncation."""
    situation: dict[str, Any] = {"window": 1000, "estimate": 500, "previous": None, "grew": False}
    reply = Reply("ok", usage=Usage(count, 1, estimated=how.pop("estimated", False)))
    return truncation_note(reply, **situation | how) is not None


def test_the_signs_of_a_cut_prompt() -> None:
    """A full window, a count that does not grow with the prompt, one far below the estimate."""
    assert noted(1000)
    assert noted(999)
    assert not noted(998)
    assert noted(400, previous=400, grew=True)
    assert noted(300, previous=400, grew=True)
    assert not noted(401, previous=400, grew=True)
    assert not noted(400, previous=400, grew=False)  # another prompt, after trimming
    assert noted(690, estimate=1001)
    assert not noted(800, estimate=1001)
    assert not noted(300, estimate=1000)  # it fits: the estimate may be that wrong


def test_what_is_not_known_is_no_sign() -> None:
    """Without a count of the server, or without a window, nothing is claimed."""
    assert not noted(None, previous=400, grew=True)
    assert not noted(1000, estimated=True)
    assert not noted(1000, window=None)


@pytest.mark.parametrize(
    ("reply", "is_reported"),
    [
        (Reply("", usage=Usage(9, 12)), True),
        (Reply(" \n", usage=Usage(9, 12)), True),
        (Reply("", usage=Usage(9, 2)), False),  # an end of turn is no output
        (Reply("", thinking="long thoughts", usage=Usage(9, 7)), False),
        (Reply("", (ToolCall(None, "f", {}),), usage=Usage(9, 12)), False),
        (Reply("", usage=Usage(9, None)), False),
        (Reply("", usage=Usage(9, 12, estimated=True)), False),
        (Reply("four words of text", usage=Usage(9, 40)), True),
    ],
)
def test_the_signs_of_swallowed_output(reply: Reply, is_reported: bool) -> None:
    """Many tokens, nothing or far too little to see."""
    assert (swallowed_note(reply, native=True) is not None) == is_reported


def test_a_text_protocol_has_no_parser_that_could_swallow() -> None:
    """There only a reply of which nothing is left is reported."""
    reply = Reply("four words of text", usage=Usage(9, 40))
    assert swallowed_note(reply, native=False) is None
    assert swallowed_note(Reply("", usage=Usage(9, 40)), native=False) is not None


@settings(max_examples=50, deadline=None)
@given(st.text(), st.text())
def test_estimates_grow_with_the_text(one: str, other: str) -> None:
    """Neither is ever negative, nor less for more."""
    for estimate in (estimate_tokens, most_tokens):
        assert 0 <= estimate(one) <= estimate(one + "\n\n" + other)


def test_the_room_for_messages_is_what_tools_leave() -> None:
    """A long history is kept below the window with the definitions that go beside it."""

    def look(city: str) -> str:
        """Look something up."""
        return city

    look.__doc__ = "Look something up. " * 30
    talk = [
        Message("user" if number % 2 == 0 else "assistant", f"remark {number} " * 6)
        for number in range(40)
    ]
    model = ScriptedModel(["done"], context_window=600)
    agent = Agent(model, [look], protocol="native")
    assert agent.run("q", talk).answer == "done"
    (request,) = model.requests
    assert request.tools
    assert estimate_prompt(request.messages, request.tools) < 600


def test_tools_and_calls_cost_tokens() -> None:
    """What goes beside the text is part of the prompt."""
    plain = [Message("user", "hello there")]
    calling = [Message("user", "hello there", (ToolCall("1", "look", {"city": "北京"}),))]
    assert estimate_prompt(calling) > estimate_prompt(plain)
    assert estimate_prompt(plain, [{"name": "look"}]) > estimate_prompt(plain)
    assert estimate_prompt([*plain, *plain]) == 2 * estimate_prompt(plain)
