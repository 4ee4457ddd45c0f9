"""What a sweep gave: rows, a matrix, and a score whose formula is printed with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_core.messages import JsonObject
from harness.faults.trial import Trial
from harness.faults.verdicts import VIOLATIONS, Judgement, Verdict

VERDICTS: tuple[Verdict, ...] = (
    "recovered",
    "other answer",
    "clean stop",
    "violation",
    "not applicable",
)
FORMULA = (
    "score = recovered / (recovered + other answer + clean stop + violation), without runs that "
    "ended on a scripted reply, replies that mean another answer, faults that stay, and turns "
    "recorded without an answer"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One trial and its verdict. `answered`: the turn was recorded with an answer."""

    session: str
    trial: Trial
    judgement: Judgement
    answered: bool

    @property
    def counts(self) -> bool:
        """Whether it counts for the score."""
        judgement = self.judgement
        if judgement.verdict == "not applicable":
            return False
        if judgement.verdict == "violation":
            return True
        excused = judgement.scripted or judgement.meant or self.trial.fault.lasting
        return self.answered and not excused

    def as_json(self) -> JsonObject:
        """For `--json`."""
        judgement = self.judgement
        row: JsonObject = {
            "session": self.session,
            "turn": self.trial.turn + 1,
            "step": self.trial.step + 1,
            "operator": self.trial.fault.code,
            "group": self.trial.fault.group,
            "verdict": judgement.verdict,
        }
        if judgement.scripted:
            row["scripted"] = True
        if judgement.kind:
            row["violation"] = judgement.kind
        if judgement.detail:
            row["detail"] = judgement.detail
        return row


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The verdicts of a sweep.

    Attributes:
        rows: every trial, in the order of sessions, steps and operators.
        errors: sessions that could not be swept, and why.
        interrupted: Ctrl-C ended it; what was not swept by then is among the errors.
    """

    rows: tuple[Row, ...]
    errors: Mapping[str, str]
    seed: int
    interrupted: bool = False

    @property
    def violations(self) -> list[Row]:
        """What must not happen and did."""
        return [row for row in self.rows if row.judgement.verdict == "violation"]

    @property
    def made(self) -> int:
        """Trials that were made: those that do not apply are not."""
        return sum(row.judgement.verdict != "not applicable" for row in self.rows)

    def matrix(self) -> dict[str, Counter[str]]:
        """Verdicts by operator; `scripted` counts those that ended on a scripted reply."""
        return _counted((row.trial.fault.code, row) for row in self.rows)

    def by_session(self) -> dict[str, Counter[str]]:
        """Verdicts by session."""
        return _counted((row.session, row) for row in self.rows)

    def score(self, rows: Iterable[Row] | None = None) -> tuple[int, int]:
        """Recovered trials, and those that count."""
        counted = [row for row in (self.rows if rows is None else rows) if row.counts]
        return sum(row.judgement.verdict == "recovered" for row in counted), len(counted)

    def reaches(self, threshold: float) -> bool:
        """Whether the score, from 0 to 1, is at least this; nothing counted reaches anything."""
        recovered, counted = self.score()
        return not counted or recovered / counted >= threshold

    def as_json(self) -> JsonObject:
        """For `--json`."""
        recovered, counted = self.score()
        return {
            "seed": self.seed,
            "interrupted": self.interrupted,
            "trials": self.made,
            "score": round(recovered / counted, 4) if counted else None,
            "recovered": recovered,
            "counted": counted,
            "formula": FORMULA,
            "matrix": {code: dict(counts) for code, counts in self.matrix().items()},
            "sessions": {name: dict(counts) for name, counts in self.by_session().items()},
            "violations": [
                {**row.as_json(), "means": VIOLATIONS[row.judgement.kind]}
                for row in self.violations
            ],
            "errors": dict(self.errors),
            "rows": [row.as_json() for row in self.rows],
        }


def percent(recovered: int, counted: int) -> str:
    """A score for people."""
    return f"{100 * recovered / counted:.1f} %" if counted else "–"


def _counted(keyed: Iterable[tuple[str, Row]]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = {}
    for key, row in keyed:
        mine = counts.setdefault(key, Counter())
        mine[row.judgement.verdict] += 1
        mine["scripted"] += row.judgement.scripted
    return counts


def of_session(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of one session."""
    return [row for row in rows if row.session == name]
