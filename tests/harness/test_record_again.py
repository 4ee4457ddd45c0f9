"""Recording again: what ended well is kept from failures, and no stranger's server is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from agent_core.errors import ModelNotFound
from agent_core.events import StepEnded
from harness.demo.agents import embedded
from harness.sessions.cassette import load_session
from harness.sessions.errors import NotReplaced, ServerRefused
from harness.sessions.record import record, rewrite
from harness.sessions.servers import Servers
from harness.sessions.sources import named_factory
from tests.harness.command_line import agentrig
from tests.harness.sessions_support import (
    ASSISTANT,
    WEATHER,
    ScriptedServer,
    ollama_reply,
    plan,
    record_scripted,
    response,
    serving,
    three_steps,
    version_scripts,
)

STRANGER = "http://192.0.2.7:8080"
NOT_FOUND = [response(404, b'{"error": "model \'m\' not found"}')]
THERE = [response(404, b"")]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key to lose, no server named, and traces under a directory of its own."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-ABCDEFGHIJKLMNOPQRSTUVWX")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    monkeypatch.chdir(tmp_path)


def at(server: ScriptedServer, path: Path) -> Path:
    """The session, with its model behind this server."""
    session = load_session(path).session
    assert session is not None
    assert session.model.base_url is not None
    text = path.read_text(encoding="utf-8").replace(session.model.base_url, server.url)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_session_that_ended_well_is_not_replaced_by_a_failure(tmp_path: Path) -> None:
    """The others are recorded; the failure is told with its error and fails the command."""
    lost, good = three_steps(tmp_path / "lost.yaml").path, three_steps(tmp_path / "good.yaml").path
    with serving() as server:
        before = at(server, lost).read_bytes()
        at(server, good)
        answer = [*version_scripts(), ollama_reply("Final Answer: 2")]
        server.add(THERE, THERE, *version_scripts(), NOT_FOUND, *answer)
        done = agentrig("replay", lost, good, "--rewrite")
    assert done.exit_code == 1
    assert "lost.yaml stays as it was: the run ended with model_error (ModelNotFound" in done.output
    assert "good.yaml (1 request)" in done.output
    assert "step 1: recorded get_weather" in done.output  # what is new in it
    assert lost.read_bytes() == before
    assert {each.name for each in tmp_path.glob("*.y*")} == {"lost.yaml", "good.yaml"}


def test_what_was_kept_stands_in_the_json(tmp_path: Path) -> None:
    """A program is told of the same."""
    path = three_steps(tmp_path / "lost.yaml").path
    with serving() as server:
        server.add(THERE, *version_scripts(), NOT_FOUND)
        done = agentrig("replay", at(server, path), "--rewrite", "--json")
    (told,) = json.loads(done.stdout)
    assert done.exit_code == 1
    assert "model_error" in told["error"]


def test_a_later_turn_that_fails_keeps_the_session_too(tmp_path: Path) -> None:
    """By `record --rewrite` as well, whose answers would be lost."""
    answers = [ollama_reply("Final Answer: 1"), ollama_reply("Final Answer: 2")]
    path = record_scripted(tmp_path / "two.yaml", *answers, questions=("1?", "2?")).path
    before = path.read_bytes()
    with pytest.raises(NotReplaced, match="the run of turn 2 ended with model_error") as caught:
        record_scripted(path, answers[0], NOT_FOUND, questions=("1?", "2?"), mode="rewrite")
    assert isinstance(caught.value.__cause__, ModelNotFound)
    assert path.read_bytes() == before


def test_what_cannot_be_read_is_not_replaced_by_a_failure(tmp_path: Path) -> None:
    """It may be a session that a merge has damaged."""
    path = tmp_path / "damaged.yaml"
    path.write_text("session: [", encoding="utf-8")
    with pytest.raises(NotReplaced):
        record_scripted(path, NOT_FOUND, mode="rewrite")
    assert path.read_text(encoding="utf-8") == "session: ["


def test_a_recorded_failure_is_recorded_again(tmp_path: Path) -> None:
    """New, it is named and fails the command; again the same, or an answer, it replaces."""
    with serving(THERE, *version_scripts(), NOT_FOUND) as server:
        done = agentrig("record", ASSISTANT, "?", "--name", "none", "--dir", tmp_path,
                        "--model", "m", "--base-url", server.url)  # fmt: skip
        assert done.exit_code == 1
        assert "none.yaml (1 request): it ended with model_error" in done.output
        path = tmp_path / "none.yaml"
        server.add(THERE, *version_scripts(), NOT_FOUND)
        assert agentrig("replay", path, "--rewrite").exit_code == 0
        server.add(THERE, *version_scripts(), ollama_reply("Final Answer: 2"))
        done = agentrig("replay", path, "--rewrite")
    assert done.exit_code == 0
    assert "recorded the run ends with model_error" in done.output
    session = load_session(path).session
    assert session is not None
    assert session.trajectory[0].answer == "2"


def strange(path: Path) -> Path:
    """A session that has a stranger's server asked for its model."""
    session = load_session(three_steps(path).path).session
    assert session is not None
    assert session.model.base_url is not None
    text = path.read_text(encoding="utf-8").replace(session.model.base_url, STRANGER)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_server_that_a_file_names_is_not_asked(tmp_path: Path) -> None:
    """Neither with nor without the command line; the words say how to allow it."""
    path = strange(tmp_path / "url.yaml")
    before = path.read_bytes()
    done = agentrig("replay", path, "--rewrite")
    assert done.exit_code == 2
    assert f"add `--allow {STRANGER}`" in done.output
    with pytest.raises(ServerRefused):
        rewrite(path, named_factory(ASSISTANT))
    assert path.read_bytes() == before


