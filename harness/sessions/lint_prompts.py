"""Prompts that do not go on from the one before, and those that the server cut."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from agent_core.context import estimate_prompt, truncation_note
from agent_core.messages import JsonObject, Message, ToolCall
from agent_core.models.wire import as_count, as_text, read_calls
from harness.sessions.differences import common_start
from harness.sessions.exchange import canonical_json
from harness.sessions.lint_rounds import Round

_LOOK_BACK = 64  # rounds: so many conversations at the same time may stand in one recording
_TELLING = 12  # characters: shorter replies stand in other texts by chance
_ASKS = frozenset({"system", "developer", "user"})

Found = tuple[str, str, str]  # rule, where, words


def prompt_findings(rounds: Sequence[Round]) -> Iterator[Found]:
    """Requests that rewrite what an earlier one said, and prompts that the server cut."""
    for place, each in enumerate(rounds):
        before = _before(rounds[max(0, place - _LOOK_BACK) : place], each)
        grown = before is not None and _begins(before, each)
        if before is not None and not grown and not _asks_anew(before, each):
            yield _rewritten(before, each)
        options, tools = each.body.get("options"), each.body.get("tools")
        note = truncation_note(
            each.reply,
            window=as_count(options.get("num_ctx")) if isinstance(options, dict) else None,
            estimate=estimate_prompt(
                [_message(one) for one in each.messages], tools if isinstance(tools, list) else ()
            ),
            previous=before.reply.usage.prompt_tokens if before is not None and grown else None,
            grew=before is not None and grown and len(before.messages) < len(each.messages),
        )
        if note is not None:
            yield "context-truncated", f"reply {each.number}", note.text


def _before(earlier: Sequence[Round], now: Round) -> Round | None:
    """The request that this one goes on from: the one with the most messages in common.

    The reply to a request counts as one of its messages. None where a conversation begins.
    """
    if earlier and _begins(earlier[-1], now):
        return earlier[-1]
    if all(each.get("role") in _ASKS for each in now.messages):
        return None
    best, most = None, (0, False)
    for old in earlier:
        common, answered = old.counts & now.counts, _is_answered(old, now)
        if not (answered or _same_task(old, now) or _holds_reply(old, common.keys())):
            continue
        likeness = common.total() + answered, _begins(old, now)
        if best is None or likeness >= most:
            best, most = old, likeness
    return best


def _is_answered(old: Round, now: Round) -> bool:
    """Whether the reply to a request stands in another, as it came or as the agent repeats it."""
    text = old.reply.text.strip()
    calls = _calls(old.reply.tool_calls)
    for key, each in zip(now.keys, now.messages, strict=True):
        if each.get("role") != "assistant" or key in old.counts:
            continue
        if calls and calls == _calls(read_calls(each.get("tool_calls"))):
            return True
        said = (as_text(each.get("content")) or "").strip()
        if said and said == text:
            return True
        shorter, longer = sorted((said, text), key=len)
        if len(shorter) >= _TELLING and shorter in longer:
            return True
        if _telling_lines(said) & _telling_lines(text):
            return True
    return False


def _telling_lines(text: str) -> set[str]:
    return {line for each in text.splitlines() if len(line := each.strip()) >= _TELLING}


def _calls(calls: Sequence[ToolCall]) -> list[str]:
    return [canonical_json([each.name, each.arguments]) for each in calls]


def _holds_reply(old: Round, common: Collection[str]) -> bool:
    """Whether some of the messages in common are more than instructions and questions."""
    pairs = zip(old.keys, old.messages, strict=True)
    return any(key in common for key, each in pairs if each.get("role") not in _ASKS)


def _same_task(old: Round, now: Round) -> bool:
    """Whether both begin with the same question, a summary behind it or not."""
    before, task = _task(old.messages), _task(now.messages)
    return before is not None and task is not None and task.startswith(before)


def _task(messages: Sequence[JsonObject]) -> str | None:
    return next((str(each.get("content")) for each in messages if each.get("role") == "user"), None)


def _begins(old: Round, now: Round) -> bool:
    return common_start(old.keys, now.keys) == len(old.keys)


def _asks_anew(old: Round, now: Round) -> bool:
    """Whether only its last message is another one: a question behind the same examples."""
    return common_start(old.keys, now.keys) == len(now.keys) - 1


def _rewritten(before: Round, now: Round) -> Found:
    """What a prompt is that does not go on from the one before: trimmed, or told anew."""
    where = f"request {now.number}"
    if _trimmed(before, now):
        words = f"rounds of request {before.number} left, a summary stands in their place"
        return "prompt-trimmed", where, words
    place = common_start(before.keys, now.keys)
    what = "is another one"
    if before.keys[place] in now.keys[place:]:
        what = "stands elsewhere"
    elif place == len(now.keys) or now.keys[place] in before.keys[place:]:
        what = "is gone"
    words = (
        f"message {place + 1} of request {before.number} {what}: "
        "the server has to read the prompt again from there"
    )
    return "prompt-not-append-only", where, words


def _trimmed(old: Round, now: Round) -> bool:
    """Whether older rounds left, a summary behind a question in their place, and nothing else."""
    return any(
        _left_before(old, was, now, at) and _left_after(old, was, now, at)
        for at, one in enumerate(now.messages) if now.keys[at] not in old.counts
        for was, other in enumerate(old.messages) if _adds_to(other, one)
    )  # fmt: skip


def _left_before(old: Round, was: int, now: Round, at: int) -> bool:
    """Whether the question follows the instructions and the latest of what stood in between."""
    head = next((n for n, each in enumerate(old.messages) if each.get("role") == "user"), 0)
    kept = now.keys[head:at]
    same_head = now.keys[:head] == old.keys[:head]
    return same_head and (not kept or old.keys[head:was][-len(kept) :] == kept)


def _left_after(old: Round, was: int, now: Round, at: int) -> bool:
    """Whether the latest rounds that followed the question still do, or none of them."""
    before, after = old.keys[was + 1 :], now.keys[at + 1 :]
    for gone, each in enumerate(old.messages[was + 1 :]):
        if each.get("role") == "assistant" and after[: len(before) - gone] == before[gone:]:
            return True
    return not set(before).intersection(after)


def _adds_to(old: JsonObject, now: JsonObject) -> bool:
    """Whether the second is the first one with a summary, or another summary, behind it."""
    if (old.get("role"), now.get("role")) != ("user", "user"):
        return False
    before, after = str(old.get("content")), str(now.get("content"))
    return after.startswith(before) or "\n\n" in before[: common_start(before, after)]


def _message(message: JsonObject) -> Message:
    calls = tuple(read_calls(message.get("tool_calls")))
    return Message("user", as_text(message.get("content")) or "", calls)
