"""What differs in two texts, and what of it is only times and ids, however long they are."""

from __future__ import annotations

import re

from harness.sessions.volatile import changed_lines, changed_texts, mask_of

NOON, ONE = "at 2026-11-30T12:00:00Z", "at 2026-11-30T13:00:00Z"


def test_times_are_told_apart_from_what_else_differs() -> None:
    """As a pair of their own; the mask hides them and nothing more."""
    pairs = list(changed_lines(f"a\n{NOON}\nb", f"a\n{ONE}\nc"))
    assert pairs == [("b", "c"), (NOON, ONE)]
    assert mask_of(NOON, f"{ONE}!") is None
    assert re.fullmatch(str(mask_of(NOON, ONE)), NOON.removeprefix("at "))
    calls = [f"{NOON} call_{end}" for end in ("abcdef1", "abcdef2")]
    mask = mask_of(*calls)
    assert mask is not None
    assert re.findall(mask, calls[0]) == ["call_abcdef1"]
    assert list(changed_texts("a\nb", "a\nc")) == [("a\nb", "a\nc")]
    assert list(changed_texts(f"{NOON}\nb", f"{ONE}\nc"))[1:] == [(NOON, ONE)]


def test_many_equal_lines_take_no_product_of_their_numbers() -> None:
    """Between what both begin and end with, all has changed; times before it are still told."""
    old = [NOON, *["same"] * 30_000, "x", *["same"] * 30_000, "end"]
    new = [ONE, "y", *["same"] * 30_000, "z", *["same"] * 30_000, "w", "end"]
    (changed, times) = changed_lines("\n".join(old), "\n".join(new))
    assert times == (NOON, ONE)
    assert changed[0].count("same") == 60_000
    assert changed[1].startswith("y\nsame")
    assert changed[1].endswith("same\nw")
