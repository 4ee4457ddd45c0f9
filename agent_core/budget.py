"""What a run may still spend; a run inside a tool of another draws on the outer one too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock

from agent_core.gears import Clock
from agent_core.limits import Limits, StopReason
from agent_core.messages import Usage
from agent_core.tools.runner import running_call

_current: ContextVar[Budget | None] = ContextVar("agent_core_budget", default=None)
_counting: ContextVar[tuple[Spent, ...]] = ContextVar("agent_core_spent", default=())
_lock = Lock()  # one for all: two children must not take the same last step


@dataclass(slots=True)
class Spent:
    """Steps and tokens that were used up."""

    steps: int = 0
    tokens: int = 0


class Budget:
    """Steps, tokens and seconds of one run.

    A run that is started inside a tool spends what its parent has left: its steps and tokens
    count for both, it ends when the tool's time is over, and it leaves the parent one step to
    answer with what there is.

    Attributes:
        depth: 0 for a run of its own, 1 for a run inside one of its tools, and so on.
        steps: model calls of the loop so far, with those of runs inside this one.
        tokens: the same for tokens.
        aside: what gears of this run used outside its steps, such as a summary by a model.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._parent = _current.get()
        self._call = running_call()
        self.depth: int = self._parent.depth + 1 if self._parent else 0
        self.started = clock.monotonic()
        self.steps = 0
        self.tokens = 0
        self.aside = Usage()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Make this the budget that runs and gears inside the block draw on."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def called_off(self) -> bool:
        """Whether the tool that this run is inside of has been given up."""
        return self._call is not None and self._call.cancel.is_set()

    def seconds(self) -> float:
        """How long the run has taken."""
        return self._clock.monotonic() - self.started

    def seconds_left(self) -> float | None:
        """Seconds until the run has to end; None when nothing limits it."""
        limit = self._limits.time_limit
        own = None if limit is None else max(0.0, limit - self.seconds())
        if self._call is None:
            return own
        inherited = self._call.time_left()
        return inherited if own is None else min(own, inherited)

    def take_step(self) -> StopReason | None:
        """Take a step, or say which limit is reached."""
        with _lock:
            if self._steps_left() <= 0:
                return StopReason.MAX_STEPS
            if self.seconds_left() == 0.0:
                return StopReason.TIME_LIMIT
            if self._no_tokens_left():
                return StopReason.TOKEN_LIMIT
            self._count(steps=1)
        return None

    def spend(self, usage: Usage, *, aside: bool = False) -> None:
        """Count the tokens of one model call; `aside` for one outside the steps."""
        with _lock:
            self._count(tokens=usage.total)
            if aside:
                self.aside += usage

    def charge(self, spent: Spent) -> None:
        """Count what a run inside this one spent when it was recorded, and does not spend now."""
        with _lock:
            self._count(steps=spent.steps, tokens=spent.tokens)

    def _count(self, *, steps: int = 0, tokens: int = 0) -> None:
        counts: list[Budget | Spent] = [*self._all(), *_counting.get()]
        for each in counts:
            each.steps += steps
            each.tokens += tokens

    def _all(self) -> Iterator[Budget]:
        each: Budget | None = self
        while each is not None:
            yield each
            each = each._parent

    def _steps_left(self) -> int:
        return min(
            each._limits.max_steps - each.steps - outer for outer, each in enumerate(self._all())
        )

    def _no_tokens_left(self) -> bool:
        return any(
            each._limits.token_limit is not None and each.tokens >= each._limits.token_limit
            for each in self._all()
        )


def current_budget() -> Budget | None:
    """The budget of the run that this code is part of, or None outside a run."""
    return _current.get()


@contextmanager
def counting() -> Iterator[Spent]:
    """Count what runs that begin inside the block spend, in whichever thread."""
    spent = Spent()
    token = _counting.set((*_counting.get(), spent))
    try:
        yield spent
    finally:
        _counting.reset(token)
