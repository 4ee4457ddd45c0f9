"""Every fault there is, and how they are chosen."""

from __future__ import annotations

from collections.abc import Sequence

from agent_core.errors import ConfigError
from harness.faults.fault import Fault
from harness.faults.replies import REPLY_FAULTS
from harness.faults.tools import TOOL_FAULTS
from harness.faults.transport import HTTP_FAULTS

FAULTS: dict[str, Fault] = {each.code: each for each in (*REPLY_FAULTS, *HTTP_FAULTS, *TOOL_FAULTS)}
"""Faults by code, in the order of reports."""

GROUPS = ("reply", "http", "tool")


def chosen(names: Sequence[str]) -> tuple[Fault, ...]:
    """The faults of these codes and groups, in the order of reports; all for no names.

    Raises:
        ConfigError: a name that is none.
    """
    wrong = [each for each in names if each not in FAULTS and each not in GROUPS]
    if wrong:
        raise ConfigError(
            f"no operator {wrong[0]!r}; expected reply, http, tool, or one of {', '.join(FAULTS)}"
        )
    return tuple(
        each for each in FAULTS.values() if not names or each.code in names or each.group in names
    )
