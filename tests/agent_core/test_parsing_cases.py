"""The parser against collected cases: what it must recover, and what it must never run."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_core.messages import Actions, FinalAnswer, FormatError, ParsedReply, Reply, ToolCall
from agent_core.parsing import StandardParser, parse_reply
from agent_core.tools import inert

DATA = Path(__file__).parents[1] / "data" / "parsing"
TOOLS = (
    "get_weather", "search_notes", "send_mail", "delete_file", "add", "get_time", "list_files",
    "查询天气",
)  # fmt: skip


@cache
def rows(name: str) -> list[dict[str, Any]]:
    """The rows of one data file."""
    with (DATA / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def outcome(parsed: ParsedReply) -> dict[str, Any]:
    """The decision in the form of the case files."""
    decision = parsed.decision
    if isinstance(decision, Actions):
        action = decision.actions[0]
        return {"kind": "action", "name": action.name, "arguments": action.arguments}
    if isinstance(decision, FinalAnswer):
        return {"kind": "final", "answer": decision.text}
    return {"kind": "error"}


def same(a: object, b: object) -> bool:
    """Equal with equal types: 1 is neither True nor 1.0."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def text_of(case: dict[str, Any]) -> str:
    """The reply of a case; long runs are stored as pieces with counts."""
    if "text_build" in case:
        return "".join(piece * count for piece, count in case["text_build"])
    return str(case["text"])


def score(case: dict[str, Any]) -> tuple[bool, bool, dict[str, Any]]:
    """Whether the outcome is acceptable, whether it is the preferred one, and the outcome."""
    text = text_of(case)
    got = outcome(parse_reply(text, tools=case["tools"], finish_reason=case.get("finish_reason")))
    accepted = case.get("expect_any") or [case["expect"]]
    for entry in accepted:
        if entry.get("kind") == "final" and entry["answer"] is None:
            entry["answer"] = text
    return any(same(got, entry) for entry in accepted), same(got, accepted[0]), got


def test_every_visible_case_has_an_acceptable_outcome() -> None:
    """No case ends in an outcome that its author would refuse."""
    bad = [(case["id"], got) for case in rows("parser_cases.jsonl")
           for fine, _, got in [score(case)] if not fine]  # fmt: skip
    assert bad == []


def test_nearly_every_visible_case_has_the_preferred_outcome() -> None:
    """Recovery is preferred wherever it is safe; 119 of the 121 cases get it."""
    preferred = sum(score(case)[1] for case in rows("parser_cases.jsonl"))
    assert preferred >= 119


def test_no_wrong_call_and_no_phantom_tool_in_the_visible_cases() -> None:
    """A call that is made is one that the case accepts, of a registered tool."""
    for case in rows("parser_cases.jsonl"):
        fine, _, got = score(case)
        if got["kind"] == "action":
            assert fine, case["id"]
            assert got["name"] in case["tools"], case["id"]


@pytest.mark.parametrize("row", sorted({case["row"] for case in rows("variants.jsonl")}))
def test_variants_of_each_kind_of_damage(row: str) -> None:
    """Each row of the taxonomy, in many spellings, in English and Chinese."""
    bad = []
    for case in rows("variants.jsonl"):
        if case["row"] == row:
            got = outcome(
                parse_reply(
                    case["text"],
                    tools=case.get("tools", TOOLS),
                    finish_reason=case.get("finish_reason"),
                )
            )
            if not any(same(got, entry) for entry in case["expect"]):
                bad.append((case["text"], got, case["expect"][0]))
    assert bad == []


def test_variants_are_recovered_where_recovery_is_preferred() -> None:
    """Of the made-up variants whose preferred outcome is a call or an answer, 95 % get it."""
    wanted = got = 0
    for case in rows("variants.jsonl"):
        if case["expect"][0]["kind"] != "error":
            wanted += 1
            got += same(
                outcome(
                    parse_reply(
                        case["text"],
                        tools=case.get("tools", TOOLS),
                        finish_reason=case.get("finish_reason"),
                    )
                ),
                case["expect"][0],
            )
    assert got >= 0.95 * wanted, (got, wanted)


