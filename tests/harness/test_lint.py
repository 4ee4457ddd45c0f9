"""Lint finds what is wrong with recordings, and nothing in good ones."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent_core.agent import Agent
from agent_core.memory import WindowMemory
from harness.cli import main
from harness.demo.agents import assistant
from harness.sessions.cassette import load_session
from harness.sessions.format import Acceptance
from harness.sessions.lint import RULES, fix, lint, lint_session
from harness.sessions.replay import replay
from tests.harness.serve_support import (
    ASKED,
    CALL,
    FIRST,
    QUESTION,
    SEEN,
    cassette,
    interaction,
    ndjson,
    record,
    tool_turn,
)
from tests.harness.sessions_support import (
    ANSWER,
    ollama_line,
    ollama_reply,
    record_scripted,
    response,
    three_steps,
)

KEY = "sk-" + "proj-Abc123Def456Ghi789Jkl012"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}


def rules(*paths: Path, **how: Any) -> list[str]:
    """What is found, but for what every stock cassette has."""
    return [each.rule for each in lint(paths, **how) if each.rule != "unknown-origin"]


def stock(folder: Path, *pairs: tuple[Any, Any]) -> Path:
    """A cassette of these requests and replies."""
    inside = [interaction(body, json.dumps(reply)) for body, reply in pairs]
    return cassette(folder / "stock.yaml", *inside)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps."""
    path = tmp_path_factory.mktemp("good") / "three.yaml"
    three_steps(path)
    return counted(path)


def counted(path: Path) -> Path:
    """Let the counts of the prompts grow as the prompts do: the scripted server's stand still."""
    text = path.read_text(encoding="utf-8")
    for number in range(1, 4):
        text = text.replace('"prompt_eval_count": 90', f'"prompt_eval_count": {number}00', 1)
    path.write_text(text, encoding="utf-8")
    return path


def changed(good: Path, folder: Path, old: str, new: str) -> Path:
    """The good session with a text changed."""
    text = good.read_text(encoding="utf-8")
    assert old in text
    path = folder / "changed.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path


def test_good_files_have_no_findings(good: Path, tmp_path: Path) -> None:
    """A session as it was recorded, and a stock cassette of a native tool turn."""
    assert rules(good, tool_turn(tmp_path / "tour.yaml")) == []
    assert [each.level for each in lint([tmp_path / "tour.yaml"])] == ["info"]


def test_secrets_are_found_everywhere_and_taken_out(tmp_path: Path) -> None:
    """In headers, requests, replies that spell them over lines; they are named by place only."""
    pieces = (KEY[:9], KEY[9:20], KEY[20:])
    lines = ndjson(*[record(piece, done=False) for piece in pieces], record())
    asked = {**FIRST, "messages": [{"role": "user", "content": f"my key is {KEY}"}]}
    one = interaction(asked, lines, headers={"Set-Cookie": ["session=0123456789abcdef"]})
    one["request"]["headers"] = {"Authorization": ["Bearer abcdefghijklmnop"]}
    path = cassette(tmp_path / "c.yaml", one)
    found = [each for each in lint([path]) if each.rule == "secret"]
    assert [(each.where, each.words) for each in found] == [
        ("request 1", "header Authorization holds a credential"),
        ("request 1", "the body holds what looks like a credential"),
        ("reply 1", "header Set-Cookie holds a credential"),
        ("reply 1", "the body holds what looks like a credential"),
    ]
    assert all(each.fixable for each in found)
    assert KEY not in str(found)
    assert fix(path)
    assert rules(path) == []
    assert not fix(path)
    assert "abcdefghijklmnop" not in path.read_text(encoding="utf-8")


