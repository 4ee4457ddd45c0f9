"""Show and save what a campaign gave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from harness.fuzz.examples import FAULTS
from harness.fuzz.operators import OPERATORS
from harness.fuzz.pool import Finding, Result
from harness.output import uncut
from harness.plain import counted, one_line, visible

_SHOWN = 400  # characters of a reply
_RECOVERY = 14  # characters that the percentage and the margins take


def labels_of(result: Result) -> list[str]:
    """The labels that were counted: operators in their order, then the others, languages last."""
    found = {label for label, _ in result.counts}
    places = {code: place for place, code in enumerate(OPERATORS)}
    return sorted(found, key=lambda each: (
        each.startswith("language"), places.get(each, len(places)), each,
    ))  # fmt: skip


def row_of(result: Result, label: str, columns: Sequence[str]) -> dict[str, Any]:
    """The counts of a label, and how much of what could be recovered was, in percent."""
    row: dict[str, Any] = {each: result.counts[label, each] for each in columns}
    if "recovered" in columns:
        able = result.counts[label, "recoverable"]
        row["recovery"] = round(100 * result.counts[label, "regained"] / able, 1) if able else None
    return row


def as_json(result: Result, columns: Sequence[str], **about: Any) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        **about,
        "rows": {label: row_of(result, label, columns) for label in labels_of(result)},
        "findings": dict(sorted(result.kinds.items())),
        "smallest": [finding_json(each) for each in result.findings],
        "killed": result.killed,
        "left_out": result.left,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as a case."""
    case = {**finding.case, "label": finding.label, "index": finding.index}
    case.setdefault("id", f"{finding.kind}-{finding.index}")
    case["kind"] = finding.kind
    return {**case, "detail": finding.detail} if finding.detail else case


def show(console: Console, result: Result, columns: Sequence[str], title: str) -> None:
    """The table by label, then the smallest finding of each kind."""
    uncut(console)
    columns = [each for each in columns if each != "recoverable"]  # the percentage says it
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 0, 0, 1))
    widths = [max(map(len, each.split())) for each in columns]
    room = max(12, console.width - sum(widths) - 2 * len(widths) - _RECOVERY)
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=room)
    for each, width in zip(columns, widths, strict=True):
        table.add_column(each, justify="right", width=width)
    with_recovery = "recovered" in columns
    if with_recovery:
        table.add_column("recovery", justify="right", width=len("recovery"))
    for label in labels_of(result):
        row = row_of(result, label, columns)
        name = f"{label} {OPERATORS[label].name}" if label in OPERATORS else label
        cells = [str(row[each] or "·") for each in columns]
        if with_recovery:
            cells.append("–" if row["recovery"] is None else f"{row['recovery']:.1f} %")
        table.add_row(name, *cells)
    console.print(table)
    shown = set()
    for finding in sorted(result.findings, key=lambda each: (each.kind, each.size)):
        if finding.kind not in shown:
            shown.add(finding.kind)
            _show_finding(console, result, finding)
    if result.left:
        console.print(f"\n{result.left} checks left out: {result.killed} killed their process.")
    total = result.kinds.total()
    words = (
        f"\n{counted(total, 'finding')}; above, the smallest of each kind."
        if total
        else "No findings."
    )
    console.print(words)


def _show_finding(console: Console, result: Result, finding: Finding) -> None:
    def say(words: str) -> None:
        console.print(f"  {words}", highlight=False, markup=False, soft_wrap=True)

    meaning = FAULTS.get(finding.kind, "")
    console.print(f"\n{finding.kind} ×{result.kinds[finding.kind]}  {meaning}", style="bold red",
                  highlight=False, markup=False)  # fmt: skip
    case, label = finding.case, finding.label
    name = f"{label} ({OPERATORS[label].name})" if label in OPERATORS else label
    say(f"{name}, example {finding.index}")
    if finding.detail:
        say(one_line(finding.detail))
    if case.get("text") is not None:
        say("reply:")
        for line in visible(_cut(case["text"])).split("\n"):
            say(f"  │ {line}")
    for key in ("native", "pieces", "finish_reason", "input", "expect"):
        if case.get(key) is not None:
            say(f"{key.replace('_', ' ')}: {_json(case[key])}")
    if case.get("expect_any"):
        say(f"right: {' | '.join(map(_outcome, case['expect_any']))}")
    if case.get("got") is not None:
        say(f"got:   {_outcome(case['got'])}")


def _outcome(outcome: Any) -> str:
    """An outcome in a few words; what is none, as JSON."""
    match outcome:
        case {"kind": "action", "name": str(name), "arguments": arguments}:
            return one_line(f"call {name} {_json(arguments)}")
        case {"kind": "final", "answer": answer}:
            return f"answer {_json(answer)}"
        case {"kind": "error"}:
            return "refuse it"
    return _json(outcome)


def _json(value: Any) -> str:
    return one_line(_cut(json.dumps(value, ensure_ascii=False, default=repr)))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


_TEST = '''\
"""Replies that {spec} got wrong, found by `agentrig fuzz`; each passes once it is mended.

Run it where the target can be imported: `pytest {folder}` from the folder it was found in.
"""

from pathlib import Path

import pytest

from harness.fuzz import check_case, load_target, read_cases

TARGET = load_target({spec!r})
CASES = read_cases(Path(__file__).with_name("findings.jsonl"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_reply(case):
    """The target reads the reply right, or refuses it; a clean one it has to read."""
    assert check_case(TARGET, case) == []
'''


def save(result: Result, folder: Path, spec: str | None) -> list[Path]:
    """Write the smallest findings as JSONL, and a pytest file where a target is to be asked.

    A finding about a reply becomes a session of one step, too.
    """
    from harness.minimize.reply import write_replies  # noqa: PLC0415 - only when it is used

    folder.mkdir(parents=True, exist_ok=True)
    findings = folder / "findings.jsonl"
    lines = [json.dumps(finding_json(each), ensure_ascii=False) for each in result.findings]
    findings.write_text(
        "".join(f"{line}\n" for line in lines), encoding="utf-8", errors="backslashreplace"
    )
    written = [findings]
    if spec is not None:
        test = folder / "test_findings.py"
        test.write_text(_TEST.format(spec=spec, folder=folder.name), encoding="utf-8")
        written.append(test)
        sessions = folder / "sessions"
        if write_replies(map(finding_json, result.findings), sessions):
            written.append(sessions)
    return written
