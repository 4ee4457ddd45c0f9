"""Every question a trace has to answer: a reader of the exported spans alone names the cause.

One run with a fault at a drawn step and with drawn values, and one without, both sent to a
loopback receiver; only the spans that arrived there are read.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core import events
from agent_core.agent import Agent
from agent_core.errors import ModelTimeout, ServerError
from agent_core.limits import Limits, StopReason
from agent_core.messages import Coercion, FormatError, Repair, StepNote, Timings, ToolFailure, Usage
from agent_core.models import ScriptedModel
from harness import telemetry
from harness.logs import json_logger
from harness.trace.explain import MAX_LINES, explain
from harness.trace.findings import Finding, findings
from harness.trace.spans import Trace, read_traces
from tests.harness.event_script import PlannedStep, drive, hit
from tests.harness.otlp_receiver import Receiver, otlp_receiver

STEPS = 4
Words = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=3, max_size=12)
Fault = Callable[[list[PlannedStep], int, st.DataObject], dict[str, Any]]


def _model_error(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    error = data.draw(st.sampled_from([ServerError("busy", status=503), ModelTimeout("slow")]))
    plans[at - 1].raises = error
    del plans[at:]
    return {"stop": StopReason.MODEL_ERROR, "error": error, "cause": type(error).__name__}


def _max_steps(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    del plans[at:]
    reason = data.draw(
        st.sampled_from([
            StopReason.MAX_STEPS, StopReason.TIME_LIMIT, StopReason.TOKEN_LIMIT,
            StopReason.EMPTY_REPLIES, StopReason.CANCELLED,
        ])
    )  # fmt: skip
    return {"stop": reason, "cause": reason.value}


def _repair(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    kind = data.draw(Words)
    plans[at - 1].repairs = (Repair(kind, "12", "{'a'", '{"a"'),)
    return {"cause": f"{kind}@12"}


def _format_error(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    code: Any = data.draw(st.sampled_from(["bad_json", "truncated", "unknown_tool"]))
    plans[at - 1].format_error = FormatError(code, "message", "hint")
    return {"cause": code}


def _coercion(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    path, number = f"$.{data.draw(Words)}", data.draw(st.integers())
    plans[at - 1].coercions = (Coercion(path, str(number), number),)
    return {"cause": f"{path}:str>int"}


def _chunk_left_out(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    lost = data.draw(Words)
    shown = "a passage that is long enough to be recognised and that the prompt holds"
    plans[at - 1].hits = [hit("kept", shown), hit(lost, f"{lost} is not shown to the model")]
    plans[at - 1].shown = f"found: {shown}"
    return {"cause": lost}


def _chunk_cut(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    cut, text = data.draw(Words), "passage " * 40
    plans[at - 1].hits = [hit(cut, text)]
    plans[at - 1].shown = f"found: {text[:200]}…"
    return {"cause": f"cut in the prompt: {cut}"}


def _cold_start(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    plans[at - 1].timings = Timings(load=data.draw(st.floats(1.5, 90.0)), eval=1.0)
    return {"cause": "cold start"}


def _full_window(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    plans[at - 1].window = data.draw(st.integers(101, 110))
    return {"cause": "of the context window"}


def _unknown_usage(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    plans[at - 1].usage = Usage()
    return {"cause": f"1 of {STEPS} calls gave no token counts", "step": None}


def _retries(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    status = data.draw(st.sampled_from([429, 500, 502, 503]))
    number = data.draw(st.integers(1, 3))
    again = events.AttemptEnded(status, 9, retry_reason=f"HTTP {status}", wait=0.5)
    plans[at - 1].attempts = (*[again] * number, events.AttemptEnded(200, 500))
    return {"cause": f"retried: {', '.join([f'HTTP {status}'] * number)}"}


def _repeat(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    first = data.draw(st.integers(1, at))
    plans[at - 1].repeat_of = first
    return {"cause": f"repeats that of step {first}"}


def _truncated_prompt(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    tokens = data.draw(st.integers(1, 9_000))
    plans[at - 1].notes = (StepNote("context_truncated", f"the server read {tokens} tokens"),)
    return {"cause": f"the server read {tokens} tokens"}


def _swallowed(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    tokens = data.draw(st.integers(1, 9_000))
    plans[at - 1].notes = (StepNote("output_swallowed", f"{tokens} tokens came to nothing"),)
    return {"cause": f"{tokens} tokens came to nothing"}


def _cut_result(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    chars = data.draw(st.integers(8_001, 10**9))
    plans[at - 1].truncated_from = chars
    return {"cause": f"cut from {chars} chars"}


def _tool_failure(plans: list[PlannedStep], at: int, data: st.DataObject) -> dict[str, Any]:
    kind: Any = data.draw(st.sampled_from(["timeout", "invalid_arguments", "not_approved"]))
    plans[at - 1].failure = ToolFailure(kind, kind, "message")
    return {"cause": f"get_weather failed ({kind}"}


FAULTS: dict[str, Fault] = {
    fault.__name__.lstrip("_"): fault
    for fault in (
        _model_error, _max_steps, _repair, _format_error, _coercion, _chunk_left_out, _chunk_cut,
        _cold_start, _full_window, _unknown_usage, _retries, _repeat, _truncated_prompt,
        _swallowed, _cut_result, _tool_failure,
    )
}  # fmt: skip


def run_and_export(
    receiver: Receiver, directory: Path, plans: list[PlannedStep], **how: Any
) -> Trace:
    """Run, export, and give back what arrived."""
    receiver.accepted.clear()
    session = telemetry.session(otlp=receiver.url, directory=directory, say=lambda _: None)
    with session as watch, suppress(ServerError, ModelTimeout):
        drive(watch.observer, plans, **how)
    (trace,) = receiver.traces()
    return trace


@pytest.mark.parametrize("name", FAULTS)
@given(data=st.data())
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_exported_spans_tell_the_step_and_the_cause(
    name: str, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A faulty run is told from a good one, with step and cause, in at most ten lines."""
    at = data.draw(st.integers(1, STEPS - 1), label="step")
    plans = [PlannedStep() for _ in range(STEPS)]
    expected = FAULTS[name](plans, at, data)
    cause, step = expected.pop("cause"), expected.pop("step", at)
    with otlp_receiver() as receiver:
        good = run_and_export(
            receiver, tmp_path_factory.mktemp("good"), [PlannedStep() for _ in range(STEPS)]
        )
        bad = run_and_export(receiver, tmp_path_factory.mktemp("bad"), plans, **expected)
    assert findings(good) == []
    assert explain(good)[0].endswith("nothing abnormal")
    assert len(explain(good)) == 1
    named = [each for each in findings(bad) if cause in each.text and each.step == step]
    assert named, [str(each) for each in findings(bad)]
    assert len(explain(bad)) <= MAX_LINES


