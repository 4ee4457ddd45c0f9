"""The report on a suite as one page: verdicts, drift by cause, the matrix of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from agent_core.messages import JsonObject
from harness.faults.page import STYLE as SWEEP_STYLE
from harness.faults.page import matrix
from harness.page import document, escaped
from harness.plain import counted
from harness.redact import redactor
from harness.sessions.report import ReportedCause, ReportedSession, SuiteReport
from harness.sessions.session_report import summary

_VERDICTS = {
    "ok": ("✓ ok", "ok"),
    "accepted": ("≈ accepted", "warn"),
    "failed": ("✗ failed", "bad"),
    "not_judged": ("– not judged", "soft"),
}
_SEVERITIES = {"ignorable": ("·", "soft"), "volatile": ("~", "soft"), "warn": ("!", "warn"),
               "fail": ("✗", "bad")}  # fmt: skip
_LONG = 4_000  # characters of one side of a difference that are shown


def report_page(report: SuiteReport, sweep: JsonObject | None = None) -> str:
    """The page.

    Args:
        sweep: what `agentrig sweep --json` has printed, to show its matrix too.
    """
    failed = sum(each.verdict == "failed" for each in report.sessions)
    parts = [
        *_summary(report),
        *_causes(report.sessions),
        *_sessions(report.sessions),
        *_sweep(sweep),
    ]
    title = f"{counted(len(report.sessions), 'session')}, {failed} failed"
    return document(title, parts, style=SWEEP_STYLE)


def _summary(report: SuiteReport) -> Iterator[str]:
    mark, kind = ("✓ green", "ok") if report.ok else ("✗ red", "bad")
    said = summary([each.verdict for each in report.sessions], len(report.errors))
    if report.shard is not None:
        said += f", shard {report.shard.number} of {report.shard.of}"
    yield "<h1>Replay</h1>"
    seconds = sum(each.seconds for each in report.sessions)
    yield f'<p><span class="{kind}">{mark}</span> {escaped(said)} in {seconds:.2f} s</p>'
    if report.errors:
        yield '<ul class="found">'
        for path, words in report.errors.items():
            yield f'<li class="bad">✗ {escaped(path)}: {escaped(words)}</li>'
        yield "</ul>"


def _causes(sessions: Sequence[ReportedSession]) -> Iterator[str]:
    """Each cause once, with the sessions that drift for it."""
    causes: dict[tuple[str, str, str | None], tuple[ReportedCause, list[str]]] = {}
    for session in sessions:
        for cause in session.causes:
            if cause.severity != "ignorable":
                key = (cause.severity, cause.part, cause.after)
                causes.setdefault(key, (cause, []))[1].append(session.session)
    if not causes:
        return
    yield "<h2>Drift by cause</h2>"
    for cause, names in sorted(causes.values(), key=lambda each: -len(each[1])):
        yield f"<details><summary>{_cause_title(cause)}"
        yield f'<span class="soft"> {counted(len(names), "session")}</span></summary>'
        yield f"{_change(cause)}<p>{escaped(', '.join(names))}</p></details>"


def _sessions(sessions: Sequence[ReportedSession]) -> Iterator[str]:
    """Every session, those that failed first and open."""
    yield "<h2>Sessions</h2>"
    for session in sorted(sessions, key=_failed_first):
        mark, kind = _VERDICTS[session.verdict]
        is_open = " open" if session.verdict == "failed" else ""
        yield f'<details{is_open}><summary><span class="{kind}">{mark}</span> '
        said = f"{counted(session.steps, 'step')}, {session.seconds:.2f} s"
        yield f'{escaped(session.session)} <span class="soft">{said}</span></summary>'
        for accepted in session.accepted:
            yield f"<p>accepted, the model was not asked again: {escaped(accepted)}</p>"
        yield "".join(f"<p>{escaped(line)}</p>" for line in session.words)
        for cause in session.causes:
            if cause.before is not None or cause.after is not None:
                yield f"<h3>{_cause_title(cause)}</h3>{_change(cause)}"
        links = _links(session.traces)
        yield f'<p class="soft">{escaped(session.path or "")} {links}</p></details>'


def _failed_first(session: ReportedSession) -> tuple[bool, str]:
    return session.verdict != "failed", session.session


def _sweep(sweep: JsonObject | None) -> Iterator[str]:
    if sweep is not None:
        yield "<h2>Sweep of faults</h2>"
        yield from matrix(redactor.value(sweep))


def _links(pages: Sequence[str]) -> str:
    """Links to pages beside this one: a scheme in a name is no scheme any more."""
    several = len(pages) > 1
    return " · ".join(
        f'<a href="{escaped(quote(page))}">trace{f" of turn {turn}" if several else ""}</a>'
        for turn, page in enumerate(pages, start=1)
    )


def _cause_title(cause: ReportedCause) -> str:
    mark, kind = _SEVERITIES[cause.severity]
    return f'<span class="{kind}">{mark} {cause.severity}</span> {escaped(cause.part)}'


def _change(cause: ReportedCause) -> str:
    """What was and what is, struck through and underlined."""
    sides = []
    for tag, sign, text in (("del", "−", cause.before), ("ins", "+", cause.after)):
        if text is not None:
            cut = text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text) - _LONG} more)"
            sides.append(f"<pre>{sign} <{tag}>{escaped(cut)}</{tag}></pre>")
    return "".join(sides)
