"""Which code a session file may make run, and what is asked of a server."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from agent_core import Agent
from agent_core.clock import ManualClock, SystemClock
from agent_core.errors import ConfigError, ConnectionFailed
from agent_core.models import OllamaChat, OpenAIChat, RouterChat, ScriptedModel
from agent_core.summary import SummaryMemory
from agent_core.tools import FunctionCallExecutor
from harness import instrument
from harness.demo.agents import assistant
from harness.sessions.cassette import load_session, render_session
from harness.sessions.clocks import RecordingClock, ReplayClock, seeded
from harness.sessions.errors import FactoryRefused
from harness.sessions.format import AgentSource, ModelSource
from harness.sessions.replay import replay
from harness.sessions.sources import (
    allowed_factory,
    build_agent,
    build_model,
    named_factory,
    public,
    reachable,
    resolved,
    server_facts,
)
from tests.harness.sessions_support import response, serving, three_steps

HOSTILE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
from harness.demo.agents import assistant
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a mark when it is imported; gives the mark."""
    marker = tmp_path / "ran"
    (tmp_path / "hostile_agents.py").write_text(
        textwrap.dedent(HOSTILE.format(marker=str(marker))), encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "hostile_agents", raising=False)
    return marker


def session_naming(tmp_path: Path, factory: str) -> Path:
    """A session file that names another factory than it was recorded with."""
    file = three_steps(tmp_path / "s.yaml").file
    text = render_session(file).replace("harness.demo.agents:assistant", factory, 1)
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    return tmp_path / "s.yaml"


def test_a_session_cannot_import_a_module_nobody_allowed(tmp_path: Path, hostile: Path) -> None:
    """The file is read, the module is not; the words say how to allow it."""
    path = session_naming(tmp_path, "hostile_agents:assistant")
    with pytest.raises(FactoryRefused, match="--allow hostile_agents"):
        replay(path)
    assert not hostile.exists()
    assert "hostile_agents" not in sys.modules


def test_an_allowed_package_allows_what_it_defines(tmp_path: Path, hostile: Path) -> None:
    """What the user allows is imported; a function that another module defined is not run."""
    path = session_naming(tmp_path, "hostile_agents:assistant")
    assert replay(path, allow=["hostile_agents"]).ok  # harness.demo, where it is from, is allowed
    assert hostile.exists()
    with pytest.raises(FactoryRefused, match="defined in 'pathlib"):
        allowed_factory("hostile_agents:Path", ["hostile_agents"])


def test_a_named_factory_replaces_the_sessions_own(tmp_path: Path, hostile: Path) -> None:
    """With a factory from the command line the one in the file is never looked at."""
    path = session_naming(tmp_path, "hostile_agents:assistant")
    assert replay(path, factory="harness.demo.agents:assistant").ok
    assert not hostile.exists()


def test_a_parameter_that_the_factory_does_not_take_is_named() -> None:
    """The words name it and what there is; an error inside the factory stays its own."""
    source = AgentSource(factory="harness.demo.agents:assistant", parameters={"nope": 1})
    model, clock = ScriptedModel([]), SystemClock()
    with requests.Session() as http:
        with pytest.raises(FactoryRefused, match=r"'nope'; it takes \(.*max_steps"):
            build_agent(named_factory(source.factory), source, model, clock, http)

        def broken(model: Any, *, clock: Any, language: str, protocol: str) -> Any:
            raise TypeError("inside")

        with pytest.raises(TypeError, match="inside"):
            build_agent(broken, AgentSource(factory="m:broken"), model, clock, http)


def test_a_module_that_cannot_be_imported_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its code raises is told with its file and line."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in (("raises_early", "\n1 / 0"), ("no_python", "\nif:")):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        with pytest.raises(FactoryRefused, match=rf"importing '{name}' raised .*{name}.py, line 2"):
            named_factory(f"{name}:agent")


@pytest.mark.parametrize(
    "reference",
    [
        "os:system", "builtins:exec", "subprocess:run", "harness.demo_evil:x", "harness:x",
        "harness.demo.agents", "harness.demo.agents:", ":x", "a:b:c", "harness.demo.agents:a.b",
        "harness.demo.agents:__import__", "../x:y", "harness.demo..agents:x", "a b:c", "", "é:\n",
    ],
)  # fmt: skip
def test_names_that_are_not_allowed(reference: str) -> None:
    """Neither other modules nor look-alikes nor attributes of attributes."""
    with pytest.raises(FactoryRefused):
        allowed_factory(reference)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("no_such_module_here:x", "cannot import"),
        ("harness.demo.agents:nothing", "has no function"),
        ("harness.demo.agents", "module:function"),
    ],
)
def test_a_factory_that_is_not_there_is_named(reference: str, words: str) -> None:
    """The words say what was expected."""
    with pytest.raises(FactoryRefused, match=words):
        named_factory(reference)


