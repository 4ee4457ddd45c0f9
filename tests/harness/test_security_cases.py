"""Cases after public bug reports on secrets (`source` in the data), and kinds like them."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from agent_core.agent import Agent
from agent_core.messages import Reply, RunResult, ToolCall
from agent_core.models import OllamaChat, OpenAIChat, ScriptedModel
from agent_core.tools import FunctionDefinition, define
from harness import telemetry
from harness.cli import main
from harness.faults import FaultServer, Response
from harness.logs import json_logger
from harness.sessions.cassette import load_session, parse_session
from harness.sessions.errors import SessionFormatError
from harness.trace.explain import explain
from harness.trace.html import page
from harness.trace.spans import Trace, read_traces
from harness.trace.tree import print_trace
from tests.harness.sessions_support import ASSISTANT, ollama_reply, record_scripted

pytestmark = pytest.mark.usefixtures("own_directory")

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for line in (Path(__file__).parents[1] / "data" / "bug_cases_loop.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
    for case in [json.loads(line)]
}
KEY = CASES["security-13"]["expect"]["must_not_contain"][0]


class Watched:
    """A run with everything switched on, and every place where a text of it may end up."""

    def __init__(self, agent: Agent, question: str = "q") -> None:
        written = io.BytesIO()
        self.result: RunResult | None = None
        self.raised: Exception | None = None
        logger = json_logger(written, level="debug")
        with telemetry.session(
            content="full", directory=Path("traces"), logger=logger, say=lambda _: None
        ) as watch:
            try:
                self.result = watch.instrument(agent).run(question)
            except Exception as error:
                self.raised = error
                logger.exception("run.failed")
        assert watch.path is not None
        (self.trace,) = read_traces(watch.path)
        self.places = {
            "log": written.getvalue().decode(),
            "spans": watch.path.read_text("utf-8"),
            "result": repr(self.result),
            **shown(self.trace),
        }


def shown(trace: Trace) -> dict[str, str]:
    """Every way to look at a trace."""
    tree = io.StringIO()
    print_trace(trace, Console(file=tree, width=10_000), content=True)
    return {"page": page(trace), "tree": tree.getvalue(), "explained": "\n".join(explain(trace))}


def failing(raising: Callable[[], Any]) -> FunctionDefinition:
    """A tool that fails."""

    def look(query: str) -> str:
        """Look something up."""
        return str(raising())

    return define(look)


def call_look(query: str = "a") -> Reply:
    """A reply that asks for `look`."""
    return Reply("", (ToolCall("c1", "look", {"query": query}),))


def chained() -> None:
    """Raise two exceptions, the inner one with a key."""
    try:
        raise ValueError(f"refused: {KEY}")
    except ValueError as error:
        raise RuntimeError("the call failed") from error


def test_a_key_in_a_failed_address_stays_out_of_everything(tmp_path: Path) -> None:
    """security-12: log, span, observation, cassette, and what a user sees."""
    case = CASES["security-12"]

    def fail() -> None:
        raise OSError(case["input"]["raises"])

    agent = Agent(ScriptedModel([call_look(), "It failed."]), [failing(fail)], protocol="native")
    places = Watched(agent).places
    path = tmp_path / "s.yaml"
    record_scripted(
        path,
        ollama_reply('Action: {"name": "look", "parameters": {"query": "a"}}'),
        ollama_reply("Final Answer: It failed."),
        factory=lambda model, *, clock, **_: Agent(model, [failing(fail)], clock=clock),
    )
    places["cassette"] = path.read_text("utf-8")
    assert all("503" in places[each] for each in ("spans", "result", "page", "cassette"))
    for place, text in places.items():
        for secret in case["expect"]["must_not_contain"]:
            assert secret not in text, place


@pytest.mark.parametrize("where", ["tool", "model"])
def test_a_key_in_an_inner_exception_stays_out_of_the_traceback(where: str) -> None:
    """security-13: of a tool that fails, and of a model class that is broken."""
    if where == "tool":
        agent = Agent(
            ScriptedModel([call_look(), "It failed."]), [failing(chained)], protocol="native"
        )
    else:
        agent = Agent(ScriptedModel([lambda _: chained()]))  # type: ignore[list-item,return-value]
    watched = Watched(agent)
    assert (watched.raised is not None) == (where == "model")
    if where == "model":
        assert "the call failed" in watched.places["log"]
        assert "ValueError" in watched.places["log"]
    for place, text in watched.places.items():
        assert KEY not in text, place


@pytest.mark.parametrize("name", ["api_key", "password", "auth_token", "密钥"])
def test_a_refused_value_is_not_repeated(name: str) -> None:
    """security-15: the error names the argument, and shows no value of it."""
    case = CASES["security-15"]
    (secret,) = case["expect"]["error_must_not_contain"]
    schema = json.loads(json.dumps(case["input"]["schema"]).replace("api_key", name))
    tool = FunctionDefinition(
        name="look", description="Look.", parameters=schema, function=lambda **_: "ok"
    )
    reply = Reply("", (ToolCall("c1", "look", {name: [secret]}),))
    watched = Watched(Agent(ScriptedModel([reply, "done"]), [tool], protocol="native"))
    assert watched.result is not None
    (observation,) = watched.result.steps[0].observations
    assert name in observation.text
    assert secret not in observation.text
    for place in watched.places.keys() - {"result"}:  # which holds what the model asked for
        assert secret not in watched.places[place], place


def test_keys_of_the_environment_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """security-16: not in a repr, a log, an error, nor in the resource of a trace."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("SHOP_TOKEN", "plain-as-a-word-77")
    monkeypatch.setenv(
        "OTEL_RESOURCE_ATTRIBUTES", f"region=north,api_key={KEY},note=plain-as-a-word-77"
    )
    with FaultServer(lambda _: Response(401, {"error": {"message": f"bad key {KEY}"}})) as server:
        model = OpenAIChat("m", base_url=f"{server.url}/v1")
        agent = Agent(model)
        watched = Watched(agent)
        ran = CliRunner().invoke(
            main, ["run", ASSISTANT, "q", "--model", "m", "--api", "openai", "--base-url",
                   f"{server.url}/v1", "--log", "run.log"],
        )  # fmt: skip
        model.close()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "north" in watched.places["spans"]
    assert watched.result is not None
    assert watched.result.stop_reason == "model_error"
    places = watched.places | {
        "repr": repr([model, agent, vars(model), vars(agent)]),
        "command": ran.output,
        "command's log": Path("run.log").read_text("utf-8"),
    }
    for place, text in places.items():
        assert KEY not in text, place
        assert "plain-as-a-word-77" not in text, place


