"""Faults of the reply: the fuzzer's malformations done to what a model really said, and more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random

from agent_core.messages import (
    Action,
    Actions,
    FinalAnswer,
    JsonObject,
    Language,
    Protocol,
    Reply,
    ToolCall,
)
from harness.faults.fault import Fault
from harness.faults.recording import RecordedStep
from harness.fuzz.drafts import FAMILIES, LABELS, NOTATIONS, REACT, Draft, free_keys
from harness.fuzz.examples import Outcome, action
from harness.fuzz.operators import OPERATORS, Operator
from harness.fuzz.values import TOOLS, value_for, words

_NATIVE = NOTATIONS - REACT  # a model with native calls does not lapse into labels
_TEXT = NOTATIONS - {"native"}


@dataclass(frozen=True, slots=True)
class FaultyReply:
    """A reply with something wrong.

    Attributes:
        asked: the calls that it asks for, if it is understood: no other may run.
        answers: the answers that it means, if it is understood; some operators change them.
    """

    reply: Reply
    asked: tuple[Outcome, ...] = ()
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Speaker:
    """What is known of the agent whose model is to misspeak."""

    protocol: Protocol
    language: Language
    schemas: Mapping[str, JsonObject]
    streamed: bool


Change = Callable[[RecordedStep, Speaker, Random], FaultyReply | None]


def misspoken(code: str, step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply | None:
    """What the model said in this step, said wrong; None where this cannot be."""
    if code in _CHANGES:
        return _CHANGES[code](step, speaker, rng)
    return _malformed(OPERATORS[code], step, speaker, rng)


def _malformed(
    operator: Operator, step: RecordedStep, speaker: Speaker, rng: Random
) -> FaultyReply | None:
    notation = _notation(operator, speaker, rng)
    draft = None if notation is None else _draft(step, speaker, notation, rng)
    if draft is None or not _able(operator, draft):
        return None
    operator.apply(draft)
    example = draft.example((operator.code,), None)
    if speaker.streamed and example.prefix_calls is None:
        return None  # of a prefix nothing is known, and reading may stop at one
    early = (example.prefix_calls or ()) if speaker.streamed else ()
    reply = step.step.reply
    finish = reply.finish_reason if example.finish_reason == "stop" else example.finish_reason
    if example.native is None:
        changed = replace(reply, text=example.text, tool_calls=(), finish_reason=finish)
        answers = tuple(each["answer"] for each in example.accept if each["kind"] == "final")
        return FaultyReply(changed, _calls(*example.accept, *early), answers)
    reply = _with_calls(step)
    first, *others = reply.tool_calls
    call = ToolCall(first.id, example.native["name"], example.native["arguments"])
    changed = replace(reply, tool_calls=(call, *others), finish_reason=finish)
    return FaultyReply(changed, _calls(*example.accept, *map(_outcome, _actions(step)[1:])))


def _notation(operator: Operator, speaker: Speaker, rng: Random) -> str | None:
    """The agent's own notation, else one that the operator knows and the model may lapse into."""
    if speaker.protocol in operator.on:
        return speaker.protocol
    others = operator.on & (_NATIVE if speaker.protocol == "native" else _TEXT)
    return rng.choice(sorted(others)) if others else None


def _draft(
    step: RecordedStep,
    speaker: Speaker,
    notation: str,
    rng: Random,
    *,
    language: Language | None = None,
) -> Draft | None:
    """What the recorded reply means, to be written anew; None when it has decided nothing."""
    decision, actions = step.step.parsed.decision, _actions(step)
    language = language or speaker.language
    tools = dict(speaker.schemas)
    if len(tools) < 2:  # there has to be a wrong one to call
        tools["erase_log"] = TOOLS["en"]["erase_log"]
    labels = dict(zip(LABELS, FAMILIES[language][0], strict=True))
    thought = step.step.parsed.thought or ""
    draft = Draft(rng, language, notation, tools, labels, thought, finish_reason="stop")
    if isinstance(decision, FinalAnswer):
        draft.answer = decision.text
        return draft if notation != "native" else None
    if not actions or (len(actions) > 1 and notation != "native"):
        return None
    draft.name = draft.name_written = actions[0].name
    draft.arguments = dict(actions[0].arguments)
    draft.written = dict(actions[0].arguments)
    if notation in {"react-json", "react-fence"}:
        draft.args_key = "parameters"
    return draft if draft.name in tools else None


def _able(operator: Operator, draft: Draft) -> bool:
    """Whether this reply has what the operator needs."""
    meant = "answer" if draft.arguments is None else "call"
    if operator.intent not in {"any", meant}:
        return False
    arguments = draft.arguments or {}
    if draft.arguments is not None and not _has(operator.needs, draft):
        return False
    if draft.notation == "pythonic" and not draft.name.isidentifier() and meant == "call":
        return False
    return not operator.plain or all(map(_plain, arguments.values()))


def _has(needs: frozenset[str], draft: Draft) -> bool:
    schema, arguments = draft.tools[draft.name], draft.arguments or {}
    return all((
        "string" not in needs or any(key in arguments for key in free_keys(schema, "string")),
        "number" not in needs or any(key in arguments for key in free_keys(schema, "number")),
        "optional" not in needs or not schema.get("required"),
        "identifier" not in needs or draft.name.isidentifier(),
    ))  # fmt: skip


def _plain(value: object) -> bool:
    """Whether a value is of letters, digits and blanks: other operators would be ambiguous."""
    return not isinstance(value, str) or value.replace(" ", "").isalnum()


