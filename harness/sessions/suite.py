"""Many sessions: found in folders, replayed one after the other, judged each for itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_core.errors import ConfigError
from harness.redact import redactor
from harness.sessions.discovery import files_in
from harness.sessions.errors import SessionError
from harness.sessions.replay import replay
from harness.sessions.session_report import Report


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A session that could not be replayed.

    Attributes:
        crashed: the agent raised, which is a failed check; else file or arguments are wrong.
    """

    path: Path
    words: str
    crashed: bool


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `of` equal parts of a suite; `number` counts from 1."""

    number: int
    of: int

    @classmethod
    def named(cls, text: str) -> Shard:
        """Read `i/n`.

        Raises:
            ValueError: it is something else, or there is no such part.
        """
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ValueError(f"expected a shard as i/n with 1 <= i <= n, such as 2/4, got {text!r}")
        return cls(int(number), int(of))

    def files(self, suite: Sequence[Path]) -> list[Path]:
        """Its files: every n-th, in the order of their names, however they were given."""
        return sorted(suite, key=Path.as_posix)[self.number - 1 :: self.of]


def session_files(paths: Sequence[Path]) -> list[Path]:
    """The given files, and the sessions and cassettes in the given folders, damaged ones too."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += files_in(path)
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def replay_all(files: Iterable[Path], **how: Any) -> tuple[list[Report], list[Unjudged]]:
    """Replay each; one that cannot be does not hide what became of the others."""
    reports: list[Report] = []
    unjudged: list[Unjudged] = []
    for path in files:
        try:
            reports.append(replay(path, **how))
        except (SessionError, ConfigError, OSError) as error:
            unjudged.append(Unjudged(path, redactor.text(str(error)), crashed=False))
        except Exception as error:  # the user's factory or gears: theirs to see, not ours to catch
            words = redactor.text(f"the agent raised {type(error).__name__}: {error}")
            unjudged.append(Unjudged(path, words, crashed=True))
    return reports, unjudged
