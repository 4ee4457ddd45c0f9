"""`agentrig fuzz cases` over the cases that the parser is measured by."""

from __future__ import annotations

from pathlib import Path

from harness.fuzz import check_case, load_target, read_cases

FILE = Path(__file__).parents[1] / "data" / "parsing" / "parser_cases.jsonl"


def test_every_visible_case_is_read_right_or_refused() -> None:
    """Long texts given in pieces, and answers that are the whole text, are understood too."""
    cases = read_cases(FILE)
    assert len(cases) == 121
    assert any("text_build" in case for case in cases)
    ours = load_target("harness.fuzz.targets:ours")
    assert [case["id"] for case in cases if check_case(ours, case)] == []
