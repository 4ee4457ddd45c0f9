"""The sweep catches an agent that breaks under a fault, and blames none that does not."""

from __future__ import annotations

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from agent_core.agent import Agent
from agent_core.errors import ModelError, ServerError
from agent_core.events import ParseStarted, scope
from agent_core.gears import Clock, ToolSchemas
from agent_core.memory import WindowMemory
from agent_core.messages import Action, Message, Observation, ParsedReply, Reply
from agent_core.models import OllamaChat
from agent_core.parsing import StandardParser
from agent_core.tools import FunctionCallExecutor
from harness.demo.agents import assistant
from harness.faults.fault import SECRET
from harness.sessions.sources import Factory
from tests.harness.sessions_support import ANSWER, ollama_reply, record_scripted
from tests.harness.sweep_support import rehearsal_of, verdict


class _LastAction(StandardParser):
    """Takes the last action of a reply."""

    def parse(self, reply: Reply, tools: ToolSchemas) -> ParsedReply:
        start = reply.text.rfind("Action:")
        return super().parse(replace(reply, text=reply.text[max(0, start) :]), tools)


class _TrustsLength(StandardParser):
    """Takes a reply that was cut for a whole one."""

    def parse(self, reply: Reply, tools: ToolSchemas) -> ParsedReply:
        return super().parse(replace(reply, finish_reason="stop"), tools)


class _Fragile(StandardParser):
    """Raises for an empty reply."""

    def parse(self, reply: Reply, tools: ToolSchemas) -> ParsedReply:
        reply.text[0]
        return super().parse(reply, tools)


class _LeavesScopeOpen(StandardParser):
    """Begins something and never ends it."""

    def parse(self, reply: Reply, tools: ToolSchemas) -> ParsedReply:
        scope(ParseStarted(reply, "react-json")).__enter__()
        return super().parse(reply, tools)


class _Forgetful(WindowMemory):
    """Shows the model observations, but not what was wrong with its reply."""

    def view(self, messages: Any, *, task: int, budget: int | None = None) -> list[Message]:
        hint = len(messages) > task + 1 and not messages[-1].content.startswith("Observation")
        return list(messages[:-1] if hint else messages)


def _with_parser(parser: type[StandardParser]) -> Factory:
    return lambda model, **how: assistant(model, **how).replace(parser=parser("react-json", "en"))


def _forgetful(model: Any, **how: Any) -> Agent:
    return assistant(model, **how).replace(memory=_Forgetful())


class _Other:
    """A model client with a habit."""

    provider = "other"
    context_window: int | None = None

    def __init__(self, model: Any) -> None:
        self.name: str = model.name
        self._model = model


class _Stubborn(_Other):
    """Asks again whatever the server says."""

    def chat(self, *args: Any, **how: Any) -> Reply:
        while True:
            try:
                reply: Reply = self._model.chat(*args, **how)
                return reply
            except ModelError:
                continue


class _Talkative(_Other):
    """Repeats a server's answer in its errors."""

    body = ""

    def chat(self, *args: Any, **how: Any) -> Reply:
        try:
            reply: Reply = self._model.chat(*args, **how)
            return reply
        except ModelError:
            raise ServerError(f"it said {self.body}") from None


def _talkative(model: Any, *, http: requests.Session, **how: Any) -> Agent:
    client = _Talkative(model)

    def keep(response: requests.Response, **_: Any) -> None:
        if response.status_code == 500:
            client.body = response.text

    http.hooks["response"].append(keep)
    return assistant(client, **how)


def _hasty(model: Any, *, http: requests.Session, **how: Any) -> Agent:
    def forget(response: requests.Response, **_: Any) -> None:
        response.headers.pop("Retry-After", None)

    http.hooks["response"].append(forget)
    return assistant(model, **how)


class _Optimist(FunctionCallExecutor):
    """Takes every call for a success."""

    def execute(self, action: Action, **how: Any) -> Observation:
        return replace(super().execute(action, **how), ok=True, error=None)


class _Insistent(FunctionCallExecutor):
    """Runs a tool that failed once more."""

    def execute(self, action: Action, **how: Any) -> Observation:
        seen = super().execute(action, **how)
        return seen if seen.ok else super().execute(action, **how)


class _Wordy(FunctionCallExecutor):
    """Tells at length that a result was cut."""

    def execute(self, action: Action, **how: Any) -> Observation:
        seen = super().execute(action, **how)
        more = "" if seen.truncated_from is None else " (there was more of it)"
        return replace(seen, text=seen.text + more)


