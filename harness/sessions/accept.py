"""Accepting drift: an intended change of the agent is taken over into its sessions, offline.

The new requests take the place of the recorded ones and keep the old replies, so that the next
plain replay is green. The model is not asked again, and the session says so: whether it would
still answer as it did, only a new recording (`--rewrite`) can tell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_core.gears import Clock
from harness.sessions.cassette import load_session, request_block
from harness.sessions.drift import Cause
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Request
from harness.sessions.format import Acceptance, SessionFile, Take
from harness.sessions.journal import sole_writer
from harness.sessions.lint_secrets import write_scrubbed
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.trajectory import golden_turn


def accept(
    reports: Sequence[Report], wanted: Sequence[str], clock: Clock, **how: Any
) -> list[Report]:
    """Take the named causes over into every session that drifts for them and for nothing else.

    Args:
        reports: of replays of session files.
        wanted: causes, as reports name them; back-ticks and case do not count.
        how: what `replay` was told: factory, allowed modules, tools.

    Returns:
        The reports in their order. One says what was accepted, or what else changed so that
        nothing was; a session that has none of the causes keeps its report.

    Raises:
        SessionError: a cause that no session drifts for; nothing is written.
        SessionBusy: someone else is writing a session.
    """
    names = {_plain(each) for each in wanted}
    found = {_plain(each.part): each.part for report in reports for each in _causes(report)}
    missing = [each for each in wanted if _plain(each) not in found]
    if missing:
        there = "; ".join(found.values()) or "none, every request is as it was recorded"
        raise SessionError(
            f"no session drifts for {', '.join(map(repr, missing))}; causes found: {there}"
        )
    return [_accept(report, names, clock, how) for report in reports]


def _accept(report: Report, names: set[str], clock: Clock, how: Mapping[str, Any]) -> Report:
    named = tuple(each.part for each in _causes(report) if _plain(each.part) in names)
    if not named or report.path is None:
        return report
    withheld = tuple(dict.fromkeys(_others(report, names)))
    if withheld:
        return dataclasses.replace(report, ok=False, withheld=withheld)
    with sole_writer(report.path):
        _take_over(report.path, report, Acceptance(at=_now(clock), causes=list(named)), how)
    return dataclasses.replace(report, ok=True, accepted=named)


def _take_over(path: Path, report: Report, note: Acceptance, how: Mapping[str, Any]) -> None:
    """Write the session with its new requests, once it is seen that it replays."""
    file = load_session(path)
    now = replay(file, **how)
    if (now.asked, now.drift) != (report.asked, report.drift):
        raise SessionError(f"{path} or its agent changed while it was accepted; try again")
    accepted = _with_requests(file, report, note)
    again = replay(accepted, **how)
    if not again.ok:
        raise SessionError(f"{path}: what was accepted does not replay: {again.in_words()}")
    write_scrubbed(path, accepted)


def _with_requests(file: SessionFile, report: Report, note: Acceptance) -> SessionFile:
    """The session as if these requests had been sent: replies and decisions as they were."""
    session = file.session
    assert session is not None  # a stock cassette's own requests never drift
    sent = dict(zip(report.served, report.asked, strict=True))
    exchanges = list(file.exchanges)
    takes = list(file.takes)
    for number, take in enumerate(takes):
        if number not in sent:
            continue  # a request that a taped tool would send
        if take.exchange is not None:
            place = take.exchange
            exchanges[place] = dataclasses.replace(exchanges[place], request=sent[number])
        else:
            takes[number] = _failed_with(take, sent[number])
    origin = session.provenance
    provenance = origin.model_copy(update={"accepted": [*origin.accepted, note]})
    changes = {
        "provenance": provenance,
        "tools": list(report.tools),
        "takes": takes,
        "trajectory": [golden_turn(result) for result in report.results],
    }
    return SessionFile(session.model_copy(update=changes), tuple(exchanges))


def _failed_with(take: Take, request: Request) -> Take:
    assert take.error is not None
    error = take.error.model_copy(update={"request": request_block(request)})
    return take.model_copy(update={"error": error})


def _others(report: Report, names: set[str]) -> Iterator[str]:
    """What changed besides the named causes, and what no new request can make equal."""
    for cause in _causes(report):
        if _plain(cause.part) not in names or cause.kind == "protocol":
            yield cause.part
    for each in report.divergences:
        if each.what != "observation" or "observation" not in names:
            yield f"the run's way: {each}"
    if report.changed_calls or report.unused_calls:
        yield "other tool calls"


def _causes(report: Report) -> list[Cause]:
    return [each for each in report.drift.causes if each.severity in {"warn", "fail"}]


def _plain(part: str) -> str:
    return " ".join(part.replace("`", "").casefold().split())


def _now(clock: Clock) -> str:
    return clock.now().isoformat(timespec="seconds")
