"""The generator, its truth, the oracles, the reports and the command line of `agentrig fuzz`."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings

from harness.cli import main
from harness.fuzz import (
    FAULTS,
    OPERATORS,
    CaseError,
    Example,
    NoReplies,
    Outcome,
    Plan,
    Target,
    TargetError,
    check_case,
    examine,
    from_langchain,
    from_llamaindex,
    load_target,
    matches,
    read_cases,
    read_seeds,
    strategies,
)
from harness.fuzz.drafts import JSON
from harness.fuzz.examples import same
from harness.fuzz.loop import history_problem
from harness.fuzz.oracles import judge, not_an_outcome
from harness.fuzz.values import TOOLS, value_for
from tests.harness.serve_support import interaction

ROOT = Path(__file__).resolve().parents[2]
ERROR: Outcome = {"kind": "error"}
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 3, "maxLength": 5},
        "level": {"type": "integer", "minimum": 2, "maximum": 4},
        "at": {"$ref": "#/$defs/point"},
        "how": {"enum": ["sail", "row"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["city", "level", "at"],
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "number"}}}},
}


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find this file as a module."""
    monkeypatch.syspath_prepend(str(ROOT))


# --- examples and their truth


@pytest.mark.parametrize("code", OPERATORS)
def test_every_operator_has_examples_with_a_truth_in_both_languages(code: str) -> None:
    """What is accepted is no trap, never a tool that must not run, and recoverable if counted."""
    plan = Plan(most=1)
    languages = set()
    for number in range(60):
        example = plan.draw(Random(f"{code}{number}"), code)
        languages.add(example.language)
        assert example.labels == (code,)
        assert example.accept
        assert example.recoverable <= (example.accept[0]["kind"] != "error")
        assert example.fault in FAULTS
        for accepted in example.accept:
            assert not any(matches(trap.outcome, accepted) for trap in example.traps)
            assert accepted.get("name") not in example.never
        for trap in example.traps:
            assert trap.fault in FAULTS
            assert trap.outcome["name"] in example.never
    assert languages == {"en", "zh"}


def test_clean_replies_hold_what_they_mean() -> None:
    """A strict JSON reader finds the arguments in the text, exactly; the name stands there too."""
    plan = Plan(notations=tuple(JSON))
    calls = 0
    for number in range(600):
        example = plan.draw(Random(number), "clean")
        meant = example.accept[0]
        text = json.dumps(example.native) if example.native else example.text
        if meant["kind"] == "final":
            assert text.endswith(meant["answer"])
            continue
        calls += 1
        assert meant["name"] in (example.native or {}).values() or meant["name"] in text
        values = objects_in(example.native["arguments"] if example.native else text)
        assert any(same(each, meant["arguments"]) for each in values)
    assert calls > 400


def objects_in(text: str) -> Iterator[Any]:
    """Every sound JSON object that begins at some brace."""
    for at, mark in enumerate(text):
        if mark == "{":
            with suppress(ValueError):
                yield json.JSONDecoder().raw_decode(text, at)[0]


def test_numbers_make_the_same_examples_again() -> None:
    """A number says everything, whatever was made before it."""
    first = Plan()
    whole = [first.number(3, number) for number in range(130)]
    plan = Plan()
    assert [plan.number(3, number) for number in range(129, -1, -1)] == whole[::-1]
    assert [plan.number(4, number) for number in range(130)] != whole


def test_kinds_take_turns() -> None:
    """Each operator gets its share of a run."""
    plan = Plan()
    first = {plan.number(1, number).labels for number in range(len(plan.kinds))}
    for kind in plan.kinds:
        assert any(kind in labels for labels in first)


def test_what_a_plan_does_not_know_is_refused() -> None:
    """The message lists what there is."""
    with pytest.raises(ValueError, match=r"J99.*J20"):
        Plan(operators=("J99",))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.arguments(SCHEMA))
def test_arguments_fit_their_schema(value: Any) -> None:
    """Bounds, references, unions and enums are kept."""
    assert jsonschema_rs.is_valid(SCHEMA, value)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(strategies.examples(["J4", "M2"], tools={"mine": SCHEMA, "other": {"type": "object"}}))
def test_strategies_use_the_tools_they_are_given(example: Example) -> None:
    """Nothing is called that the user did not register."""
    assert example.accept[0]["name"] in example.tools
    assert example.tools.keys() <= {"mine", "other"}
    assert {"J4", "M2"} & set(example.labels)


