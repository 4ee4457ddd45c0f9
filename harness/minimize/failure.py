"""How a session fails: by which check, with which kind of error, for which causes.

Two sessions fail the same way when these three are equal; texts, numbers of steps and values do
not count. That is the fingerprint a smaller session has to keep.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_core.errors import ConfigError
from agent_core.messages import JsonObject, RunResult
from harness.redact import redactor
from harness.sessions.checks import TrajectoryMismatch
from harness.sessions.drift import Cause
from harness.sessions.errors import FactoryRefused, SessionError
from harness.sessions.format import GoldenTurn, SessionFile
from harness.sessions.lint import lint_session
from harness.sessions.replay import replay
from harness.sessions.session_report import Report
from harness.sessions.sources import Factory, named_factory
from harness.sessions.trajectory import Divergence, golden_turn

Check = Callable[[RunResult], object]

_NUMBER = re.compile(r"\d+")
_TOOL = re.compile(r"[^(]*")
_SHOWN = 160  # characters of a line of source, or of an error
_HARMLESS = frozenset({"ignorable", "volatile"})  # drift that fails nothing
_LEFT = frozenset({"decision", "steps"})  # divergences after which the rest means nothing


@dataclass(frozen=True, slots=True)
class Failure:
    """How a session fails.

    Attributes:
        check: `replay`, `lint`, or the user's function as `module:function`.
        error: what differs first (of a replay), the rule (of lint), or the type of exception.
        causes: of a replay the causes of drift and the tools whose results or calls changed;
            of an exception the line of code that raised, or what was expected.
        words: for people; not compared.
    """

    check: str
    error: str
    causes: tuple[str, ...] = ()
    words: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return ": ".join([self.check, self.error, *("; ".join(self.causes),) * bool(self.causes)])

    def in_words(self) -> str:
        """The fingerprint, and below it what was seen."""
        return "\n".join([str(self), *(f"    {line}" for line in self.words)])

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "check": self.check,
            "error": self.error,
            "causes": list(self.causes),
            "words": list(self.words),
        }


def failure_of(
    file: SessionFile, factory: Factory, *, check: str | None = None, rule: str | None = None
) -> Failure | None:
    """How a session fails, or None when it does not.

    Args:
        factory: builds the agent.
        check: `replay`, `lint`, or `module:function` that takes the `RunResult` of the last
            turn and raises or gives False. None asks `replay`, and where that is content `lint`.
        rule: of `lint` only this rule; the worst finding unless given.

    Raises:
        SessionError: there is no such check, or the session cannot be replayed at all.
    """
    if check == "replay":
        return _replayed(file, factory)
    if check == "lint":
        return _linted(file, rule)
    if check is not None:
        return _checked(file, factory, check)
    return _replayed(file, factory) or _linted(file, None)


def named_check(reference: str) -> Check:
    """Import the user's function, from the current folder too.

    Raises:
        SessionError: there is none of this name.
    """
    try:
        return named_factory(reference)
    except FactoryRefused as error:
        raise SessionError(
            f"expected --check as module:function of a function that takes a RunResult, "
            f"got {reference!r}: {str(error).split('; expected')[0]}"
        ) from error


def _replayed(file: SessionFile, factory: Factory) -> Failure | None:
    try:
        report = replay(file, factory=factory)
    except (SessionError, ConfigError):
        raise
    except Exception as error:  # the agent's: that is what fails
        return _raised("replay", error)
    if report.ok:
        return None
    assert file.session is not None  # it named an agent
    golden = [golden_turn(result) for result in report.results]
    differs = _divergence(report.divergence, file.session.trajectory, golden)
    causes = {_cause(each) for each in report.drift.causes if each.severity not in _HARMLESS}
    if report.divergence is None or report.divergence.what not in _LEFT:
        causes |= set(_changed_tools(report, file.session.trajectory, golden))
    return Failure("replay", differs, tuple(sorted(causes)), tuple(report.in_words()))


def _linted(file: SessionFile, rule: str | None) -> Failure | None:
    findings = [
        each for each in lint_session(file, Path("session.yaml"))
        if each.level != "info" and rule in {None, each.rule}
    ]  # fmt: skip
    if not findings:
        return None
    worst = min(findings, key=lambda each: each.level)  # "error" before "warning"
    same = [each for each in findings if each.rule == worst.rule]
    words = [f"{each.where}: {each.words}" if each.where else each.words for each in same]
    return Failure("lint", worst.rule, (), tuple(words))


def _checked(file: SessionFile, factory: Factory, reference: str) -> Failure | None:
    check = named_check(reference)
    try:
        report = replay(file, factory=factory, mode="lenient")
    except (SessionError, ConfigError):
        raise
    except Exception as error:  # the agent's
        return _raised("replay", error)
    if not report.results:
        raise SessionError("a cassette without a session block does not say what agent made it")
    try:
        verdict = check(report.results[-1])
    except Exception as error:  # the user's: that is what fails
        return _raised(reference, error)
    return Failure(reference, "False") if verdict is False else None


def _raised(check: str, error: Exception) -> Failure:
    """An exception by its type, and the line it comes from or the expectation it names."""
    if isinstance(error, TrajectoryMismatch):
        cause = error.expected
    else:
        frames = traceback.extract_tb(error.__traceback__)
        cause = (frames[-1].line or frames[-1].name) if frames else ""
    words = redactor.text(str(error))[: 4 * _SHOWN]
    return Failure(check, type(error).__name__, (cause[:_SHOWN],), tuple(words.splitlines()))


def _divergence(
    divergence: Divergence | None, recorded: Sequence[GoldenTurn], now: Sequence[GoldenTurn]
) -> str:
    """What differs first; of decisions what kind was made, and what kind is made now."""
    if divergence is None:
        return "drift"
    if divergence.what != "decision" or divergence.step is None:
        return divergence.what
    was, is_now = (
        turns[divergence.turn - 1].steps[divergence.step - 1].decision for turns in (recorded, now)
    )
    return f"decision, {was} → {is_now}"


def _cause(cause: Cause) -> str:
    """A cause of drift without numbers of requests."""
    return _NUMBER.sub("n", cause.part) if cause.kind == "protocol" else cause.part


def _changed_tools(
    report: Report, recorded: Sequence[GoldenTurn], now: Sequence[GoldenTurn]
) -> Iterator[str]:
    """The tools that give something else, and those that are called in another way."""
    for before, after in zip(recorded, now, strict=False):
        for old, new in zip(before.steps, after.steps, strict=False):
            for was, is_now in zip(old.actions, new.actions, strict=False):
                if (was.observation, was.ok) != (is_now.observation, is_now.ok):
                    yield f"observation of `{was.tool}`"
    for call in (*(asked for _, asked in report.changed_calls), *report.unused_calls):
        yield f"call of `{(_TOOL.match(call) or [call])[0]}`"
