"""Run a campaign in processes of its own, so that what hangs or dies is a finding and not the end.

A campaign is a numbered list of checks. Processes get ranges of numbers; each check may use so
much CPU time (the kernel enforces it), and the number at which a process died is known.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from harness.plain import plain
from harness.workers import map_ordered

CPU_SECONDS = 5
"""CPU time one check may use before its process is killed."""

_BATCH = 200  # checks; what is left out after many deaths depends on it, so it is fixed
_KEPT = 3  # findings of a kind and first label
_AS_FOUND = {"killed", "growth", "slow"}  # looking for smaller ones would take as long again
_PRELOAD = ("harness.fuzz.parser",)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, with what is needed to see it again.

    Attributes:
        kind: what is wrong.
        label: the first label of the example.
        index: its number in the campaign.
        case: the input, what was expected and what came, as JSON.
        detail: what an exception said, how long it took.
    """

    kind: str
    label: str
    index: int
    case: dict[str, Any]
    detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "case", plain(self.case))  # a target's own types stay behind

    @property
    def size(self) -> tuple[int, int]:
        """Smaller is better to look at."""
        return len(repr(self.case)), self.index


class Checked(NamedTuple):
    """What one check gave: counts by (label, column), and findings."""

    counts: Counter[tuple[str, str]]
    findings: tuple[Finding, ...] = ()


class Campaign(Protocol):
    """Numbered checks. Built anew in each process, so it must come out of picklable arguments."""

    def check(self, index: int) -> Checked: ...

    def killed(self, index: int, how: str) -> Checked:
        """What to count for a check that its process did not survive."""
        ...

    def shrink(self, finding: Finding) -> Finding:
        """A smaller finding of the same kind, or the same."""
        ...


@dataclass
class Result:
    """What a campaign gave.

    Attributes:
        counts: by (label, column).
        findings: the smallest ones of each kind and label.
        kinds: how often each kind was found.
        killed: checks that their processes did not survive.
        left: checks not made, because there were too many of those.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    left: int = 0

    def add(self, checked: Checked) -> None:
        """Count it, and keep the smallest findings of each kind and label."""
        self.counts += checked.counts
        self.findings += checked.findings
        self.kinds.update(each.kind for each in checked.findings)
        self._keep()

    def merge(self, other: Result) -> None:
        """Add what a batch gave."""
        self.counts += other.counts
        self.kinds += other.kinds
        self.findings += other.findings
        self.killed += other.killed
        self.left += other.left
        self._keep()

    def _keep(self) -> None:
        if len(self.findings) < 2:
            return
        self.findings.sort(key=lambda each: (each.kind, each.label, each.size))
        kept: Counter[tuple[str, str]] = Counter()
        smallest = []
        for each in self.findings:
            kept[each.kind, each.label] += 1
            if kept[each.kind, each.label] <= _KEPT:
                smallest.append(each)
        self.findings = smallest


def _limit_cpu(seconds: int) -> None:
    """Let this process use so many seconds of CPU time from now on, then die.

    Does nothing where the system has no such limit; there only the limit of silence holds.
    """
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, hard))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Checks `start` to `stop` of a campaign; those that killed a process are not made again."""

    make: Callable[..., Campaign]
    arguments: tuple[Any, ...]
    start: int
    stop: int
    cpu_seconds: int
    most_killed: int
    dead: tuple[tuple[int, str], ...] = ()

    def run(self, at: Callable[[int], None]) -> Result:
        campaign = self.make(*self.arguments)
        result, dead = Result(), dict(self.dead)
        for index in range(self.start, self.stop):
            if index in dead:
                result.killed += 1
                result.add(campaign.killed(index, dead[index]))
            elif result.killed < self.most_killed:
                at(index)
                _limit_cpu(self.cpu_seconds)
                result.add(campaign.check(index))
            else:
                result.left += 1
        return result

    def without(self, number: int, how: str) -> _Batch:
        return replace(self, dead=(*self.dead, (number, how)))


@dataclass(frozen=True, slots=True)
class _Shrinking:
    """Making a finding smaller; where that kills the process, it stays as it is."""

    make: Callable[..., Campaign]
    arguments: tuple[Any, ...]
    finding: Finding
    cpu_seconds: int
    deadly: bool = False

    def run(self, at: Callable[[int], None]) -> Finding:
        if self.deadly:
            return self.finding
        campaign = self.make(*self.arguments)
        at(self.finding.index)
        _limit_cpu(self.cpu_seconds)
        return campaign.shrink(self.finding)

    def without(self, number: int, how: str) -> _Shrinking:
        return replace(self, deadly=True)


def run(
    make: Callable[..., Campaign],
    arguments: tuple[Any, ...],
    total: int,
    *,
    workers: int = 1,
    dask: str | None = None,
    cpu_seconds: int = CPU_SECONDS,
    most_killed: int = 10,
    shrink: bool = True,
    progress: Callable[[int], None] = lambda _: None,
) -> Result:
    """Make every check of a campaign. The result does not depend on who made them.

    Args:
        make, arguments: build the campaign; both are sent to the workers.
        total: numbers 0 to total - 1 are checked.
        workers, dask: processes here, or the address of a Dask scheduler.
        cpu_seconds: what one check may use before its process is killed; shrinking may use
            twelve times as much.
        most_killed: after so many checks that killed their process the rest is left out.
        shrink: make the smallest finding of each kind smaller.
        progress: called with the number of checks made since the last call.

    Raises:
        WorkError: the campaign cannot be built, or the cluster cannot be used.
    """
    result = Result()
    batches = [
        _Batch(make, arguments, start, min(start + _BATCH, total), cpu_seconds, most_killed)
        for start in range(0, total, _BATCH)
    ]
    with closing(map_ordered(batches, workers=workers, dask=dask, preload=_PRELOAD)) as results:
        for batch, done in zip(batches, results, strict=False):
            result.merge(done)
            progress(batch.stop - batch.start)
            if result.killed >= most_killed:
                result.left += total - batch.stop
                break
    shrinking = [
        _Shrinking(make, arguments, each, 12 * cpu_seconds)
        for each in (_smallest(result) if shrink else ())
    ]
    if shrinking:
        smaller = map_ordered(shrinking, workers=workers, dask=dask, preload=_PRELOAD)
        for before, after in zip(shrinking, smaller, strict=True):
            result.findings[result.findings.index(before.finding)] = after
    return result


def _smallest(result: Result) -> list[Finding]:
    """The smallest finding of each kind that may become smaller yet."""
    smallest: dict[str, Finding] = {}
    for each in sorted(result.findings, key=lambda one: (one.kind, one.size)):
        if each.kind not in _AS_FOUND:
            smallest.setdefault(each.kind, each)
    return list(smallest.values())
