"""The matrix of a sweep on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from harness.faults.catalogue import FAULTS
from harness.faults.fault import Group
from harness.faults.report import FORMULA, SweepReport, of_session, percent
from harness.faults.verdicts import VIOLATIONS
from harness.output import safe_text, uncut
from harness.plain import counted
from harness.sessions.github import annotation

_COLOURS = {
    "recovered": "green",
    "other answer": "yellow",
    "clean stop": "cyan",
    "violation": "bold red",
    "not applicable": "dim",
    "scripted": "dim",
}
_COLUMNS = {
    "recovered": "recov.",
    "other answer": "other",
    "clean stop": "stop",
    "violation": "viol.",
    "not applicable": "n/a",
    "scripted": "script",
}
_LEGEND = (
    "recov.: the recorded answer; other: another one; stop: none, and a stop reason that says why; "
    "viol.: what must never happen; n/a: nothing to do the fault to; script: of these, on a "
    "scripted reply, since the recording did not fit any more"
)
_TITLES: Mapping[Group, str] = {"reply": "the reply", "http": "HTTP", "tool": "the tool"}
_SHOWN = 20  # violations that are shown one by one


def show_sweep(out: Console, report: SweepReport, threshold: float = 0.0) -> None:
    """Print the matrix by operator and by session, the violations, and the score."""
    uncut(out)
    matrix = report.matrix()
    for group, title in _TITLES.items():
        rows = {code: counts for code, counts in matrix.items() if FAULTS[code].group == group}
        if rows:
            last = {code: FAULTS[code].about for code in rows}
            out.print(_table(f"fault of {title}", rows, last))
    out.print(_sessions(report))
    out.print(_LEGEND, style="dim")
    _show_violations(out, report)
    for path, words in report.errors.items():
        out.print(safe_text(f"NOT SWEPT {path}: {words}"), style="bold red")
    recovered, scored = report.score()
    scripted = sum(row.judgement.scripted for row in report.rows)
    out.print(
        f"{counted(report.made, 'trial')}, {counted(len(report.violations), 'violation')}, "
        f"{scripted} on a scripted reply; "
        f"recovery score {percent(recovered, scored)} ({recovered} of {scored})",
        style="bold",
    )
    out.print(FORMULA, style="dim")
    if not report.reaches(threshold):
        out.print(f"below the threshold of {100 * threshold:.1f} %", style="bold red")


def sweep_annotations(report: SweepReport, files: Sequence[Path]) -> Iterator[str]:
    """Each violation, and what could not be swept, as an annotation of a GitHub workflow."""
    paths = {each.stem: each for each in files}
    for row in report.violations:
        place = f"{row.trial.place}, {row.trial.fault.code}"
        words = f"{place}: {VIOLATIONS[row.judgement.kind]}\n{row.judgement.detail}"
        yield annotation("error", words, path=paths.get(row.session), title="sweep violation")
    for path, words in report.errors.items():
        yield annotation("error", words, path=path, title="not swept")


def _table(title: str, rows: Mapping[str, Counter[str]], last: Mapping[str, str]) -> Table:
    """Counts by verdict, and a word for each row at its end."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(title, no_wrap=True)
    for column, heading in _COLUMNS.items():
        table.add_column(heading, justify="right", style=_COLOURS[column], min_width=6)
    table.add_column("", no_wrap=True, overflow="ellipsis", style="dim")
    for name, counts in rows.items():
        numbers = [str(counts[each]) if counts[each] else "·" for each in _COLUMNS]
        table.add_row(safe_text(name), *numbers, last[name])
    return table


def _sessions(report: SweepReport) -> Table:
    rows = report.by_session()
    scores = {name: percent(*report.score(of_session(report.rows, name))) for name in rows}
    return _table("session", rows, scores)


def _show_violations(out: Console, report: SweepReport) -> None:
    found = report.violations
    for row in found[:_SHOWN]:
        judgement = row.judgement
        out.print(
            f"VIOLATION {row.session}, {row.trial.place}, {row.trial.fault.code} "
            f"({row.trial.fault.about}): {judgement.kind}: {VIOLATIONS[judgement.kind]}",
            style="bold red",
        )
        out.print(f"  {safe_text(judgement.detail)}")
    if len(found) > _SHOWN:
        out.print(f"… and {len(found) - _SHOWN} more; --json lists them all")
    if found:
        code = found[0].trial.fault.code
        out.print(f"see one again: agentrig sweep FILE --operators {code}")