def test_a_factory_has_to_take_the_parameters_and_give_an_agent() -> None:
    """A wrong parameter and a wrong result are told apart from errors inside the factory."""
    model = OllamaChat("m", base_url="http://127.0.0.1:1")
    source = AgentSource(factory="a:b", parameters={"colour": "red"})
    with pytest.raises(FactoryRefused, match="colour"):
        build_agent(
            named_factory("harness.demo.agents:assistant"),
            source,
            model,
            SystemClock(),
            requests.Session(),
        )
    with pytest.raises(FactoryRefused, match="gave int"):
        build_agent(lambda *a, **k: 1, source, model, SystemClock(), requests.Session())  # type: ignore[arg-type]


def test_models_are_built_as_the_session_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both APIs; Ollama's own settings go where they belong."""
    import requests

    http = requests.Session()
    options = {"temperature": 0, "num_ctx": 512, "think": False, "keep_alive": "5m"}
    ollama = build_model(
        ModelSource(name="m", base_url="http://127.0.0.1:1", options=options),
        session=http,
        clock=SystemClock(),
    )
    assert isinstance(ollama, OllamaChat)
    assert ollama.context_window == 512
    source = ModelSource(api="openai", name="m", base_url="http://127.0.0.1:1/v1")
    assert isinstance(build_model(source, session=http, clock=SystemClock()), OpenAIChat)
    monkeypatch.setenv("OLLAMA_HOST", "10.0.0.9:4")
    assert resolved(ModelSource(name="m")).base_url == "http://10.0.0.9:4"
    assert public(ModelSource(name="m", base_url="http://u:pass@h/")).base_url == "http://h/"


def test_the_server_is_asked_what_it_is() -> None:
    """Version and digest of the model, by its full name; `/v1` on this machine too."""
    tags = {"models": [{"name": "x:latest", "digest": "1"}, {"name": "m:latest", "digest": "2"}]}

    def scripts() -> list[list[Any]]:
        return [
            [response(200, b'{"version":"0.24.0"}')],
            [response(200, json.dumps(tags).encode())],
        ]

    with serving(*scripts(), *scripts()) as server:
        facts = server_facts(ModelSource(name="m", base_url=server.url))
        assert (facts.server, facts.model_digest) == ("ollama 0.24.0", "2")
        facts = server_facts(ModelSource(api="openai", name="m", base_url=f"{server.url}/v1"))
        assert (facts.server, facts.model_digest) == ("ollama 0.24.0", "2")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"version": 5}', b"{}"])
def test_a_server_that_says_nothing_useful_is_not_guessed_at(body: bytes) -> None:
    """Unknown stays unknown."""
    with serving([response(200, body)]) as server:
        assert server_facts(ModelSource(name="m", base_url=server.url)).server is None


def test_an_endpoint_is_looked_for_before_a_recording() -> None:
    """Nobody there is an error of its own; any answer at all is somebody."""
    with serving([response(404, b"")]) as server:
        reachable(ModelSource(name="m", base_url=server.url))
        url = server.url
    with pytest.raises(ConnectionFailed, match="nothing answers"):
        reachable(ModelSource(name="m", base_url=url))


def test_provenance_stands_in_the_file(tmp_path: Path) -> None:
    """Server, digest, our version and the time of the recording."""
    session = three_steps(tmp_path / "s.yaml").file.session
    assert session is not None
    assert session.provenance.server == "ollama 0.24.0"
    assert session.provenance.model_digest == "0123abcd"
    assert session.provenance.agentrig
    assert session.provenance.recorded_at
    assert load_session(tmp_path / "s.yaml").session == session


def test_the_wall_clock_reads_the_same_twice() -> None:
    """A replay gives every recorded reading, then goes on with what has passed."""
    from datetime import UTC, datetime

    base = ManualClock(datetime(2026, 11, 30, 12, tzinfo=UTC), tick=1.5)
    recording = RecordingClock(base)
    readings = [recording.now() for _ in range(3)]
    replaying = ReplayClock(recording.readings)
    assert [replaying.now() for _ in range(3)] == readings
    assert replaying.now() == readings[-1]
    replaying.sleep(2.0)
    assert (replaying.now() - readings[-1]).total_seconds() == 2.0
    replaying.advance_to(1.0)
    assert replaying.monotonic() == 2.0


