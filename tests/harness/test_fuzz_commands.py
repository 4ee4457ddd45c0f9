"""`agentrig fuzz`: seeds, runs, saved findings, scored cases and the other borders."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from random import Random

import pytest
import yaml
from click.testing import CliRunner

from harness.cli import main
from harness.fuzz import CaseError, NoReplies, Plan, check_case, load_target, read_cases, read_seeds
from tests.harness.fuzz_targets import ERROR
from tests.harness.serve_support import interaction

pytestmark = pytest.mark.usefixtures("importable_tests")


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
    """The message names the directory."""
    with pytest.raises(NoReplies, match="cassettes"):
        read_seeds(tmp_path)


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output."""
    result = CliRunner().invoke(main, ["fuzz", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_findings_are_saved_as_cases_and_as_a_test(tmp_path: Path) -> None:
    """The file of tests fails as long as the target does, and names it."""
    spec = "tests.harness.fuzz_targets:raising"
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
    assert check_case(load_target("tests.harness.fuzz_targets:parse"), cases[0]) == []


def test_a_clean_reply_that_was_refused_is_found_again(tmp_path: Path) -> None:
    """Of every other reply a refusal is right."""
    code, _ = run(
        "parser", "--target", "tests.harness.fuzz_targets:parse", "--examples", "200",
        "--workers", "1", "--save", str(tmp_path),
    )  # fmt: skip
    assert code == 1
    cases = read_cases(tmp_path / "findings.jsonl")
    assert {each["kind"] for each in cases} == {"round_trip"}
    for target, kinds in (("parse", ["round_trip"]), ("raising", ["crash"])):
        faults = check_case(load_target(f"tests.harness.fuzz_targets:{target}"), cases[0])
        assert [each.kind for each in faults] == kinds
    assert check_case(load_target("harness.fuzz.targets:ours"), cases[0]) == []


def test_a_target_that_depends_on_what_it_read_before_is_reported_all_the_same() -> None:
    """Its findings cannot be made smaller."""
    code, output = run("parser", "--target", "tests.harness.fuzz_targets:forgetful", "--examples",
                       "60", "--workers", "1")  # fmt: skip
    assert code == 1
    assert "crash ×" in output


def test_what_is_not_saved_is_said(tmp_path: Path) -> None:
    """Of many findings the smallest are kept, and how many that are."""
    spec = "tests.harness.fuzz_targets:raising"
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
    code, output = run("parser", "--target", "tests.harness.fuzz_targets:parse", "--only", "J9",
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
    code, output = run("cases", str(file), "--target", "tests.harness.fuzz_targets:parse", "--json",
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
    """The exit code says wrong usage, not a failed check."""
    assert run(command, "--target", "no.such:thing")[0] == 2


@pytest.mark.parametrize("command", ["args", "chunks", "loop"])
def test_the_borders_of_the_product_hold(command: str) -> None:
    """A short run each; longer ones are for the command line."""
    code, output = run(command, "--examples", "150", "--workers", "1")
    assert code == 0, output


def test_a_border_that_guesses_arguments_is_found() -> None:
    """By what it let pass, and by what it did to its input."""
    code, output = run("args", "--target", "tests.harness.fuzz_targets:guessing", "--examples", "400",
                       "--workers", "1", "--json")  # fmt: skip
    assert code == 1
    assert {"invalid_passed", "guessed", "input_changed"} <= json.loads(output)["findings"].keys()


def test_a_chunker_that_loses_text_is_found() -> None:
    """The smallest text that shows it is one character."""
    code, output = run("chunks", "--target", "tests.harness.fuzz_targets:losing", "--examples", "40",
                       "--workers", "1", "--json")  # fmt: skip
    report = json.loads(output)
    assert code == 1
    assert report["findings"].keys() == {"text_lost"}
    assert min(len(each["input"]["text"]) for each in report["smallest"]) == 1


def test_a_loop_that_runs_on_is_found() -> None:
    """More model calls than allowed are a finding."""
    code, output = run("loop", "--target", "tests.harness.fuzz_targets:endless", "--examples", "60",
                       "--workers", "1", "--json")  # fmt: skip
    assert code == 1
    assert json.loads(output)["findings"].keys() == {"too_many_calls"}
