"""Accepting drift: an intended change of the agent is taken over into its sessions, offline.

The new requests take the place of the recorded ones and keep the old replies, so that the next
plain replay is green. The model is not asked again, and the session says so: whether it would
still answer as it did, only a new recording (`--rewrite`) can tell.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_core.gears import Clock
from harness.files import in_words
from harness.sessions.cassette import load_session, request_block
from harness.sessions.drift import Cause, Drift
from harness.sessions.errors import SessionError
from harness.sessions.exchange import Exchange, Request
from harness.sessions.format import Acceptance, Provenance, SessionFile, Take, Traffic
from harness.sessions.journal import sole_writer
from harness.sessions.lint_secrets import write_scrubbed
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.trajectory import Divergence, golden_turn


def accept(
    reports: Sequence[Report], wanted: Sequence[str], clock: Clock, **how: Any
) -> list[Report]:
    """Take the named causes over into every session that drifts for them and for nothing else.

    Args:
        reports: of replays of session files.
        wanted: causes, as reports name them; back-ticks and case do not count.
        how: what `replay` was told: factory, allowed modules, tools.

    Returns:
        The reports in their order. One says what was accepted, or why nothing was: what else
        changed, that someone else is writing the session, that it cannot be written. A session
        that has none of the causes keeps its report.

    Raises:
        SessionError: a cause that no session drifts for; nothing is written.
    """
    names = {_plain(each) for each in wanted}
    found = {_plain(each.part): each.part for report in reports for each in causes_of(report.drift)}
    missing = [each for each in wanted if _plain(each) not in found]
    if missing:
        raise SessionError(
            f"no session drifts for {', '.join(map(repr, missing))}; "
            + "; ".join(_there(found.values(), reports))
        )
    return [_accept(report, names, clock, how) for report in reports]


def _there(causes: Collection[str], reports: Sequence[Report]) -> Iterator[str]:
    """What there is instead of a cause that was named, and what becomes of it."""
    away = [each.name for each in reports if any(_unacceptable(each))]
    others = [each.name for each in reports if not each.judged]
    if causes:
        yield f"causes found: {', '.join(causes)}"
    elif not away:
        yield "causes found: none, every request is as it was recorded"
    if away:
        yield f"another way is gone by {', '.join(away)}: record that again with --rewrite"
    if others:
        yield (
            f"not judged: {', '.join(others)}; changes of an agent that is not ours are taken over "
            "by the test that serves it: pytest --agentrig-record=accept"
        )


def _accept(report: Report, names: set[str], clock: Clock, how: Mapping[str, Any]) -> Report:
    named = tuple(each.part for each in causes_of(report.drift) if _plain(each.part) in names)
    if not named or report.path is None:
        return report
    withheld = tuple(dict.fromkeys(_others(report, names)))
    if withheld:
        return dataclasses.replace(report, ok=False, withheld=withheld)
    try:
        with sole_writer(report.path):
            _take_over(report.path, report, acceptance(named, clock), how)
    except (SessionError, OSError) as error:  # the others are taken over, and told, all the same
        kept = in_words(error) if isinstance(error, OSError) else str(error)
        return dataclasses.replace(report, ok=False, kept=kept)
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
    served = zip(report.served, report.asked, strict=True)
    sent = {number: request for number, request in served if number is not None}
    exchanges, takes = _exchanged(file, sent)
    changes = {
        "provenance": _noted(session.provenance, note),
        "tools": list(report.tools),
        "takes": takes,
        "trajectory": [golden_turn(result) for result in report.results],
    }
    return SessionFile(session.model_copy(update=changes), exchanges)


def acceptable(report: Report) -> list[str]:
    """The causes that could be accepted by name; none if anything else has changed, too."""
    parts = [each.part.replace("`", "") for each in causes_of(report.drift)]
    return [] if any(_others(report, {*map(_plain, parts)})) else parts


def with_traffic(file: SessionFile, sent: Mapping[int, Request], note: Acceptance) -> SessionFile:
    """The recording of an agent that is not ours as if it had sent these requests.

    Args:
        sent: by the number of the request in whose place it stands.
    """
    exchanges, takes = _exchanged(file, sent)
    traffic = file.traffic or Traffic()  # a stock cassette has nowhere to note it
    provenance = _noted(traffic.provenance, note)
    traffic = traffic.model_copy(update={"provenance": provenance, "takes": takes})
    return SessionFile(None, exchanges, traffic=traffic)


def _exchanged(
    file: SessionFile, sent: Mapping[int, Request]
) -> tuple[tuple[Exchange, ...], list[Take]]:
    """Exchanges and takes with other requests and the replies as they were."""
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
    return tuple(exchanges), takes


def _noted(origin: Provenance, note: Acceptance) -> Provenance:
    return origin.model_copy(update={"accepted": [*origin.accepted, note]})


def _failed_with(take: Take, request: Request) -> Take:
    assert take.error is not None
    error = take.error.model_copy(update={"request": request_block(request)})
    return take.model_copy(update={"error": error})


def _others(report: Report, names: set[str]) -> Iterator[str]:
    """What changed besides the named causes, and what no new request can make equal."""
    for cause in causes_of(report.drift):
        if _plain(cause.part) not in names and cause.kind != "protocol":
            yield cause.part
    if "observation" not in names:
        yield from (_way(each) for each in report.divergences if each.what == "observation")
    yield from _unacceptable(report)


def _unacceptable(report: Report) -> Iterator[str]:
    """What no new request can make equal."""
    yield from (each.part for each in causes_of(report.drift) if each.kind == "protocol")
    yield from (_way(each) for each in report.divergences if each.what != "observation")
    if report.changed_calls or report.unused_calls:
        yield "other tool calls"


def _way(divergence: Divergence) -> str:
    return f"the run's way: {divergence}"


def _plain(part: str) -> str:
    return " ".join(part.replace("`", "").casefold().split())


def causes_of(drift: Drift) -> list[Cause]:
    """What a replay fails for, and can take over: not what is volatile."""
    return [each for each in drift.causes if each.severity in {"warn", "fail"}]


def acceptance(causes: Sequence[str], clock: Clock) -> Acceptance:
    """The note that these causes were taken over now."""
    return Acceptance(at=clock.now().isoformat(timespec="seconds"), causes=list(causes))