@settings(max_examples=30, deadline=None)
@given(strategies.clean_examples(), strategies.noise(), strategies.intentions())
def test_strategies_give_clean_replies_noise_and_intentions(
    example: Example, text: str, intention: Outcome
) -> None:
    """Each is what its name says."""
    assert example.labels == ("clean",)
    assert isinstance(text, str)
    assert not_an_outcome(intention) is None


# --- oracles


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


# --- targets


def parse(text: str, tools: Mapping[str, Any]) -> Outcome:
    """A target that refuses everything."""
    return ERROR


def raising(text: str, tools: Mapping[str, Any]) -> Outcome:
    """A target that raises what it does not declare."""
    raise KeyError(text[:5])


declared = Target(raising, raises=(KeyError,))


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
    """Others are crashes."""
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


# --- seeds


def test_replies_are_read_out_of_cassettes(tmp_path: Path) -> None:
    """Whole answers and streams, of both APIs, with the tools of the request."""
    function = {"name": "read_tide", "parameters": {"type": "object"}}
    own, open_ = "/api/chat", "/v1/chat/completions"
    bodies = [
        (own, {"tools": [{"function": function}]}, '{"message": {"content": "low water"}}'),
        (own, {}, '{"message": {"content": "Action: f"}}\n'
                  '{"message": {"content": "\\n最终答案"}}\n'),
        (open_, {}, 'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n'),
        (open_, {}, '{"choices": [{"message": {"content": "b"}}]}'),
        (own, {}, "no JSON"),
    ]  # fmt: skip
    interactions = [interaction(asked, said, path=path) for path, asked, said in bodies]
    (tmp_path / "one.yaml").write_text(
        yaml.safe_dump({"version": 1, "interactions": interactions}), encoding="utf-8"
    )
    seeds = {each.text: each.tools for each in read_seeds(tmp_path)}
    assert set(seeds) == {"low water", "Action: f\n最终答案", "a", "b"}
    assert set(seeds["low water"]) == {"read_tide"}
    assert set(seeds["Action: f\n最终答案"]) == {"f"}
    plan = Plan(seeds=read_seeds(tmp_path))
    assert "real" in plan.kinds
    assert plan.draw(Random(1), "real").text in seeds


def test_a_directory_without_replies_is_refused(tmp_path: Path) -> None:
    """The message names it."""
    with pytest.raises(NoReplies, match="cassettes"):
        read_seeds(tmp_path)