def test_a_mended_session_replays(good: Path, tmp_path: Path) -> None:
    """The block is scrubbed too, and nothing that a replay compares is lost."""
    path = changed(good, tmp_path, "agentrig: ", f"derived: {KEY}\n    agentrig: ")
    assert [(each.rule, each.where) for each in lint([path])] == [("secret", "provenance.derived")]
    assert fix(path)
    assert KEY not in path.read_text(encoding="utf-8")
    assert replay(path).ok


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ('Action: {"name": "get_whether", "parameters": {"city": "Lisbon"}}', "unknown-tool"),
        ('Action: {"name": "get_weather", "parameters": {"city": "Lis', "unparsable-reply"),
        ("", "unparsable-reply"),
    ],
)
def test_replies_are_read_as_the_agent_reads_them(good: Path, reply: str, rule: str) -> None:
    """What was a call when it was recorded and is none now."""
    file = load_session(good)
    first = file.exchanges[0]
    body = json.dumps(record(reply)).encode()
    other = replace(first, response=replace(first.response, body=body))
    found = lint_session(replace(file, exchanges=(other, *file.exchanges[1:])), good)
    assert (rule, "reply 1") in [(each.rule, each.where) for each in found]


def test_arguments_are_held_against_the_schema_of_today(good: Path, tmp_path: Path) -> None:
    """A tool that wants another argument than the recorded call gives."""
    path = changed(
        good, tmp_path, "      required:\n      - city\n", "      required:\n      - town\n"
    )
    found = lint([path])
    assert [each.rule for each in found] == ["invalid-arguments"]
    assert found[0].where == "reply 1"
    assert "town" in found[0].words


def test_what_the_recording_knows_to_be_wrong_is_no_finding(tmp_path: Path) -> None:
    """A session of an unknown tool and a refused argument, from which the agent recovered."""
    unknown = 'Action: {"name": "get_whether", "parameters": {"city": "Lisbon"}}'
    refused = 'Action: {"name": "get_weather", "parameters": {"town": 5}}'
    path = tmp_path / "recovered.yaml"
    record_scripted(path, *(ollama_reply(text) for text in (unknown, refused, ANSWER)))
    assert rules(counted(path)) == []


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        ({"name": "get_weather", "arguments": {"city": "北京"}}, None),
        ({"name": "get_weather", "arguments": {"town": "北京"}}, "invalid-arguments"),
        ({"name": "get_whether", "arguments": {"city": "北京"}}, "unknown-tool"),
        ({"name": "get_weather", "arguments": ["北京"]}, "unparsable-reply"),
    ],
)
def test_native_calls_of_any_agent_are_checked(tmp_path: Path, call: Any, rule: str | None) -> None:
    """The tools stand in the request, whoever recorded it."""
    path = stock(tmp_path, ({**FIRST, "tools": [TOOL]}, record(tool_calls=[{"function": call}])))
    assert rules(path) == ([rule] if rule else [])


def test_replies_that_were_cut_or_swallowed(tmp_path: Path) -> None:
    """`length`, and tokens that nothing shows."""
    cut = record("Once upon") | {"done_reason": "length"}
    path = stock(tmp_path, (FIRST, cut), ({**FIRST, "seed": 1}, record("") | {"eval_count": 40}))
    assert rules(path) == ["length", "output-swallowed"]


SYSTEM = {"role": "system", "content": "You help."}


