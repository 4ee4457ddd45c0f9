"""From recordings to the fuzzer, and from its findings to sessions."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.fuzz.generate import Plan
from harness.fuzz.loop import LoopCampaign
from harness.fuzz.noise import NoReplies, read_seeds
from harness.fuzz.oracles import Fault
from harness.fuzz.parser import case_of
from harness.minimize.reply import session_of_reply, write_replies
from harness.sessions.cassette import parse_session, render_session
from harness.sessions.lint import lint_session
from harness.sessions.replay import replay
from tests.harness.command_line import agentrig

CASSETTES = Path(__file__).parents[2] / "cassettes"
TOOLS = {"read_tide": {"type": "object", "properties": {"harbour": {"type": "string"}}}}
CALL = 'Action: {"name": "read_tide", "parameters": {"harbour": "青屿"}}'


def a_case(**fields: Any) -> dict[str, Any]:
    return {"id": "wrong_call-7", "kind": "wrong_call", "text": CALL, "tools": TOOLS} | fields


@pytest.mark.parametrize("number", range(0, 120, 5))
def test_any_reply_becomes_a_session(number: int) -> None:
    """Every operator's reply: the session loads, replays without a trusted module, and lints."""
    example = Plan().number(1, number)
    case = {**case_of(example, Fault("wrong_call", None)), "id": f"wrong_call-{number}"}
    file = parse_session(render_session(session_of_reply(case)))
    assert replay(file).ok
    findings = lint_session(file, Path("x.yaml"))
    assert {each.rule for each in findings} <= {"length"}


def test_what_the_session_says() -> None:
    """One step, the call with what it gives, and that no model said this."""
    session = session_of_reply(a_case(expect_any=[{"kind": "final", "answer": "x"}])).session
    assert session is not None
    assert [len(turn.steps) for turn in session.trajectory] == [1]
    assert session.trajectory[0].steps[0].actions[0].arguments == {"harbour": "青屿"}
    assert session.trajectory[0].error == "BadRequest"
    assert [(call.tool, call.value) for call in session.tape] == [
        ("read_tide", {"harbour": "青屿"})
    ]
    derived = session.provenance.derived or ""
    assert "wrong_call-7" in derived
    assert '"answer":"x"' in derived


def test_native_call() -> None:
    """A call that the server reports is a session of native calls."""
    native = {"name": "read_tide", "arguments": {"harbour": "Tern Bay"}}
    session = session_of_reply(a_case(text="", native=native)).session
    assert session is not None
    assert session.agent.protocol == "native"
    assert session.trajectory[0].steps[0].actions[0].tool == "read_tide"


def test_what_has_no_reply_is_left_out(tmp_path: Path) -> None:
    """Growth has no text, and what hangs a parser is not read again."""
    cases = [
        a_case(kind="killed", id="killed-1"),
        {"kind": "growth", "family": "nested", "id": "growth-2"},
        a_case(tools={"no name!": {}}, id="wrong_call-3"),
        a_case(),
    ]
    assert write_replies(cases, tmp_path / "sessions") == [tmp_path / "sessions/wrong_call-7.yaml"]


def test_save_writes_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fuzz parser --save`: the findings, a test, and a folder that replays and lints."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "careless.py").write_text(
        "def parse(text, tools):\n    raise KeyError(text)\n", encoding="utf-8"
    )
    done = agentrig("fuzz", "parser", "--target", "careless:parse", "--only", "M1", "--examples", "20",
                    "--workers", "1", "--save", "found")  # fmt: skip
    assert done.exit_code == 1, done.output
    assert "wrote found/sessions" in done.output
    lines = Path("found/findings.jsonl").read_text(encoding="utf-8").splitlines()
    findings = [json.loads(line) for line in lines]
    saved = {each.stem for each in Path("found/sessions").iterdir()}
    assert saved
    assert saved <= {each["id"] for each in findings}
    assert agentrig("replay", "found/sessions").exit_code == 0
    assert agentrig("lint", "found/sessions").exit_code == 0


def test_seeds_of_the_loop() -> None:
    """Real replies are in the scripts, with calls of tools that are there; seedless as before."""
    seeds = read_seeds(CASSETTES)
    plain, seeded = (
        LoopCampaign("harness.fuzz.loop:react_json", 1, given) for given in ((), seeds)
    )
    texts = [
        each.text for index in range(40) for each in seeded.make(index)[0] if hasattr(each, "text")
    ]
    known = {seed.text for seed in seeds if "Final Answer" in seed.text or "最终答案" in seed.text}
    assert any(text in known for text in texts)
    assert any('"find_ferry"' in text and '"city"' in text for text in texts)
    assert plain.make(3)[0] == LoopCampaign("harness.fuzz.loop:react_json", 1).make(3)[0]


def test_loop_with_seeds() -> None:
    """Sessions are read as seeds on the command line."""
    done = agentrig("fuzz", "loop", "--seeds", CASSETTES, "--examples", "40", "--workers", "1")
    assert done.exit_code == 0, done.output
    assert "No findings" in done.output


@pytest.mark.parametrize("border", ["parser", "loop"])
def test_seeds_without_replies(border: str, tmp_path: Path) -> None:
    """A folder without replies is wrong usage."""
    done = agentrig("fuzz", border, "--seeds", tmp_path)
    assert done.exit_code == 2
    assert "found none" in done.output


def test_a_damaged_file_among_seeds_is_named_and_the_others_are_used(tmp_path: Path) -> None:
    """One that was named itself is an error."""
    shutil.copy(CASSETTES / "weather-zh.yaml", tmp_path)
    empty = tmp_path / "empty.yaml"
    empty.touch()
    (tmp_path / "lost.yaml").symlink_to("nowhere")
    left_out: list[str] = []
    seeds = read_seeds(tmp_path, unreadable=lambda file, _error: left_out.append(file.name))
    assert (len(seeds), left_out) == (2, ["empty.yaml", "lost.yaml"])
    for path in (empty, tmp_path):
        with pytest.raises(NoReplies, match="empty"):
            read_seeds(path)
