"""The parser's speed: beside `json.loads`, beside json_repair, and on hostile input.

Ratios are asserted between figures of the same run: the best of several rounds in CPU time, so
that a busy machine does not decide.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import json_repair
import pytest

from agent_core.messages import Actions
from agent_core.parsing import parse_reply

TOOLS = ("get_transactions", "add")
ARGUMENTS = (
    '{"customer_id": 4711, "start": "2026-01-01", "end": "2026-03-31", "min_amount": 100.5, '
    '"categories": ["cash", "travel", "groceries"], "note": "All transactions above the limit '
    'in the first quarter, with the merchant and the city in which the card was used.", '
    '"options": {"sort": "date", "descending": true, "limit": 50, "currency": "EUR", '
    '"include": ["merchant", "city"], "pages": null}, "reason": "yearly review"}'
)
THOUGHT = "I have to list the transactions first, since the question is about them."
CLEAN = f"Thought: {THOUGHT}\nAction: get_transactions\nAction Input: {ARGUMENTS}"
DAMAGED_ARGUMENTS = (
    repr(json.loads(ARGUMENTS)).replace("'note'", "note").replace("]", ",]").replace("}}", "},}")
)
DAMAGED = f"Thought: {THOUGHT}\nAction: get_transactions\nAction Input: {DAMAGED_ARGUMENTS}"


def seconds(run: Callable[[], object], number: int, rounds: int = 9) -> float:
    """The best CPU time of one call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(number):
            run()
        best = min(best, (time.process_time() - start) / number)
    return best


def test_clean_reply(benchmark):  # type: ignore[no-untyped-def]
    """A clean reply of 500 characters costs at most 4 times `json.loads` of its arguments."""
    assert len(CLEAN) in range(480, 560)
    assert len(ARGUMENTS) in range(380, 450)
    parsed = benchmark(lambda: parse_reply(CLEAN, tools=TOOLS))
    assert isinstance(parsed.decision, Actions)
    ours = seconds(lambda: parse_reply(CLEAN, tools=TOOLS), 2_000)
    floor = seconds(lambda: json.loads(ARGUMENTS), 2_000)
    benchmark.extra_info["times_json_loads"] = round(ours / floor, 2)
    assert ours < 4 * floor, f"{ours / floor:.2f} times json.loads"


def test_damaged_reply(benchmark):  # type: ignore[no-untyped-def]
    """A damaged reply is parsed at least 5 times faster than json_repair mends its arguments."""
    parsed = benchmark(lambda: parse_reply(DAMAGED, tools=TOOLS))
    assert isinstance(parsed.decision, Actions)
    assert parsed.decision.actions[0].arguments == json.loads(ARGUMENTS)
    ours = seconds(lambda: parse_reply(DAMAGED, tools=TOOLS), 300)
    theirs = seconds(lambda: json_repair.loads(DAMAGED_ARGUMENTS), 60)
    benchmark.extra_info["times_faster_than_json_repair"] = round(theirs / ours, 1)
    assert theirs > 5 * ours, f"only {theirs / ours:.1f} times faster"


def test_noisy_reply(benchmark):  # type: ignore[no-untyped-def]
    """A reply that takes the long way: markup, a fence, an invented observation."""
    text = (
        f"**Thought:** {THOUGHT}\n**Action:** `get_transactions`\n**Action Input:**\n```json\n"
        f"{ARGUMENTS}\n```\nObservation: none\nFinal Answer: done"
    )
    parsed = benchmark(lambda: parse_reply(text, tools=TOOLS))
    assert isinstance(parsed.decision, Actions)


SIZES = (1_000_000, 2_000_000, 4_000_000)
HEAD = "Thought: go\nAction: add\nAction Input: "