def said(number: int) -> list[dict[str, str]]:
    """A round of the history."""
    return [{"role": "assistant", "content": f"Action {number}"},
            {"role": "user", "content": f"Observation: {number}"}]  # fmt: skip


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ([SYSTEM, QUESTION, *said(1), *said(2), *said(3)], []),
        ([SYSTEM, {**QUESTION, "content": QUESTION["content"] + " Summary: 1"}, *said(2)],
         ["prompt-trimmed"]),
        ([SYSTEM, {**QUESTION, "content": QUESTION["content"] + " Summary: 1, 2"}, *said(3)],
         ["prompt-trimmed"]),
        ([SYSTEM, {**QUESTION, "content": "Summary: 1, 2"}, *said(3)], []),
        ([SYSTEM, QUESTION, *said(3)], ["prompt-not-append-only"]),
        ([SYSTEM, {"role": "user", "content": "Another question"}, *said(7)], []),
        ([SYSTEM, QUESTION], []),
        ([SYSTEM, QUESTION, *said(9), *said(2)], ["prompt-not-append-only"]),
        ([{**SYSTEM, "content": "It is 12:01."}, QUESTION, *said(1), *said(2), *said(3)],
         ["prompt-not-append-only"]),
    ],
    ids=["grown", "trimmed", "all-trimmed", "other-task", "lost", "another", "again", "rewritten",
         "clock-in-system"],
)  # fmt: skip
def test_prompts_only_grow(tmp_path: Path, second: Any, found: list[str]) -> None:
    """Only trimming may take anything away; other conversations are not compared."""
    first = [SYSTEM, QUESTION, *said(1), *said(2)]
    bodies = [{**FIRST, "messages": messages} for messages in (first, second)]
    assert rules(stock(tmp_path, *((body, record("ok")) for body in bodies))) == found


def test_a_prompt_that_the_server_cut(tmp_path: Path) -> None:
    """The count stands at the window; or it falls while the prompt grew."""
    small = {**FIRST, "options": {"num_ctx": 2048}}
    longer = {**small, "messages": [QUESTION, ASKED, SEEN]}
    full = stock(tmp_path, (small, record("ok") | {"prompt_eval_count": 2048}))
    assert rules(full) == ["context-truncated"]
    fell = stock(tmp_path, (small, record(tool_calls=[CALL])),
                 (longer, record("ok") | {"prompt_eval_count": 9}))  # fmt: skip
    assert rules(fell) == ["context-truncated"]


def test_origin_and_age(good: Path, tmp_path: Path) -> None:
    """A session says which model answered; how old it may be is for the user to say."""
    file = load_session(good)
    assert file.session is not None
    origin = file.session.provenance
    digest = f"    model_digest: {origin.model_digest}\n"
    path = changed(good, tmp_path, digest, "")
    assert ["no model_digest" in each.words for each in lint([path])] == [True]
    path = changed(path, tmp_path, f"    server: {origin.server}\n", "")
    assert rules(path) == ["missing-provenance"]
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("/api/chat", "/v1/chat/completions"), encoding="utf-8")
    assert "missing-provenance" not in rules(path)  # that API does not tell
    later = datetime.now(UTC) + timedelta(days=40)
    assert rules(good, max_age=timedelta(days=30), now=later) == ["stale"]
    assert rules(good, max_age=timedelta(days=50), now=later) == []
    stock_file = tool_turn(tmp_path / "tour.yaml")  # made in August 2026, as its replies say
    assert rules(stock_file, max_age=timedelta(days=1), now=datetime(2026, 9, 1, tzinfo=UTC)) == [
        "stale"
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recorded_at": "yesterday"}, "recorded_at is no date: 'yesterday'"),
        ({"recorded_at": "2026-13-41T00:00:00Z"}, "recorded_at is no date"),
        ({"recorded_at": "2099-01-01T00:00:00Z"}, "recorded_at lies in the future"),
        ({"accepted": [Acceptance(at="soon", causes=[])]}, "accepted[0].at is no date: 'soon'"),
        ({"recorded_at": None}, "no recorded_at"),
        ({"recorded_at": ""}, "no recorded_at"),
        ({"model_digest": ""}, "no model_digest"),
        ({"server": None}, "no server"),
    ],
)
def test_an_origin_that_cannot_be_so(good: Path, change: Any, words: str) -> None:
    """Dates that are none or are yet to come; a digest that is not there."""
    file = load_session(good)
    assert file.session is not None
    provenance = file.session.provenance.model_copy(update=change)
    session = file.session.model_copy(update={"provenance": provenance})
    (found,) = lint_session(replace(file, session=session), good)
    assert (found.rule, found.level) == ("missing-provenance", "warning")
    assert words in found.words


