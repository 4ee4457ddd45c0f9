"""The sweep: what becomes of a recorded session when one thing goes wrong, and what must not."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from requests.adapters import BaseAdapter

from agent_core.agent import Agent
from agent_core.clock import SystemClock
from agent_core.errors import ModelError, ServerError
from agent_core.events import ParseStarted, scope
from agent_core.gears import Clock, ToolSchemas
from agent_core.memory import WindowMemory
from agent_core.messages import Action, Message, Observation, ParsedReply, Reply, ToolCall
from agent_core.models import OllamaChat
from agent_core.parsing import StandardParser
from agent_core.tools import FunctionCallExecutor
from harness.cli import main
from harness.demo.agents import assistant
from harness.demo.gears import summarising
from harness.faults.bodies import with_reply
from harness.faults.catalogue import FAULTS, chosen
from harness.faults.course import served
from harness.faults.fault import SECRET
from harness.faults.page import page
from harness.faults.recording import NotSwept, Recording
from harness.faults.report import FORMULA
from harness.faults.sweep import Plan, sweep
from harness.faults.trial import Rehearsal, Trial
from harness.faults.verdicts import Judgement
from harness.sessions.cassette import load_session
from harness.sessions.exchange import Response
from harness.sessions.format import Api, ModelSource
from harness.sessions.sources import Factory, build_model
from tests.harness.sessions_support import (
    ANSWER,
    SUM,
    WEATHER,
    ollama_reply,
    ollama_stream,
    record_scripted,
    response,
    three_steps,
)

CASSETTES = Path(__file__).parents[2] / "cassettes"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps: weather, a sum, the answer."""
    return three_steps(tmp_path_factory.mktemp("swept") / "three.yaml").path


@pytest.fixture(scope="module")
def rehearsal(recorded: Path) -> Iterator[Rehearsal]:
    """The demo assistant on that session."""
    built = rehearsal_of(recorded, assistant)
    yield built
    built.close()


def rehearsal_of(path: Path, factory: Factory) -> Rehearsal:
    return Rehearsal(Recording(path.stem, load_session(path), factory))


def verdict(rehearsal: Rehearsal, code: str, step: int = 0, turn: int = 0) -> Judgement:
    return rehearsal.attempt(Trial(turn, step, FAULTS[code]), seed=1)


def test_no_fault_of_any_kind_is_a_violation(rehearsal: Rehearsal) -> None:
    """Every fault of a call and of an answer ends well, and most are recovered from."""
    found = {(code, step): verdict(rehearsal, code, step) for code in FAULTS for step in range(3)}
    assert [each for each in found.items() if each[1].verdict == "violation"] == []
    made = [each for each in found.values() if each.verdict != "not applicable"]
    assert sum(each.verdict == "recovered" for each in made) > 0.7 * len(made)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("empty", "recovered"),
        ("unknown-tool", "recovered"),
        ("two-actions", "recovered"),
        ("language-switch", "recovered"),
        ("length", "recovered"),
        ("J15", "recovered"),
        ("429", "recovered"),
        ("500", "recovered"),
        ("reset", "recovered"),
        ("wrong-type", "recovered"),
        ("404", "clean stop"),
        ("500-stays", "clean stop"),
        ("html", "clean stop"),
        ("short", "clean stop"),
        ("timeout", "clean stop"),
        ("stall", "clean stop"),
        ("broken", "recovered"),
        ("tool-exception", "recovered"),
        ("tool-timeout", "recovered"),
        ("tool-secret", "recovered"),
    ],
)
def test_verdict_on_a_fault_of_the_first_step(
    rehearsal: Rehearsal, code: str, expected: str
) -> None:
    """After a fault that passes, the recorded rest leads to the recorded answer."""
    judgement = verdict(rehearsal, code)
    assert (judgement.verdict, judgement.scripted) == (expected, False)


@pytest.mark.parametrize("code", ["tool-huge", "tool-unserialisable", "tool-orders"])
def test_another_observation_ends_on_a_scripted_reply(rehearsal: Rehearsal, code: str) -> None:
    """The recorded rest answers what was not seen, so it is not used and does not count."""
    judgement = verdict(rehearsal, code)
    assert (judgement.verdict, judgement.scripted) == ("other answer", True)


