"""JSON that differs is shown by its places, not as two long lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sessions.exchange import canonical_json
from harness.sessions.paths import changed_paths

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(st.text("ab", min_size=1, max_size=2), each, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        ({"a": {"default": "EUR"}, "b": 1}, {"a": {"default": "USD"}, "b": 1.0},
         'a.default: "EUR"', 'a.default: "USD"'),
        ({"enum": ["EUR"]}, {"enum": ["EUR", "GBP"]}, None, 'enum[1]: "GBP"'),
        ({"required": ["a", "b"]}, {}, 'required: ["a","b"]', None),
        ({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, 'enum: ["a","b"]', 'enum: ["b","a"]'),
        ({"anyOf": [{"type": "a"}, {}]}, {"anyOf": [{"type": "b"}, {}]},
         'anyOf[0].type: "a"', 'anyOf[0].type: "b"'),
        ({"x": 1, "y": True}, {"x": "1", "y": 1}, 'x: 1\ny: true', 'x: "1"\ny: 1'),
        (["北京"], {"城市": 1}, '["北京"]', '{"城市":1}'),
    ],
)  # fmt: skip
def test_places_that_differ(old: Any, new: Any, before: Any, after: Any) -> None:
    """What is on one side only, what is on both, in its order and with its type."""
    assert changed_paths(old, new) == (before, after)


@given(VALUES, VALUES)
def test_what_is_equal_has_no_places_and_what_is_not_has_some(old: Any, new: Any) -> None:
    """No difference is lost, and none is made up; both sides are never the same."""
    before, after = changed_paths(old, new)
    if canonical_json(old) == canonical_json(new):
        assert (before, after) == (None, None)
    else:
        assert before != after
