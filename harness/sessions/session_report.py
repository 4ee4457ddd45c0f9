"""The verdict on the replay of one session, as words and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_core.messages import JsonObject, RunResult
from harness.plain import counted
from harness.sessions.drift import Drift
from harness.sessions.exchange import Request
from harness.sessions.format import ToolDefinition
from harness.sessions.trajectory import Divergence


@dataclass(frozen=True, slots=True)
class Report:
    """The verdict on one session.

    Attributes:
        drift: what changed in the requests, by cause.
        divergences: where the run was not as recorded, up to where it went another way.
        changed_calls: tool calls and searches that are not as recorded, each as what was
            recorded (None if nothing) and what is asked now.
        unused_calls: recorded ones that nobody asked for.
        results: what the runs gave; empty for a stock cassette.
        served: numbers of the takes that answered, in the order of asking.
        asked: what was asked each time, scrubbed.
        tools: the definitions of the agent's tools now.
        accepted: causes of drift that were taken over into the session.
        withheld: what else changed, so that nothing was taken over though it was asked for.
        kept: why the session stays as it was, though nothing else changed.
        path: of the session file, where it was read from one.
        lies: what the trace says otherwise than the recording, where there is a trace.
        judged: whether an agent could be held against it; else it is neither well nor failed.
        note: what was looked at, where that is less than what an agent does.
        seconds: that the replay took.
    """

    name: str
    ok: bool
    drift: Drift
    divergences: tuple[Divergence, ...] = ()
    changed_calls: tuple[tuple[str | None, str], ...] = ()
    unused_calls: tuple[str, ...] = ()
    results: tuple[RunResult, ...] = ()
    served: tuple[int | None, ...] = ()
    asked: tuple[Request, ...] = ()
    tools: tuple[ToolDefinition, ...] = ()
    accepted: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    kept: str = ""
    path: Path | None = None
    lies: tuple[str, ...] = ()
    judged: bool = True
    note: str = ""
    seconds: float = 0.0

    @property
    def divergence(self) -> Divergence | None:
        """The first place where the run was not as recorded."""
        return self.divergences[0] if self.divergences else None

    @property
    def parting(self) -> Divergence | None:
        """The place from which on the run went another way."""
        return next((each for each in self.divergences if each.parts), None)

    @property
    def verdict(self) -> str:
        """`ok`, `accepted`, `failed` or `not_judged`."""
        if not self.ok:
            return "failed"
        return "not_judged" if not self.judged else "accepted" if self.accepted else "ok"

    def in_words(self) -> list[str]:
        """The verdict as lines of text: the reasons first, then where the run left its way."""
        lines = self.drift.in_words()
        for place in dict.fromkeys([self.divergence, self.parting]):
            if place is not None:
                lines.append(f"the run diverges at {place}")
        for recorded, now in self.changed_calls[:3]:
            lines.append(f"tool call: recorded {recorded or 'none'}, now {now}")
        if self.parting is None:
            lines += [f"tool call: recorded {call}, now none" for call in self.unused_calls[:3]]
        if self.withheld:
            causes = {each.part for each in self.drift.causes if each.kind != "protocol"}
            too = "accept that too, or " if causes.issuperset(self.withheld) else ""
            lines.append(
                f"nothing was accepted, because of {', '.join(self.withheld)}: {too}"
                "record the session again with --rewrite"
            )
        if self.kept:
            lines.append(f"nothing was accepted: {self.kept}")
        return [*lines, *(f"trace: {lie}" for lie in self.lies)]

    def as_json(self) -> JsonObject:
        """For `--json`."""
        divergence, parting = self.divergence, self.parting
        return {
            "session": self.name,
            "path": None if self.path is None else str(self.path),
            "ok": None if self.verdict == "not_judged" else self.ok,
            "verdict": self.verdict,
            "accepted": list(self.accepted),
            "severity": self.drift.severity,
            "steps": self.drift.total,
            "causes": [cause.as_json() for cause in self.drift.causes],
            "divergence": None if divergence is None else divergence.as_json(),
            "parting": None if parting is None else parting.as_json(),
            "changed_calls": [
                {"recorded": recorded, "now": now} for recorded, now in self.changed_calls
            ],
            "unused_calls": list(self.unused_calls),
            "lies": list(self.lies),
            "stop_reasons": [str(result.stop_reason) for result in self.results],
            "answers": [result.answer for result in self.results],
            "data": [result.data for result in self.results],
            "words": [*self.in_words(), *([self.note] if self.note else [])],
            "seconds": round(self.seconds, 4),
        }  # fmt: skip


def summary(verdicts: Sequence[str], errors: int) -> str:
    """The count of all verdicts; `errors` are sessions that could not be replayed."""
    count = Counter(verdicts)
    words = [counted(count.total() + errors, "session"), f"{count['ok'] + count['accepted']} ok"]
    counts = {
        "of them accepted": count["accepted"],
        "failed": count["failed"],
        "not judged": count["not_judged"],
        "could not be replayed": errors,
    }
    return ", ".join([*words, *(f"{number} {what}" for what, number in counts.items() if number)])
