"""A question to a server that answers by script, for the tests of the clients over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agent_core.clock import ManualClock
from agent_core.errors import ModelError
from agent_core.events import AttemptEnded, AttemptStarted, Ended, Failed, Started
from agent_core.messages import Message
from agent_core.models import OllamaChat
from harness.faults import FaultServer, Response

KEY = "sk-test-ABCDEFGHIJKLMNOPQRSTUVWX"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
ASK = [Message("user", "hi")]
DONE = {"message": {"role": "assistant", "content": "ok"}, "done": True, "done_reason": "stop"}
OK = Response(body=DONE)
V1_OK = Response(
    body={"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
)


class Attempts:
    """An observer that keeps the HTTP attempts."""

    def __init__(self) -> None:
        self.started_events: list[AttemptStarted] = []
        self.ended_events: list[AttemptEnded | Failed] = []

    def started(self, event: Started) -> bool:
        if isinstance(event, AttemptStarted):
            self.started_events.append(event)
        return isinstance(event, AttemptStarted)

    def ended(self, token: bool, event: Ended) -> None:
        if token:
            assert isinstance(event, AttemptEnded | Failed)
            self.ended_events.append(event)


def failure(server: FaultServer, **options: Any) -> ModelError:
    """The error that one question to a server ends with."""
    options.setdefault("clock", ManualClock(NOW))
    timeout = options.pop("timeout", None)
    model = OllamaChat("m", base_url=server.url, **options)
    with pytest.raises(ModelError) as caught:
        model.chat(ASK, timeout=timeout)
    model.close()
    return caught.value