# --- cases and the command line


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output."""
    result = CliRunner().invoke(main, ["fuzz", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_findings_are_saved_as_cases_and_as_a_test(tmp_path: Path) -> None:
    """The file of tests fails as long as the target does, and names it."""
    spec = "tests.harness.test_fuzz:raising"
    code, output = run(
        "parser", "--target", spec, "--only", "J4", "--only", "M1", "--examples", "40",
        "--workers", "1", "--save", str(tmp_path), "--json",
    )  # fmt: skip
    assert code == 1
    report = json.loads(output)
    assert report["findings"] == {"crash": 40}
    assert report["rows"]["J4"]["crash"] > 10
    cases = read_cases(tmp_path / "findings.jsonl")
    assert cases
    assert "KeyError" in cases[0]["detail"]
    module = runpy.run_path(str(tmp_path / "test_findings.py"))
    assert spec in module["__doc__"]
    with pytest.raises(AssertionError):
        module["test_reply"](cases[0])
    assert check_case(load_target("tests.harness.test_fuzz:parse"), cases[0]) == []


def test_what_is_not_saved_is_said(tmp_path: Path) -> None:
    """Of many findings the smallest are kept, and how many that are."""
    spec = "tests.harness.test_fuzz:raising"
    _, output = run(
        "parser", "--target", spec, "--only", "M1", "--examples", "20", "--workers", "1",
        "--save", str(tmp_path),
    )  # fmt: skip
    kept = len(read_cases(tmp_path / "findings.jsonl"))
    assert kept < 20
    assert f"saved are {kept} of 20: the smallest of each kind and operator" in output


def test_a_run_is_the_same_with_one_worker_and_with_two(tmp_path: Path) -> None:
    """Counts and smallest findings depend on the seed alone."""
    spec = "tests.harness.test_fuzz_planted:last_action"
    given_ = [
        "parser",
        "--target",
        spec,
        "--only",
        "M2",
        "--only",
        "M1",
        "--examples",
        "250",
        "--json",
    ]
    one, two = (run(*given_, "--workers", workers) for workers in "12")
    assert one == two
    assert json.loads(one[1])["findings"]["later_action"] > 10


def test_the_table_shows_each_operator_and_language() -> None:
    """And nothing found is exit code 0."""
    code, output = run("parser", "--target", "tests.harness.test_fuzz:parse", "--only", "J9",
                       "--examples", "20", "--workers", "1")  # fmt: skip
    assert code == 0
    assert "J9" in output
    assert "language zh" in output
    assert "No findings." in output


def test_cases_are_scored(tmp_path: Path) -> None:
    """A refusal counts only where the case accepts one."""
    file = tmp_path / "cases.jsonl"
    wanted = {"kind": "action", "name": "f", "arguments": {}}
    lines = [
        {"id": "a", "text": "Action: f", "tools": ["f"], "expect": ERROR},
        {
            "id": "b",
            "text": "x",
            "tools": [{"name": "f"}],
            "expect": wanted,
            "expect_any": [wanted, ERROR],
        },
        {"id": "c", "text": "y", "tools": {"f": {}}, "expect": wanted},
    ]
    file.write_text("\n".join(json.dumps(each) for each in lines), encoding="utf-8")
    code, output = run("cases", str(file), "--target", "tests.harness.test_fuzz:parse", "--json",
                       "--workers", "1")  # fmt: skip
    report = json.loads(output)
    assert code == 1
    assert report["findings"] == {"refused": 1}
    assert report["smallest"][0]["id"] == "c"
    assert (
        report["rows"]["case"] | {"seen": 3, "right": 2, "preferred": 1} == report["rows"]["case"]
    )


@pytest.mark.parametrize("line", ["{", "[]", '{"text": "x"}'])
def test_a_line_that_is_no_case_is_refused(line: str, tmp_path: Path) -> None:
    """With the number of the line; the exit code says wrong usage."""
    file = tmp_path / "cases.jsonl"
    file.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(CaseError, match="line 2"):
        read_cases(file)
    assert run("cases", str(file))[0] == 2


@pytest.mark.parametrize("command", ["parser", "args", "loop", "chunks"])
def test_wrong_targets_are_wrong_usage(command: str) -> None:
    """Not a failed check."""
    assert run(command, "--target", "no.such:thing")[0] == 2


# --- the other borders


@pytest.mark.parametrize("command", ["args", "chunks", "loop"])
def test_the_borders_of_the_product_hold(command: str) -> None:
    """A short run each; longer ones are for the command line."""
    code, output = run(command, "--examples", "150", "--workers", "1")
    assert code == 0, output


def guessing(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as they come, `maybe` read as true, numbers as they please."""
    arguments.pop("unheard_of", None)
    return {"arguments": {k: True if v == "maybe" else v for k, v in arguments.items()}}


def test_a_border_that_guesses_arguments_is_found() -> None:
    """By what it let pass, and by what it did to its input."""
    code, output = run("args", "--target", "tests.harness.test_fuzz:guessing", "--examples", "400",
                       "--workers", "1", "--json")  # fmt: skip
    assert code == 1
    assert {"invalid_passed", "guessed", "input_changed"} <= json.loads(output)["findings"].keys()


def losing(text: str, chunk_size: int, overlap: int) -> list[dict[str, Any]]:
    """Slices, without the last one."""
    starts = range(0, max(0, len(text) - chunk_size), chunk_size)
    return [
        {"text": text[at : at + chunk_size], "start": at, "end": at + chunk_size} for at in starts
    ]


def test_a_chunker_that_loses_text_is_found() -> None:
    """The smallest text that shows it is one character."""
    code, output = run("chunks", "--target", "tests.harness.test_fuzz:losing", "--examples", "40",
                       "--workers", "1", "--json")  # fmt: skip
    report = json.loads(output)
    assert code == 1
    assert report["findings"].keys() == {"text_lost"}
    assert min(len(each["input"]["text"]) for each in report["smallest"]) == 1


def endless(model: Any, tools: Any, limits: Any) -> Any:
    """An agent that takes three steps more than it may."""
    from dataclasses import replace

    from agent_core.agent import Agent

    return Agent(model, tools, limits=replace(limits, max_steps=limits.max_steps + 3))


def test_a_loop_that_runs_on_is_found() -> None:
    """More model calls than allowed are a finding."""
    code, output = run("loop", "--target", "tests.harness.test_fuzz:endless", "--examples", "60",
                       "--workers", "1", "--json")  # fmt: skip
    assert code == 1
    assert json.loads(output)["findings"].keys() == {"too_many_calls"}


def test_values_of_the_invented_tools_fit_their_schemas() -> None:
    """Their names and keys are Chinese as well as English."""
    for language, tools in TOOLS.items():
        for schema in tools.values():
            for number in range(20):
                value = value_for(Random(number), schema, language=language)
                assert jsonschema_rs.is_valid(schema, value)


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