def test_chance_is_the_same_and_comes_back() -> None:
    """`random` starts from the session's seed and is then as it was."""
    import random

    before = random.getstate()
    with seeded(7):
        first = random.random()
    with seeded(7):
        assert random.random() == first
    assert random.getstate() == before


def test_chance_is_the_same_while_the_agent_is_built(tmp_path: Path) -> None:
    """A factory may toss a coin: the replay gets what the recording got."""
    import random

    def tossed(*args: Any, **kwargs: Any) -> Any:
        number = random.random()
        return assistant(*args, **kwargs).replace(instructions=f"Your number is {number}.")

    path = tmp_path / "tossed.yaml"
    three_steps(path, factory=tossed)
    random.random()  # what happens meanwhile does not count
    assert replay(path, factory=tossed).ok
    assert not replay(path, factory=assistant).ok


def test_a_replay_takes_as_much_of_the_recorded_time_as_it_is_told(tmp_path: Path) -> None:
    """At once unless a pace is given; the clock of the agent says the same at any pace."""
    path = tmp_path / "slow.yaml"
    three_steps(path)
    file = load_session(path)
    assert file.session is not None
    takes = [
        each.model_copy(update={"at": 1000.0 * number, "seconds": 1000.0, "times": []})
        for number, each in enumerate(file.session.takes)
    ]
    file = replace(file, session=file.session.model_copy(update={"takes": takes}))
    at_once = replay(file, factory=assistant)
    paced = replay(file, factory=assistant, pace=0.0001)
    assert (at_once.ok, paced.ok) == (True, True)
    assert paced.seconds >= 0.3
    assert at_once.results[0].answer == paced.results[0].answer
    with pytest.raises(ConfigError, match="pace must be from 0"):
        replay(file, factory=assistant, pace=2.0)


def test_a_replay_refuses_a_model_that_the_agent_brings_itself(tmp_path: Path) -> None:
    """It would ask a server; behind a router or a memory, too. One that sends through `http` is fine."""
    path = tmp_path / "own.yaml"
    three_steps(path)
    own = OllamaChat("m", base_url="http://127.0.0.1:9")

    def direct(_model: Any, **how: Any) -> Any:
        return assistant(own, **how)

    def routed(model: Any, **how: Any) -> Any:
        return assistant(RouterChat([model, own]), **how)

    def through(model: Any, *, http: requests.Session, **how: Any) -> Any:
        return assistant(RouterChat([model, OllamaChat("n", session=http)]), **how)

    def summing(model: Any, **how: Any) -> Any:
        return assistant(model, **how).replace(memory=SummaryMemory(own))

    for factory in (direct, routed, summing):
        with pytest.raises(FactoryRefused, match=r"OllamaChat\('m', .* a model of its own"):
            replay(path, factory=factory)
    assert replay(path, factory=through).ok


def test_a_factory_that_was_given_is_the_one_that_is_named(tmp_path: Path) -> None:
    """Not the one that the session names."""
    path = tmp_path / "given.yaml"
    three_steps(path)

    def narrow(model: Any) -> Any:
        return assistant(model, clock=SystemClock())

    with pytest.raises(FactoryRefused, match=r"test_sessions_sources:.*narrow cannot be called"):
        replay(path, factory=narrow)


def test_subclasses_of_the_agent_and_its_executor_are_recorded_and_replayed(tmp_path: Path) -> None:
    """What they override is part of the agent: a replay without it is another run."""

    class Loud(FunctionCallExecutor):
        def execute(self, action: Any, **how: Any) -> Any:
            seen = super().execute(action, **how)
            return replace(seen, text=seen.text.upper())

    class Polite(Agent):
        def run(self, question: str, *args: Any, **how: Any) -> Any:
            return super().run(f"{question} Please.", *args, **how)

    def loud(*args: Any, **how: Any) -> Any:
        plain = assistant(*args, **how)
        return plain.replace(executor=Loud(plain.executor.definitions.values()))

    def polite(model: Any, **how: Any) -> Any:
        return Polite(model, executor=assistant(model, **how).executor, **how)

    for number, factory in enumerate((loud, polite)):
        path = tmp_path / f"{number}.yaml"
        three_steps(path, factory=factory)
        assert replay(path, factory=factory).ok
        assert not replay(path, factory=assistant).ok
        agent = factory(ScriptedModel([]), clock=SystemClock())
        watched = instrument(agent)
        assert (type(watched), type(watched.executor)) == (type(agent), type(agent.executor))
