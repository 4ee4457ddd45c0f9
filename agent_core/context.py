"""How much of the context window a prompt takes, and what the server kept quiet about."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from agent_core.messages import JsonObject, Message, Reply, StepNote, Usage

_CJK_TOKENS = 0.7  # tokens per CJK character and
_OTHER_TOKENS = 0.25  # per other character: what Qwen and Llama tokenizers come to on average
_PER_MESSAGE = 4  # role and separators that a chat template adds
_UNSEEN = 0.7  # of an estimate: whole prompts came to 0.89 and more of theirs, cut ones to 0.58
_CJK = re.compile(r"[^\x00-\u2e7f]+")
_PIECES = re.compile(r"(?P<word>[A-Za-z]+)|(?P<other>[^\x00-\x7f])|[!-~]|\n+|[ \t]{2,}")


@lru_cache(maxsize=64)  # of a conversation, that is, whose messages are counted at each step
def estimate_tokens(text: str) -> int:
    """Tokens this text takes, roughly: no tokenizer is at hand for an unknown model."""
    cjk = sum(map(len, _CJK.findall(text)))
    return math.ceil(cjk * _CJK_TOKENS + (len(text) - cjk) * _OTHER_TOKENS)


def most_tokens(text: str) -> float:
    """Tokens this text takes at most, roughly, whatever the model: digits and signs stand alone,
    words are in pieces of five letters, and other scripts take two tokens a character."""
    total = 0.0
    for piece in _PIECES.finditer(text):
        if piece["word"]:
            total += max(1.0, len(piece["word"]) / 5)
        else:
            total += 2 if piece["other"] else 1
    return total


def estimate_prompt(messages: Sequence[Message], tools: Sequence[JsonObject] = ()) -> int:
    """Tokens a prompt takes, roughly, with the tool definitions that go beside it."""
    total = sum(estimate_tokens(message_text(each)) + _PER_MESSAGE for each in messages)
    if tools:
        total += estimate_tokens(json.dumps(list(tools), ensure_ascii=False))
    return total


def message_text(message: Message) -> str:
    """Everything of a message that costs tokens."""
    calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    if not calls:
        return message.content
    return message.content + json.dumps(calls, ensure_ascii=False, default=repr)


def truncation_note(
    reply: Reply, *, window: int | None, estimate: int, previous: int | None, grew: bool
) -> StepNote | None:
    """Report a prompt that the server cut without saying so.

    Args:
        window: the context window in tokens.
        estimate: what the prompt should take, by `estimate_prompt`.
        previous: the server's prompt count one step earlier.
        grew: the prompt holds the previous one and more.
    """
    count = reply.usage.prompt_tokens
    if count is None or reply.usage.estimated or window is None:
        return None
    if count >= window - 1:
        why = f"the prompt fills the context window ({count} of {window} tokens)"
    elif grew and previous is not None and count <= previous:
        why = f"the prompt grew, but the server read {count} tokens after {previous}"
    elif estimate > window and count < _UNSEEN * estimate:
        why = f"about {estimate} tokens were sent, the server read {count} (window {window})"
    else:
        return None
    return StepNote(
        "context_truncated",
        f"{why}: the model may not have seen its instructions; raise num_ctx or shorten the prompt",
    )


def swallowed_note(reply: Reply, *, native: bool) -> StepNote | None:
    """Report tokens that were generated but that neither text nor calls show.

    Certain where nothing is left of the reply. Elsewhere a suspicion, and only for native
    calls, where a server's own tool parser stands between model and reply.
    """
    tokens = reply.usage.completion_tokens
    if tokens is None or reply.usage.estimated or reply.tool_calls:
        return None
    visible = reply.text + (reply.thinking or "")
    if not visible.strip():
        if tokens <= 2:  # an end-of-turn token or two are no output
            return None
        return StepNote("output_swallowed", f"{tokens} tokens were generated, none of them arrived")
    if native and tokens > 1.2 * most_tokens(visible) + 5:
        return StepNote(
            "output_swallowed",
            f"{tokens} tokens were generated for {len(visible)} characters: part of the reply may "
            "have been taken by the server's tool parser",
        )
    return None


def with_usage(reply: Reply, estimate: int) -> Reply:
    """Fill in an estimate where the server gave no counts, marked as one."""
    usage = reply.usage
    if usage.prompt_tokens is not None and usage.completion_tokens is not None:
        return reply
    generated = estimate_tokens(message_text(Message("assistant", reply.text, reply.tool_calls)))
    generated += estimate_tokens(reply.thinking or "")
    filled = Usage(
        estimate if usage.prompt_tokens is None else usage.prompt_tokens,
        generated if usage.completion_tokens is None else usage.completion_tokens,
        estimated=True,
    )
    return replace(reply, usage=filled)
