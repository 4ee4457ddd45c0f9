"""Run several calls at the same time, keep every outcome, and give up on time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_THREADS = 8
_POLL = 0.02  # seconds between two looks at the cancel event
_GRACE = 1.0  # seconds that calls have to end in after Ctrl-C


def chains_of(numbers: Sequence[int], keys: Sequence[str]) -> list[list[int]]:
    """Numbers with the same key, one after another; each key a chain of its own."""
    found: dict[str, list[int]] = {}
    for number in numbers:
        found.setdefault(keys[number], []).append(number)
    return list(found.values())


def run_parallel(
    chains: Sequence[Sequence[int]],
    call: Callable[[int, Event], T],
    outcomes: list[T | None],
    *,
    cancel: Event,
) -> None:
    """Put `call(number, cancel)` for every number into `outcomes[number]`.

    Chains run at the same time, up to `MAX_THREADS` of them; the numbers of one chain run one
    after another. Each chain has a copy of the caller's context variables. When this is left
    by an exception (Ctrl-C), the calls are told to end and what is there stays.

    Raises:
        Exception: the first that a call raised, after all the others have ended.
    """
    work = _Work(chains, call, outcomes)
    try:
        work.start()
        while not work.over.wait(_POLL):
            if cancel.is_set():
                work.cancel.set()
    finally:
        work.cancel.set()
        work.over.wait(_GRACE)
    if work.errors:
        raise work.errors[0]


class _Work(Generic[T]):
    """The chains that are still to run, and the threads that run them."""

    def __init__(
        self,
        chains: Sequence[Sequence[int]],
        call: Callable[[int, Event], T],
        outcomes: list[T | None],
    ) -> None:
        self.cancel = Event()
        self.over = Event()
        self.errors: list[BaseException] = []
        self._chains: deque[tuple[Sequence[int], Context]] = deque(
            (chain, copy_context()) for chain in chains
        )
        self._call = call
        self._outcomes = outcomes
        self._left = len(chains)
        self._lock = Lock()

    def start(self) -> None:
        for number in range(min(MAX_THREADS, self._left)):
            thread = Thread(target=self._run, name=f"calls-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the machine has no thread left
                if number == 0:
                    self._run()
                return

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._chains:
                    return
                chain, context = self._chains.popleft()
            context.run(self._run_chain, chain)
            with self._lock:
                self._left -= 1
                if not self._left:
                    self.over.set()

    def _run_chain(self, chain: Sequence[int]) -> None:
        try:
            for number in chain:
                self._outcomes[number] = self._call(number, self.cancel)
        except BaseException as error:  # raised again where the calls are waited for
            self.errors.append(error)
