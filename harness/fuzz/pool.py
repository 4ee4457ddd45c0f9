"""Run a campaign in worker processes, so that what hangs or dies is a finding and not the end.

A campaign is a numbered list of checks. Workers get ranges of numbers; each check may use so
much CPU time (the kernel enforces it), and the number at which a worker died is known.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, Protocol

from harness.plain import plain

CPU_SECONDS = 5
"""CPU time one check may use before its process is killed."""

_BATCH = 100
_SILENCE = 60.0  # seconds on one check, blocked rather than busy, before its process is killed
_KEPT = 3  # findings of a kind and first label
_AS_FOUND = {"killed", "growth", "slow"}  # looking for smaller ones would take as long again


def _processes() -> Any:
    """Fresh processes, started quickly where the system can fork: many may have to die."""
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["harness.fuzz.parser"])
    return context


_context = _processes()
_START = 600.0  # seconds in which a process must have loaded its target


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
    """Numbered checks. Built anew in each worker, so it must come out of picklable arguments."""

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
        killed: processes that died.
        left: checks not made, because too many processes died.
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


class CampaignError(Exception):
    """A campaign could not be set up in its process; the message is the reason."""


def _limit_cpu(seconds: int) -> None:
    """Let this process use so many seconds of CPU time from now on, then die.

    Does nothing where the system has no such limit; there only `_SILENCE` holds.
    """
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, hard))


def run(
    make: Callable[..., Campaign],
    arguments: tuple[Any, ...],
    total: int,
    *,
    workers: int = 1,
    cpu_seconds: int = CPU_SECONDS,
    most_killed: int = 10,
    shrink: bool = True,
    progress: Callable[[int], None] = lambda _: None,
) -> Result:
    """Make every check of a campaign.

    Args:
        make, arguments: build the campaign; both are sent to the workers.
        total: numbers 0 to total - 1 are checked.
        cpu_seconds: what one check may use before its process is killed; shrinking may use
            twelve times as much.
        most_killed: after so many dead processes the rest is left out.
        shrink: make the smallest finding of each kind smaller.
        progress: called with the number of checks made since the last call.

    Raises:
        CampaignError: the campaign cannot be built.
    """
    result = Result()
    jobs = deque((start, min(start + _BATCH, total), ()) for start in range(0, total, _BATCH))
    here = make(*arguments)
    crew = [_Worker(make, arguments, cpu_seconds) for _ in range(max(1, min(workers, len(jobs))))]
    try:
        while jobs or any(each.job for each in crew):
            for each in crew:
                if each.job is None and jobs:
                    each.give(jobs.popleft())
            for each in _heard(crew):
                start, stop, skipped = each.taken()
                batch = each.answer()
                if isinstance(batch, Result):
                    result.merge(batch)
                    progress(stop - start - len(skipped))
                    continue
                how, index = batch
                result.killed += 1
                result.add(here.killed(index, how))
                progress(1)
                if result.killed < most_killed:
                    jobs.appendleft((start, stop, (*skipped, index)))
                else:
                    result.left += stop - start - len(skipped) - 1
                    result.left += sum(b - a - len(c) for a, b, c in jobs)
                    jobs.clear()
        if shrink:
            result.findings = list(_shrunk(crew[0], result.findings))
    finally:
        for each in crew:
            each.end()
    return result


def _heard(crew: Iterable[_Worker]) -> list[_Worker]:
    """The workers that have answered, or died, or must be counted as dead."""
    busy = [each for each in crew if each.job is not None]
    ready = wait([each.connection for each in busy], timeout=1.0)
    for each in busy:
        if each.connection not in ready and each.is_silent():
            each.kill()
    return [each for each in busy if each.connection in ready]


def _shrunk(worker: _Worker, findings: list[Finding]) -> Iterable[Finding]:
    """The smallest finding of each kind made smaller, the others as they are."""
    seen: set[str] = set()
    for each in sorted(findings, key=lambda one: (one.kind, one.size)):
        if each.kind in seen or each.kind in _AS_FOUND:
            yield each
            continue
        seen.add(each.kind)
        worker.give(each)
        while not _heard([worker]):
            pass
        worker.taken()
        answer = worker.answer()
        yield answer if isinstance(answer, Finding) else each


class _Worker:
    """A process, and the job it has."""

    def __init__(
        self, make: Callable[..., Campaign], arguments: tuple[Any, ...], cpu_seconds: int
    ) -> None:
        self.make, self.arguments, self.cpu_seconds = make, arguments, cpu_seconds
        self.job: Any = None
        self._start()

    def _start(self) -> None:
        self.connection, theirs = _context.Pipe()
        self.at = _context.RawValue("q", -1)
        self.process = _context.Process(
            target=_work,
            args=(theirs, self.at, self.make, self.arguments, self.cpu_seconds),
            daemon=True,
        )
        self.process.start()
        theirs.close()
        self._seen, self._since = -2, time.monotonic()

    def give(self, job: Any) -> None:
        self.job = job
        self.connection.send(job)
        self._seen, self._since = -2, time.monotonic()

    def taken(self) -> Any:
        """The job, which is no longer this worker's."""
        job, self.job = self.job, None
        return job

    def answer(self) -> Any:
        """What it says; how and where it died if it did, and then it lives again."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            self.process.join()
            died = (_how(self.process.exitcode), int(self.at.value))
            if died[1] < 0:
                raise CampaignError(f"the process died before its first check: {died[0]}") from None
            self.connection.close()
            self._start()
            return died
        if isinstance(answer, str):
            raise CampaignError(answer)
        return answer

    def is_silent(self) -> bool:
        """Whether it has been on one check for longer than busy work could take."""
        at, now = int(self.at.value), time.monotonic()
        if at != self._seen:
            self._seen, self._since = at, now
        return now - self._since > (_SILENCE if at >= 0 else _START)

    def kill(self) -> None:
        self.process.kill()

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _how(code: int | None) -> str:
    """Words for an exit code."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        why = " (the limit of CPU time)" if name == "SIGXCPU" else ""
        return f"{name}{why}"
    return f"exit code {code}"


def _work(
    connection: Connection,
    at: Any,
    make: Callable[..., Campaign],
    arguments: tuple[Any, ...],
    cpu_seconds: int,
) -> None:
    """The life of a worker: build the campaign, then one job after another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    with open(os.devnull, "w", encoding="utf-8") as silence:  # noqa: PTH123
        os.dup2(silence.fileno(), 1)  # what a target prints belongs to no report
    try:
        campaign = make(*arguments)
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        connection.send(_done(campaign, job, at, cpu_seconds))


def _done(campaign: Campaign, job: Any, at: Any, cpu_seconds: int) -> Result | Finding:
    if isinstance(job, Finding):
        at.value = job.index
        _limit_cpu(12 * cpu_seconds)
        return campaign.shrink(job)
    start, stop, skipped = job
    result = Result()
    for index in range(start, stop):
        if index not in skipped:
            at.value = index
            _limit_cpu(cpu_seconds)
            result.add(campaign.check(index))
    return result