@pytest.mark.parametrize(
    ("changed", "how"),
    [("system", {"system": "You are terse."}), ("question", {"question": "另一个问题"})],
)
def test_what_changed_since_the_last_good_run_is_named(
    tmp_path: Path, changed: str, how: dict[str, Any]
) -> None:
    """The second run of an agent is linked to its last good one and says what differs.

    Another question is written down, but it is nothing abnormal.
    """
    with otlp_receiver() as receiver:
        first = run_and_export(receiver, tmp_path, [PlannedStep()])
        same = run_and_export(receiver, tmp_path, [PlannedStep()])
        other = run_and_export(receiver, tmp_path, [PlannedStep()], **how)
    assert same.root.links == (first.trace_id,)
    assert findings(same) == []
    named = Finding("note", "changed", None, f"changed since the last good run: {changed}")
    assert findings(other) == ([] if changed == "question" else [named])
    assert other.root.attributes[f"harness.changed.{changed}"] == 1


@given(at=st.integers(1, STEPS))
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_log_records_of_a_fault_are_found_by_its_span(
    tmp_path_factory: pytest.TempPathFactory, at: int
) -> None:
    """From the span that failed to its records and back, by the ids alone."""
    plans = [PlannedStep() for _ in range(STEPS)]
    plans[at - 1].format_error = FormatError("bad_json", "message", "hint")
    written = io.BytesIO()
    with otlp_receiver() as receiver:
        with telemetry.session(
            otlp=receiver.url,
            directory=tmp_path_factory.mktemp("traces"),
            logger=json_logger(written),
            say=lambda _: None,
        ) as watch:
            drive(watch.observer, plans)
        (trace,) = receiver.traces()
    records = [json.loads(line) for line in written.getvalue().splitlines()]
    (failed,) = [span for span in trace.spans() if span.kind == "harness.parse" and span.failed]
    (record,) = [each for each in records if each["span_id"] == failed.span_id]
    assert record["event"] == "parse.failed"
    assert record["step"] == at
    ids = {span.span_id for span in trace.spans()}
    assert {each["span_id"] for each in records} == ids
    assert {each["trace_id"] for each in records} == {trace.trace_id}


