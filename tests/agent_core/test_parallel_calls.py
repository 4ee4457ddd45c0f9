"""Parallel native calls: at the same time, in order, each for itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.errors import ToolError
from agent_core.events import Ended, Started, ToolStarted
from agent_core.limits import Limits, StopReason
from agent_core.messages import Message, Reply, RunResult, ToolCall
from agent_core.models import ScriptedModel
from agent_core.parallel import MAX_THREADS, run_parallel
from agent_core.tools import define

GUARD = 20.0  # seconds: only against hanging


def calls(*asked: tuple[str, dict[str, Any]]) -> Reply:
    """A reply with native calls, ids c0, c1, …"""
    return Reply("", tuple(ToolCall(f"c{n}", *each) for n, each in enumerate(asked)))


def run(reply: Reply, *tools: Any, **options: Any) -> tuple[RunResult, list[Message]]:
    """A run of one such reply and an answer; the messages that answer the calls."""
    cancel = options.pop("cancel", None)
    model = ScriptedModel([reply, "done"])
    agent = Agent(model, tools, protocol="native", **options)
    result = agent.run("q", cancel=cancel)
    return result, [each for each in result.messages if each.role == "tool"]


def test_calls_run_at_the_same_time() -> None:
    """Three calls that wait for one another all return."""
    together = threading.Barrier(3, timeout=GUARD)

    def meet(n: int) -> int:
        """Wait for the others."""
        together.wait()
        return n

    result, answers = run(calls(*(("meet", {"n": n}) for n in range(3))), meet)
    assert [(each.tool_call_id, each.content) for each in answers] == [
        ("c0", "0"),
        ("c1", "1"),
        ("c2", "2"),
    ]
    assert result.answer == "done"


def test_order_is_that_of_the_calls_whatever_ends_first() -> None:
    """The first call ends last and still comes first."""
    second = threading.Event()

    def slow() -> str:
        """Wait for the quick one."""
        assert second.wait(GUARD)
        return "slow"

    def quick() -> str:
        """End at once."""
        second.set()
        return "quick"

    _, answers = run(calls(("slow", {}), ("quick", {})), slow, quick)
    assert [each.content for each in answers] == ["slow", "quick"]


def test_no_more_than_so_many_run_at_once() -> None:
    """Twenty calls use eight threads at most, and all are answered."""
    lock, running, most = threading.Lock(), 0, 0
    release = threading.Event()

    def work(n: int) -> int:
        """Count who is here."""
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == MAX_THREADS:
                release.set()
        release.wait(GUARD)
        with lock:
            running -= 1
        return n

    _, answers = run(calls(*(("work", {"n": n}) for n in range(20))), work)
    assert most == MAX_THREADS
    assert [each.content for each in answers] == [str(n) for n in range(20)]


def test_one_failure_discards_nothing() -> None:
    """Errors, wrong arguments, an unknown exit and a timeout each stay with their own call."""

    def good(n: int) -> int:
        """Work."""
        return n

    def bad() -> None:
        """Fail."""
        raise ToolError("no luck")

    def leave() -> None:
        """Try to end the process."""
        raise SystemExit(3)

    def hang() -> None:
        """Take too long."""
        threading.Event().wait(GUARD)

    reply = calls(
        ("good", {"n": 1}),
        ("bad", {}),
        ("hang", {}),
        ("leave", {}),
        ("good", {}),
        ("good", {"n": 2}),
    )
    result, answers = run(reply, good, bad, define(hang, timeout=0.2), leave)
    seen = result.steps[0].observations
    assert [each.ok for each in seen] == [True, False, False, False, False, True]
    assert [each.error.kind for each in seen if each.error] == [
        "exception",
        "timeout",
        "exception",
        "invalid_arguments",
    ]
    assert [each.tool_call_id for each in answers] == [f"c{n}" for n in range(6)]
    assert "tool_abandoned" in [note.kind for note in result.steps[0].notes]


def test_identical_calls_run_one_after_another() -> None:
    """A replay can then give each its own result; the third is refused as a repetition."""
    counter = iter(range(9))

    def next_number() -> int:
        """The next number."""
        return next(counter)

    result, answers = run(calls(*[("next_number", {})] * 3), next_number)
    assert [each.content for each in answers[:2]] == ["0", "1"]
    assert result.steps[0].observations[2].error is not None
    assert result.steps[0].observations[2].error.kind == "repeated"


def test_cancelling_answers_every_call() -> None:
    """Calls that run are left, calls that wait do not begin, the history is whole."""
    cancel = threading.Event()
    begun = []

    def stop(n: int) -> None:
        """Cancel and hang."""
        begun.append(n)
        cancel.set()
        threading.Event().wait(GUARD)

    result, answers = run(calls(*(("stop", {"n": n}) for n in range(12))), stop, cancel=cancel)
    assert result.stop_reason is StopReason.CANCELLED
    assert len(answers) == 12
    assert len(begun) <= MAX_THREADS
    kinds = {each.error.kind for each in result.steps[0].observations if each.error}
    assert kinds == {"cancelled"}


def test_ctrl_c_keeps_what_is_there() -> None:
    """The history is well-formed: what has ended is kept, the rest is said not to have run."""
    ended = threading.Event()
    main = threading.main_thread()

    def quick() -> str:
        """End at once."""
        return "kept"

    def hang() -> None:
        """Hang."""
        threading.Event().wait(GUARD)

    class Interrupt:
        """Ctrl-C once the quick call is over, where the run waits for its calls."""

        def started(self, event: Started) -> str | None:
            return event.action.name if isinstance(event, ToolStarted) else None

        def ended(self, token: str | None, event: Ended) -> None:
            if token == "quick":
                ended.set()

    def interrupt() -> None:
        import signal

        assert ended.wait(GUARD)
        signal.pthread_kill(main.ident or 0, signal.SIGINT)

    killer = threading.Thread(target=interrupt)
    model = ScriptedModel([calls(("hang", {}), ("quick", {}), ("hang", {}))])
    agent = Agent(model, [quick, hang], protocol="native", observers=[Interrupt()])
    killer.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        agent.run("q")
    killer.join(GUARD)
    result: RunResult = caught.value.partial_result  # type: ignore[attr-defined]
    answers = [each for each in result.messages if each.role == "tool"]
    assert [each.tool_call_id for each in answers] == ["c0", "c1", "c2"]
    assert answers[1].content == "kept"
    assert [each.ok for each in result.steps[0].observations] == [False, True, False]


def test_time_left_is_that_of_each_calls_own_start() -> None:
    """Calls that wait for a thread do not begin when the run's time is over."""
    begun = []

    def hang(n: int) -> None:
        """Hang."""
        begun.append(n)
        threading.Event().wait(GUARD)

    result, answers = run(
        calls(*(("hang", {"n": n}) for n in range(10))), hang, limits=Limits(time_limit=0.3)
    )
    assert result.stop_reason is StopReason.TIME_LIMIT
    assert len(answers) == 10
    assert len(begun) == MAX_THREADS


