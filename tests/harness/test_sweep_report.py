"""What a sweep reports, how its command exits, and how faults are put into bodies."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
import requests
from click.testing import CliRunner
from requests.adapters import BaseAdapter

from agent_core.clock import SystemClock
from agent_core.messages import Message, Reply, ToolCall
from harness.cli import main
from harness.faults.bodies import with_reply
from harness.faults.catalogue import FAULTS, chosen
from harness.faults.course import served
from harness.faults.page import page
from harness.faults.report import FORMULA
from harness.faults.sweep import Plan, sweep
from harness.sessions.exchange import Response
from harness.sessions.format import Api, ModelSource
from harness.sessions.sources import build_model


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
