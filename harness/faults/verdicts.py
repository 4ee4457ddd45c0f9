"""What became of a run that a fault was done to: the violations first, then how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_core.limits import StopReason
from agent_core.messages import Actions, FinalAnswer, FormatError, JsonObject, RunResult, Step
from harness.faults.course import Course, Stage
from harness.faults.fault import SECRET, USERINFO
from harness.faults.recording import Recording
from harness.faults.replies import FaultyReply
from harness.faults.tools import FaultRunner
from harness.faults.watch import Seen, Steps, Telemetry
from harness.plain import counted
from harness.redact import redactor
from harness.sessions.exchange import json_body
from harness.sessions.tape import call_key
from harness.sessions.trajectory import golden_step, in_words, same_decision

_TOLERANCE = 0.01  # seconds, of sums of floats

Verdict = Literal["recovered", "other answer", "clean stop", "violation", "not applicable"]

VIOLATIONS = {
    "crash": "the run raised",
    "hang": "the run did not end",
    "wrong action": "a tool ran that neither the recording nor the faulty reply asked for",
    "leaked secret": "a secret stands in messages, result, spans or log",
    "lost trace": "a span was not ended, or is missing",
    "half reply": "a reply that did not arrive whole was taken for one",
    "swallowed": "the failure of a tool was taken for a result",
    "untold": "the next request does not say what became of the step before",
    "flood": "an observation is longer than the agent's limit",
    "impatient": "it asked again before the time that Retry-After names",
    "no reason": "the run ended without a stop reason that fits its answer",
}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict.

    Attributes:
        scripted: the run ended on a scripted reply, since the recording did not fit.
        meant: the other answer is what the faulty reply means.
        kind: of a violation, a key of `VIOLATIONS`.
        detail: what was seen.
    """

    verdict: Verdict
    scripted: bool = False
    meant: bool = False
    kind: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a trial left behind.

    Attributes:
        faulty: what was said wrong; None when no reply was.
    """

    recording: Recording
    course: Course
    stage: Stage
    steps: Steps
    telemetry: Telemetry
    runner: FaultRunner
    faulty: FaultyReply | None
    results: Sequence[RunResult]


def judge(evidence: Evidence) -> Judgement:
    """The first violation, else how the run ended."""
    for kind, detail in _violations(evidence):
        return violation(kind, detail)
    return _ending(evidence)


def violation(kind: str, detail: str) -> Judgement:
    """The verdict on something that must not happen."""
    clean = detail.replace(SECRET, "<the decoy key>").replace(USERINFO, "<the decoy password>")
    return Judgement("violation", kind=kind, detail=redactor.text(clean)[:400])


def _violations(evidence: Evidence) -> Iterator[tuple[str, str]]:
    checks = (
        _waits, _wrong_actions, _half_replies, _swallowed, _leaks, _lost_trace, _untold, _floods,
        _impatience, _no_reason,
    )  # fmt: skip
    for check in checks:
        yield from check(evidence)


def _waits(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.runner.waited:
        yield "hang", "a tool that does not return was waited for beyond its timeout"


def _impatience(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.stage.early > _TOLERANCE:
        yield "impatient", f"a refused request came again {evidence.stage.early:.1f} s too early"


def _wrong_actions(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Each call that ran was asked for by the reply of its step, and ran once."""
    ran = Counter(evidence.runner.ran)
    for seen in evidence.steps.seen:
        allowed = _allowed(evidence, seen)
        decision = seen.step.parsed.decision
        actions = decision.actions if isinstance(decision, Actions) else ()
        for action, observation in zip(actions, seen.step.observations, strict=False):
            if observation.arguments is None:
                continue
            key = call_key(action.name, action.arguments)
            if key not in allowed:
                asked = ", ".join(sorted(allowed)) or "nothing"
                yield "wrong action", f"step {seen.step.index} ran {key}; asked for was {asked}"
            ran[call_key(observation.tool, observation.arguments)] -= 1
    for key, count in ran.items():
        if count > 0:
            yield "wrong action", f"{key} ran {count} times more often than the steps say"


def _allowed(evidence: Evidence, seen: Seen) -> set[str]:
    if seen.line.source == "fault" and evidence.faulty is not None:
        asked = evidence.faulty.asked
        return {call_key(each["name"], each["arguments"]) for each in asked}
    if seen.line.source not in {"recorded", "fault"}:
        return set()
    step = evidence.recording.turns[seen.turn].steps[seen.line.number]
    return {call_key(each.tool, each.arguments) for each in step.golden.actions}


