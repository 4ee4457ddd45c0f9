"""What differs in two texts, and what of it is only times and ids, however long they are."""

from __future__ import annotations

import re
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_core.agent import Agent
from harness.demo.agents import assistant
from harness.sessions.replay import replay
from harness.sessions.volatile import changed_lines, changed_texts, hidden, mask_of
from tests.harness.sessions_support import ollama_reply, record_scripted

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


MORNING = datetime(2026, 3, 5, 7, 4, 9, 416822, tzinfo=UTC)
LATER = MORNING + timedelta(days=270, hours=16, minutes=30, seconds=20)


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%H:%M:%S", "%I:%M:%S %p",
        "%A, %d %B %Y %H:%M:%S", "%a, %d %b %Y %H:%M:%S GMT", "%d/%b/%Y:%H:%M:%S +0000",
        "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y, %I:%M %p", "%d.%m.%Y %H:%M:%S", "%Y/%m/%d %H:%M",
        "%B %d, %Y at %I:%M %p", "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S UTC %Y",
        "%H:%M:%S %d/%m/%Y", "%I:%M %p on %B %d, %Y", "%Y年%m月%d日 %H:%M:%S", "%Y年%m月%d日%H时%M分",
        "%c", "%Y-%m-%d %I:%M %p", "%Y-%m-%d at %H:%M", "%Y-%m-%d, %H:%M:%S", "%m/%d/%y %H:%M:%S",
        "%Y-%m-%d 星期一 %H:%M:%S", "%Y/%m/%d 下午 %I:%M", "%Y年%m月%d日（周一）%H:%M",
        "%Y年%m月%d日 星期一 下午%I:%M", "%Y 年 %m 月 %d 日，%H点%M分%S秒",
    ],
)  # fmt: skip
def test_a_time_in_any_usual_spelling(form: str) -> None:
    """In prose and in the text of a JSON value; the mask that is told hides it."""
    for frame in ("Now: {}", "It is {}, be brief.", '{{"note": "a\\n{}"}}', "（现在是{}）"):
        before, after = (frame.format(each.strftime(form)) for each in (MORNING, LATER))
        mask = mask_of(before, after)
        assert mask is not None, (before, after)
        assert re.sub(mask, "", before) == re.sub(mask, "", after)
        assert len(mask) < 120
        assert mask_of(before, f"{after}!") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Now: 1796081648.416822", "Now: 1796082000.1"),
        ("t=1796081648.416822", "t=1796082000.123"),
        ("timestamp: 1796081648416", "timestamp: 1796082000123"),
        ('{"created_at": 1796081648}', '{"created_at": 1796082000}'),
        ("Unix time is 1796081648.", "Unix time is 1796082000."),
        ("时间戳：1796081648", "时间戳：1796082000"),
        (f"id {uuid.UUID(int=1, version=4).hex}", f"id {uuid.UUID(int=2**127, version=4).hex}"),
        (f"id {uuid.UUID(int=1, version=4)}", f"id {uuid.UUID(int=2**127, version=4)}"),
        ("<f at 0x7f8e4ecc59d0>", "<f at 0x7f8e4edd0000>"),
        ("星期一，2026年11月30日 23:34:31", "星期一，2026年12月7日 9:04:31"),
        ("On Monday, 30 November 2026 23:34:29", "On Friday, 4 December 2026 7:00:01"),
        ("Mon Nov 30 23:34:29 2026", "Tue Dec  1 23:34:29 2026"),
        ("Today is Monday, 30 November 2026.", "Today is Tuesday, 1 December 2026."),
        ("Today is 30.11.2026", "Today is 1.12.2026"),
        ("Today is 11/30/26", "Today is 12/1/26"),
        ("Today's date: 2026-11-30", "Today's date: 2026-12-01"),
        ("It is November 30, 2026, be brief.", "It is May 3, 2027, be brief."),
        ("今天是2026年11月30日，星期一。", "今天是2026年12月1日，星期二。"),
        ("今天是星期一，2026年11月30日。", "今天是星期二，2026年12月1日。"),
        ("当前日期：2026-11-30", "当前日期：2026-12-01"),
    ],
)
def test_numbers_and_ids_that_are_clearly_such(before: str, after: str) -> None:
    """By their form, or by the word in front of them."""
    assert mask_of(before, after) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The weather on 2026-11-30?", "The weather on 2026-12-01?"),
        ("on 30 November 2026", "on 1 December 2026"),
        ("2026年11月30日的天气", "2026年12月1日的天气"),
        ("11/30/2026", "12/01/2026"),
        ("Wake me at 7:30", "Wake me at 8:30"),
        ("Today is 2026-11-30", "Today's date is 2026-12-01"),
        ("Today is 30 November 2026", "Today is 2026-12-01"),
        ("the weather today, 2026-11-30", "the weather then, 2026-12-01"),
        ("Due date: 2026-11-30", "Due date: 2026-12-01"),
        ("截止日期：2026年11月30日", "截止日期：2026年12月1日"),
        ("order 1796081648", "order 1796082000"),
        ("call 1555010999", "call 1555010888"),
        ("order 1796081648416", "order 1796082000123"),
        ("timestamp: 1796081648", "timestamp: 1796081648416"),
        ("time 1796081648", "now 1796081648"),
        ("digest d41d8cd98f00b204e9800998ecf8427e", "digest 9e107d9d372bb6826bd81d3542a419d6"),
        ("colour 0xff00ff", "colour 0x00ff00"),
        ("mask 0xDEADBEEF", "mask 0xCAFEBABE"),
        ("00:11:22:33:44:55", "00:11:22:33:44:56"),
        ("at 2026-11-30 12:00:00", "at 30 November 2026 12:00:00"),
        ("at 11/30/2026 11:35 PM", "at 11/30/2026 23:35"),
        ("at 23:34:29", "at noon"),
        ("at 23:34:29", "at 0x7f8e4ecc59d0"),
        ("Berlin 23:34:29", "Munich 23:34:30"),
        ("v1.2:30", "v1.2:31"),
    ],
)
def test_what_may_be_meant_is_never_hidden(before: str, after: str) -> None:
    """A date without a time of day, a number that only might be a time, another spelling."""
    assert mask_of(before, after) is None