def test_an_executor_that_raises_loses_only_its_own_call() -> None:
    """The error comes out at the end, and the other calls are in the partial history."""
    ran = []

    class Broken:
        """An executor against the rules: it raises."""

        def __init__(self, inner: Any) -> None:
            self.inner = inner
            self.definitions = inner.definitions

        def execute(self, action: Any, **how: Any) -> Any:
            if action.id == "c0":
                raise RuntimeError("broken executor")
            ran.append(action.id)
            return self.inner.execute(action, **how)

    def good(n: int) -> int:
        """Work."""
        return n

    inner = Agent(ScriptedModel([]), [good]).executor
    model = ScriptedModel([calls(("good", {"n": 1}), ("good", {"n": 2}))])
    with pytest.raises(RuntimeError, match="broken executor"):
        Agent(model, executor=Broken(inner), protocol="native").run("q")
    assert ran == ["c1"]


def test_of_several_errors_the_first_comes_out() -> None:
    """Whatever the order of the calls: what was raised later may be a consequence."""
    release = threading.Event()

    def call(number: int, cancel: threading.Event) -> None:
        if number == 1:
            raise KeyError("first")
        if number == MAX_THREADS:  # begins when a thread is free: after the error of call 1
            release.set()
        elif not release.wait(GUARD) or number == 0:
            raise ValueError("later")

    chains = [[number] for number in range(MAX_THREADS + 1)]
    with pytest.raises(KeyError, match="first"):
        run_parallel(chains, call, [None] * len(chains), cancel=threading.Event())


def test_ids_that_are_not_ids_are_made_unique() -> None:
    """Two calls under one id, or an empty one: each answer still belongs to its own call."""

    def look(where: str) -> str:
        """Look."""
        return f"found {where}"

    calls = tuple(
        ToolCall(each, "look", {"where": str(n)}) for n, each in enumerate(["x", "x", "", None])
    )
    result = Agent(ScriptedModel([Reply("", calls), "done"]), [look], protocol="native").run("q")
    said, *answers = result.messages[2 : 6 + 1]
    ids = [call.id for call in said.tool_calls]
    assert len(set(ids)) == 4
    assert all(ids)
    assert [each.tool_call_id for each in answers] == ids
    assert [each.content for each in answers] == [f"found {n}" for n in range(4)]