def _half_replies(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What a fault of HTTP lets through decides what the recorded reply decided, or nothing."""
    for seen in evidence.steps.seen:
        if seen.line.source == "fault" and evidence.faulty is None:
            before = evidence.recording.turns[seen.turn].steps[seen.line.number]
            now = golden_step(seen.step)
            if not same_decision(before.golden, now) or _answer(seen.step) != _answer(before.step):
                yield "half reply", f"step {seen.step.index} decided {in_words(now)}"


def _answer(step: Step) -> str | None:
    decision = step.parsed.decision
    return decision.text if isinstance(decision, FinalAnswer) else None


def _swallowed(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """No more calls have results than ran without the fault."""
    results = Counter(
        call_key(each.tool, each.arguments)
        for seen in evidence.steps.seen
        for each in seen.step.observations
        if each.ok and each.arguments is not None
    )
    ran = Counter(evidence.runner.ran)
    for key in evidence.runner.failed:
        if results[key] > ran[key] - evidence.runner.failed.count(key):
            yield "swallowed", f"{key} failed and has a result"


def _leaks(evidence: Evidence) -> Iterator[tuple[str, str]]:
    if evidence.faulty is not None:
        return  # no secret is in a reply
    password = USERINFO.partition(":")[2]
    places = {
        "result": lambda: "".join(map(_shown, evidence.results)),
        "requests": lambda: b"\n".join(each.body for each in evidence.stage.requests).decode(),
        "spans or log": evidence.telemetry.text,
    }
    for place, text in places.items():
        found = text()
        for secret in (SECRET, password):
            at = found.find(secret)
            if at >= 0:
                yield "leaked secret", f"in the {place}: …{found[max(0, at - 80) : at + 40]}…"


def _shown(result: RunResult) -> str:
    return f"{result!r} {result.error}"


def _lost_trace(evidence: Evidence) -> Iterator[tuple[str, str]]:
    telemetry, kinds = evidence.telemetry, evidence.telemetry.kinds()
    if telemetry.begun != len(telemetry.spans):
        yield (
            "lost trace",
            f"{counted(telemetry.begun, 'span')} began and {len(telemetry.spans)} ended",
        )
    least = {
        "invoke_agent": len(evidence.results),
        "harness.step": sum(len(result.steps) for result in evidence.results),
        "POST": len(evidence.stage.requests),
        "execute_tool": len(evidence.runner.ran),
    }
    for kind, count in least.items():
        if kinds[kind] < count:
            yield "lost trace", f"{kinds[kind]} spans of {kind}, expected {count}"


def _untold(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What a step did, or why it did nothing, stands at the end of the next step's request.

    Other requests may come before that one, such as for a summary of what was long ago.
    """
    for seen, following in zip(evidence.steps.seen, evidence.steps.seen[1:], strict=False):
        if seen.turn != following.turn:
            continue
        asked = evidence.stage.requests[seen.asked_by + 1 : following.asked_by + 1]
        bodies = [json_body(each.body) for each in asked]
        if not all(isinstance(each, dict) and "messages" in each for each in bodies):
            continue  # another client's shape
        missing = min((_missing(seen, _last_words(each)) for each in bodies), key=len, default=[])
        if missing:
            yield "untold", f"the request after step {seen.step.index} does not say {missing[0]}"


def _missing(seen: Seen, said: str) -> list[str]:
    """What should be said and is not."""
    if not said.strip():
        return ["anything"]
    return [repr(each[:100]) for each in _to_be_said(seen) if each not in said]


def _to_be_said(seen: Seen) -> list[str]:
    decision = seen.step.parsed.decision
    if isinstance(decision, FormatError):
        return [decision.hint] if decision.code != "empty" else []
    return [each.text for each in seen.step.observations]


def _last_words(body: JsonObject) -> str:
    """What follows the last thing the model said."""
    texts: list[str] = []
    for message in reversed(body["messages"]):
        if message.get("role") == "assistant":
            break
        texts.insert(0, str(message.get("content")))
    return "\n".join(texts)


def _floods(evidence: Evidence) -> Iterator[tuple[str, str]]:
    limit = evidence.recording.observation_chars
    for seen in evidence.steps.seen:
        for each in seen.step.observations:
            if len(each.text) > limit:
                yield "flood", f"{len(each.text)} characters of {each.tool}, {limit} allowed"


def _no_reason(evidence: Evidence) -> Iterator[tuple[str, str]]:
    for result in evidence.results:
        reason, answered = result.stop_reason, result.answer is not None
        if not isinstance(reason, StopReason) or answered != (reason is StopReason.FINAL_ANSWER):
            yield "no reason", f"stop reason {reason!r} with answer {result.answer!r:.80}"
        if (result.error is not None) != (reason is StopReason.MODEL_ERROR) and (
            reason is not StopReason.TIME_LIMIT
        ):
            yield "no reason", f"stop reason {reason!r} with error {result.error!r:.80}"


def _ending(evidence: Evidence) -> Judgement:
    """Compare with the recording; the first turn that ended in another way counts."""
    course = evidence.course
    if not course.struck:
        return Judgement("not applicable", detail="the run never came to it")
    recorded = [turn.result for turn in evidence.recording.turns]
    for now, before in zip(evidence.results, recorded, strict=False):
        if now.answer is None:
            return Judgement("clean stop", course.scripted, detail=_stop(now))
        if now.answer != before.answer:
            answers = evidence.faulty.answers if evidence.faulty else ()
            meant = now.answer.strip() in [each.strip() for each in answers]
            shown = redactor.text(now.answer)[:80]
            return Judgement("other answer", course.scripted, meant, detail=shown)
    return Judgement("recovered", course.scripted)


def _stop(result: RunResult) -> str:
    error = f" ({type(result.error).__name__})" if result.error is not None else ""
    return f"{result.stop_reason}{error}"