def ok(n: int) -> str:
    """Say ok."""
    return f"ok {n}"


def slow(n: int) -> str:
    """Wait until the run has gone on, and longer."""
    time.sleep(n)
    return "late"


def call(tool: str, n: int) -> str:
    """A reply that calls a tool."""
    return f'Thought: go on\nAction: {{"name": "{tool}", "parameters": {{"n": {n}}}}}'


def explained(directory: Path, replies: Sequence[str], **limits: Any) -> list[str]:
    """The explanation of a run of a real agent, from its trace file."""
    with telemetry.session(directory=directory, content="full", say=lambda _: None) as watch:
        agent = Agent(ScriptedModel(replies), [ok, slow], limits=Limits(**limits))
        watch.instrument(agent).run("q")
    assert watch.path is not None
    return explain(read_traces(watch.path)[-1])


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        ({"max_steps": 3}, "Limits.max_steps is 3; the last steps: ok, ok, ok"),
        ({"max_steps": 1}, "Limits.max_steps is 1; the last step: ok"),
        ({"token_limit": 1}, r"Limits.token_limit is 1, \d+ were used; the last step: ok"),
    ],
)
def test_a_limit_is_told_with_its_figure_and_the_last_steps(
    tmp_path: Path, limits: dict[str, Any], told: str
) -> None:
    """What is to be raised, and whether it would help."""
    lines = explained(tmp_path, [call("ok", n) for n in range(9)], **limits)
    (error,) = [line for line in lines if line.startswith("error")]
    assert re.search(f"{told}$", error)


def test_errors_in_a_row_are_told_with_their_limit(tmp_path: Path) -> None:
    """Their steps are told one by one."""
    error = explained(tmp_path, [""] * 2, max_empty_replies=2)[1]
    assert error == "error: step 2: the run ended with empty_replies: Limits.max_empty_replies is 2"


def test_a_step_that_failed_is_told_beside_those_that_were_taken(tmp_path: Path) -> None:
    """`1 step` and a failure in step 2 do not go together."""
    lines = explained(tmp_path, [call("ok", 1)])
    assert "model_error, 1 step and step 2 that failed, " in lines[0]
    assert any(line.startswith("error: step 2: ") for line in lines)
    assert "model_error, step 1 failed, " in explained(tmp_path, [])[0]


def test_a_tool_past_its_time_is_told_once(tmp_path: Path) -> None:
    """With the time that it was given."""
    lines = explained(tmp_path, [call("slow", 1), "Final Answer: 3"], tool_timeout=0.2)
    (warning,) = [line for line in lines if line.startswith("warning")]
    told = (
        r"warning: step 1: slow failed \(the tool did not return in time; given up after 0\.\d+ s\)"
    )
    assert re.fullmatch(told, warning)


def test_an_explanation_has_at_most_ten_lines(tmp_path: Path) -> None:
    """However much is wrong, and it says how much was left out."""
    plans = [PlannedStep(repairs=(Repair("fence", "1", "", ""),), repeat_of=1) for _ in range(20)]
    with otlp_receiver() as receiver:
        trace = run_and_export(receiver, tmp_path, plans)
    lines = explain(trace)
    assert len(lines) == MAX_LINES
    assert lines[-1].startswith("… and ")


def test_texts_stay_off_the_wire_unless_asked_for(tmp_path: Path) -> None:
    """The file holds cut texts, a collector gets none; with `content` both do."""
    with otlp_receiver() as receiver:
        run_and_export(receiver, tmp_path / "a", [PlannedStep()], question="QUESTION_MARK")
        assert "QUESTION_MARK" not in receiver.text()
        assert receiver.traces()[0].root.attributes["harness.content"] == "none"
        with telemetry.session(
            otlp=receiver.url, directory=tmp_path / "b", content="full", say=lambda _: None
        ) as watch:
            drive(watch.observer, [PlannedStep()], question="QUESTION_MARK")
        assert "QUESTION_MARK" in receiver.text()
    (file,) = (tmp_path / "a").glob("*.jsonl")
    assert "QUESTION_MARK" in file.read_text("utf-8")
