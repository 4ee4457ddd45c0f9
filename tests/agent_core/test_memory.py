"""What the model sees of a long history."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_core.context import estimate_prompt
from agent_core.errors import ConfigError
from agent_core.memory import WindowMemory
from agent_core.messages import Language, Message


def history(rounds: int, earlier: int = 0) -> tuple[list[Message], int]:
    """A system prompt, earlier turns, a task, and rounds of it."""
    messages = [Message("system", "rules")]
    for turn in range(earlier):
        messages += [Message("user", f"turn {turn}"), Message("assistant", f"reply {turn}")]
    task = len(messages)
    messages.append(Message("user", "the task"))
    for number in range(rounds):
        messages += [Message("assistant", f"act {number}"), Message("user", f"saw {number}")]
    return messages, task


def test_a_short_history_is_shown_whole() -> None:
    """Up to ten rounds nothing changes."""
    messages, task = history(10)
    assert WindowMemory().view(messages, task=task) == messages


@given(rounds=st.integers(0, 60), earlier=st.integers(0, 20))
def test_system_task_and_last_rounds_always_stay(rounds: int, earlier: int) -> None:
    """Whatever leaves, the instructions, the task and the newest rounds do not."""
    messages, task = history(rounds, earlier)
    view = WindowMemory().view(messages, task=task)
    assert view[0] == messages[0]
    assert any(each.role == "user" and each.content.startswith("the task") for each in view)
    kept = min(rounds, 6)
    assert kept == 0 or view[-2 * kept :] == messages[-2 * kept :]
    roles = [each.role for each in view[1:]]
    assert all(a != b for a, b in pairwise(roles))
    assert roles[0] == "user"


def test_the_prompt_stays_append_only_for_most_steps() -> None:
    """Rounds leave in blocks, so that a server's prompt cache holds in between."""
    memory, broken = WindowMemory(), 0
    previous: list[Message] = []
    for rounds in range(31):
        messages, task = history(rounds)
        view = memory.view(messages, task=task)
        broken += view[: len(previous)] != previous
        previous = view
    assert broken == 4


@given(st.integers(1, 40), st.integers(60, 2_000))
def test_a_budget_is_kept_while_rounds_can_leave(rounds: int, budget: int) -> None:
    """Only the last round may exceed it: without it the model could not go on."""
    messages, task = history(rounds)
    view = WindowMemory(rounds=40).view(messages, task=task, budget=budget)
    assistants = sum(each.role == "assistant" for each in view)
    assert estimate_prompt(view) <= budget or assistants <= 5


@given(st.integers(2, 60), st.integers(100, 400), st.sampled_from(["en", "zh"]))
def test_a_summary_does_not_take_the_room_it_makes(
    rounds: int, budget: int, language: Language
) -> None:
    """Short messages are as long in the summary: its oldest lines leave, and it says so."""
    messages, task = history(0, rounds)
    view = WindowMemory(language=language).view(messages, task=task, budget=budget)
    assert estimate_prompt(view) <= budget
    assert view[-1].content.startswith("the task")
    whole = estimate_prompt(messages) <= budget and rounds <= 10
    assert (view == messages) == whole
    if f"turn {rounds - 1}" in view[-1].content and "turn 0" not in str(view):
        assert ("messages are left out" if language == "en" else "条消息已省略") in view[-1].content


def test_what_left_is_summarised_in_the_task() -> None:
    """The summary is marked as one and names what was done."""
    messages, task = history(12)
    view = WindowMemory().view(messages, task=task)
    assert "Summary of earlier rounds" in view[1].content
    assert "act 0" in view[1].content


def test_a_history_without_a_system_prompt_begins_with_the_user() -> None:
    """Of what stood before the task only system prompts stay; the task is sent once."""
    messages, task = history(12)
    view = WindowMemory().view(messages[1:], task=task - 1)
    assert view == WindowMemory().view(messages, task=task)[1:]
    messages, task = history(0, earlier=12)
    view = WindowMemory().view(messages[1:], task=task - 1)
    assert view == WindowMemory().view(messages, task=task)[1:]


def test_of_many_open_points_the_newest_stay() -> None:
    """Eight, of the messages that have no line in the summary any more."""
    messages, task = history(40)
    for number in range(30):
        thought = f"Thought: Still missing: price {number}.\nAction: x"
        messages[task + 1 + 2 * number] = Message("assistant", thought)
    view = WindowMemory(2, block=1).view(messages, task=task, budget=350)
    shown = [line for line in view[task].content.splitlines() if line.startswith("- assistant: St")]
    assert shown
    assert "price 29" in shown[-1]
    assert len(shown) <= 8


def test_wrong_sizes_are_refused() -> None:
    """A window of nothing is a mistake."""
    with pytest.raises(ConfigError, match="at least 1"):
        WindowMemory(0)