def test_long_texts_of_digits_and_capitals_take_linear_time() -> None:
    """What only begins like a time is given up soon; a guard against hanging, with much slack."""
    began = time.monotonic()
    for piece in (
        "1:",
        "12:34 ",
        "Aaa ",
        "Aaa 1 ",
        "1/",
        "2026年",
        "time: ",
        "0x",
        "a1",
        "t=1",
        "今天是",
        "It is A",
        "2026-1-",
        "2026 ",
    ):
        hidden(piece * (200_000 // len(piece)))
    assert time.monotonic() - began < 30


def test_two_masks_are_suggested_where_two_are_needed(tmp_path: Path) -> None:
    """The expression hides all that differs, a time and an id, and nothing that does not."""
    path = tmp_path / "s.yaml"
    stamps = iter([
        ("2026-11-30T12:00:00Z", "6f1c1ad4-0e44-4b39-9a30-111111111111"),
        ("2026-12-01T08:30:00Z", "6f1c1ad4-0e44-4b39-9a30-222222222222"),
    ])

    def stamped(model: Any, **how: Any) -> Agent:
        moment, identity = next(stamps)
        agent = assistant(model, **how)
        return agent.replace(instructions=f"It is {moment}, in run {identity}, of call_abc123.")

    record_scripted(path, ollama_reply("Final Answer: It is 5."), factory=stamped)
    (cause,) = replay(path, factory=stamped).drift.causes
    assert cause.severity == "volatile"
    assert cause.mask is not None
    assert cause.before is not None
    assert cause.after is not None
    assert re.sub(cause.mask, "", cause.before) == re.sub(cause.mask, "", cause.after)
    assert "call_" not in cause.mask