@pytest.mark.parametrize("code", ["tool-exception", "unknown-tool", "J9"])
def test_fault_that_cannot_be_is_not_applicable(rehearsal: Rehearsal, code: str) -> None:
    """The last step calls no tool."""
    assert verdict(rehearsal, code, step=2).verdict == "not applicable"


def test_nothing_waits(rehearsal: Rehearsal) -> None:
    """A minute of Retry-After and a read timeout pass on the injected clock only."""
    clock = rehearsal._replica.clock  # what is observed is the clock that the run was given
    verdict(rehearsal, "429-stays")
    assert clock.monotonic() >= 40.0
    verdict(rehearsal, "timeout")
    assert clock.monotonic() >= 300.0


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

    def replace(self, **changes: Any) -> _Optimist:
        return _Optimist(self.definitions.values(), **{"runner": self.runner, **changes})


def _optimist(model: Any, **how: Any) -> Agent:
    agent = assistant(model, **how)
    return agent.replace(executor=_Optimist(agent.executor.definitions.values()))


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
        (_optimist, "tool-exception", "swallowed"),
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


def test_fault_in_a_later_turn_of_a_stream(tmp_path: Path) -> None:
    """A conversation is swept turn by turn; streams are cut anew around the fault."""
    path = record_scripted(
        tmp_path / "two-turns.yaml",
        ollama_stream(WEATHER[:30], WEATHER[30:]),
        ollama_stream("Thought: ok\nFinal Answer: ", "fine 😀"),
        ollama_stream(SUM[:9], SUM[9:]),
        ollama_stream(ANSWER),
        questions=("Weather in Lisbon?", "And 2 + 3?"),
        stream=True,
    ).path
    rehearsal = rehearsal_of(path, assistant)
    codes = ("empty", "L1", "J1", "two-actions", "500", "tool-exception")
    found = {code: verdict(rehearsal, code, turn=1).verdict for code in codes}
    rehearsal.close()
    assert found == dict.fromkeys(codes, "recovered")


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


def test_request_for_a_summary_comes_before_the_next_step() -> None:
    """What a step did is told in the next step's request, not in one that sums up older rounds."""
    rehearsal = rehearsal_of(CASSETTES / "gear-summary-zh.yaml", summarising)
    judgement = verdict(rehearsal, "429")
    rehearsal.close()
    assert judgement.verdict == "recovered"


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


def test_session_that_does_not_replay_is_not_swept(recorded: Path) -> None:
    """An agent that gives up earlier would be blamed for faults that are none."""
    with pytest.raises(NotSwept, match="does not replay"):
        rehearsal_of(recorded, lambda model, **how: assistant(model, **how, max_steps=1))


def test_workers_give_the_same_report(recorded: Path) -> None:
    """Rows and their order depend on the seed alone, not on who made them."""
    plan = Plan(("404", "J4", "J6", "L4"), steps=2, seed=7)
    alone = sweep([recorded], plan).as_json()
    shares: list[tuple[int, int]] = []
    together = sweep(
        [recorded], plan, workers=2, progress=lambda *done: shares.append(done)
    ).as_json()
    assert alone == together
    assert len(alone["rows"]) == 2 * 4
    assert {row["step"] for row in alone["rows"]} == {1, 3}
    assert shares == [(1, 2), (2, 2)]


def test_report_says_how_it_scores(recorded: Path) -> None:
    """The score counts what passes and fits the recording; the page holds a cell for each trial."""
    report = sweep([recorded], Plan(("429", "404", "html", "tool-huge"), steps=1))
    assert report.score() == (1, 2)
    assert report.reaches(0.5)
    assert not report.reaches(0.51)
    assert report.as_json()["formula"] == FORMULA
    html = page(report)
    assert "50.0 %" in html
    assert html.count("<td class=") == 4


def test_a_single_step_is_one_that_calls_a_tool(recorded: Path) -> None:
    """The final answer has nothing that a fault of a tool could be done to."""
    report = sweep([recorded], Plan(("tool",), steps=1))
    assert {row.trial.step for row in report.rows} == {0}
    assert not [row for row in report.rows if row.judgement.verdict == "not applicable"]


