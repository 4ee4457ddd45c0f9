"""A sweep: recorded sessions, each step, each fault; the work is cut into shares.

A share is a picklable piece of a sweep that says everything: it gives the same rows wherever it
is run, here or on another machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from agent_core.errors import ConfigError
from harness.faults.catalogue import chosen
from harness.faults.recording import NotSwept, Recording
from harness.faults.report import Row, SweepReport
from harness.faults.trial import Rehearsal, Trial
from harness.faults.verdicts import Judgement, violation
from harness.files import read_file
from harness.redact import redactor
from harness.sessions.cassette import parse_session
from harness.sessions.errors import SessionError
from harness.sessions.sources import allowed_factory, named_factory
from harness.workers import map_ordered

_PARTS = 16  # shares that keep a cluster busy, whose size is not known


@dataclass(frozen=True, slots=True)
class Plan:
    """What is swept.

    Attributes:
        operators: codes of faults, or groups of them; all unless given.
        steps: steps of a session at most, the first and the last among them; one is the first
            that calls a tool; None for all.
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
class Done:
    """What a share gave: rows with their places in the session, or why there are none."""

    path: str
    rows: tuple[tuple[int, Row], ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the trials of one session: every `parts`-th, from `part` on.

    Attributes:
        content: the session's file, which other machines do not see.
        dead: trials that a process did not survive, and how it died.
    """

    plan: Plan
    path: str
    content: bytes
    part: int
    parts: int
    dead: tuple[tuple[int, str], ...] = ()

    def run(self, at: Callable[[int], None]) -> Done:
        """Make the trials."""
        try:
            rehearsal = _rehearsal(self)
        except (SessionError, ConfigError, OSError, UnicodeDecodeError) as error:
            return Done(self.path, error=redactor.text(str(error)))
        except Exception as error:  # the user's factory or gears: theirs to see, not ours to catch
            words = f"the agent raised {type(error).__name__}: {error}"
            return Done(self.path, error=redactor.text(words))
        recording, dead = rehearsal.recording, dict(self.dead)
        rows: list[tuple[int, Row]] = []
        for number, trial in enumerate(trials(recording, self.plan)):
            if number % self.parts != self.part:
                continue
            if number in dead:
                judgement = _killed(dead[number])
            else:
                at(number)
                judgement = rehearsal.attempt(trial, self.plan.seed)
            answered = recording.turns[trial.turn].result.answer is not None
            rows.append((number, Row(recording.name, trial, judgement, answered)))
        return Done(self.path, tuple(rows))

    def without(self, number: int, how: str) -> Share:
        """The share with a trial that is known to kill its process."""
        return replace(self, dead=(*self.dead, (number, how)))


def sweep(
    paths: Sequence[Path],
    plan: Plan,
    *,
    workers: int = 1,
    dask: str | None = None,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> SweepReport:
    """Try every fault of the plan at every step of every session.

    Args:
        workers, dask: processes here, or the address of a Dask scheduler.
        progress: told how many shares are done, and how many there are.

    Returns:
        The verdicts; those so far where Ctrl-C ends it.

    Raises:
        ConfigError: an operator that does not exist.
        WorkError: the cluster cannot be used.
    """
    chosen(plan.operators)
    parts = ceil((_PARTS if dask else workers) / len(paths))
    shares: list[Share] = []
    done: list[Done] = []
    for path in paths:
        try:
            content = read_file(path)
        except OSError as error:
            done.append(Done(str(path), error=redactor.text(str(error))))
        else:
            shares += [Share(plan, str(path), content, part, parts) for part in range(parts)]
    unread = len(done)
    interrupted = False
    try:
        for each in map_ordered(shares, workers=workers, dask=dask, preload=(__name__,)):
            done.append(each)
            progress(len(done) - unread, len(shares))
    except KeyboardInterrupt:
        interrupted = True
        left = shares[len(done) - unread :]
        done += [Done(each.path, error="interrupted before all of it was swept") for each in left]
    return _gathered(done, plan.seed, interrupted)


def trials(recording: Recording, plan: Plan) -> list[Trial]:
    """The trials of one session."""
    places = [
        (turn, step)
        for turn, recorded in enumerate(recording.turns)
        for step in range(len(recorded.steps))
    ]
    return [
        Trial(turn, step, fault)
        for turn, step in _some(places, plan.steps, recording)
        for fault in chosen(plan.operators)
    ]


def _some(
    places: list[tuple[int, int]], most: int | None, recording: Recording
) -> list[tuple[int, int]]:
    """At most so many of them, evenly spread, the first and the last among them.

    A single one is the first that calls a tool, since a fault of a tool needs a call.
    """
    count = len(places)
    if most is None or count <= most:
        return places
    if most == 1:
        steps = {(turn, step): recording.turns[turn].steps[step] for turn, step in places}
        calling = [place for place, step in steps.items() if step.golden.actions]
        return (calling or places)[:1]
    return [places[round(number * (count - 1) / (most - 1))] for number in range(most)]


def _rehearsal(share: Share) -> Rehearsal:
    file = parse_session(share.content.decode())
    if file.session is None:
        raise NotSwept("a cassette without a session block does not say what agent made it")
    plan, named = share.plan, file.session.agent.factory
    factory = named_factory(plan.agent) if plan.agent else allowed_factory(named, plan.allow)
    return Rehearsal(Recording(Path(share.path).stem, file, factory))


def _killed(how: str) -> Judgement:
    kind = "hang" if "blocked" in how or "CPU" in how else "crash"
    return violation(kind, f"its process died: {how}")


def _gathered(done: Sequence[Done], seed: int, interrupted: bool) -> SweepReport:
    rows: list[Row] = []
    errors: dict[str, str] = {}
    by_path: dict[str, list[tuple[int, Row]]] = {}
    for each in done:
        if each.error is not None:
            errors[each.path] = each.error
        by_path.setdefault(each.path, []).extend(each.rows)
    for numbered in by_path.values():
        rows += [row for _, row in sorted(numbered, key=lambda pair: pair[0])]
    return SweepReport(tuple(rows), errors, seed, interrupted)