def _actions(step: RecordedStep) -> tuple[Action, ...]:
    decision = step.step.parsed.decision
    return decision.actions if isinstance(decision, Actions) else ()


def _with_calls(step: RecordedStep) -> Reply:
    """The reply with its calls as the API reports them, also where they were written as text."""
    reply = step.step.reply
    if reply.tool_calls:
        return reply
    calls = tuple(ToolCall(each.id, each.name, each.arguments) for each in _actions(step))
    return replace(reply, text=step.step.parsed.thought or "", tool_calls=calls)


def _outcome(each: Action) -> Outcome:
    return action(each.name, each.arguments)


def _calls(*outcomes: Outcome) -> tuple[Outcome, ...]:
    return tuple(each for each in outcomes if each["kind"] == "action")


def _empty(step: RecordedStep, _speaker: Speaker, _rng: Random) -> FaultyReply:
    return FaultyReply(replace(step.step.reply, text="", tool_calls=(), thinking=None))


def _thinking_only(step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply:
    said = step.step.reply.text or step.step.parsed.thought or words(rng, speaker.language)
    return FaultyReply(replace(step.step.reply, text="", tool_calls=(), thinking=said))


def _unknown_tool(step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply | None:
    name = "book_zeppelin" if speaker.language == "en" else "预订飞艇"
    draft = _draft(step, speaker, speaker.protocol, rng)
    if draft is None or draft.arguments is None:
        return None
    draft.name_written = name
    return _said(draft, step, ())


def _two_actions(step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply | None:
    """Native calls may be parallel: both are asked for. In a text the first one is."""
    draft = _draft(step, speaker, speaker.protocol, rng)
    if draft is None or draft.arguments is None:
        return None
    name, arguments = _other_call(draft, rng)
    if draft.notation == "native":
        reply = _with_calls(step)
        both = (*reply.tool_calls, ToolCall(None, name, arguments))
        asked = (*map(_outcome, _actions(step)), action(name, arguments))
        return FaultyReply(replace(reply, tool_calls=both), asked)
    draft.after = f"\n{draft.clean(name, arguments).text()}"
    return _said(draft, step, (draft.outcome,))


def _invented_observation(step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply | None:
    """The model goes on by itself: a result, and the next call."""
    notation = "react-labels" if speaker.protocol == "native" else speaker.protocol
    draft = _draft(step, speaker, speaker.protocol, rng)
    if draft is None or draft.arguments is None:
        return None
    name, arguments = _other_call(draft, rng)
    lie = f"{draft.label('observation')}{words(rng, speaker.language)}"
    invented = f"\n{lie}\n{draft.clean(name, arguments, notation).text()}"
    if draft.notation == "native":
        reply = _with_calls(step)
        changed = replace(reply, text=reply.text + invented)
        return FaultyReply(changed, tuple(map(_outcome, _actions(step))))
    draft.after = invented
    return _said(draft, step, (draft.outcome,))


def _language_switch(step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply | None:
    """Labels and thought in the other language."""
    if speaker.protocol == "native":
        return None
    other: Language = "zh" if speaker.language == "en" else "en"
    draft = _draft(step, speaker, speaker.protocol, rng, language=other)
    if draft is None:
        return None
    draft.thought = words(rng, other)
    return _said(draft, step, _calls(draft.outcome))


def _length(step: RecordedStep, speaker: Speaker, rng: Random) -> FaultyReply | None:
    """The reply ends with the call, and the server says that it was cut: nothing may run."""
    reply = step.step.reply
    if speaker.protocol == "native":
        return FaultyReply(replace(_with_calls(step), finish_reason="length"))
    draft = _draft(step, speaker, speaker.protocol, rng)
    if draft is None:
        return None
    return FaultyReply(replace(reply, text=draft.text(), finish_reason="length"))


def _said(draft: Draft, step: RecordedStep, asked: tuple[Outcome, ...]) -> FaultyReply:
    """The draft as the reply of this step."""
    if draft.notation != "native":
        return FaultyReply(replace(step.step.reply, text=draft.text(), tool_calls=()), asked)
    reply = _with_calls(step)
    first, *others = reply.tool_calls
    call = ToolCall(first.id, draft.name_written, draft.written)
    asked = (*asked, *map(_outcome, _actions(step)[1:]))
    return FaultyReply(replace(reply, tool_calls=(call, *others)), asked)


def _other_call(draft: Draft, rng: Random) -> tuple[str, JsonObject]:
    """Another tool, with arguments of its own."""
    name = rng.choice([each for each in draft.tools if each != draft.name])
    return name, value_for(rng, draft.tools[name], language=draft.language, plain=True)


_CHANGES: Mapping[str, Change] = {
    "empty": _empty,
    "thinking-only": _thinking_only,
    "unknown-tool": _unknown_tool,
    "two-actions": _two_actions,
    "invented-observation": _invented_observation,
    "language-switch": _language_switch,
    "length": _length,
}
_ABOUT = {
    "empty": "nothing at all",
    "thinking-only": "thinking, and nothing said",
    "unknown-tool": "a tool that does not exist",
    "two-actions": "a second action",
    "invented-observation": "an invented observation, and the next call",
    "language-switch": "labels in the other language",
    "length": "cut by the limit of tokens",
}
REPLY_FAULTS = (
    *(Fault(code, "reply", about) for code, about in _ABOUT.items()),
    *(Fault(code, "reply", each.name) for code, each in OPERATORS.items()),
)
"""Every fault of the reply: the named ones, then the fuzzer's operators."""
