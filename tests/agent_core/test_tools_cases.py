"""Cases after public bug reports (`source` in the data): each outcome must be acceptable."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_core.errors import ConfigError
from agent_core.messages import Action, Observation
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, define, inert
from tests.agent_core.tools_support import execute

CASES = {
    case["id"]: case
    for line in (Path(__file__).parents[1] / "data" / "bug_cases_tools.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
    for case in [json.loads(line)]
}
ARGUMENT_CASES = [
    case for case in CASES.values() if case["area"] == "args" or case["id"] == "security-15"
]


def acceptable(outcome: dict[str, Any], observation: Observation, received: Any) -> bool:
    """Whether an observation is one of the outcomes that a case allows."""
    if outcome["ok"]:
        return observation.ok and received == outcome["value"]
    return not observation.ok and all(
        word in observation.text for word in outcome["error_mentions"]
    )


@pytest.mark.parametrize("case", ARGUMENT_CASES, ids=lambda case: str(case["id"]))
def test_arguments_end_as_someone_would_want(case: dict[str, Any]) -> None:
    """Each case of the area `args` ends with an outcome it allows, and none it forbids."""
    given, expect = case["input"], case["expect"]
    received: list[Any] = []

    def record(**arguments: Any) -> str:
        received.append(arguments)
        return "done"

    described = given.get("tool_definition") or {"name": "tool", "parameters": given["schema"]}
    executor = FunctionCallExecutor([FunctionDefinition(**described, function=record)])
    arguments = given["raw"] if "raw" in given else given["args"]
    began = time.monotonic()
    observation = executor.execute(Action(described["name"], arguments))
    value = received[0] if received else None
    outcomes = expect.get("any_of", [{"ok": False, **expect}])
    assert any(acceptable(each, observation, value) for each in outcomes), observation
    assert value not in [each for each in expect.get("never", []) if isinstance(each, dict)]
    assert time.monotonic() - began < 10 * expect.get("max_seconds", 1.0)
    for secret in expect.get("error_must_not_contain", []):
        assert secret not in repr(observation)


def test_a_process_ends_although_a_tool_never_does() -> None:
    """tool-02: a tool past its time holds up neither the run nor the interpreter's exit."""
    case = CASES["tool-02"]
    code = f"""
import threading
from agent_core.messages import Action
from agent_core.tools import FunctionCallExecutor
def hang() -> None: threading.Event().wait()
executor = FunctionCallExecutor([hang], timeout={case["input"]["timeout_s"]})
print(executor.execute(Action("hang", {{}})).error.kind)
"""
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=case["expect"]["exit_within_seconds"] + 30,  # room for a busy machine
    )
    assert result.stdout.strip() == "timeout"


def test_nested_dataclasses_become_json() -> None:
    """tool-06: the observation is the JSON of both."""

    @dataclass
    class Inner:
        degrees: float

    @dataclass
    class Outer:
        city: str
        inner: Inner

    observation = execute(lambda: Outer("Oslo", Inner(-3.5)))
    assert json.loads(observation.text) == {"city": "Oslo", "inner": {"degrees": -3.5}}


def test_a_circular_result_is_shown_as_far_as_it_goes() -> None:
    """tool-07: no exception, and what is not circular is there."""
    circular: dict[str, Any] = {"a": 1}
    circular["self"] = circular
    assert json.loads(execute(lambda: circular).text) == {
        "a": 1,
        "self": "<circular reference>",
    }


def test_an_async_tool_is_awaited() -> None:
    """tool-12: the observation is what the coroutine returned."""

    async def answer() -> int:
        return 42

    assert execute(answer).text == "42"


def test_a_name_with_a_dot_is_refused_with_the_rule() -> None:
    """tool-15: OpenAI-compatible servers refuse such a name much later."""
    with pytest.raises(ConfigError, match="letters, digits"):
        define(lambda: None, name=CASES["tool-15"]["input"]["register"])


def test_a_long_result_keeps_head_and_tail() -> None:
    """tool-21: capped, the marker counted, and nothing hidden about it."""
    case = CASES["tool-21"]
    text = "".join(piece * count for piece, count in case["input"]["tool_returns_build"])
    limit = case["input"]["limit_chars"]
    observation = execute(lambda: text, max_chars=limit)
    assert len(observation.text) <= limit
    assert all(part in observation.text for part in case["expect"]["observation_contains"])
    assert "truncated" in observation.text
    assert observation.truncated_from == len(text)


def test_a_long_error_is_capped_too() -> None:
    """tool-22: an exception's message counts like a result."""
    case = CASES["tool-22"]
    [[piece, count]] = case["input"]["tool_raises_build"]

    def fail() -> None:
        raise ValueError(piece * count)

    observation = execute(fail, max_chars=case["input"]["limit_chars"])
    assert len(observation.text) <= case["expect"]["observation_chars_at_most"]


@pytest.mark.parametrize(("name", "parameter"), [("tool-25", "city"), ("tool-26", "path")])
def test_wrong_names_of_arguments_are_named(name: str, parameter: str) -> None:
    """tool-25, tool-26: the model learns which argument is missing, or not known."""
    functions: dict[str, Callable[..., Any]] = {
        "city": lambda city: city,
        "path": lambda path: path,
    }
    given = CASES[name]["input"]["args"]
    observation = execute(functions[parameter], given)
    assert not observation.ok
    assert parameter in observation.text
    assert all(key in observation.text for key in given.keys() - {parameter})


@pytest.mark.parametrize("name", ["security-02", "security-03", "security-06", "security-11"])
def test_no_line_of_a_result_stands_where_a_label_would(name: str) -> None:
    """Labels, roles and closing tags inside foreign text are quoted or broken."""
    given = CASES[name]["input"]
    shown = inert(given.get("tool_result") or given["retrieved_text"])
    for start in ("Final Answer", "User", "最终答案", "行动", "行动输入"):
        assert f"\n{start}" not in f"\n{shown}"
    assert "</retrieved>" not in shown.replace("&lt;", "<").replace("&gt;", ">")


def test_a_credential_in_an_exception_is_masked() -> None:
    """security-12: the key in the address of a failed request does not reach the model."""
    case = CASES["security-12"]

    def fail() -> None:
        raise RuntimeError(case["input"]["raises"])

    observation = execute(fail)
    assert "503" in observation.text
    for secret in case["expect"]["must_not_contain"]:
        assert secret not in repr(observation)


def test_a_page_full_of_labels_costs_no_time() -> None:
    """security-23: quoting them is linear."""
    case = CASES["security-23"]
    text = "".join(piece * count for piece, count in case["input"]["tool_result_build"])
    began = time.monotonic()
    assert "\nAction" not in execute(lambda: text).text
    assert time.monotonic() - began < 5 * case["expect"]["ends_within_seconds"]
