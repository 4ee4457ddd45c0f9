"""A sweep: recorded sessions, each step, each fault; the work is cut into shares.

A share is a picklable piece of a sweep that says everything: whoever runs it, here or on
another machine, gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from agent_core.errors import ConfigError
from harness.faults.catalogue import chosen
from harness.faults.recording import NotSwept, Recording
from harness.faults.report import Row, SweepReport
from harness.faults.trial import Rehearsal, Trial
from harness.redact import redactor
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionError
from harness.sessions.sources import allowed_factory, named_factory

_KEPT = 2  # sessions that a process keeps ready


@dataclass(frozen=True, slots=True)
class Plan:
    """What is swept.

    Attributes:
        operators: codes of faults, or groups of them; all unless given.
        steps: steps of a session at most, the first and the last among them; None for all.
        seed: same seed, same trials.
        agent: factory to use instead of the sessions' own, as `module:function`.
        allow: modules whose factories the sessions may name.
    """

    operators: tuple[str, ...] = ()
    steps: int | None = None
    seed: int = 1
    agent: str | None = None
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the trials of one session: every `parts`-th, from `part` on."""

    plan: Plan
    path: str
    part: int
    parts: int


@dataclass(frozen=True, slots=True)
class Done:
    """What a share gave: rows with their places in the session, or why there are none."""

    share: Share
    rows: tuple[tuple[int, Row], ...] = ()
    error: str | None = None


def sweep(
    paths: Sequence[Path],
    plan: Plan,
    *,
    workers: int = 1,
    progress: Callable[[int], None] = lambda _shares: None,
) -> SweepReport:
    """Try every fault of the plan at every step of every session.

    Args:
        workers: processes; 1 does everything in this one.
        progress: told of shares that are done (`shares_of` says how many there are).

    Raises:
        ConfigError: an operator that does not exist.
    """
    chosen(plan.operators)
    shares = shares_of(paths, plan, workers)
    done: dict[Share, Done] = {}
    for each in _run_all(shares, workers):
        done[each.share] = each
        progress(1)
    return _gathered([done[share] for share in shares], plan.seed)


def shares_of(paths: Sequence[Path], plan: Plan, workers: int) -> list[Share]:
    """The shares of a sweep, so many that every worker has something to do."""
    parts = 1 if workers == 1 or len(paths) >= 4 * workers else workers
    return [Share(plan, str(path), part, parts) for path in paths for part in range(parts)]


def run_share(share: Share) -> Done:
    """Make the trials of a share."""
    try:
        rehearsal = _rehearsal(share.path, share.plan.agent, share.plan.allow)
    except (SessionError, ConfigError, OSError) as error:
        return Done(share, error=redactor.text(str(error)))
    except Exception as error:  # the user's factory or gears: theirs to see, not ours to catch
        words = f"the agent raised {type(error).__name__}: {error}"
        return Done(share, error=redactor.text(words))
    recording, plan = rehearsal.recording, share.plan
    rows: list[tuple[int, Row]] = []
    for number, trial in enumerate(trials(recording, plan)):
        if number % share.parts == share.part:
            judgement = rehearsal.attempt(trial, plan.seed)
            answered = recording.turns[trial.turn].result.answer is not None
            rows.append((number, Row(recording.name, trial, judgement, answered)))
    return Done(share, tuple(rows))


def trials(recording: Recording, plan: Plan) -> list[Trial]:
    """The trials of one session."""
    places = [
        (turn, step)
        for turn, recorded in enumerate(recording.turns)
        for step in range(len(recorded.steps))
    ]
    return [
        Trial(turn, step, fault)
        for turn, step in _some(places, plan.steps)
        for fault in chosen(plan.operators)
    ]


def _some(places: list[tuple[int, int]], most: int | None) -> list[tuple[int, int]]:
    """At most so many of them, evenly spread, the last among them and then the first."""
    count = len(places)
    if most is None or count <= most:
        return places
    if most == 1:
        return places[-1:]
    return [places[round(number * (count - 1) / (most - 1))] for number in range(most)]


@lru_cache(maxsize=_KEPT)
def _rehearsal(path: str, agent: str | None, allow: tuple[str, ...]) -> Rehearsal:
    file = load_session(path)
    if file.session is None:
        raise NotSwept("a cassette without a session block does not say what agent made it")
    factory = named_factory(agent) if agent else allowed_factory(file.session.agent.factory, allow)
    return Rehearsal(Recording(Path(path).stem, file, factory))


def _run_all(shares: Sequence[Share], workers: int) -> Iterator[Done]:
    if workers == 1:
        yield from map(run_share, shares)
        return
    context = get_context("spawn")  # a fork would inherit locks that threads of ours may hold
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for each in as_completed([pool.submit(run_share, share) for share in shares]):
            yield each.result()


def _gathered(done: Sequence[Done], seed: int) -> SweepReport:
    rows: list[Row] = []
    errors: dict[str, str] = {}
    by_path: dict[str, list[tuple[int, Row]]] = {}
    for each in done:
        if each.error is not None:
            errors[each.share.path] = each.error
        by_path.setdefault(each.share.path, []).extend(each.rows)
    for numbered in by_path.values():
        rows += [row for _, row in sorted(numbered, key=lambda pair: pair[0])]
    return SweepReport(tuple(rows), errors, seed)
