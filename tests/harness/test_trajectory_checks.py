"""Checks of a trajectory name the first thing that is not as it should be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_core.messages import RunResult
from harness.sessions.checks import Call, TrajectoryMismatch, assert_trajectory, containing
from harness.sessions.record import Recorded
from tests.harness.sessions_support import ollama_reply, record_scripted, three_steps

WEATHER = Call("get_weather", {"city": "Lisbon"})
SUM = Call("calculator", {"expression": "2 + 3"})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Weather, a sum, the answer."""
    return three_steps(tmp_path_factory.mktemp("recorded") / "three.yaml")


@pytest.fixture(params=["result", "path", "file"])
def subject(request: pytest.FixtureRequest, recorded: Recorded) -> RunResult | Path | Any:
    """The run itself, or its recording."""
    return {"result": recorded.results[0], "path": recorded.path, "file": recorded.file}[
        request.param
    ]


@pytest.mark.parametrize(
    ("calls", "order"),
    [
        ([WEATHER, SUM], "exact"),
        ([WEATHER, SUM], "in_order"),
        ([SUM], "in_order"),
        ([SUM, WEATHER], "any_order"),
        ([SUM], "subset"),
        ([], "subset"),
        ([Call("get_weather"), Call("calculator", lambda given: len(given) == 1)], "exact"),
        ([Call("get_weather", {"city": str.istitle}), SUM], "exact"),
    ],
)
def test_what_fits(subject: Any, calls: list[Call], order: Any) -> None:
    """Each order lets pass what it says, for a run and for its recording."""
    assert_trajectory(subject, calls=calls, order=order)


@pytest.mark.parametrize("order", ["in order", "any order", "strict", "EXACT", "", None])
def test_an_unknown_order_is_no_check(subject: Any, order: Any) -> None:
    """It would be taken for the mildest, and be green."""
    with pytest.raises(ValueError, match="exact, in_order, any_order, subset, got"):
        assert_trajectory(subject, calls=[], order=order)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"calls": [SUM, WEATHER]}, "call 1: expected calculator("),
        ({"calls": [WEATHER]}, "expected 1 call, got 2: calculator("),
        ({"calls": [WEATHER, SUM, SUM]}, "call 3: expected calculator"),
        ({"calls": [Call("get_weather", {"city": "Oslo"}), SUM]},
         "argument 'city': expected 'Oslo', got 'Lisbon'"),
        ({"calls": [Call("get_weather", {"city": str.isupper}), SUM]}, "a value its matcher accepts"),
        ({"calls": [Call("get_weather", {}), SUM]}, "argument 'city' was not expected"),
        ({"calls": [Call("get_weather", {"city": "Lisbon", "unit": "c"}), SUM]},
         "argument 'unit' is missing"),
        ({"calls": [SUM, WEATHER], "order": "in_order"},
         'expected get_weather({"city":"Lisbon"}), got no such call after calculator('),
        ({"calls": [SUM], "order": "any_order"}, "get_weather({\"city\":\"Lisbon\"}) is one too many"),
        ({"calls": [Call("send_mail")], "order": "subset"}, "expected send_mail(…), got no such call"),
        ({"answer": "5"}, "expected the answer '5', got 'It is fine"),
        ({"answer": containing("rain")},
         "expected the answer to be a text containing 'rain', got 'It is fine"),
        ({"answer": str.isupper}, "to be a value its matcher accepts, got 'It is fine"),
        ({"answer": lambda answer: answer["text"]}, "(its matcher raised TypeError("),
        ({"calls": [Call("get_weather", {"city": containing("burg")}), SUM]},
         "argument 'city': expected a text containing 'burg', got 'Lisbon'"),
        ({"calls": [Call("get_weather", lambda given: given["x"] == 2), SUM]},
         """its matcher refuses {"city":"Lisbon"} (its matcher raised KeyError('x'))"""),
        ({"calls": [Call("get_weather", {"city": lambda city: city > 2})], "order": "subset"},
         "got 'Lisbon' (its matcher raised TypeError("),
        ({"max_steps": 2}, "expected at most 2 steps, got 3"),
        ({"max_tokens": 200}, "expected at most 200 tokens, got 297"),
        ({"max_seconds": 1.0}, "did not say how long it took"),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(subject: Any, how: Any, words: str) -> None:
    """In words, with the calls that were made."""
    with pytest.raises(TrajectoryMismatch) as failed:
        assert_trajectory(subject, **how)
    assert words in str(failed.value)
    assert 'calls were: get_weather({"city":"Lisbon"}), calculator(' in str(failed.value)


def test_budgets_and_answers_that_hold(subject: Any) -> None:
    """Nothing is said when all is well."""
    assert_trajectory(subject, answer=containing("5", "fine"), max_steps=3, max_tokens=297)


def test_matchers_share_out_the_calls(recorded: Recorded) -> None:
    """A call that fits several lets another have the only one it fits."""
    anything = Call("get_weather")
    with pytest.raises(TrajectoryMismatch, match="expected get_weather"):
        assert_trajectory(recorded.results[0], calls=[anything, WEATHER], order="subset")
    loose = Call("calculator", lambda given: True)
    assert_trajectory(recorded.results[0], calls=[loose, WEATHER], order="any_order")


def test_what_a_model_called_steers_no_terminal_and_no_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message stands in the log of whoever runs the test."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    answer = "\x1b[2J##[add-mask]x"
    path = record_scripted(tmp_path / "s.yaml", ollama_reply(f"Final Answer: {answer}")).path
    with pytest.raises(TrajectoryMismatch) as failed:
        assert_trajectory(path, answer=containing("5"))
    assert "\x1b" not in str(failed.value)
    assert "# #[add-mask]x" in str(failed.value)
