"""Requests that none of the served sessions holds, and the verdict over all that were sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_core.messages import JsonObject
from harness.faults import Response
from harness.plain import counted
from harness.sessions.conversion import route_of
from harness.sessions.cursor import Cursor
from harness.sessions.drift import Drift
from harness.sessions.exchange import Request, canonical_key

_LONG = 400  # characters of a text that are shown


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is none of the recorded ones.

    Attributes:
        route: where it was sent.
        session: the recorded one that has most in common with it, None when there is none.
        drift: what differs from there.
        words: why it was refused.
    """

    route: str
    session: str | None
    drift: Drift | None
    words: str

    def in_words(self) -> list[str]:
        """Why it was refused, and what was recorded and sent where they differ."""
        lines = [self.words]
        for cause in () if self.drift is None else self.drift.causes:
            if cause.severity != "ignorable":
                lines.append(f"  {cause.part}")
                lines += _signed("-", cause.before) + _signed("+", cause.after)
        return lines

    def as_json(self) -> JsonObject:
        """For the body of the answer, and for `--json`."""
        return {
            "route": self.route,
            "session": self.session,
            "words": self.words,
            "causes": [] if self.drift is None else [each.as_json() for each in self.drift.causes],
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the sessions that were served.

    Attributes:
        answered: requests that were recorded ones.
        refused: the others; one that was sent again stands here once.
        protocol: what was left over or out of its turn, in words.
    """

    answered: int
    refused: tuple[Refusal, ...] = ()
    protocol: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Everything recorded was asked for, in its order, and nothing else."""
        return not self.refused and not self.protocol

    def in_words(self) -> list[str]:
        """What is wrong, worst first."""
        return [line for each in self.refused for line in each.in_words()] + list(self.protocol)

    def as_json(self) -> JsonObject:
        """For `--json`."""
        return {
            "ok": self.ok,
            "answered": self.answered,
            "refused": [each.as_json() for each in self.refused],
            "protocol": list(self.protocol),
        }


def nearest(form: Request, cursors: Sequence[Cursor]) -> list[tuple[int, Cursor, int]]:
    """Of every session the request with the most messages in common, the best first."""
    near = [(each, place) for each in cursors if (place := each.nearest(form)) is not None]
    ranked = [(common, cursor, number) for cursor, (common, number) in near]
    return sorted(ranked, key=lambda each: -each[0])


def refusal_of(form: Request, cursors: Sequence[Cursor], *, repeats: bool = False) -> Refusal:
    """Why none of the recorded requests is this one.

    Args:
        repeats: those that were answered are so again.
    """
    route = route_of(form.url)
    key = canonical_key(form)
    for each in cursors:
        if (number := each.anywhere(key)) is not None:
            reason = f"request {number + 1} has been answered already"
            if each.all_answered > 1:
                reason = f"{_one_more(each.all_answered)}; {reason}"
            words = f"session {each.name}: {reason}"
            return Refusal(route, each.name, None, words)
    found = nearest(form, cursors)
    if not found:
        names = ", ".join(each.name for each in cursors) or "no session of this name"
        return Refusal(route, None, None, f"nothing was recorded for {route} (served: {names})")
    common, cursor, place = found[0]
    drift = cursor.drift({place: form})
    reasons = "; ".join(cause.part for cause in drift.causes if cause.severity != "ignorable")
    shared = f" ({counted(common, 'message')} in common)" if common else ""
    answered = 0 if repeats else cursor.all_answered
    reason = _one_more(answered) if answered else "no recorded request fits"
    words = (
        f"session {cursor.name}: {reason}; request {place + 1} comes nearest"
        f"{shared} and differs in: {reasons}"
    )
    return Refusal(route, cursor.name, drift, words)


def _one_more(answered: int) -> str:
    were = f"all {answered} recorded requests were"
    if answered == 1:
        were = "the only recorded request was"
    return f"{were} answered, and this is one more"


def conflict(refusal: Refusal) -> Response:
    """The answer to a refused request: the report, in the form of the API's errors."""
    error: object = refusal.words
    if refusal.route.startswith("/v1/"):
        error = {"message": refusal.words, "type": "not_recorded"}
    # The clients of OpenAI repeat a 409 unless they are told not to.
    headers = {"x-should-retry": "false"}
    return Response(409, {"error": error, "drift": refusal.as_json()}, headers)


def _signed(sign: str, text: str | None) -> list[str]:
    text = text or ""
    more = f" … ({len(text) - _LONG} more characters)" if len(text) > _LONG else ""
    return [f"    {sign} {line}" for line in f"{text[:_LONG]}{more}".splitlines()]
