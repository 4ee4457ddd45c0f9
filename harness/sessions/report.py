"""The verdicts on a suite as data: what `replay --json` prints, one file a shard, merged again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_core.messages import JsonObject
from harness.redact import redactor
from harness.sessions.drift import Severity
from harness.sessions.errors import SessionError
from harness.sessions.session_report import Report
from harness.sessions.suite import Shard, Unjudged


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class ReportedCause(_Part):
    """A cause of drift, as `Cause.as_json` has it."""

    part: str
    severity: Severity
    requests: list[int] = Field(default_factory=list)
    before: str | None = None
    after: str | None = None
    consequences: list[str] = Field(default_factory=list)


class ReportedSession(_Part):
    """The verdict on a session, as `Report.as_json` has it.

    Attributes:
        ok: None where it was not judged.
        traces: pages of the traces of its turns, beside the report's own page.
    """

    session: str
    path: str | None = None
    ok: bool | None
    verdict: Literal["ok", "accepted", "failed", "not_judged"]
    steps: int
    seconds: float
    accepted: list[str] = Field(default_factory=list)
    causes: list[ReportedCause] = Field(default_factory=list)
    words: list[str] = Field(default_factory=list)
    traces: list[str] = Field(default_factory=list)


class ReportedShard(_Part):
    """Which part of a suite was replayed; `suite` identifies the whole list of its files."""

    number: int = Field(ge=1)
    of: int = Field(ge=1)
    suite: str


class SuiteReport(_Part):
    """The verdicts on many sessions.

    Attributes:
        errors: path to words, for what could not be replayed.
        shard: None for a whole suite.
    """

    ok: bool
    sessions: list[ReportedSession]
    errors: dict[str, str] = Field(default_factory=dict)
    shard: ReportedShard | None = None

    def as_json(self) -> JsonObject:
        """The same as it is read."""
        return self.model_dump(mode="json")


def suite_report(
    reports: Sequence[Report],
    unjudged: Sequence[Unjudged],
    *,
    shard: Shard | None = None,
    suite: Sequence[Path] = (),
    traces: Mapping[Path, Sequence[str]] | None = None,
) -> SuiteReport:
    """The verdicts of one command, scrubbed.

    Args:
        shard: which part of the suite it replayed.
        suite: the files of the whole suite.
        traces: pages that were written of a session's turns.
    """
    pages = traces or {}
    part = None
    if shard is not None:
        part = ReportedShard(number=shard.number, of=shard.of, suite=_identity(suite))
    sessions = [
        {**redactor.value(each.as_json()), "traces": list(pages.get(each.path or Path(), ()))}
        for each in reports
    ]
    return SuiteReport(
        ok=all(each.ok for each in reports) and not unjudged,
        sessions=[ReportedSession.model_validate(each) for each in sessions],
        errors={str(each.path): redactor.text(each.words) for each in unjudged},
        shard=part,
    )


def read_report(path: Path) -> SuiteReport:
    """Read what `replay --json` has printed.

    Raises:
        SessionError: it is something else.
    """
    try:
        return SuiteReport.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SessionError(
            f"{path}: expected a report of `agentrig replay --json`; {where}: {first['msg']}"
        ) from error


def merged(shards: Mapping[str, SuiteReport]) -> SuiteReport:
    """The report of the whole suite from those of its shards.

    Args:
        shards: by the name of their file.

    Raises:
        SessionError: they are no shards, not of one suite, or one is missing or there twice.
    """
    parts: dict[int, str] = {}
    suites: dict[tuple[str, int], str] = {}
    for name, report in shards.items():
        if report.shard is None:
            raise SessionError(f"{name} is the report of a whole suite: replay it with --shard i/n")
        suites.setdefault((report.shard.suite, report.shard.of), name)
        twin = parts.setdefault(report.shard.number, name)
        if twin != name:
            raise SessionError(f"{twin} and {name} are both shard {report.shard.number}")
    if len(suites) > 1:
        one, other = list(suites.values())[:2]
        raise SessionError(f"{one} and {other} are shards of different suites")
    ((_, of),) = suites
    missing = [str(number) for number in range(1, of + 1) if number not in parts]
    if missing:
        raise SessionError(f"of {of} shards there is no report of {', '.join(missing)}")
    reports = [shards[parts[number]] for number in sorted(parts)]
    sessions = [each for report in reports for each in report.sessions]
    sessions.sort(key=lambda each: each.path or each.session)
    return SuiteReport(
        ok=all(report.ok for report in reports),
        sessions=sessions,
        errors={path: words for report in reports for path, words in report.errors.items()},
    )


def _identity(suite: Sequence[Path]) -> str:
    names = "\n".join(each.as_posix() for each in suite)
    return sha256(names.encode(errors="replace")).hexdigest()[:16]