def test_a_server_that_an_agents_parameter_names_is_not_asked(tmp_path: Path) -> None:
    """The embedder of an allowed agent would be given the key for its address."""
    with serving(*version_scripts()) as server:
        stranger = plan(server.url, parameters={"v1": f"{STRANGER}/v1"})
        with pytest.raises(ServerRefused, match="nothing was sent there"):
            record(stranger, embedded, tmp_path / "s.yaml", servers=())
    assert not (tmp_path / "s.yaml").exists()


class _Interrupts:
    """An observer that stops everything after the first step, as Ctrl-C does."""

    def started(self, event: object) -> None:
        """Nothing is over yet."""

    def ended(self, token: object, event: object) -> None:
        if isinstance(event, StepEnded):
            raise KeyboardInterrupt


def test_a_server_that_a_journal_names_is_not_asked(tmp_path: Path) -> None:
    """A recording that is resumed may not be one's own; what it holds stays."""
    path = tmp_path / "s.yaml"
    with pytest.raises(KeyboardInterrupt):
        record_scripted(path, ollama_reply(WEATHER), observers=[_Interrupts()])
    journal = path.with_name("s.yaml.journal")
    text = re.sub(r'"base_url":"[^"]*"', f'"base_url":"{STRANGER}"', journal.read_text("utf-8"))
    journal.write_text(text, encoding="utf-8")
    done = agentrig("record", ASSISTANT, "--name", "s", "--dir", tmp_path, "--resume")
    assert done.exit_code == 2
    assert f"add `--allow {STRANGER}`" in done.output
    assert journal.read_text(encoding="utf-8") == text


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The folder of an interrupted recording of `s`."""
    with pytest.raises(KeyboardInterrupt):
        record_scripted(tmp_path / "s.yaml", ollama_reply(WEATHER), observers=[_Interrupts()])
    return tmp_path


@pytest.mark.parametrize(
    ("given", "was", "now"),
    [
        (["Other 问题?"], "Weather in Lisbon, and 2 + 3?", "Other 问题?"),
        (["a", "b"], "Weather in Lisbon, and 2 + 3?", "b"),
        (["--model", "other"], 'model.name: "m"', 'model.name: "other"'),
        (["--api", "openai"], 'model.api: "ollama"', 'model.api: "openai"'),
        (["--base-url", "http://127.0.0.1:1"], "base_url", 'base_url: "http://127.0.0.1:1"'),
        (["--stream"], "model.stream: false", "model.stream: true"),
        (["-o", "temperature=1"], "temperature: 0", "temperature: 1"),
        (["-o", "seed=4"], "nothing of it", "model.options.seed: 4"),
        (["--param", "language=zh"], 'language: "en"', 'language: "zh"'),
        (["--param", "city=Rome"], "nothing of it", 'parameters.city: "Rome"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_resumed_stays_what_it_was(
    begun: Path, given: list[str], was: str, now: str
) -> None:
    """What is given and differs is named with both values, and nothing is asked."""
    journal = begun / "s.yaml.journal"
    before = journal.read_bytes()
    done = agentrig("record", ASSISTANT, "--name", "s", "--dir", begun, "--resume", *given)
    assert done.exit_code == 2
    ours, theirs = done.output.split(", not of ")
    assert was in ours
    assert now in theirs
    assert journal.read_bytes() == before
    assert not (begun / "s.yaml").exists()


def test_what_is_resumed_may_be_said_again(begun: Path) -> None:
    """The same values in other spellings; what is not given comes from the journal."""
    journal = begun / "s.yaml.journal"
    with serving(ollama_reply("Final Answer: 5")) as server:
        text = re.sub(r"http://127\.0\.0\.1:\d+", server.url, journal.read_text("utf-8"))
        journal.write_text(text, encoding="utf-8")
        done = agentrig(
            "record", ASSISTANT, "Weather in Lisbon, and 2 + 3?", "--name", "s", "--dir", begun,
            "--resume", "--model", "m", "-o", "temperature=0.0", "--no-stream", "--param",
            "language=en", "--base-url", f"{server.url.upper()}/",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    session = load_session(begun / "s.yaml").session
    assert session is not None
    assert [turn.question for turn in session.turns] == ["Weather in Lisbon, and 2 + 3?"]


@pytest.mark.parametrize(
    ("url", "is_known"),
    [
        ("http://127.0.0.1:1/v1", True),
        ("http://[::1]:1", True),
        ("http://localhost", True),
        ("https://gpu.example/other", True),
        ("https://GPU.example:443", True),
        ("http://gpu.example", False),
        ("https://gpu.example:8443", False),
        ("https://gpu.example.evil.example", False),
        ("https://gpu.example@evil.example", False),
        ("https://api.example/v1/chat", True),
        ("http://ollama.example:11434/api/chat", True),
        ("http://ollama.example/api/chat", False),
        ("http://shop", False),
    ],
)
def test_servers_are_known_by_scheme_host_and_port(
    url: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the environment and of `--allow` beside this machine."""
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.example/v1")
    monkeypatch.setenv("OLLAMA_HOST", "ollama.example")
    servers = Servers(["shop", "https://gpu.example/v1"])
    if is_known:
        servers.check(url)
    else:
        with pytest.raises(ServerRefused):
            servers.check(url)
