"""The matrix of a sweep as markup, from what `agentrig sweep --json` says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent_core.messages import JsonObject
from harness.faults.catalogue import FAULTS
from harness.faults.report import SweepReport, percent
from harness.page import document, escaped
from harness.plain import counted
from harness.redact import redactor

STYLE = """
.wide { overflow-x: auto; }
.sweep { width: auto; table-layout: auto; margin: 1rem 0; }
.sweep th, .sweep td { border: 1px solid var(--line); padding: 0 .3rem; text-align: center;
  font-size: .7rem; height: 1.5em; }
.sweep th:first-child, .sweep td:first-child { text-align: left; white-space: nowrap; }
.sweep thead th { vertical-align: bottom; }
.sweep thead span { writing-mode: vertical-rl; padding: .3rem 0; }
.r, .o, .c, .v { color: #1b1f24; }
.r { background: #bfe5bf; } .o { background: #ffe9a8; } .c { background: #c5e3f6; }
.v { background: #b00; color: #fff; font-weight: 700; } .scripted { font-style: italic; }
"""
_SIGNS = {
    "recovered": ("r", "✓"),
    "other answer": ("o", "≠"),
    "clean stop": ("c", "■"),
    "violation": ("v", "✗"),
    "not applicable": ("n", ""),
}


def page(report: SweepReport) -> str:
    """The page: score, violations, and a cell for every trial."""
    parts = ["<h1>Sweep of faults</h1>", *matrix(redactor.value(report.as_json()))]
    return document("agentrig sweep", parts, style=STYLE)


def matrix(sweep: JsonObject) -> Iterator[str]:
    """Score, violations and matrix of a sweep; what is not in it is left out."""
    recovered, scored = sweep.get("recovered", 0), sweep.get("counted", 0)
    rows = [each for each in sweep.get("rows") or () if isinstance(each, dict)]
    violations = [each for each in sweep.get("violations") or () if isinstance(each, dict)]
    trials = counted(sweep.get("trials", 0), "trial")
    yield (
        f"<p><b>{escaped(percent(recovered, scored))}</b> recovered "
        f"({escaped(recovered)} of {escaped(scored)}); {escaped(trials)}, "
        f"{counted(len(violations), 'violation')}, seed {escaped(sweep.get('seed'))}.<br>"
        f"{escaped(sweep.get('formula', ''))}.</p>"
    )
    yield from _violations(violations, sweep.get("errors") or {})
    legend = " ".join(
        f'<span class="{css}">&nbsp;{sign or "&nbsp;"}&nbsp;</span> {verdict}'
        for verdict, (css, sign) in _SIGNS.items()
    )
    yield f"<p>{legend}; <i>italic</i>: ended on a scripted reply</p>"
    yield from _table(rows)


def _table(rows: Sequence[JsonObject]) -> Iterator[str]:
    codes = list(dict.fromkeys(str(row.get("operator")) for row in rows))
    places: dict[str, dict[str, JsonObject]] = {}
    for row in rows:
        places.setdefault(_place(row), {})[str(row.get("operator"))] = row
    yield '<div class="wide"><table class="sweep"><thead><tr><th>session, step</th>'
    for code in codes:
        about = FAULTS[code].about if code in FAULTS else ""
        yield f'<th title="{escaped(about)}"><span>{escaped(code)}</span></th>'
    yield "</tr></thead><tbody>"
    for place, cells in places.items():
        inside = "".join(_cell(cells.get(code)) for code in codes)
        yield f"<tr><td>{escaped(place)}</td>{inside}</tr>"
    yield "</tbody></table></div>"


def _cell(row: JsonObject | None) -> str:
    if row is None:
        return "<td></td>"
    css, sign = _SIGNS.get(str(row.get("verdict")), ("n", "?"))
    css += " scripted" if row.get("scripted") else ""
    said: list[Any] = [row.get("verdict"), row.get("violation"), row.get("detail")]
    return f'<td class="{css}" title="{escaped(": ".join(str(e) for e in said if e))}">{sign}</td>'


def _violations(violations: Sequence[JsonObject], errors: JsonObject) -> Iterator[str]:
    if not violations and not errors:
        return
    yield '<ul class="found">'
    for each in violations:
        yield (
            f'<li class="bad">✗ {escaped(_place(each))}, {escaped(each.get("operator"))}: '
            f"{escaped(each.get('means', each.get('violation')))}<br>"
            f"<code>{escaped(each.get('detail', ''))}</code></li>"
        )
    for path, words in errors.items():
        yield f'<li class="bad">✗ {escaped(path)} was not swept: {escaped(words)}</li>'
    yield "</ul>"


def _place(row: JsonObject) -> str:
    turn = "" if row.get("turn") == 1 else f"turn {row.get('turn')} "
    return f"{row.get('session')}, {turn}step {row.get('step')}"
