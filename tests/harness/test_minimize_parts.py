"""The parts of minimize: delta debugging, the merge of three, a recording by steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.minimize import minimize
from harness.minimize.ddmin import ddmin
from harness.minimize.layout import layout_of
from harness.minimize.merge import carried_over, merge
from harness.sessions.cassette import load_session
from harness.sessions.exchange import Request
from tests.harness.replay_support import assistant, with_notes
from tests.harness.sessions_support import ANSWER, SUM, WEATHER, ollama_reply, record_scripted

CASSETTES = Path(__file__).parents[2] / "cassettes"

messages = st.lists(st.sampled_from("abcdefgh").map(lambda each: {"content": each * 3}), max_size=8)


@given(st.sets(st.integers(0, 19), max_size=4))
def test_ddmin_finds_exactly_what_is_needed(needed: set[int]) -> None:
    """All that has to be there together is left, in its order, and nothing else."""
    tried: list[list[int]] = []

    def fails(kept: list[int]) -> bool:
        tried.append(kept)
        return needed <= set(kept)

    assert ddmin(range(20), fails) == sorted(needed)
    assert len(tried) < 200


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 30))
def test_ddmin_is_minimal(items: list[int], least: int) -> None:
    """No single element can be taken out of what is left; equal elements are no trouble."""
    if sum(items) < least:
        return
    left = ddmin(items, lambda kept: sum(kept) >= least)
    assert sum(left) >= least
    assert all(sum(left) - each < least for each in left)


@given(messages, messages, messages)
def test_merge_of_anything(before: Any, after: Any, value: Any) -> None:
    """What nobody changed stays, what one side changed is taken."""
    assert merge(before, after, before) == after
    assert merge(before, before, value) == value
    merge(before, after, value)


def test_merge_goes_as_deep_as_it_must() -> None:
    """Two changes of one prompt: a step is gone, and another message was recorded otherwise."""
    system = {"role": "system", "content": "Tools:\n- sum: adds\n- weather: looks\n\nBe brief."}
    old = {"role": "system", "content": "Tools:\n- sum: adds up\n- weather: looks\n\nBe brief."}
    less = {"role": "system", "content": "Tools:\n- sum: adds\n\nBe brief."}
    question, first, second = ({"role": "user", "content": each} for each in ("q", "one", "two"))
    other = {"role": "user", "content": "two, as it was"}
    merged = merge(
        {"messages": [system, question, first, second], "model": "m"},
        {"messages": [old, question, first, other], "model": "m", "seed": 1},
        {"messages": [less, question, second], "model": "m"},
    )
    content = "Tools:\n- sum: adds up\n\nBe brief."
    system = {"role": "system", "content": content}
    assert merged == {"messages": [system, question, other], "model": "m", "seed": 1}


def test_what_was_put_in_stays_where_it_was_put() -> None:
    """Behind the element it followed, at the beginning, and not where that element is gone."""
    assert merge(["a", "b"], ["a", "x", "b"], ["a", "b", "c"]) == ["a", "x", "b", "c"]
    assert merge(["a", "b"], ["x", "a", "b"], ["a", "b", "c"]) == ["x", "a", "b", "c"]
    assert merge(["a", "b"], ["a", "x", "b"], ["b"]) == ["b"]


def test_merged_request_says_its_length() -> None:
    """A body that was merged has another length than either."""

    def request(content: str) -> Request:
        body = json.dumps({"messages": [{"content": content}]}).encode()
        return Request("POST", "http://h/api/chat", {"Content-Length": [str(len(body))]}, body)

    merged = carried_over(request("a b c"), request("a bb c"), request("a b"))
    assert json.loads(merged.body) == {"messages": [{"content": "a bb"}]}
    assert merged.headers == {"Content-Length": [str(len(merged.body))]}


def test_a_search_that_nobody_makes_any_more_stays_on_the_tape(tmp_path: Path) -> None:
    """An agent lost its retriever: the smaller session still fails for the missing search."""
    path = tmp_path / "s.yaml"
    record_scripted(path, *map(ollama_reply, (WEATHER, SUM, ANSWER)), factory=with_notes())
    result = minimize(load_session(path), assistant, seconds=300)
    assert result.steps == (3, 0)
    assert result.file.session is not None
    assert len(result.file.session.searches) == 1
    assert "call of `search`" in result.failure.causes


@pytest.mark.parametrize("path", sorted(CASSETTES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recording_comes_apart(path: Path) -> None:
    """Each request belongs to one step, to the end of a turn, or to none; each call to a step."""
    file = load_session(path)
    layout = layout_of(file)
    assert file.session is not None
    if layout is None:  # the model was asked for summaries, too
        assert file.session.agent.factory.endswith(":summarising")
        return
    takes = [take for step in layout.steps for take in step.takes]
    takes += [take for ending in layout.endings for take in ending]
    outside = {number for number, take in enumerate(file.takes) if take.within is None}
    assert sorted([*takes, *layout.others]) == sorted(outside)
    calls = [call for step in layout.steps for call in step.calls]
    assert calls == list(range(len(file.session.tape)))
