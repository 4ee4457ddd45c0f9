"""Record a session: run an agent against a live model and keep everything in one file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_core.clock import SystemClock
from agent_core.events import Observer
from agent_core.gears import Clock
from agent_core.limits import StopReason
from agent_core.messages import JsonObject, RunResult
from harness.files import write_atomically
from harness.plain import counted
from harness.sessions.cassette import load_session, render_session
from harness.sessions.errors import NotReplaced, SessionError, SessionExists
from harness.sessions.format import ModelSource, Session, SessionFile
from harness.sessions.journal import Earlier, Journal, interrupted, journal_path, read_journal
from harness.sessions.plan import Plan, plan_of, see_that_it_is_the_same
from harness.sessions.recording import Recording
from harness.sessions.servers import Servers
from harness.sessions.sources import Factory, resolved

Mode = Literal["new", "rewrite", "resume"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A finished recording."""

    path: Path
    file: SessionFile
    results: tuple[RunResult, ...]

    @property
    def failure(self) -> Exception | None:
        """Why the model did not answer, of the first run that ended so."""
        failed = [each for each in self.results if each.stop_reason is StopReason.MODEL_ERROR]
        return failed[0].error if failed else None

    def in_words(self) -> str:
        """One line: where it is, how much was asked, and how it ended if not by an answer."""
        words = f"recorded {self.path} ({counted(len(self.file.takes), 'request')})"
        reasons = dict.fromkeys(str(each.stop_reason) for each in self.results)
        others = [each for each in reasons if each != StopReason.FINAL_ANSWER]
        return f"{words}: it ended with {', '.join(others)}" if others else words

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "path": str(self.path),
            "requests": len(self.file.takes),
            "stop_reasons": [str(result.stop_reason) for result in self.results],
            "answers": [result.answer for result in self.results],
        }


def record(
    plan: Plan | None,
    factory: Factory,
    path: Path,
    *,
    mode: Mode = "new",
    servers: Sequence[str] | None = None,
    clock: Clock | None = None,
    observers: Sequence[Observer] = (),
) -> Recorded:
    """Record a session.

    The file appears whole at the end. Until then a journal beside it holds what has happened,
    and stays there when the recording is interrupted.

    Args:
        plan: what to record; None with `resume` takes it from the journal.
        factory: builds the agent.
        mode: `new` refuses to replace anything, `rewrite` replaces the session, `resume` goes
            on from the journal of an interrupted recording.
        servers: addresses that may be asked beside those of this machine and its environment.
            None leaves it to the plan, which the caller answers for, unless it is resumed.
        clock: the machine's unless given.

    Raises:
        SessionExists: mode `new` and there is a session or a journal.
        SessionBusy: someone else is recording it.
        ServerRefused: another server would be asked.
        NotReplaced: the model failed, and the session that is there ended well.
        SessionError: nothing to resume, or what is resumed was begun with another plan.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(path)
    try:
        earlier = _take_up(journal, mode, path)
        plan = _plan(plan, earlier)
        asks = None if servers is None and earlier is None else Servers(servers or ())
        if asks is not None:
            asks.check_model(plan.model)
        recording = Recording(plan, journal, earlier, clock or SystemClock(), asks)
        results = recording.run(factory, observers)
        _keep_what_ended_well(path, results)
        file = recording.file(results)
        write_atomically(path, render_session(file))
    except NotReplaced:
        journal.discard()  # to go on would repeat the failure
        raise
    except BaseException:
        _leave(journal)
        raise
    journal.discard()
    return Recorded(path, file, tuple(results))


def rewrite(
    path: Path,
    factory: Factory,
    *,
    model: ModelSource | None = None,
    allow: Sequence[str] = (),
    clock: Clock | None = None,
) -> Recorded:
    """Record a session again from what it says of itself; the old one stays until it is done.

    Args:
        model: another way to reach the model than the session's own.
        allow: addresses of servers that may be asked beside those of this machine and its
            environment, and that of `model`.

    Raises:
        ServerRefused: another server would be asked.
        NotReplaced: the model failed, and the session that is there ended well.
        SessionError: it is a stock cassette, which does not say what agent made it.
    """
    session = load_session(path).session
    if session is None:
        raise SessionError(f"{path} is a cassette without a session block: nothing to run again")
    plan = plan_of(session)
    if model is not None:
        plan = Plan(plan.agent, model, plan.turns, plan.seed)
        allow = [*allow, resolved(model).base_url or ""]
    return record(plan, factory, path, mode="rewrite", servers=allow, clock=clock)


def begun_plan(path: Path) -> Plan:
    """What an interrupted recording was begun with.

    Raises:
        SessionError: there is none, or its journal is damaged.
    """
    journal = journal_path(path)
    earlier = read_journal(journal.read_bytes()) if journal.exists() else None
    if earlier is None or not earlier.header:
        raise _nothing_to_resume(path)
    return plan_of(Session(**earlier.header))


def _nothing_to_resume(path: Path) -> SessionError:
    return SessionError(f"no interrupted recording of {path.name!r}: nothing to resume")


def _take_up(journal: Journal, mode: Mode, path: Path) -> Earlier | None:
    if mode == "new" and path.exists():  # only now that nobody else can be writing it
        raise SessionExists(f"{path} exists; record it again with --rewrite, or choose a name")
    if mode == "rewrite":
        journal.restart()
        return None
    earlier = journal.earlier()
    if mode == "resume" and (earlier is None or not earlier.header):
        raise _nothing_to_resume(path)
    if mode == "new" and earlier is not None and earlier.has_work:
        raise interrupted(path, earlier)
    if mode == "new":
        journal.restart()
    return earlier if mode == "resume" else None


def _plan(plan: Plan | None, earlier: Earlier | None) -> Plan:
    """A resumed recording stays what it was."""
    if earlier is None:
        if plan is None:
            raise SessionError("nothing to record: expected a plan, or mode 'resume'")
        return plan
    begun = plan_of(Session(**earlier.header))
    if plan is None:
        return begun
    see_that_it_is_the_same(plan, begun)
    return plan  # with the credentials that no journal holds


def _keep_what_ended_well(path: Path, results: Sequence[RunResult]) -> None:
    """See that no session is replaced by a failure of the model that it does not hold already."""
    if not path.exists():
        return
    session = None
    with suppress(SessionError, OSError):  # what cannot be read did not fail in the same way
        session = load_session(path).session
    recorded = [] if session is None else session.trajectory
    known = [each.stop_reason == StopReason.MODEL_ERROR for each in recorded]
    for number, result in enumerate(results):
        if result.stop_reason is StopReason.MODEL_ERROR and not any(known[number : number + 1]):
            turn = f" of turn {number + 1}" if number else ""
            raise NotReplaced(
                f"{path} stays as it was: the run{turn} ended with model_error "
                f"({type(result.error).__name__}: {result.error}). Record it again when that is "
                "mended; if the error is what is to be recorded, remove the file first"
            ) from result.error


def _leave(journal: Journal) -> None:
    """Keep the journal if there is anything in it that cost something."""
    try:
        earlier = journal.earlier()
    except (SessionError, OSError):  # damaged: not ours to throw away
        journal.close()
        return
    if earlier is None or not earlier.has_work:
        journal.discard()
    else:
        journal.close()