def test_no_label_of_the_variants_survives_in_an_observation() -> None:
    """What the parser reads as a label, however disguised, is disarmed in foreign text."""
    disarmed = 0
    for case in rows("variants.jsonl"):
        tools = case.get("tools", TOOLS)
        whole = case["row"] in {"L9", "C7"} or case["text"].startswith("{")
        if whole or not by_label(case["text"], tools):
            continue  # a reply in a string, or an answer in JSON: no label at a line's start
        assert not by_label(inert(case["text"]), tools), case["text"]
        disarmed += 1
    assert disarmed > 500


def by_label(text: str, tools: Any) -> bool:
    """Whether a decision is read from labels."""
    decision = parse_reply(text, tools=tools, finish_reason="stop").decision
    if isinstance(decision, Actions):
        return decision.actions[0].notation == "labels"
    return isinstance(decision, FinalAnswer) and decision.labelled


def ollama_rows() -> list[dict[str, Any]]:
    """The distinct replies of the real server."""
    return rows("ollama_replies.jsonl")[1:]


@pytest.mark.parametrize("row", ollama_rows(), ids=lambda row: row["seen_in"][0])
def test_real_replies_keep_their_decision(row: dict[str, Any]) -> None:
    """Every reply of the recorded conversations leads to the decision judged right."""
    tools = rows("ollama_replies.jsonl")[0]["tools"]
    calls = tuple(
        ToolCall(call["id"], call["name"], call["arguments"]) for call in row.get("tool_calls", ())
    )
    reply = Reply(row["text"], calls, finish_reason=row["finish_reason"])
    parsed = StandardParser(row["protocol"], row["language"]).parse(reply, tools)
    wanted, decision = row["decision"], parsed.decision
    if wanted["kind"] == "action":
        assert isinstance(decision, Actions), row["why"]
        made = [{"name": a.name, "arguments": a.arguments} for a in decision.actions]
        assert same(made, wanted["calls"]), row["why"]
    elif wanted["kind"] == "final":
        assert isinstance(decision, FinalAnswer), row["why"]
        assert decision.labelled is wanted["labelled"], row["why"]
        assert decision.text == wanted.get("answer", row["text"].strip()), row["why"]
    else:
        assert isinstance(decision, FormatError), row["why"]
        assert decision.code == wanted["code"], row["why"]
    assert sorted({repair.kind for repair in parsed.repairs}) == wanted.get("repairs", [])
    assert [ignored.kind for ignored in parsed.ignored] == wanted.get("ignored", [])


BUGS = {case["id"]: case for case in rows("bug_cases.jsonl")}


@pytest.mark.parametrize("name", sorted(BUGS))
def test_bug_reports_stay_fixed(name: str) -> None:
    """Cases after public bug reports: an accepted outcome, and nothing that must not happen."""
    case = BUGS[name]
    given, expect = case["input"], case["expect"]
    text = given.get("text") or given["next_reply"]
    parsed = parse_reply(text, tools=given["tools"])
    got = outcome(parsed)
    if "delete_file_executions" in expect:
        assert got["kind"] != "action"
        return
    assert any(accepts(entry, got, parsed) for entry in expect.get("any_of", [expect])), got
    if expect.get("tool_calls") == 0:
        assert got["kind"] != "action"


def accepts(entry: dict[str, Any], got: dict[str, Any], parsed: ParsedReply) -> bool:
    """Whether an outcome in the words of the bug cases matches."""
    kind = {"malformed": "error"}.get(entry["kind"], entry["kind"])
    if kind != got["kind"]:
        return False
    if kind == "action":
        return got["name"] == entry["tool"] and same(got["arguments"], entry["args"])
    if kind == "final":
        parts = entry.get("answer_contains", [])
        exact = entry.get("answer") in (None, got["answer"])
        return exact and all(part in got["answer"] for part in parts)
    assert isinstance(parsed.decision, FormatError)
    return all(word in parsed.decision.hint for word in entry.get("feedback_mentions", ()))