def test_command_exits_by_violations_and_threshold(recorded: Path) -> None:
    """0 when all is well, 1 below the threshold, 2 for an operator that does not exist."""
    run = CliRunner().invoke
    arguments = ["sweep", str(recorded), "--operators", "429,html", "--steps", "1"]
    arguments += ["--workers", "1"]
    good = run(main, [*arguments, "--threshold", "0.5", "--json"])
    assert (good.exit_code, json.loads(good.stdout)["score"]) == (0, 0.5)
    shown = run(main, [*arguments, "--threshold", "0.9"])
    assert shown.exit_code == 1
    assert "recovery score 50.0 % (1 of 2)" in shown.stdout
    assert "below the threshold of 90.0 %" in shown.stdout
    assert run(main, ["sweep", str(recorded), "--operators", "nonsense"]).exit_code == 2


def test_groups_and_codes_choose_faults() -> None:
    """Operators are named by code or by group, and come in the order of the catalogue."""
    assert [each.code for each in chosen(["tool-secret", "J4", "404"])] == [
        "J4",
        "404",
        "tool-secret",
    ]
    assert {each.group for each in chosen(["http"])} == {"http"}
    assert len(chosen([])) == len(FAULTS)


class _Serves(BaseAdapter):
    """Answers with one body."""

    def __init__(self, recorded: Response, reply: Reply, api: Api) -> None:
        super().__init__()
        self.body = with_reply(recorded, reply, api, Random(3))

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        return served(self.body, request)

    def close(self) -> None:
        pass


_STREAM_LINE = b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n'
_SSE_LINE = b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'


@pytest.mark.parametrize(
    ("api", "recorded_body"),
    [
        ("ollama", b'{"model":"m","message":{"role":"assistant","content":"a"},"done":true}'),
        ("ollama", _STREAM_LINE * 3),
        ("openai", b'{"model":"m","choices":[{"message":{"role":"assistant","content":"a"}}]}'),
        ("openai", _SSE_LINE * 2 + b"data: [DONE]\n\n"),
    ],
)
@pytest.mark.parametrize(
    "reply",
    [
        Reply("思考：好的。\nAction: 😀", finish_reason="stop"),
        Reply("", (ToolCall("c1", "look", {"city": "北京"}),), finish_reason="tool_calls"),
        Reply("", thinking="hm", finish_reason="length"),
    ],
)
def test_rewritten_body_is_read_as_the_reply(api: Api, recorded_body: bytes, reply: Reply) -> None:
    """In each API's shape, whole or as a stream, the real client reads what was put in."""
    with requests.Session() as http:
        recorded = Response(200, "OK", {}, recorded_body)
        http.mount("http://", _Serves(recorded, reply, api))
        streamed = recorded_body.count(b"\n") > 1
        source = ModelSource(api=api, name="m", base_url="http://127.0.0.1:1/v1", stream=streamed)
        got = build_model(source, session=http, clock=SystemClock()).chat([Message("user", "?")])
    calls = [(each.id, each.name) for each in got.tool_calls]
    assert (got.text, got.thinking, got.finish_reason, calls) == (
        reply.text,
        reply.thinking,
        reply.finish_reason,
        [(each.id, each.name) for each in reply.tool_calls],
    )


@pytest.mark.parametrize("as_text", [False, True])
def test_native_calls_are_swept(tmp_path: Path, as_text: bool) -> None:
    """The faults are done to the calls that the server reports, or that were written as text."""
    call = {"name": "get_weather", "arguments": {"city": "Lisbon"}}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    message |= {"content": json.dumps(call)} if as_text else {"tool_calls": [{"function": call}]}
    first = json.dumps({"model": "m", "message": message, "done": True, "done_reason": "stop"})
    path = record_scripted(
        tmp_path / "native.yaml",
        [response(200, first.encode())],
        ollama_reply("It is fine in Lisbon."),
        factory=_native,
    ).path
    rehearsal = rehearsal_of(path, _native)
    recovered = ("unknown-tool", "two-actions", "invented-observation", "length", "J4", "N1",
                 "tool-exception", "429")  # fmt: skip
    found = {code: verdict(rehearsal, code).verdict for code in recovered}
    rehearsal.close()
    assert found == dict.fromkeys(recovered, "recovered")


def _native(model: Any, **how: Any) -> Agent:
    return assistant(model, **{**how, "protocol": "native"})
