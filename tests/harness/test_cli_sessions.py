"""The commands that record and replay sessions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.sessions.cassette import load_session
from harness.sessions.suite import session_files
from tests.harness.command_line import agentrig
from tests.harness.sessions_support import (
    ANSWER,
    ASSISTANT,
    SUM,
    WEATHER,
    ollama_reply,
    response,
    serving,
    three_steps,
    version_scripts,
)

pytestmark = pytest.mark.usefixtures("own_directory")


def recording(*texts: str) -> list[Any]:
    """Scripts for `record`: is somebody there, the server's facts, the replies."""
    return [[response(404, b"")], *version_scripts(), *(ollama_reply(text) for text in texts)]


def test_record_then_replay(tmp_path: Path) -> None:
    """The main job: one command keeps a session, the other checks it without the server."""
    with serving(*recording(WEATHER, SUM, ANSWER)) as server:
        done = agentrig(
            "record", ASSISTANT, "Weather in Lisbon?", "--name", "first", "--dir", tmp_path,
            "--model", "m", "--base-url", server.url, "-o", "temperature=0", "-o", "num_ctx=4096",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "Action: get_weather" in done.output
    assert "Answer: It is fine" in done.output
    session = load_session(tmp_path / "first.yaml").session
    assert session is not None
    assert session.model.options == {"temperature": 0, "num_ctx": 4096}
    replayed = agentrig("replay", tmp_path)
    assert replayed.exit_code == 0, replayed.output
    assert "ok" in replayed.output
    assert "1 session, 1 ok" in replayed.output


def test_record_takes_parameters_and_several_turns(tmp_path: Path) -> None:
    """`--param` reaches the factory, language and protocol included; questions are turns."""
    with serving(*recording(ANSWER, "最终答案：好")) as server:
        done = agentrig(
            "record", ASSISTANT, "一？", "二？", "--name", "两轮", "--dir", tmp_path, "--json",
            "--model", "m", "--base-url", server.url, "--param", "language=zh",
            "--param", "protocol=react-json", "--param", "max_steps=3",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["requests"] == 2
    assert said["stop_reasons"] == ["final_answer", "final_answer"]
    session = load_session(tmp_path / "两轮.yaml").session
    assert session is not None
    assert session.agent.language == "zh"
    assert session.agent.parameters == {"max_steps": 3}
    assert [turn.question for turn in session.turns] == ["一？", "二？"]


def test_a_changed_agent_fails_and_is_explained(tmp_path: Path) -> None:
    """Exit 1, the reason in words, and the same in JSON."""
    three_steps(tmp_path / "s.yaml")
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8")
    old = "Current weather of one city"
    assert old in text
    (tmp_path / "s.yaml").write_text(text.replace(old, "Weather of one city"), encoding="utf-8")
    done = agentrig("replay", tmp_path / "s.yaml")
    assert done.exit_code == 1
    assert "3 of 3 steps differ for one reason: description of tool `get_weather`" in done.output
    assert "FAILED s" in done.output
    as_json = agentrig("replay", tmp_path, "--json")
    assert as_json.exit_code == 1
    (report,) = json.loads(as_json.stdout)["sessions"]
    assert report["causes"][0]["part"] == "description of tool `get_weather`"
    assert agentrig("replay", tmp_path, "--mode", "lenient").exit_code == 0
    assert agentrig("replay", tmp_path, "--fail-on", "fail").exit_code == 0


COMMANDS = "x\n::error::pwned\n  ::add-mask::1\n a ##[add-mask]b\n##vso[task.setvariable]c"


def obeyed(output: str) -> list[str]:
    """The lines that a runner of GitHub or Azure takes for commands, by its own rules."""
    old = re.compile(r"##(\w*)\[")
    return [each for each in output.splitlines()
            if re.match(r"\s*::[\w-]+( .*?)?::", each) or old.search(each)]  # fmt: skip


@pytest.mark.parametrize("runner", ["GITHUB_ACTIONS", "TF_BUILD", None])
def test_what_a_model_says_is_no_command_to_a_build(
    tmp_path: Path, runner: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as it runs nor in drift or a trace; our own annotations are commands still."""
    for each in ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(each, raising=False)
    if runner is not None:
        monkeypatch.setenv(runner, "true")
    reply = f"Thought: {COMMANDS}\nFinal Answer: {COMMANDS}"
    with serving(*recording(reply)) as server:
        said = agentrig("record", ASSISTANT, COMMANDS, "--name", "s", "--dir", tmp_path,
                        "--model", "m", "--base-url", server.url, "--content", "full")  # fmt: skip
    path = tmp_path / "s.yaml"
    path.write_text(path.read_text("utf-8").replace("##[add", "##[remove", 1), encoding="utf-8")
    drift = agentrig("replay", path, "--annotations", "github")
    shown = agentrig("trace", "show", "last", "--content")
    as_json = agentrig("replay", path, "--json")
    outputs = [said.output, drift.output, shown.output, as_json.stdout]
    assert all("pwned" in each for each in outputs)
    assert drift.exit_code == 1
    ours = [each for each in obeyed(drift.output) if each.startswith("::error file=")]
    assert len(ours) >= 1
    assert obeyed(as_json.stdout) == []
    if runner is None:
        assert "::error::pwned" in said.output
    else:
        assert [each for each in obeyed("\n".join(outputs)) if each not in ours] == []


def test_rewrite_of_some_sessions_in_one_command(tmp_path: Path) -> None:
    """Each named session is asked again; the others stay as they are."""
    with serving() as server:
        url = server.url
        for name in ("a", "b", "c"):
            server.add(*recording("Final Answer: 1"))
            done = agentrig("record", ASSISTANT, "Q?", "--name", name, "--dir", tmp_path,
                            "--model", "m", "--base-url", url)  # fmt: skip
            assert done.exit_code == 0, done.output
        before = (tmp_path / "c.yaml").read_bytes()
        once_more = [*version_scripts(), ollama_reply("Final Answer: 2")]
        server.add([response(404, b"")], [response(404, b"")], *once_more, *once_more)
        done = agentrig("replay", tmp_path / "a.yaml", tmp_path / "b.yaml", "--rewrite")
        assert done.exit_code == 0, done.output
    answers = [
        load_session(tmp_path / f"{name}.yaml").session.trajectory[0].answer  # type: ignore[union-attr]
        for name in ("a", "b", "c")
    ]
    assert answers == ["2", "2", "1"]
    assert (tmp_path / "c.yaml").read_bytes() == before


def test_what_is_no_session_does_not_stop_the_others(tmp_path: Path) -> None:
    """A damaged file is named and makes exit 2; the rest is replayed."""
    three_steps(tmp_path / "good.yaml")
    (tmp_path / "bad.yaml").write_text("session: {version: 99}\n", encoding="utf-8")
    (tmp_path / "unrelated.yaml").write_text("name: ci\n", encoding="utf-8")
    done = agentrig("replay", tmp_path)
    assert done.exit_code == 2
    assert "ERROR" in done.output
    assert "newer agentrig" in done.output
    assert "2 sessions, 1 ok, 1 could not be replayed" in done.output


def test_an_agent_that_crashes_fails_its_session_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 1, the exception in one line, and the other verdicts."""
    three_steps(tmp_path / "good.yaml")
    text = (tmp_path / "good.yaml").read_text(encoding="utf-8")
    text = text.replace(ASSISTANT, "crashing_agents:agent")
    (tmp_path / "crash.yaml").write_text(text, encoding="utf-8")
    module = "def agent(*args, **kwargs):\n    raise RuntimeError('no database')\n"
    (tmp_path / "crashing_agents.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    done = agentrig("replay", tmp_path, "--allow", "crashing_agents")
    assert done.exit_code == 1
    assert "ERROR  crash: the agent raised RuntimeError: no database" in done.output
    assert "2 sessions, 1 ok, 1 could not be replayed" in done.output


INTERRUPTED = """
from pathlib import Path

from harness.demo.agents import assistant


class Once:
    def started(self, event):
        return None

    def ended(self, token, event):
        mark = Path("interrupted")
        if type(event).__name__ == "StepEnded" and not mark.exists():
            mark.touch()
            raise KeyboardInterrupt


def agent(*args, **kwargs):
    return assistant(*args, **kwargs).replace(observers=[Once()])
"""


def test_resume_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is exit 130 and leaves a journal; `--resume` finishes it."""
    (tmp_path / "interrupted_agents.py").write_text(INTERRUPTED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    record = ["record", "interrupted_agents:agent", "--name", "r", "--dir", "kept"]
    with serving(*recording(WEATHER)) as server:
        ask = ["?", "--model", "m", "--base-url", server.url]
        done = agentrig(*record, *ask)
        assert done.exit_code == 130, done.output
        assert "go on with: agentrig record interrupted_agents:agent --name r" in done.output
        assert [each.name for each in Path("kept").iterdir()] == ["r.yaml.journal"]
        server.add([response(404, b"")], ollama_reply(ANSWER))
        refused = agentrig(*record, *ask)
        assert refused.exit_code == 2
        assert "--resume" in refused.output
        done = agentrig(*record, "--resume")
    assert done.exit_code == 0, done.output
    assert len(load_session(Path("kept/r.yaml")).takes) == 2
    assert agentrig("replay", "kept", "--allow", "interrupted_agents").exit_code == 0


def test_values_of_secret_variables_do_not_reach_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that has no shape is known by the name of its variable."""
    monkeypatch.setenv("SHOP_PASSWORD", "wolpertinger-am-see")
    with serving(*recording("Final Answer: it is wolpertinger-am-see")) as server:
        done = agentrig("record", ASSISTANT, "?", "--name", "s", "--dir", tmp_path, "--model", "m",
                        "--base-url", server.url, "-o", "api_key=hush-hush-hush")  # fmt: skip
    assert done.exit_code == 0, done.output
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8") + done.output
    assert "wolpertinger" not in text
    assert "hush-hush-hush" not in text
    assert agentrig("replay", tmp_path).exit_code == 0


def test_session_files_are_found_in_folders(tmp_path: Path) -> None:
    """Sessions and cassettes in any depth, once each; other YAML is not touched."""
    (tmp_path / "deep").mkdir()
    for name, start in {
        "a.yaml": "session:\n", "deep/b.yml": "interactions: []\n", "deep/c.yaml": "version: 1\n",
        "d.yaml": "on: push\n", "e.txt": "session:\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(start, encoding="utf-8")
    found = session_files([tmp_path, tmp_path / "a.yaml"])
    assert [each.name for each in found] == ["a.yaml", "b.yml", "c.yaml"]
