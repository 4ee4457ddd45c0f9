"""The matrix of a sweep as one self-contained page, without scripts or requests."""

from __future__ import annotations

from html import escape

from harness.faults.catalogue import FAULTS
from harness.faults.report import FORMULA, Row, SweepReport, percent
from harness.faults.verdicts import VIOLATIONS
from harness.redact import redactor

_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2rem;color:#222}
table{border-collapse:collapse;margin:1rem 0}
th,td{border:1px solid #ddd;padding:0 .3rem;text-align:center;font-size:11px;height:1.5em}
th:first-child,td:first-child{text-align:left;white-space:nowrap;font-size:12px}
thead th{vertical-align:bottom}thead span{writing-mode:vertical-rl;padding:.3rem 0}
.r{background:#bfe5bf}.o{background:#ffe9a8}.c{background:#c5e3f6}.v{background:#e33;color:#fff}
.n{background:#f4f4f4}.s{font-style:italic}li code{background:#f4f4f4}
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
    recovered, counted = report.score()
    codes = list(dict.fromkeys(row.trial.fault.code for row in report.rows))
    head = "".join(
        f'<th title="{escape(FAULTS[code].about)}"><span>{escape(code)}</span></th>'
        for code in codes
    )
    places: dict[str, dict[str, Row]] = {}
    for row in report.rows:
        places.setdefault(f"{row.session}, {row.trial.place}", {})[row.trial.fault.code] = row
    body = "".join(
        f"<tr><td>{escape(place)}</td>{''.join(_cell(cells.get(code)) for code in codes)}</tr>"
        for place, cells in places.items()
    )
    legend = " ".join(
        f'<span class="{css}">&nbsp;{sign or "&nbsp;"}&nbsp;</span> {verdict}'
        for verdict, (css, sign) in _SIGNS.items()
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>agentrig sweep</title>'
        f"<style>{_STYLE}</style></head><body><h1>Sweep of faults</h1>"
        f"<p><b>{percent(recovered, counted)}</b> recovered ({recovered} of {counted}); "
        f"{report.made} trials, {len(report.violations)} violations, seed {report.seed}.<br>"
        f"{escape(FORMULA)}.</p>{_violations(report)}<p>{legend}; <i>italic</i>: ended on a "
        f"scripted reply</p><table><thead><tr><th>session, step</th>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></body></html>\n"
    )


def _cell(row: Row | None) -> str:
    if row is None:
        return "<td></td>"
    judgement = row.judgement
    css, sign = _SIGNS[judgement.verdict]
    css += " s" if judgement.scripted else ""
    words = ": ".join(filter(None, (judgement.verdict, judgement.kind, judgement.detail)))
    return f'<td class="{css}" title="{escape(redactor.text(words))}">{sign}</td>'


def _violations(report: SweepReport) -> str:
    items = [
        f"<li><b>{escape(row.session)}, {escape(row.trial.place)}, "
        f"{escape(row.trial.fault.code)}</b>: {escape(VIOLATIONS[row.judgement.kind])}<br>"
        f"<code>{escape(redactor.text(row.judgement.detail))}</code></li>"
        for row in report.violations
    ]
    items += [
        f"<li><b>{escape(path)}</b> was not swept: {escape(redactor.text(words))}</li>"
        for path, words in report.errors.items()
    ]
    return f"<ul>{''.join(items)}</ul>" if items else ""
