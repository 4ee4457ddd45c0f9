"""Lint of prompts: each goes on from the one before, or is told as one that does not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_core.messages import Reply
from harness.sessions.lint import Finding, lint
from harness.sessions.lint_prompts import prompt_findings
from harness.sessions.lint_rounds import Round
from tests.harness.serve_support import FIRST, cassette, interaction, record

Messages = list[dict[str, Any]]

SYSTEM = {"role": "system", "content": "You help."}
QUESTION = {"role": "user", "content": "How warm is it in Lisbon, in degrees Fahrenheit?"}


def reply(number: int) -> dict[str, Any]:
    """What the model says."""
    return {"role": "assistant", "content": f"Thought: step {number}.\nAction: look({number})"}


def native(number: int) -> dict[str, Any]:
    """The same as a native call."""
    call = {"function": {"name": "look", "arguments": {"number": number}}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def seen(number: int) -> dict[str, Any]:
    """What comes of it."""
    return {"role": "user", "content": f"Observation: {number}"}


def conversation(length: int, said: Callable[[int], Any] = reply) -> list[Messages]:
    """The messages of each request of a run."""
    rounds = [[said(n), seen(n)] for n in range(1, length)]
    return [
        [SYSTEM, QUESTION, *(one for each in rounds[:n] for one in each)] for n in range(length)
    ]


def found_in(folder: Path, requests: list[Messages], said: Callable[[int], Any]) -> list[Finding]:
    """What lint says of a cassette of these requests; each gets the reply of its number."""
    exchanges = []
    for messages in requests:
        number = sum(each["role"] == "assistant" for each in messages) + 1
        body = json.dumps(record() | {"message": said(number)})
        exchanges.append(interaction({**FIRST, "messages": messages}, body))
    found = lint([cassette(folder / "prompts.yaml", *exchanges)])
    return [each for each in found if each.rule.startswith("prompt")]


def another(place: int) -> Callable[[Messages], None]:
    """Change a message."""

    def edit(messages: Messages) -> None:
        messages[place] = {**messages[place], "content": "zz", "tool_calls": []}

    return edit


def gone(place: int) -> Callable[[Messages], None]:
    """Leave a message out."""
    return lambda messages: messages.__delitem__(place)


def swapped(one: int, other: int) -> Callable[[Messages], None]:
    """Let two messages change places."""

    def edit(messages: Messages) -> None:
        messages[one], messages[other] = messages[other], messages[one]

    return edit


@pytest.mark.parametrize("said", [reply, native], ids=["text", "native"])
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        *((another(place), f"message {place + 1} of request 3 is another one") for place in range(6)),
        *((gone(place), f"message {place + 1} of request 3 is gone") for place in range(5)),
        (gone(5), "message 6 of request 3 is another one"),
        (swapped(1, 3), "message 2 of request 3 stands elsewhere"),
        (swapped(2, 4), "message 3 of request 3 stands elsewhere"),
        (swapped(0, 1), "message 1 of request 3 stands elsewhere"),
    ],
)  # fmt: skip
def test_whatever_changes_in_an_earlier_prompt(
    tmp_path: Path, said: Callable[[int], Any], edit: Callable[[Messages], None], words: str
) -> None:
    """System, question, replies or results: from there no prompt cache holds."""
    requests = conversation(4, said)
    edit(requests[3])
    (finding,) = found_in(tmp_path, requests, said)
    assert (finding.rule, finding.where) == ("prompt-not-append-only", "request 4")
    assert words in finding.words


def test_another_question_at_the_second_request(tmp_path: Path) -> None:
    """The agent repeats the reply in its own spelling; that the thought is its, tells."""
    bodies = [
        {**FIRST, "messages": [SYSTEM, QUESTION]},
        {**FIRST, "messages": [SYSTEM, {"role": "user", "content": "zz"}, reply(1), seen(1)]},
    ]
    text = f"{reply(1)['content'].partition('Action')[0]}\nAction:  look( 1 )"
    path = cassette(tmp_path / "two.yaml",
                    *(interaction(body, json.dumps(record(text))) for body in bodies))  # fmt: skip
    (found,) = [each for each in lint([path]) if each.rule.startswith("prompt")]
    assert "message 2 of request 1 is another one" in found.words


@pytest.mark.parametrize("said", [reply, native], ids=["text", "native"])
def test_conversations_side_by_side(tmp_path: Path, said: Callable[[int], Any]) -> None:
    """Runs of other questions, of the same one, and questions behind the same examples."""
    first, second = conversation(3, said), conversation(3, said)
    for each in second:
        each[1] = {"role": "user", "content": "And in Oslo?"}
        if len(each) > 3:
            each[3] = {"role": "user", "content": "Observation: cold"}
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    assert found_in(tmp_path, mixed, said) == []
    assert found_in(tmp_path, [*first, *conversation(3, said)], said) == []
    examples = [SYSTEM, QUESTION, said(1)]
    asked = [[*examples, {"role": "user", "content": f"Question {n}"}] for n in range(3)]
    longer = [*asked[0], said(2), {"role": "user", "content": "And then?"}]
    assert found_in(tmp_path, [asked[0], longer, asked[1], asked[2]], said) == []


def summarised(first: Messages, *left: int) -> Messages:
    """A request whose older rounds left for a summary behind the question."""
    asked = {**QUESTION, "content": f"{QUESTION['content']}\n\nSummary: {len(first) - len(left)}"}
    return [SYSTEM, asked, *(one for n in left for one in (reply(n), seen(n)))]


def test_a_memory_that_trims_is_told_as_that(tmp_path: Path) -> None:
    """Once and again, and of earlier turns; what else changed at the same time is not excused."""
    requests = conversation(4)
    once = summarised(requests[3], 2, 3, 4)
    again = summarised(once, 4, 5)
    found = found_in(tmp_path, [*requests, once, again], reply)
    assert [(each.rule, each.where) for each in found] == [
        ("prompt-trimmed", "request 5"), ("prompt-trimmed", "request 6"),
    ]  # fmt: skip
    later = {"role": "user", "content": "And in Oslo?"}
    turns = [[*requests[2], reply(3), later]]
    turns.append([SYSTEM, QUESTION, reply(3), {**later, "content": "And in Oslo?\n\nSummary: 2"}])
    assert [each.rule for each in found_in(tmp_path, turns, reply)] == ["prompt-not-append-only"]
    turns[1] = [SYSTEM, {**later, "content": "And in Oslo?\n\nSummary: 6"}, reply(4), seen(4)]
    assert [each.rule for each in found_in(tmp_path, turns, reply)] == ["prompt-trimmed"]
    changed = summarised(requests[3], 2, 3, 4)
    changed[3] = {"role": "user", "content": "Observation: another"}
    found = found_in(tmp_path, [*requests, changed], reply)
    assert [each.rule for each in found] == ["prompt-not-append-only"]


@pytest.mark.parametrize("answered", [False, True], ids=["questions", "conversations"])
def test_many_conversations_take_no_product_of_their_numbers(answered: bool) -> None:
    """Each request is held against the latest ones; a guard against hanging, with much slack."""
    began = time.monotonic()
    rounds = []
    for number in range(3_000 if answered else 30_000):
        messages: Messages = [SYSTEM, {"role": "user", "content": f"Question {number}?"}]
        messages += [{"role": "assistant", "content": f"Answer {number}."}, seen(number)] * answered
        rounds.append(Round(number + 1, {}, Reply(f"Reply {number}"), messages))
    assert list(prompt_findings(rounds)) == []
    assert time.monotonic() - began < 60