def test_a_factory_that_no_name_leads_to(good: Path, tmp_path: Path) -> None:
    """It is told before a replay fails for it."""
    path = changed(good, tmp_path, "harness.demo.agents:assistant", "../x")
    (found,) = lint([path])
    assert (found.rule, found.words) == (
        "missing-provenance", "agent.factory is no module:function: '../x'",
    )  # fmt: skip


def test_duplicates_and_orphans(good: Path, tmp_path: Path) -> None:
    """The same exchanges twice; a taped call that no step asks for; a journal left behind."""
    text = good.read_text(encoding="utf-8")
    copy = tmp_path / "copy.yaml"
    copy.write_text(text, encoding="utf-8")
    assert rules(good, copy) == ["duplicate"]
    (tmp_path / "copy.yaml.journal").write_text("", encoding="utf-8")
    assert rules(copy) == ["orphan"]
    more = changed(good, tmp_path, "  tape:\n", "  tape:\n  - tool: send_mail\n    value: sent\n")
    assert rules(more) == ["orphan"]


def test_the_command_fails_for_errors_only(good: Path, tmp_path: Path) -> None:
    """Its exit code, its words, its JSON, and its fix."""
    run = CliRunner().invoke
    fine = run(main, ["lint", str(good)])
    assert (fine.exit_code, "1 file: 0 errors, 0 warnings" in fine.output) == (0, True)
    reply = interaction(FIRST, json.dumps(record(f"your key is {KEY}")))
    path = cassette(tmp_path / "c.yaml", reply)
    bad = run(main, ["lint", str(path), "--json"])
    assert bad.exit_code == 1
    report = json.loads(bad.output)
    assert (report["ok"], report["findings"][0]["rule"]) == (False, "secret")
    assert KEY not in bad.output
    mended = run(main, ["lint", str(path), "--fix"])
    assert mended.exit_code == 0, mended.output
    assert "secrets are out of it" in mended.output
    (tmp_path / "no.yaml").write_text("interactions: 5\n", encoding="utf-8")
    assert run(main, ["lint", str(tmp_path / "no.yaml")]).exit_code == 1


def test_every_rule_is_documented() -> None:
    """The table of the documentation is the table of the code."""
    text = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `([\w-]+)` \| (error|warning|info) \|", text, re.MULTILINE)
    assert dict(table) == dict(RULES)


@pytest.mark.parametrize(
    ("rounds", "trims"), [(40, []), (10, [12, 17, 22, 27])], ids=["kept", "trimmed"]
)
def test_thirty_steps_only_grow(tmp_path: Path, rounds: int, trims: list[int]) -> None:
    """A long run rewrites its prompt where rounds leave it and nowhere else, and says so."""

    def factory(*args: Any, **kwargs: Any) -> Agent:
        memory = WindowMemory(rounds)
        return assistant(*args, max_steps=30, **kwargs).replace(memory=memory)

    call = 'Action: {{"name": "calculator", "parameters": {{"expression": "{0} + {0}"}}}}'
    texts = [*(call.format(number) for number in range(29)), "Final Answer: done"]
    scripts = [
        [response(200, ollama_line(text, done=True).replace(b": 90", f": {800 + n}".encode()))]
        for n, text in enumerate(texts)
    ]
    done = record_scripted(tmp_path / "long.yaml", *scripts, factory=factory)
    (result,) = done.results
    assert result.answer == "done"
    found = lint([done.path])
    assert [(each.rule, each.where) for each in found] == [
        ("prompt-trimmed", f"request {number}") for number in trims
    ]
    noted = [
        step.index
        for step in result.steps
        if any(note.kind == "history_trimmed" for note in step.notes)
    ]
    assert noted == (list(range(trims[0], 31)) if trims else [])
