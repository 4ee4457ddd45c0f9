"""Recordings of agents that nobody can build: a replay of one is no verdict on the agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.sessions.cassette import load_session, render_session
from harness.sessions.format import SessionFile, Traffic
from harness.sessions.replay import replay
from tests.harness.command_line import agentrig
from tests.harness.serve_support import tool_turn
from tests.harness.sessions_support import three_steps


def traffic(path: Path) -> Path:
    """What a proxy writes."""
    exchanges = load_session(tool_turn(path)).exchanges
    file = SessionFile(None, exchanges, traffic=Traffic())
    path.write_text(render_session(file), encoding="utf-8")
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A session of ours, one of a proxy, a stock cassette."""
    three_steps(tmp_path / "ours.yaml")
    tool_turn(tmp_path / "stock.yaml", answer="A stock reply.")
    traffic(tmp_path / "theirs.yaml")
    return tmp_path


def test_what_a_proxy_recorded_is_neither_well_nor_failed(mixed: Path) -> None:
    """It has a verdict of its own, with what to do; exit code and the other verdicts stay."""
    done = agentrig("replay", mixed)
    assert done.exit_code == 0, done.output
    assert "skip   theirs" in done.output
    assert "serve_session" in done.output
    assert "3 sessions, 2 ok, 1 not judged in" in done.output
    done = agentrig("replay", mixed, "--json")
    assert done.exit_code == 0
    suite = json.loads(done.stdout)
    told = {each["session"]: (each["verdict"], each["ok"]) for each in suite["sessions"]}
    assert told == {"ours": ("ok", True), "stock": ("ok", True), "theirs": ("not_judged", None)}
    assert suite["ok"]


def test_a_failure_beside_it_fails(mixed: Path) -> None:
    """What is not judged hides nothing."""
    ours = mixed / "ours.yaml"
    text = ours.read_text(encoding="utf-8").replace("Current weather of", "The weather of")
    ours.write_text(text, encoding="utf-8")
    done = agentrig("replay", mixed)
    assert done.exit_code == 1
    assert "3 sessions, 1 ok, 1 failed, 1 not judged in" in done.output


def test_a_stock_cassette_says_what_was_checked(mixed: Path) -> None:
    """Its own requests were sent again, and no agent ran."""
    report = replay(mixed / "stock.yaml")
    assert (report.verdict, report.in_words()) == ("ok", [])
    assert "no agent ran; what was checked: its own 2 requests" in report.note
    assert report.note in agentrig("replay", mixed / "stock.yaml").output


def test_page_merge_and_annotations_tell_it_too(mixed: Path, tmp_path: Path) -> None:
    """Each of them counts it as the terminal does."""
    page, shard = tmp_path / "page.html", tmp_path / "shard.json"
    done = agentrig("replay", mixed, "--shard", "1/1", "--json", "--html", page)
    shard.write_text(done.stdout, encoding="utf-8")
    assert "– not judged" in page.read_text(encoding="utf-8")
    assert "3 sessions, 2 ok, 1 not judged, shard 1 of 1" in page.read_text(encoding="utf-8")
    merged = agentrig("report", "merge", shard)
    assert (merged.exit_code, merged.output.strip()) == (0, "3 sessions, 2 ok, 1 not judged")
    notes = agentrig("replay", mixed, "--annotations", "github").output.splitlines()
    assert [each.split(" ")[0] for each in notes if each.startswith("::")] == ["::notice"]


@pytest.mark.parametrize(
    ("options", "way"),
    [
        (["--accept", "system text"], "pytest --agentrig-record=accept"),
        (["--rewrite"], "pytest --agentrig-record=rewrite"),
    ],
)
def test_errors_name_the_way_on(tmp_path: Path, options: list[str], way: str) -> None:
    """What only the test of such an agent can do is told by the command that cannot."""
    done = agentrig("replay", traffic(tmp_path / "shop.yaml"), *options)
    assert done.exit_code == 2
    assert way in done.output
    assert "shop" in done.output
