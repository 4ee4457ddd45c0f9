"""The scripted model says what it is told to say, and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agent_core.errors import ModelTimeout, ScriptExhausted
from agent_core.events import Ended, Failed, ModelCallEnded, ModelCallStarted, Started, watching
from agent_core.gears import ChatModel
from agent_core.messages import Message, Reply
from agent_core.models import ScriptedModel, ScriptedRequest

ASK = [Message("user", "hi")]


def test_it_is_a_chat_model() -> None:
    """It stands in for any other."""
    model: ChatModel = ScriptedModel([], name="tiny", context_window=64)
    assert isinstance(model, ChatModel)
    assert (model.name, model.provider, model.context_window) == ("tiny", "scripted", 64)


def test_replies_come_in_order_in_every_form() -> None:
    """Texts, replies, functions of the messages, errors."""

    def echo(messages: Sequence[Message]) -> Reply:
        return Reply(messages[-1].content.upper())

    error = ModelTimeout("too slow")
    model = ScriptedModel(["one", Reply("two", finish_reason="length"), echo, error, "five"])
    assert model.chat(ASK) == Reply("one", finish_reason="stop", model="scripted")
    assert model.chat(ASK) == Reply("two", finish_reason="length")
    assert model.chat(ASK).text == "HI"
    with pytest.raises(ModelTimeout) as caught:
        model.chat(ASK)
    assert caught.value is error
    assert model.chat(ASK).text == "five"


def test_requests_are_kept_as_they_were() -> None:
    """A history that grows later does not change them."""
    history = list(ASK)
    model = ScriptedModel(["one", "two"])
    model.chat(history, tools=[{"type": "function"}], stop=["x"], format="json", timeout=1.0)
    history.append(Message("assistant", "one"))
    model.chat(history)
    assert model.requests == [
        ScriptedRequest(tuple(ASK), ({"type": "function"},), ("x",), "json"),
        ScriptedRequest(tuple(history)),
    ]


def test_a_script_that_is_over_says_so() -> None:
    """Asking once too often is an error of its own."""
    model = ScriptedModel(["one"])
    model.chat(ASK)
    with pytest.raises(ScriptExhausted, match=r"asked 2 times but has 1"):
        model.chat(ASK)


def test_text_is_handed_out_in_pieces_and_can_be_cut() -> None:
    """Early stopping can be tried without a server."""
    heard: list[str] = []

    def on_text(piece: str) -> bool:
        heard.append(piece)
        return "Observation" in "".join(heard)

    text = "Action: f\nObservation: invented"
    reply = ScriptedModel([text]).chat(ASK, on_text=on_text)
    assert "".join(heard) == reply.text == text[: len(reply.text)]
    assert (reply.cut_by_client, reply.finish_reason) == (True, None)
    assert len(reply.text) < len(text)
    heard.clear()
    whole = ScriptedModel(["北京晴"]).chat(ASK, on_text=on_text)
    assert (whole.text, "".join(heard), whole.cut_by_client) == ("北京晴", "北京晴", False)


def test_its_calls_are_events_too() -> None:
    """One start and one end, by a reply or by an error."""
    seen: list[Started | Ended] = []

    class Watcher:
        def started(self, event: Started) -> None:
            seen.append(event)

        def ended(self, token: None, event: Ended) -> None:
            seen.append(event)

    error = ModelTimeout("too slow")
    model = ScriptedModel(["one", error], context_window=64)
    with watching(Watcher()):
        reply = model.chat(ASK, stop=["x"])
        with pytest.raises(ModelTimeout):
            model.chat(ASK)
    assert seen[:2] == [
        ModelCallStarted("scripted", "scripted", "", ASK, (), {"stop": ["x"]}, False, 64),
        ModelCallEnded(reply),
    ]
    assert seen[3] == Failed(error)