def _fill(piece: str, size: int) -> str:
    return piece * (size // len(piece) + 1)


HOSTILE: dict[str, Callable[[int], str]] = {
    "labels without braces": lambda n: _fill("Action:\n", n),
    "rounds": lambda n: _fill("Thought: a\nAction: none\n", n),
    "weak labels": lambda n: _fill("Tool: x\nInput: y\nAnswer\n", n),
    "blanks": lambda n: "Action" + " " * n + "x",
    "blank lines": lambda n: _fill("\n", n),
    "short lines": lambda n: _fill("a\n", n),
    "open braces": lambda n: HEAD + '{"a":' * (n // 5),
    "brace lines": lambda n: _fill('{"name": "\n', n),
    "open thinks": lambda n: _fill("a <think>", n),
    "stray closes": lambda n: _fill("x</think>\n", n),
    "quotes": lambda n: HEAD + '{"a": "' + '"' * n,
    "quotes and commas": lambda n: HEAD + '{"a": "' + _fill('x" , "b', n),
    "quotes closed by curly ones": lambda n: HEAD + "{" + _fill('"a": "x”, ', n),
    "backslashes": lambda n: HEAD + "{'a': '" + _fill("\\d", n),
    "fences": lambda n: _fill("```\n", n),
    "fences of two kinds": lambda n: _fill("```\n~~~\n", n),
    "full-width": lambda n: HEAD + "｛" + _fill("“a”：１，", n),
    "numbers": lambda n: HEAD + "{'a': [" + _fill("1, ", n),
    "one number": lambda n: HEAD + '{"a": ' + "9" * n,
    "keys": lambda n: HEAD + "{" + "".join(f"'k{i}': {i}, " for i in range(n // 14)),
    "bare words": lambda n: HEAD + "{" + _fill("a: b, ", n),
    "comments": lambda n: HEAD + "{" + _fill("/* */", n),
    "html": lambda n: _fill("<!--\n", n),
    "examples": lambda n: _fill("<example>\n", n),
    "tags": lambda n: _fill("a <tool_call> ", n),
    "angle brackets": lambda n: _fill("<", n),
    "python calls": lambda n: "[" + _fill("add(a=1), ", n),
    "brackets": lambda n: "Action: add" + "(" * n,
    "zero-width": lambda n: _fill("Act\u200bion\n", n),
    "look-alikes": lambda n: _fill("\u0410ction x\n", n),
    "line separators": lambda n: _fill("Thought: a\u2028", n),
    "carriage returns": lambda n: _fill("\r \r", n),
    "half surrogates": lambda n: _fill("\ud83d", n),
    "end tokens": lambda n: "Final Answer: x" + _fill("<|im_end|>", n),
    "mixed": lambda n: _fill('Thought: x\n```json\n{"a": [1, \'b\'\n> q\n<think>y</think>\n"', n),
}


@pytest.mark.parametrize("family", HOSTILE)
def test_hostile_input_is_linear(family: str, benchmark) -> None:  # type: ignore[no-untyped-def]
    """Twice the text takes less than 2.3 times the time, up to 4 MB; 1 MB takes under 1 s."""
    build = HOSTILE[family]

    def cost(size: int) -> float:
        text = build(size)
        return seconds(lambda: parse_reply(text, tools=TOOLS, max_chars=10**8), 1, rounds=1)

    def fine(times: dict[int, float]) -> bool:
        # Below 20 ms the clock, not the parser, makes the ratio.
        ratios = (times[2 * size] < max(2.3 * times[size], 0.02) for size in SIZES[:2])
        return times[SIZES[0]] < 1.0 and all(ratios)

    times = {size: cost(size) for size in SIZES}
    for _ in range(4):  # a busy machine: the best of several rounds counts
        if fine(times):
            break
        times = {size: min(took, cost(size)) for size, took in times.items()}
    benchmark.extra_info["seconds"] = {size: round(took, 3) for size, took in times.items()}
    text = build(100_000)
    benchmark.pedantic(lambda: parse_reply(text, tools=TOOLS), rounds=1)
    assert fine(times), times
