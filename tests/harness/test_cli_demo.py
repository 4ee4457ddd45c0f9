"""`agentrig demo` shows the main job to a newcomer, in both languages."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from harness.cli import main

WORDS = {
    "en": ["Question:", "Step 1", "Thought:", "Action:", "Observation:", "Answer:",
           "Stop reason: final_answer", "exactly what it did", "differ"],
    "zh": ["问题", "步骤 1", "行动", "观察", "回答", "停止原因", "完全相同", "differ"],
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_demo_replays_and_then_explains_a_change(language: str) -> None:
    """Every step, the verdict, and the reason when one word is another; exit 0."""
    done = CliRunner().invoke(main, ["demo", "--language", language])
    assert done.exit_code == 0, done.output
    for word in WORDS[language]:
        assert word in done.output
    assert "for one reason: description of tool `" in done.output


def test_a_file_that_cannot_be_written_is_one_line() -> None:
    """Wrong usage, not a traceback."""
    done = CliRunner().invoke(main, ["sweep", "/nowhere/at/all.yaml", "--html", "/nowhere/x"])
    assert done.exit_code == 2
    assert "/nowhere" in done.output
    assert done.exception is None or isinstance(done.exception, SystemExit)
