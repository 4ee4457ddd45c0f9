"""What counts as a finding, and what may be a target."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from harness.fuzz import (
    Example,
    Outcome,
    Plan,
    Target,
    TargetError,
    examine,
    from_langchain,
    from_llamaindex,
    load_target,
)
from harness.fuzz.examples import same
from harness.fuzz.loop import history_problem
from harness.fuzz.oracles import judge, not_an_outcome
from tests.harness.fuzz_targets import ERROR, declared, raising


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (None, "bad_outcome"),
        ({"kind": "maybe"}, "bad_outcome"),
        ({"kind": "action", "name": "f"}, "bad_outcome"),
        ({"kind": "final", "answer": None}, "bad_outcome"),
        ({"kind": "action", "name": "f", "arguments": {"a": float("nan")}}, "not_json"),
        ({"kind": "action", "name": "f", "arguments": {"a": "\ud83d"}}, "not_json"),
        ({"kind": "action", "name": "f", "arguments": {"a": {1}}}, "not_json"),
    ],
)
def test_a_result_must_be_an_outcome_that_json_can_hold(outcome: Any, kind: str) -> None:
    """Anything else is a finding of its own."""
    fault = not_an_outcome(outcome)
    assert fault is not None
    assert fault.kind == kind


def test_true_is_not_one() -> None:
    """Types are exact, whatever Python calls equal; 1 and 1.0 are the same number."""
    assert not same({"a": True}, {"a": 1})
    assert not same([0], [False])
    assert same({"a": 1.0, "b": [2]}, {"b": [2], "a": 1})


def test_refusing_a_clean_reply_is_a_finding() -> None:
    """A parser that refuses everything does not pass."""
    example = Plan(finish_reasons=False).draw(Random(1), "clean")
    column, fault = judge(example, ERROR)
    assert column == "refused"
    assert fault is not None
    assert fault.kind == "round_trip"


def _split(pieces: Any, tools: Mapping[str, Any]) -> Outcome:
    return {"kind": "final", "answer": pieces[-1]}


def test_pieces_that_give_another_result_are_a_finding() -> None:
    """The whole and its pieces are read alike, or it is reported."""
    target = Target(lambda text, tools: {"kind": "final", "answer": text}, scan=_split)
    example = Example("Final Answer: a b c", {}, accept=({"kind": "final", "answer": "x"},))
    kinds = {each.kind for each in examine(target, example).faults}
    assert "split_differs" in kinds


def _believes(text: str, tools: Mapping[str, Any]) -> Outcome:
    return {"kind": "action", "name": "f", "arguments": {"n": text.count("Final Answer")}}


def test_text_after_an_observation_label_must_not_matter() -> None:
    """Two replies that differ only there are read alike, or it is reported."""
    found = set()
    for number in range(8):
        example = Example(
            f"Action: f{number}", {"f": {}}, accept=(_believes("", {}),), open_ended=True
        )
        found |= {each.kind for each in examine(Target(_believes), example).faults}
    assert "observation_matters" in found


@pytest.mark.parametrize(
    "spec",
    ["nothing", "no.such.module:parse", "harness.fuzz:no_such_name", "harness.fuzz:FAULTS",
     "harness.fuzz:read_cases"],
)  # fmt: skip
def test_a_target_that_is_none_is_refused(spec: str) -> None:
    """The message quotes what was asked for."""
    with pytest.raises(TargetError, match=spec):
        load_target(spec)


def test_declared_exceptions_mean_refused() -> None:
    """What a target declares to raise is a refusal; any other exception is a crash."""
    example = Plan().draw(Random(1), "J4")
    assert examine(declared, example).column == "refused"
    assert [each.kind for each in examine(Target(raising), example).faults] == ["crash"]


def test_langchain_parsers_become_targets() -> None:
    """Steps and finishes are outcomes; what its loader cannot read is refused."""

    class Parser:
        def parse(self, text: str) -> Any:
            if text == "end":
                return SimpleNamespace(return_values={"output": "done"})
            return SimpleNamespace(tool="f", tool_input=text)

    target = from_langchain(Parser())
    assert target.parse("end", {}) == {"kind": "final", "answer": "done"}
    assert target.parse('{"a": 1}', {}) == {"kind": "action", "name": "f", "arguments": {"a": 1}}
    assert target.parse("[1]", {}) == ERROR
    assert target.read(Example('{"a', {})) == ERROR


def test_llamaindex_parsers_become_targets() -> None:
    """Action and response steps are outcomes."""

    class Parser:
        def parse(self, text: str) -> Any:
            if text == "end":
                return SimpleNamespace(response="done")
            return SimpleNamespace(action="f", action_input={"a": 1})

    target = from_llamaindex(Parser())
    assert target.parse("end", {}) == {"kind": "final", "answer": "done"}
    assert target.parse("go", {}) == {"kind": "action", "name": "f", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("name", "package"),
    [("langchain_react", "langchain_core"), ("llamaindex_react", "llama_index")],
)
def test_an_adapter_says_what_is_missing(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are no dependencies."""
    for module in [package, *(each for each in sys.modules if each.startswith(f"{package}."))]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TargetError, match="installed"):
        load_target(f"harness.fuzz.targets:{name}")


def test_a_history_that_a_server_would_refuse_is_described() -> None:
    """The place and what is wrong there."""
    from agent_core.messages import Message

    start = [Message("system", "s"), Message("user", "u")]
    assert history_problem(start, native=False) == ""
    doubled = [*start, Message("assistant", "a"), Message("assistant", "b")]
    assert "twice" in history_problem(doubled, native=False)
    assert "no call" in history_problem(
        [*start, Message("tool", "x", tool_call_id="c")], native=True
    )
