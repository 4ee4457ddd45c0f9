"""Findings as workflow commands that GitHub shows beside the files they are about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from harness.redact import redactor
from harness.sessions.drift import Severity
from harness.sessions.lint import Finding
from harness.sessions.session_report import Report
from harness.sessions.suite import Unjudged

Level = Literal["error", "warning", "notice"]

_OF_DRIFT: dict[Severity, Level] = {
    "ignorable": "notice", "volatile": "notice", "warn": "warning", "fail": "error",
}  # fmt: skip


def annotation(level: Level, words: str, *, path: Path | str | None, title: str) -> str:
    """One workflow command; whatever stands in it, it is one line and one command."""
    place = "" if path is None else f"file={_property(Path(path).as_posix())},"
    return f"::{level} {place}title={_property(title)}::{_data(redactor.text(words))}"


def of_replay(reports: Sequence[Report], unjudged: Sequence[Unjudged]) -> Iterator[str]:
    """Each cause and each divergence of each session, and what could not be replayed.

    What a session failed for is an error, also where its severity alone would be a warning.
    """
    for report in reports:
        title = f"session {report.name}"
        for cause in report.drift.causes:
            if cause.severity == "ignorable" or cause.part in report.accepted:
                continue
            level = _OF_DRIFT[cause.severity]
            level = "error" if level == "warning" and not report.ok else level
            words = report.drift.sentence(cause)
            if cause.before is not None or cause.after is not None:
                words += f"\n- {cause.before or ''}\n+ {cause.after or ''}"
            yield annotation(level, words, path=report.path, title=title)
        for words in report.in_words()[len(report.drift.in_words()) :]:
            level = "warning" if report.ok else "error"
            yield annotation(level, words, path=report.path, title=title)
        if not report.judged:
            yield annotation("notice", report.note, path=report.path, title=title)
    for each in unjudged:
        yield annotation("error", each.words, path=each.path, title=f"session {each.path.stem}")


def of_lint(found: Sequence[Finding]) -> Iterator[str]:
    """Each finding."""
    for each in found:
        level: Level = "notice" if each.level == "info" else each.level
        words = f"{each.where}: {each.words}" if each.where else each.words
        yield annotation(level, words, path=each.path, title=f"lint {each.rule}")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
