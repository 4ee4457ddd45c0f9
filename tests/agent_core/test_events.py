"""The neutral observer: told of everything, trusted with nothing."""

from __future__ import annotations

import contextvars
from collections.abc import Generator
from typing import Any

import pytest

from agent_core.events import Ended, Failed, Started, StepStarted, scope, watched, watching
from agent_core.messages import Step


class Recorder:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def started(self, event: Any) -> str:
        self.log.append(event)
        return "token"

    def ended(self, token: Any, event: Any) -> None:
        self.log.append((token, event))


class Broken(Recorder):
    """Raises on everything."""

    def started(self, event: Any) -> str:
        super().started(event)
        raise RuntimeError("no")


def test_nobody_watches_by_default() -> None:
    """A scope without observers does nothing and fails on nothing."""
    assert not watched()
    with scope(StepStarted(1)):
        pass


def test_start_and_end_reach_the_observer_with_its_token() -> None:
    """Whatever `started` returns comes back at the end."""
    recorder = Recorder()
    with watching(recorder):
        assert watched()
        with scope(StepStarted(1)) as step:
            step.end(Failed(ValueError()))
    assert recorder.log[0] == StepStarted(1)
    assert recorder.log[1][0] == "token"
    assert not watched()


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_ends_the_scope_as_failed(kind: type[BaseException]) -> None:
    """Ctrl-C and the like included; the exception goes on."""
    recorder = Recorder()
    with pytest.raises(kind), watching(recorder), scope(StepStarted(1)):
        raise kind
    (_, ending) = recorder.log[-1]
    assert isinstance(ending, Failed)
    assert isinstance(ending.error, kind)


def test_an_observer_that_raises_is_dropped_and_reported_once() -> None:
    """The run goes on, and so do the other observers."""
    broken, recorder = Broken(), Recorder()
    with watching(broken, recorder), pytest.warns(RuntimeWarning, match="Broken") as caught:
        for index in (1, 2, 3):
            with scope(StepStarted(index)):
                pass
    assert len(broken.log) == 1
    assert len(recorder.log) == 6
    assert len(caught) == 1


def test_ctrl_c_inside_an_observer_ends_what_had_begun() -> None:
    """The observers that were told of the start are told of the end."""

    class Interrupted(Recorder):
        def started(self, event: Any) -> str:
            raise KeyboardInterrupt

    recorder = Recorder()
    with (
        pytest.raises(KeyboardInterrupt),
        watching(recorder, Interrupted()),
        scope(StepStarted(1)),
    ):
        pass
    assert isinstance(recorder.log[-1][1], Failed)


def test_a_generator_closed_in_another_context_raises_nothing() -> None:
    """The context it was closed in keeps its observers."""

    def run() -> Generator[int, None, None]:
        with watching(Recorder()):
            yield 1

    generator = run()
    contextvars.copy_context().run(next, generator)
    generator.close()
    assert not watched()


def test_vocabulary_is_frozen() -> None:
    """What was recorded cannot be changed afterwards."""
    assert Step.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_observers_end_in_reverse_order() -> None:
    """Who was told first is told last, so that what they open nests."""
    told: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def started(self, event: Started) -> str:
            told.append(f"{self.name} begins")
            return self.name

        def ended(self, token: str, event: Ended) -> None:
            assert token == self.name
            told.append(f"{self.name} ends")

    with watching(Named("outer"), Named("inner")), scope(StepStarted(1)):
        pass
    assert told == ["outer begins", "inner begins", "inner ends", "outer ends"]
