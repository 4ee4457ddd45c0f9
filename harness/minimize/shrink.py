"""Minimize: take parts out of a failing session as long as it fails in the same way.

Turns first, then steps, then tools, history, passages and tool results, last the texts by lines
and by words, each by delta debugging. Every candidate is settled (`settle`) and replayed
offline. The same session and agent give the same result, unless the time is up before the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TypeVar

from agent_core.errors import ConfigError
from agent_core.messages import JsonObject
from harness.minimize.ddmin import ddmin
from harness.minimize.draft import Derived, Draft, begin, with_steps
from harness.minimize.failure import Failure, failure_of
from harness.minimize.layout import layout_of
from harness.minimize.reuse import built_once
from harness.minimize.settle import is_foreseeable, settle
from harness.minimize.texts import parts_of
from harness.plain import counted
from harness.redact import redactor
from harness.sessions.errors import SessionError
from harness.sessions.format import Session, SessionFile
from harness.sessions.lint_secrets import scrubbed
from harness.sessions.sources import Factory

T = TypeVar("T")

SECONDS = 60.0
"""How long to go on unless told otherwise."""

_LOOKS = 3  # times that the session has to fail alike before anything is tried


class NothingToMinimize(SessionError):
    """The session does not fail, or not in the same way each time."""


@dataclass(frozen=True, slots=True)
class Minimized:
    """What came of it.

    Attributes:
        name: of the session it was made of.
        file: the smaller session, marked as derived.
        failure: how both fail.
        steps: how many there were, and are.
        size: bytes of the session without its provenance, before and after.
        replays: candidates that were tried.
        seconds: that it took.
        finished: False when the time was up: the best so far.
    """

    name: str
    file: SessionFile
    failure: Failure
    steps: tuple[int, int]
    size: tuple[int, int]
    replays: int
    seconds: float
    finished: bool

    @property
    def smaller(self) -> bool:
        """Whether anything could go."""
        return self.size[1] < self.size[0]

    def in_words(self) -> str:
        """One line."""
        if not self.smaller:
            why = "each that was tried fails otherwise, or not at all"
            if not self.finished:
                why = "the time was up first, give it more --seconds"
            tried = f"{counted(self.replays, 'replay')} in {self.seconds:.1f} s"
            return f"no smaller session was found: {why} ({tried})"
        steps, size = (f"{each[0]:,} → {each[1]:,}" for each in (self.steps, self.size))
        end = "" if self.finished else "; the time was up, this is the best so far"
        replays = counted(self.replays, "replay")
        return f"steps {steps}, bytes {size}, {replays} in {self.seconds:.1f} s{end}"

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "session": self.name,
            "failure": self.failure.as_json(),
            "steps": list(self.steps),
            "bytes": list(self.size),
            "replays": self.replays,
            "seconds": round(self.seconds, 3),
            "finished": self.finished,
        }


def minimize(
    file: SessionFile,
    factory: Factory,
    *,
    name: str = "session",
    check: str | None = None,
    seconds: float = SECONDS,
    progress: Callable[[str], None] = lambda _words: None,
) -> Minimized:
    """Shrink a failing session to the smallest that fails the same way.

    Args:
        factory: builds the agent.
        check: `replay`, `lint` or `module:function`; see `failure_of`.
        seconds: what comes until then is the result. The session is looked at in any case.
        progress: told what is being tried.

    Raises:
        NothingToMinimize: it does not fail, or fails in another way each time.
        SessionError: it cannot be replayed at all.
    """
    began = time.monotonic()
    once = built_once(factory)
    file = scrubbed(file)  # what is written must not hold what was overlooked before
    whole = begin(file, once)
    failure = _known_failure(file, factory, check)
    work = _Work(whole, once, failure, began + seconds, progress)
    finished = work.through()
    best = work.best
    return Minimized(
        name=name,
        file=SessionFile(_marked(whole, best, name, failure), best.file.exchanges),
        failure=failure,
        steps=(_steps(whole), _steps(best)),
        size=(weight(whole.file), weight(best.file)),
        replays=work.replays,
        seconds=time.monotonic() - began,
        finished=finished,
    )


def weight(file: SessionFile) -> int:
    """The bytes of a session without its provenance."""
    assert file.session is not None  # callers have looked
    block = file.session.model_dump_json(exclude_defaults=True, exclude={"provenance"})
    bodies = [each.request.body + each.response.body for each in file.exchanges]
    return len(block.encode()) + sum(map(len, bodies))


def _known_failure(file: SessionFile, factory: Factory, check: str | None) -> Failure:
    """How the session fails: several times alike, so that a difference later means something."""
    seen = [failure_of(file, factory, check=check) for _ in range(_LOOKS)]
    first = seen[0]
    other = next((each for each in seen if each != first), first)
    if other != first:
        raise NothingToMinimize(
            f"the session is not deterministic: it gave once {first or 'no failure'}, "
            f"and once {other or 'no failure'}; make the agent or the check repeatable first"
        )
    if first is None:
        asked = check or "replay or lint"
        raise NothingToMinimize(
            f"the session does not fail {asked}: there is nothing to minimize"
            + ("" if check else "; a check of your own is asked with --check module:function")
        )
    return first


class _Work:
    """The best session so far, and the tries."""

    def __init__(
        self,
        whole: Derived,
        factory: Factory,
        failure: Failure,
        until: float,
        progress: Callable[[str], None],
    ) -> None:
        self.best = whole
        self.replays = 0
        self._factory = factory
        self._failure = failure
        self._until = until
        self._progress = progress

    def through(self) -> bool:
        """Try everything; False when the time was up before."""
        try:
            self._steps()
            for part in list(parts_of(self.best)):
                pieces = part(self.best)
                if pieces is not None and pieces.items:
                    self._shrink(pieces.items, pieces.draft)
        except _TimeIsUp:
            return False
        return True

    def _steps(self) -> None:
        whole, layout = self.best, layout_of(self.best.file)
        if layout is None:  # they cannot be told apart: only texts can become shorter
            return
        steps = layout.steps
        self._shrink(
            range(len(whole.session.turns)),
            lambda turns: with_steps(whole, layout, [each for each in steps if each.turn in turns]),
        )
        left, rest = self.best, layout_of(self.best.file)
        if rest is not None:
            self._shrink(rest.steps, lambda chosen: with_steps(left, rest, chosen))

    def _shrink(self, items: Sequence[T], draft: Callable[[Sequence[T]], Draft]) -> None:
        whole = self.best
        ddmin(items, lambda kept: self._fails(whole, draft(kept)))

    def _fails(self, whole: Derived, draft: Draft) -> bool:
        """Whether a candidate is smaller and fails the same way; then it is the best."""
        if time.monotonic() >= self._until:
            raise _TimeIsUp
        self.replays += 1
        self._progress(f"{counted(self.replays, 'replay')}, {counted(_steps(self.best), 'step')}")
        failure = self._failure
        try:
            derived = settle(whole, draft, self._factory)
            if weight(derived.file) >= weight(self.best.file):
                return False
            if draft.same_reading and not derived.run.reads_as(whole.run):
                return False
            if not is_foreseeable(derived):
                return False
            rule = failure.error if failure.check == "lint" else None
            found = failure_of(derived.file, self._factory, check=failure.check, rule=rule)
        except (SessionError, ConfigError):  # the agent cannot be built on it
            return False
        if found == failure:
            self.best = derived
        return found == failure


class _TimeIsUp(Exception):
    """No more candidates."""


def _steps(derived: Derived) -> int:
    return sum(len(turn.steps) for turn in derived.session.trajectory)


def _marked(whole: Derived, best: Derived, name: str, failure: Failure) -> Session:
    """The block with the words that it was made of another session, and how."""
    origin = best.session.provenance
    how = (
        f"minimized by agentrig {version('agentrig')} from session {name}: {_steps(whole)} steps "
        f"to {_steps(best)}, texts shortened, requests rewritten; it fails as that did: {failure}"
    )
    derived = redactor.text(f"{origin.derived}; {how}" if origin.derived else how)
    provenance = origin.model_copy(update={"derived": derived})
    return best.session.model_copy(update={"provenance": provenance})
