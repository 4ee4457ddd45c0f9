"""What ends a run: the limits, the reasons, and the guard against repetition."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from agent_core.errors import ConfigError


class StopReason(StrEnum):
    """Why a run ended. Every run ends with exactly one of these."""

    FINAL_ANSWER = "final_answer"
    MAX_STEPS = "max_steps"
    TIME_LIMIT = "time_limit"
    TOKEN_LIMIT = "token_limit"
    REPEATED_ACTION = "repeated_action"
    FORMAT_ERRORS = "format_errors"
    EMPTY_REPLIES = "empty_replies"
    MODEL_ERROR = "model_error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run.

    Attributes:
        max_steps: model calls at most.
        time_limit: seconds for the whole run, or None.
        token_limit: prompt plus completion tokens, summed over the run, or None. Where the
            server gives no usage, an estimate counts.
        tool_timeout: seconds for one tool call unless the tool has its own.
        max_format_errors: replies in a row that cannot be used before the run ends.
        max_empty_replies: empty replies in a row before the run ends.
        refuse_repeat: from this many identical actions on, the action is not run and the
            model is told so. None turns the guard off.
        stop_repeat: at this many identical actions the run ends, unless all are of one reply:
            then the model has not been told yet.
        observation_chars: an observation longer than this keeps its head and its tail.
    """

    max_steps: int = 10
    time_limit: float | None = None
    token_limit: int | None = None
    tool_timeout: float = 30.0
    max_format_errors: int = 3
    max_empty_replies: int = 3
    refuse_repeat: int | None = 3
    stop_repeat: int = 5
    observation_chars: int = 8_000

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None and each.name in {"time_limit", "token_limit", "refuse_repeat"}:
                continue
            is_time = each.name in {"time_limit", "tool_timeout"}
            is_number = type(value) in {int, float} and value > 0
            if not is_number or (value % 1 and not is_time):
                what = "number" if is_time else "whole number"
                raise ConfigError(f"Limits.{each.name} must be a positive {what}, got {value!r}")


RepeatVerdict = Literal["run", "refuse", "stop"]


def fingerprint(name: str, arguments: dict[str, Any]) -> str:
    """Identify an action by its tool and canonical arguments.

    Neither the order of keys nor `2.0` for `2` matters.
    """
    canonical = json.dumps(
        [name, _whole(arguments)], sort_keys=True, ensure_ascii=True, default=repr
    )
    return hashlib.sha256(canonical.encode("utf-8")).hexdigest()[:16]


def _whole(value: Any) -> Any:
    """The same value with whole numbers as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _whole(each) for key, each in value.items()}
    return value


class RepeatGuard:
    """Counts identical actions over a run and says what to do with the next one.

    The count is over the whole run, not in a row, so that two actions in alternation
    (A-B-A-B-A-B) are caught from their third pair on.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def judge(self, key: str, step: int) -> RepeatVerdict:
        """Count the action `key` asked for in this step and give its verdict."""
        self._seen[key] += 1
        self._first.setdefault(key, step)
        if self._limits.refuse_repeat is None:
            return "run"
        if self._seen[key] >= self._limits.stop_repeat and self._first[key] < step:
            return "stop"
        return "refuse" if self._seen[key] >= self._limits.refuse_repeat else "run"

    def times(self, key: str) -> int:
        """How often this action has been asked for so far."""
        return self._seen[key]

    def first_step(self, key: str) -> int | None:
        """The step that asked for it first, or None when it was never judged."""
        return self._first.get(key)