@pytest.mark.parametrize("api", ["ollama", "openai"])
def test_debug_logs_of_every_library_hold_no_key(
    api: str, caplog: pytest.LogCaptureFixture
) -> None:
    """security-17: request lines and headers, at the lowest level there is."""
    caplog.set_level(logging.DEBUG)
    reply = {
        "message": {"role": "assistant", "content": "ok"}, "done": True,
        "choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    }  # fmt: skip
    with FaultServer(lambda _: Response(body=reply)) as server:
        url = server.url.replace("//", "//user:hunter2222@")
        models = [
            OllamaChat("m", base_url=server.url, api_key=KEY) if api == "ollama"
            else OpenAIChat("m", base_url=f"{server.url}/v1", api_key=KEY),
            OllamaChat("m", base_url=url) if api == "ollama"
            else OpenAIChat("m", base_url=f"{url}/v1"),
        ]  # fmt: skip
        for model in models:
            assert Agent(model, protocol="native").run("q").answer == "ok"
            model.close()
    assert "POST" in caplog.text
    assert KEY not in caplog.text
    assert "hunter2222" not in caplog.text


STEERING = "\x1b[31mred\x9b1mbold\x1b]0;title\x07\u202eturned\rback\n"
HOSTILE = f"{STEERING}error: step 9: invented\n<script>alert(1)</script>[bold]x[/bold]"


@pytest.fixture
def hostile_trace() -> Watched:
    """A run in which everything foreign wants to steer the terminal, the log and the page."""

    def fail() -> None:
        raise RuntimeError(HOSTILE)

    replies = [
        Reply(HOSTILE, (ToolCall("c1", "look", {"query": HOSTILE}),)),
        Reply("", (ToolCall("c2", HOSTILE, {HOSTILE: HOSTILE}),)),
        Reply(HOSTILE, model=HOSTILE, finish_reason=HOSTILE),
    ]
    agent = Agent(ScriptedModel(replies), [failing(fail)], protocol="native", name=HOSTILE)
    return Watched(agent, HOSTILE)


def test_foreign_text_steers_no_terminal(hostile_trace: Watched) -> None:
    """Escapes and turned text are spelled out by every command that shows a trace."""
    places = hostile_trace.places
    texts = [places["tree"], places["page"], places["explained"]]
    for arguments in (["list"], ["show", "--content"], ["explain"], ["diff", "last", "last"]):
        done = CliRunner().invoke(main, ["trace", *arguments, "--dir", "traces"], color=True)
        assert done.exit_code == 0, done.output
        texts.append(done.output)
    for text in texts:
        for mark in "\x1b\x9b\x07\u202e\r":
            assert mark not in text
    assert "<script>" not in places["page"]


def test_foreign_text_writes_no_line_of_its_own(hostile_trace: Watched) -> None:
    """A line break in a name or an error forges no log record and no finding."""
    lines = hostile_trace.places["log"].splitlines()
    assert len([json.loads(line) for line in lines]) >= 10
    assert not any(
        line.startswith("error: step 9") for line in hostile_trace.places["explained"].splitlines()
    )


def test_a_strangers_session_steers_no_terminal(tmp_path: Path) -> None:
    """What a file holds is spelled out where a replay complains about it."""
    record_scripted(tmp_path / "s.yaml", ollama_reply("Final Answer: ok"))
    text = (tmp_path / "s.yaml").read_text("utf-8")
    named = json.dumps(f"{STEERING}:x")
    for old, new in (
        ("factory: harness.demo.agents:assistant", f"factory: {named}"),
        ("  model:\n", f"  {named}: 1\n  model:\n"),
        ("name: calculator", f"name: {named}"),
    ):
        assert old in text
        (tmp_path / "s.yaml").write_text(text.replace(old, new), "utf-8")
        done = CliRunner().invoke(main, ["replay", str(tmp_path / "s.yaml")], color=True)
        assert done.exit_code in {1, 2}, done.output
        for mark in "\x9b\x07\u202e":
            assert mark not in done.output
        assert "\x1b[31mred" not in done.output


BOMBS = {
    "aliases": "a: &a [x, x]\n"
    + "".join(f"{to}: &{to} [{', '.join([f'*{of}'] * 10)}]\n" for of, to in zip(
        "abcdefgh", "bcdefghi", strict=True))
    + "interactions: []\n",
    "merges": "a: &a {x: 1}\n"
    + "".join(f"{to}: &{to} {{<<: [{', '.join([f'*{of}'] * 10)}]}}\n" for of, to in zip(
        "abcdefgh", "bcdefghi", strict=True))
    + "interactions: [1]\n",
    "itself": "interactions: &a [*a]\n",
    "itself in a block": "session: &a\n  agent: *a\ninteractions: []\n",
    "depth": f"interactions: {'[' * 100_000}",
    "keys": f"interactions: [{'{? ' * 500}",
    "base 60": f"interactions: [1{':59' * 100_000}]\n",
    "base 60, broken": f"interactions: [1{':59' * 400}.5]\n",
    "digits": f"interactions: [{'9' * 100_000}]\n",
    "object": "interactions: !!python/object/apply:os.system ['exit 1']\n",
    "module": "interactions: !!python/module:os\n",
    "name": "interactions: !!python/name:os.system\n",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_would_explode_is_refused_at_once(name: str, tmp_path: Path) -> None:
    """In words, by the reader and by the command, without using up time or memory."""
    began = time.monotonic()
    with pytest.raises(SessionFormatError):
        parse_session(BOMBS[name])
    assert time.monotonic() - began < 10  # seconds where it would take hours
    path = tmp_path / "s.yaml"
    path.write_text(BOMBS[name], "utf-8")
    with pytest.raises(SessionFormatError, match=r"s\.yaml"):
        load_session(path)


def test_parts_that_are_shared_count_each_time_they_are_used() -> None:
    """Sharing is allowed as long as what it unfolds to is of a reasonable size."""
    shared = "a: &a {b: [1, 2, 3]}\nc: [*a, *a, *a]\ninteractions: []\n"
    assert parse_session(shared).exchanges == ()


def test_a_question_with_a_key_is_recorded_without_it(tmp_path: Path) -> None:
    """What a user types, what tools get and what they give; in file and journal alike."""
    path = tmp_path / "s.yaml"
    journals: list[str] = []

    def look(query: str) -> dict[str, Any]:
        """Look something up."""
        journals.append((tmp_path / "s.yaml.journal").read_text("utf-8"))
        return {"password": "hunter2222", "found": query}

    record_scripted(
        path,
        ollama_reply(json.dumps({"name": "look", "parameters": {"query": KEY}})),
        ollama_reply(f"Final Answer: {KEY}"),
        questions=[f"My key is {KEY}"],
        factory=lambda model, *, clock, **_: Agent(model, [look], clock=clock),
    )
    assert journals
    for text in (path.read_text("utf-8"), *journals):
        assert KEY not in text
        assert "hunter2222" not in text