def _with_executor(executor: type[FunctionCallExecutor]) -> Factory:
    def factory(model: Any, **how: Any) -> Agent:
        agent = assistant(model, **how)
        return agent.replace(executor=executor(agent.executor.definitions.values()))

    return factory


class _Satisfied(_Other):
    """Takes what it has for the answer when the connection breaks."""

    def chat(self, *args: Any, **how: Any) -> Reply:
        try:
            reply: Reply = self._model.chat(*args, **how)
            return reply
        except ModelError:
            return Reply("Thought: that was it.\nFinal Answer: It is fi")


@pytest.mark.parametrize(
    ("factory", "code", "kind"),
    [
        (_with_parser(_LastAction), "two-actions", "wrong action"),
        (_with_parser(_LastAction), "invented-observation", "wrong action"),
        (_with_parser(_TrustsLength), "length", "wrong action"),
        (_with_parser(_Fragile), "empty", "crash"),
        (_with_parser(_LeavesScopeOpen), "L1", "lost trace"),
        (_forgetful, "unknown-tool", "untold"),
        (lambda model, **how: assistant(_Stubborn(model), **how), "404", "hang"),
        (_talkative, "500-stays", "leaked secret"),
        (_with_executor(_Optimist), "tool-exception", "swallowed"),
        (_with_executor(_Insistent), "tool-exception", "wrong action"),
        (_with_executor(_Wordy), "tool-huge", "flood"),
        (_hasty, "429", "impatient"),
        (lambda model, **how: assistant(_Satisfied(model), **how), "timeout", "half reply"),
    ],
)
def test_broken_agent_is_caught(recorded: Path, factory: Factory, code: str, kind: str) -> None:
    """Each violation is seen in an agent that commits it and replays the session all the same."""
    broken = rehearsal_of(recorded, factory)
    judgement = verdict(broken, code)
    broken.close()
    assert (judgement.verdict, judgement.kind) == ("violation", kind)
    assert SECRET not in judgement.detail


class _Either(_Other):
    """Asks for another model when the first one is refused."""

    def __init__(self, model: Any, substitute: OllamaChat) -> None:
        super().__init__(model)
        self._substitute = substitute

    def chat(self, *args: Any, **how: Any) -> Reply:
        try:
            reply: Reply = self._model.chat(*args, **how)
            return reply
        except ModelError:
            return self._substitute.chat(*args, **how)


def _with_substitute(model: Any, *, http: requests.Session, clock: Clock, **how: Any) -> Agent:
    url = "http://127.0.0.1:11434"  # nobody is asked there in a sweep
    substitute = OllamaChat("smaller", base_url=url, session=http, clock=clock)
    return assistant(_Either(model, substitute), clock=clock, **how)


@pytest.mark.parametrize("factory", [assistant, _with_substitute])
def test_what_else_is_asked_after_a_refusal_is_no_retry(tmp_path: Path, factory: Factory) -> None:
    """The next question, and another model, may be asked before a Retry-After is over."""
    path = record_scripted(
        tmp_path / "two-turns.yaml",
        ollama_reply(ANSWER),
        ollama_reply(ANSWER),
        questions=("Weather in Lisbon?", "And 2 + 3?"),
    ).path
    rehearsal = rehearsal_of(path, factory)
    found = {code: verdict(rehearsal, code) for code in ("429", "429-stays")}
    rehearsal.close()
    assert found["429"].verdict == "recovered"
    assert found["429-stays"].verdict == "clean stop"


class _Ringing(_Other):
    """Lets the alarm of the trial ring while the model is asked, as often as `rings` says."""

    rings = 0

    def chat(self, *args: Any, **how: Any) -> Reply:
        for _ in range(_Ringing.rings):
            signal.raise_signal(signal.SIGALRM)
        _Ringing.rings = 0
        reply: Reply = self._model.chat(*args, **how)
        return reply


def test_a_machine_that_stood_still_is_no_hang(recorded: Path) -> None:
    """It rings once when it wakes up, however long that was; what hangs hears a second ring."""
    rehearsal = rehearsal_of(recorded, lambda model, **how: assistant(_Ringing(model), **how))
    _Ringing.rings = 1
    assert verdict(rehearsal, "500").verdict == "recovered"
    _Ringing.rings = 2
    assert verdict(rehearsal, "500").kind == "hang"
    rehearsal.close()
