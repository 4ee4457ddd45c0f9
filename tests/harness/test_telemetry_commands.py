"""`agentrig run` and `record` leave a trace, send it where they are told, and say so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.trace.spans import read_traces
from tests.harness.command_line import agentrig
from tests.harness.otlp_receiver import otlp_receiver
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

TRACES = Path(".agentrig/traces")


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def replies(*texts: str) -> list[Any]:
    """Scripts of a server that answers with these texts."""
    return [ollama_reply(text) for text in texts]


def test_a_run_is_traced_logged_and_sent() -> None:
    """One tree with an HTTP attempt under each call; records join it by their ids."""
    with otlp_receiver() as receiver, serving(*replies(WEATHER, SUM, ANSWER)) as server:
        done = agentrig(
            "run", ASSISTANT, "Weather in Lisbon?", "--model", "m", "--base-url", server.url,
            "--otlp", receiver.url, "--log", "run.log",
        )  # fmt: skip
        (trace,) = receiver.traces()
    assert done.exit_code == 0, done.output
    assert f"spans to {receiver.url}/v1/traces" in done.stderr
    assert trace.complete
    calls = trace.root.find("chat")
    assert [[child.kind for child in call.children] for call in calls] == [["POST"]] * 3
    assert calls[0].children[0].attributes["http.response.status_code"] == 200
    assert trace.root.attributes["harness.log_path"] == "run.log"
    records = [json.loads(line) for line in Path("run.log").read_text("utf-8").splitlines()]
    assert {each["span_id"] for each in records} == {span.span_id for span in trace.spans()}
    explained = agentrig("trace", "explain").output
    assert explained.startswith("invoke_agent")
    assert agentrig("trace", "html", "last", "-o", "run.html", "--logs", "run.log").exit_code == 0
    assert "Log records" in Path("run.html").read_text("utf-8")


def test_json_output_is_not_mixed_with_the_summary() -> None:
    """The summary goes to standard error."""
    with serving(*replies(ANSWER)) as server:
        done = agentrig("run", ASSISTANT, "?", "--model", "m", "--base-url", server.url, "--json")
    assert json.loads(done.stdout)
    assert str(TRACES) in done.stderr


def test_lost_spans_fail_the_command_when_asked_to() -> None:
    """Exit code 1 and the reason."""
    with otlp_receiver(answers=[400]) as receiver, serving(*replies(ANSWER)) as server:
        done = agentrig(
            "run", ASSISTANT, "?", "--model", "m", "--base-url", server.url,
            "--otlp", receiver.url, "--require-export",
        )  # fmt: skip
    assert done.exit_code == 1
    assert "did not arrive" in done.stderr


def test_an_address_that_is_none_is_wrong_usage() -> None:
    """Before anything is asked."""
    done = agentrig("run", ASSISTANT, "?", "--model", "m", "--otlp", "localhost:4318")
    assert done.exit_code == 2
    assert "http://localhost:4318" in done.stderr


def test_a_recording_and_its_trace_belong_together() -> None:
    """The root names the session; a trace without texts takes them from it."""
    scripts = [[response(404, b"")], *version_scripts(), *replies(WEATHER, SUM, ANSWER)]
    with serving(*scripts) as server:
        done = agentrig(
            "record", ASSISTANT, "Weather in Lisbon?", "--name", "first", "--dir", "kept",
            "--model", "m", "--base-url", server.url, "--content", "none",
        )  # fmt: skip
    assert done.exit_code == 0, done.output
    (path,) = TRACES.glob("*.jsonl")
    trace = read_traces(path)[-1]
    assert trace.root.attributes["harness.session_path"] == "kept/first.yaml"
    assert "harness.answer" not in trace.root.attributes
    bare = agentrig("trace", "html", path, "-o", "bare.html")
    joined = agentrig("trace", "html", path, "-o", "joined.html", "--session", "kept/first.yaml")
    assert (bare.exit_code, joined.exit_code) == (0, 0), joined.output
    assert "holds no texts" in Path("bare.html").read_text("utf-8")
    assert "Lisbon" in Path("joined.html").read_text("utf-8")
    assert "Lisbon" not in Path("bare.html").read_text("utf-8")


def test_a_session_is_shown_by_replaying_it() -> None:
    """No trace file is needed."""
    scripts = [[response(404, b"")], *version_scripts(), *replies(WEATHER, SUM, ANSWER)]
    with serving(*scripts) as server:
        agentrig(
            "record", ASSISTANT, "Weather in Lisbon?", "--name", "first", "--dir", "kept",
            "--model", "m", "--base-url", server.url,
        )  # fmt: skip
    with otlp_receiver() as receiver:
        assert agentrig("replay", "kept", "--otlp", receiver.url).exit_code == 0
        assert receiver.traces()[0].root.attributes["harness.stop_reason"] == "final_answer"
    shown = agentrig("trace", "show", "kept/first.yaml", "--content")
    assert shown.exit_code == 0, shown.output
    assert "Lisbon" in shown.output
    assert agentrig("trace", "diff", "kept/first.yaml", "kept/first.yaml").exit_code == 0


def test_a_replay_says_that_it_is_one(tmp_path: Path) -> None:
    """Its times are not those of the speeds beside them; a page of a failed one says so, too."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    assert "a replay: its times are its own" in agentrig("trace", "show", path).output
    text = path.read_text(encoding="utf-8").replace("Current weather of", "The weather of")
    path.write_text(text, encoding="utf-8")
    agentrig("replay", path, "--html", tmp_path / "report.html")
    (page,) = (tmp_path / "report-traces").iterdir()
    shown = page.read_text(encoding="utf-8")
    assert "a replay: its times are its own" in shown
    assert "✗ session s failed: 3 of 3 steps differ for one reason: description of tool" in shown


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_list_of_no_traces_says_so(options: list[str]) -> None:
    """Words for people on standard error, and no bare header; nothing for programs."""
    done = agentrig("trace", "list", *options)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "`agentrig run` writes them" in done.stderr
