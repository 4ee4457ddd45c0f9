"""Bodies as servers of `/v1/chat/completions` write them, and a question to such a server."""

from __future__ import annotations

import json
from typing import Any

from agent_core.messages import Message, Reply
from agent_core.models import OpenAIChat, Timeouts
from harness.faults import FaultServer, Response

ASK = [Message("user", "hi")]


def whole(message: object, finish_reason: str | None = "stop", **more: Any) -> dict[str, Any]:
    """A whole response with one choice."""
    return {"choices": [{"message": message, "finish_reason": finish_reason}], **more}


def chunk(delta: object = None, finish_reason: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish_reason}
    return b"data: " + json.dumps({"choices": [choice], **more}).encode() + b"\n\n"


def fragment(arguments: object = None, *, name: object = None, **more: Any) -> dict[str, Any]:
    """A part of a tool call."""
    function = {"name": name, "arguments": arguments}
    return {"function": {k: v for k, v in function.items() if v is not None}, **more}


def deltas(*fragments: dict[str, Any]) -> bytes:
    """A stream with these fragments of calls, one a chunk."""
    said = b"".join(chunk({"tool_calls": [each]}) for each in fragments)
    return said + chunk(finish_reason="tool_calls") + DONE


STOP = chunk(finish_reason="stop")

DONE = b"data: [DONE]\n\n"

OK = Response(body=whole({"role": "assistant", "content": "ok"}))


def ask(response: Response, *, stream: bool = True, **chat: Any) -> Reply:
    """The reply to one question."""
    with FaultServer([response]) as server:
        model = OpenAIChat(
            "m", base_url=f"{server.url}/v1", api_key="", stream=stream,
            timeouts=Timeouts(read=chat.pop("read", 30.0)),
        )  # fmt: skip
        try:
            return model.chat(chat.pop("messages", ASK), **chat)
        finally:
            model.close()
