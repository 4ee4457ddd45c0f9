"""Cross-check: a trace against the recording it is a trace of.

Every exchange has exactly one attempt span and the reverse, in the same order; what the spans say
of tokens, model, finish reason, text and tool calls is what stands in the recorded replies. An
instrumentation that lies is found out here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from hashlib import sha256
from typing import Any

from agent_core.messages import JsonObject, JsonValue, Reply
from harness import semconv
from harness.content import digest
from harness.content import name as short
from harness.plain import counted, utf8
from harness.redact import redactor
from harness.sessions.conversion import api_of, reply_of
from harness.sessions.crosscheck_run import run_lies, uncut
from harness.sessions.exchange import canonical_json, json_body
from harness.sessions.format import GoldenTurn, SessionFile
from harness.sessions.player import Player
from harness.trace.spans import Trace, TraceSpan

_REQUEST = "harness.request.sha256"
_ESTIMATED = "harness.usage.estimated"
_CALLING = ("chat", "embeddings")
_COUNTS = (
    (semconv.INPUT_TOKENS, "harness.step.input_tokens", "harness.total_input_tokens"),
    (semconv.OUTPUT_TOKENS, "harness.step.output_tokens", "harness.total_output_tokens"),
)
"""Attributes with tokens, of a model call, a step and a run."""


def cross_check(
    file: SessionFile,
    traces: Sequence[Trace],
    served: Sequence[int | None] | None = None,
    turns: Sequence[GoldenTurn] = (),
) -> list[str]:
    """What a trace says otherwise than the recording, in words; empty when they agree.

    Args:
        traces: those of one replay or one recording, a turn each.
        served: numbers of the takes that answered, in the order of asking; None means all.
        turns: what the run of each trace did, where that is known.
    """
    player = Player(file, skip_within=False)
    asked = list(range(len(player.takes))) if served is None else [*served]
    takes = [number for number in asked if number is not None]
    spans = sorted((span for trace in traces for span in trace.spans()), key=lambda s: s.start)
    attempts = [span for span in spans if semconv.ATTEMPT in span.attributes]
    partners: dict[str, int] = {}
    found = list(_pair(player, takes, attempts, partners))
    for span in attempts:
        if span.span_id in partners:
            found += _attempt(player, partners[span.span_id], span)
    for span in spans:
        if span.kind in _CALLING:
            found += _call(player, span, partners)
    for turn, trace in zip(turns, traces, strict=False):
        found += run_lies(turn, trace.root)
    if not found:  # else the sums would only repeat it
        found += [lie for span in spans if span.kind == "invoke_agent" for lie in _totals(span)]
    return found


def _pair(
    player: Player, takes: Sequence[int], attempts: Sequence[TraceSpan], partners: dict[str, int]
) -> Iterator[str]:
    """Find the attempt of each exchange, by the digest of the request, else by its place."""
    keys = [sha256(player.request(number).body).hexdigest() for number in takes]
    known = [str(span.attributes.get(_REQUEST)).removeprefix("sha256:") for span in attempts]
    alone: list[int] = []
    strange: list[int] = []
    matcher = SequenceMatcher(None, keys, known, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal" or b - a == d - c:
            for place, other in zip(range(a, b), range(c, d), strict=True):
                partners[attempts[other].span_id] = takes[place]
        else:
            alone += range(a, b)
            strange += range(c, d)
    for place in alone:
        same = [each for each in strange if known[each] == keys[place]]
        if same:
            strange.remove(same[0])
            partners[attempts[same[0]].span_id] = takes[place]
            yield f"the attempt span of exchange {takes[place] + 1} is out of its order"
        elif api_of(player.request(takes[place]).url):  # an index may be built before a run
            yield f"exchange {takes[place] + 1} has no attempt span"
    for other in strange:
        yield f"attempt span {other + 1} ({attempts[other].name}) belongs to no exchange"


def _attempt(player: Player, number: int, span: TraceSpan) -> Iterator[str]:
    response = player.response(number)
    status = None if response is None else response.status
    yield from _compare(number, "status", status, span.attributes.get(semconv.HTTP_STATUS))


def _call(player: Player, span: TraceSpan, partners: dict[str, int]) -> Iterator[str]:
    """A model call: its attempts add up, and the last of them brought what it says."""
    attempts = [child for child in span.children if semconv.ATTEMPT in child.attributes]
    attempts.sort(key=lambda each: each.start)
    said = span.attributes.get("harness.attempts", 1)
    numbers = [each.attributes[semconv.ATTEMPT] for each in attempts]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the attempts of {span.name} are {numbers} in their order"
    if not attempts and not span.failed and partners and span.kind == "chat":
        yield f"{span.name} has no attempt span, though it got a reply"
    if attempts and said != len(attempts) and not span.failed:
        yield f"{span.name} says {said} attempts and has {counted(len(attempts), 'attempt span')}"
    if not attempts or span.failed or span.kind != "chat":
        return
    number = partners.get(attempts[-1].span_id)
    if number is None:
        return  # told of already
    take = player.takes[number]
    response = player.response(number)
    reply = None if response is None else reply_of(player.request(number), response)
    if reply is None:
        yield f"exchange {number + 1} holds no reply, but its model call is said to have one"
    elif not take.closed:  # who stopped reading did not see all that was recorded
        yield from _reply(number, reply, player, span)


def _reply(number: int, reply: Reply, player: Player, span: TraceSpan) -> Iterator[str]:
    said = span.attributes
    if not said.get(_ESTIMATED):
        prompt, generated = reply.usage.prompt_tokens, reply.usage.completion_tokens
        yield from _compare(number, "prompt tokens", prompt, said.get(semconv.INPUT_TOKENS))
        yield from _compare(number, "reply tokens", generated, said.get(semconv.OUTPUT_TOKENS))
    body = json_body(player.request(number).body)
    asked = body.get("model") if isinstance(body, dict) else None
    asked = short(asked) if isinstance(asked, str) else None
    yield from _compare(number, "model", asked, said.get(semconv.REQUEST_MODEL))
    reason = reply.finish_reason
    reason = None if reason is None else short(reason)
    yield from _compare(number, "finish reason", reason, said.get("harness.finish_reason"))
    listed = None if reason is None else [reason]
    claimed = said.get(semconv.FINISH_REASONS)
    yield from _compare(number, "finish reasons", listed, claimed and list(claimed))
    answering = None if reply.model is None else short(reply.model)
    yield from _compare(number, "model of the reply", answering, said.get(semconv.RESPONSE_MODEL))
    text, claimed = digest(reply.text), said.get("harness.reply.sha256")
    if not said.get("harness.reply.cut_by_client") and text != claimed:
        yield f"exchange {number + 1}: the text is another one than the span has the digest of"
    calls = len(reply.tool_calls)
    yield from _compare(number, "tool calls", calls, said.get("harness.reply.tool_calls", 0))
    yield from _contents(number, reply, uncut(span, semconv.OUTPUT_MESSAGES))
    asked_texts = _texts(body.get("messages")) if isinstance(body, dict) else []
    shown = _texts(_messages(uncut(span, semconv.INPUT_MESSAGES)))
    if shown and asked_texts and shown != asked_texts:
        yield f"exchange {number + 1}: the messages on the span are not those that were sent"


def _totals(run: TraceSpan) -> Iterator[str]:
    """The tokens of a step are those of its call; those of a run at least those of its steps.

    What memory asks a model for is no step, and the run may count it or not.
    """
    steps = [span for span in run.children if span.kind == "harness.step"]
    aside = [call for each in run.find("harness.memory") for call in each.find("chat")]
    for key, of_step, of_run in _COUNTS:
        for number, step in enumerate(steps, start=1):
            calls = [each for each in step.children if each.kind == "chat" and not each.failed]
            said = step.attributes.get(of_step)
            if len(calls) == 1 and not step.attributes.get(_ESTIMATED):
                called = calls[0].attributes.get(key)
                if said != called:
                    yield f"step {number} says {said!r} {of_step}, its model call {called!r}"
        if run.attributes.get(_ESTIMATED):
            continue
        least = sum(_count(each, of_step) for each in steps)
        most = least + sum(_count(each, key) for each in aside)
        if not least <= _count(run, of_run) <= most:
            yield f"{run.name} says {run.attributes.get(of_run)!r} {of_run}, its steps {least}"


def _count(span: TraceSpan, key: str) -> int:
    value = span.attributes.get(key)
    return value if isinstance(value, int) else 0


def _contents(number: int, reply: Reply, messages: str | None) -> Iterator[str]:
    """The text, and names and arguments of the calls, where the span holds them uncut."""
    shown = _messages(messages)
    if not shown:
        return
    yield from _compare(number, "text", [redactor.text(reply.text)], _texts(shown) or [""])
    claimed = [
        (str(each.get("name")), _arguments(each.get("arguments")))
        for each in _parts(shown[0])
        if each.get("type") == "tool_call"
    ]
    recorded = [(call.name, _arguments(call.arguments)) for call in reply.tool_calls]
    yield from _compare(number, "calls in the message", len(recorded), len(claimed))
    for was, now in zip(recorded, claimed, strict=False):
        yield from _compare(number, "tool", was[0], now[0])
        yield from _compare(number, f"arguments of {was[0]}", was[1], now[1])


def _messages(text: str | None) -> list[JsonObject]:
    value = json_body(text.encode()) if text is not None else None
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _parts(message: JsonObject) -> list[JsonObject]:
    parts = message.get("parts")
    return [each for each in parts if isinstance(each, dict)] if isinstance(parts, list) else []


def _texts(messages: JsonValue) -> list[str]:
    """The texts of messages, as a request or a span has them."""
    found: list[JsonValue] = []
    for each in messages if isinstance(messages, list) else []:
        if isinstance(each, dict):
            found.append(each.get("content"))
            found += [part.get("content", part.get("response")) for part in _parts(each)
                      if part.get("type") in {"text", "tool_call_response"}]  # fmt: skip
    return [each for each in found if isinstance(each, str) and each]


def _arguments(value: Any) -> str:
    decoded = json_body(value.encode(errors="replace")) if isinstance(value, str) else value
    return utf8(canonical_json(redactor.value(value if decoded is None else decoded)))


def _compare(number: int, what: str, recorded: Any, claimed: Any) -> Iterator[str]:
    if recorded != claimed:
        yield f"exchange {number + 1}: {what} recorded {recorded!r}, the span says {claimed!r}"
