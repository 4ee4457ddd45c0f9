"""Work in shares, each in a process of its own, on this machine or on a Dask cluster.

What a share gives depends on nothing but the share. So the results and their order are the same
whatever the number of workers, and the share of a worker that was lost is run again elsewhere.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import current_process, get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.resource_tracker import ensure_running
from tempfile import gettempdir
from threading import Event, Lock
from typing import Any, Protocol, TypeVar

_SILENCE = 60.0  # seconds on one check, blocked rather than busy, before its process is killed
_START = 600.0  # seconds in which a process must have begun its first check
_LOOK = 0.2  # seconds between two looks at a process
_CONNECT = 5  # seconds
_LONGEST_FOLDER = 70  # bytes, for temporary files: the fork server's socket in it may have 103
_FROM_OUTSIDE = {"SIGKILL", "SIGTERM"}

_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_lock = Lock()  # `multiprocessing` reaps every child when one is started: two threads must not


class Share(Protocol[_R_co]):
    """A part of some work. It is sent to where it is run, so it holds all that it needs."""

    def run(self, at: Callable[[int], None]) -> _R_co:
        """Do it. `at` is told the number of each check, from 0, before it is made."""
        ...

    def without(self, number: int, how: str) -> Share[_R_co]:
        """The share with a check left out that its process did not survive; `how` it died."""
        ...


class WorkError(Exception):
    """Work could not be done; the message is the reason."""


class NoCluster(WorkError):
    """Nothing answers at the address of a scheduler."""


class _Death(Exception):
    """A process died at a check."""

    def __init__(self, at: int, how: str) -> None:
        super().__init__(at, how)
        self.at, self.how = at, how


@dataclass(frozen=True, slots=True)
class _Raised:
    words: str


def map_ordered(
    shares: Sequence[Share[_R]],
    *,
    workers: int = 1,
    dask: str | None = None,
    preload: Sequence[str] = (),
) -> Generator[_R, None, None]:
    """What each share gives, in the order of the shares.

    Args:
        workers: processes on this machine.
        dask: address of a scheduler, e.g. `tcp://10.0.0.5:8786`; its workers do it instead.
        preload: modules that the shares need, loaded once for all processes of a machine.

    Raises:
        WorkError: a share raised, or could not be run.
        NoCluster: nothing answers at the address.
    """
    with _cluster(dask) if dask else _machine(workers) as (executor, stop):
        yield from executor.map(partial(run_apart, preload=preload, stop=stop), shares)


@contextmanager
def _machine(workers: int) -> Iterator[tuple[Executor, Event | None]]:
    """Threads that start processes and wait for them."""
    stop = Event()
    with ThreadPoolExecutor(workers) as executor:
        try:
            yield executor, stop
        finally:
            stop.set()
            executor.shutdown(cancel_futures=True)


@contextmanager
def _cluster(address: str) -> Iterator[tuple[Executor, Event | None]]:
    """A cluster that runs already; starting one is left to Dask's own tools."""
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise WorkError("--dask needs a package: pip install distributed") from error
    try:
        client = Client(address, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise NoCluster(
            f"no Dask scheduler at {address!r}: {error}; "
            "expected an address such as tcp://127.0.0.1:8786, where `dask scheduler` runs"
        ) from error
    with client:
        try:
            yield client.get_executor(pure=False), None
        except WorkError:
            raise
        except Exception as error:  # a share was lost too often, or something is not installed
            raise WorkError(
                f"the cluster failed: {type(error).__name__}: {error}; agentrig, and the modules "
                "that it is to test, have to be importable on each of its workers"
            ) from error


def run_apart(share: Share[_R], *, preload: Sequence[str] = (), stop: Event | None = None) -> _R:
    """Run a share in a process of its own, and what is left of it in another if that dies.

    A process that was killed from outside, for want of memory say, is started again once: it
    may have had nothing to do with the check it was at.

    Raises:
        WorkError: the share raised, or its process died before the first check.
    """
    accidents = 1
    while True:
        try:
            return _attempt(share, preload, stop)
        except _Death as death:
            if death.how in _FROM_OUTSIDE and accidents:
                accidents -= 1
            elif death.at < 0:
                words = f"the process died before its first check: {death.how}"
                raise WorkError(words) from None
            else:
                share = share.without(death.at, death.how)


def _attempt(share: Share[_R], preload: Sequence[str], stop: Event | None) -> _R:
    context = _processes(preload)
    ours, theirs = context.Pipe(duplex=False)
    at = context.RawValue("q", -1)
    process = context.Process(target=_work, args=(theirs, at, share), daemon=True)
    with _lock, _deaf_children():
        if current_process().daemon:  # as a worker of Dask is, which may have no children then
            current_process().daemon = False
        process.start()
    theirs.close()
    blocked = ""
    try:
        blocked = _wait(ours, at, process, stop)
        outcome: _R | _Raised = ours.recv()
    except (EOFError, OSError):
        with _lock:
            process.join()
        raise _Death(int(at.value), _how(process.exitcode) + blocked) from None
    finally:
        ours.close()
        process.kill()
        with _lock:
            process.join()
    if isinstance(outcome, _Raised):
        raise WorkError(outcome.words)
    return outcome


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal: those started here leave it to their parent.

    They inherit what this thread blocks, so that none of them hears it while it still loads.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    ensure_running()  # the tracker of `multiprocessing`, which unblocks SIGINT when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _processes(preload: Sequence[str]) -> Any:
    """Fresh processes, started quickly where the system can fork: many may have to die."""
    room_for_socket = len(os.fsencode(gettempdir())) <= _LONGEST_FOLDER
    if "forkserver" not in get_all_start_methods() or not room_for_socket:
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([*preload])  # heeded by the first process that is started
    return context


def _wait(connection: Connection, at: Any, process: Any, stop: Event | None) -> str:
    """Wait for a message or the end; kill what is stopped or blocked, and say the latter."""
    seen, since = -2, time.monotonic()
    while not connection.poll(_LOOK):
        if stop is not None and stop.is_set():
            raise WorkError("stopped")
        if at.value != seen:
            seen, since = int(at.value), time.monotonic()
        limit = _SILENCE if seen >= 0 else _START
        if time.monotonic() - since > limit:
            process.kill()
            return f" (blocked for {limit:.0f} seconds)"
    return ""


def _how(code: int | None) -> str:
    """Words for an exit code."""
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        why = " (the limit of CPU time)" if name == "SIGXCPU" else ""
        return f"{name}{why}"
    return f"exit code {code}"


def _work(connection: Connection, at: Any, share: Share[Any]) -> None:
    """The life of a process: one share."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    with open(os.devnull, "w", encoding="utf-8") as silence:  # noqa: PTH123
        os.dup2(silence.fileno(), 1)  # what is printed belongs to no report

    def tell(number: int) -> None:
        at.value = number

    try:
        outcome = share.run(tell)
    except Exception as error:  # sent as words: its class may be unknown where it is read
        outcome = _Raised(f"{type(error).__name__}: {error}")
    with suppress(BrokenPipeError):  # nobody waits for it any more
        connection.send(outcome)
