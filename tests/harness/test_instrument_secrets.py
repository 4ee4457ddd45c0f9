"""A planted secret appears in no span, record, file or page, wherever it was and however cut."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_core import events
from agent_core.errors import ServerError
from agent_core.limits import StopReason
from agent_core.messages import Coercion, FormatError, Ignored, Repair, Reply, ToolFailure
from harness import telemetry
from harness.content import ATTRIBUTE_CHARS, STRING_CHARS, Capture
from harness.logs import json_logger
from harness.observer import RunObserver
from harness.redact import register
from harness.trace.html import page
from harness.trace.spans import read_traces
from harness.trace.tree import print_trace
from tests.harness.agents import Spans
from tests.harness.event_script import PlannedStep, drive, hit
from tests.harness.otlp_receiver import otlp_receiver
from tests.harness.secret_strategies import tokens


def _wrapped(secret: str, how: str) -> str:
    if how == "base64":
        return base64.b64encode(f"user:{secret}".encode()).decode()
    if how == "escaped":
        return json.dumps(json.dumps({"a": f"\n{secret}\t"}))
    return f"it is {secret} now"


def _planted(secret: str, how: str) -> tuple[list[PlannedStep], dict[str, Any]]:
    """A run with the secret in every place a text can be in."""
    text = _wrapped(secret, how)
    url = f"http://user:{secret}@127.0.0.1:11434/api/chat?api_key={secret}"
    retried = events.AttemptEnded(503, 9, error=text, retry_reason=text)
    plans = [
        PlannedStep(
            text=text, arguments={text: [text], "k": {secret: 1}}, observation=text,
            failure=ToolFailure("exception", "ValidationError", text),
            repairs=(Repair("fence", text, text, text),), ignored=(Ignored("observation", text),),
            coercions=(Coercion(f"$.{secret}", text, [text]),), hits=[hit(secret, text)],
            attempts=(retried, events.AttemptEnded(200, 5)),
        ),
        PlannedStep(format_error=FormatError("bad_json", text, text)),
        PlannedStep(text=text, attempts=(events.AttemptEnded(None, error=f"{url}: {text}"),)),
    ]  # fmt: skip
    how_run = {
        "question": text, "system": text, "stop": StopReason.MODEL_ERROR,
        "error": ServerError(f"{url} said {text}", status=500),
    }  # fmt: skip
    return plans, how_run


@pytest.mark.parametrize("how", ["plain", "base64", "escaped"])
@given(secret=tokens)
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_planted_secret_leaves_by_no_way(
    tmp_path_factory: pytest.TempPathFactory, how: str, secret: str
) -> None:
    """Spans over the wire, the trace file, the records, the page and the terminal."""
    directory = tmp_path_factory.mktemp("traces")
    plans, how_run = _planted(secret, how)
    written = io.BytesIO()
    with otlp_receiver() as receiver:
        with telemetry.session(
            otlp=receiver.url, content="full", directory=directory,
            logger=json_logger(written), say=lambda _: None,
        ) as watch:  # fmt: skip
            drive(watch.observer, plans, **how_run)
        on_the_wire = receiver.text()
    assert watch.path is not None
    (trace,) = read_traces(watch.path)
    logs = directory / "run.log"
    logs.write_bytes(written.getvalue())
    shown = io.StringIO()
    from rich.console import Console

    print_trace(trace, Console(file=shown, width=10_000), content=True)
    encoded = base64.b64encode(f"user:{secret}".encode()).decode()
    places = {
        "wire": on_the_wire,
        "file": watch.path.read_text("utf-8"),
        "records": written.getvalue().decode(),
        "page": page(trace, logs=logs),
        "terminal": shown.getvalue(),
    }
    for place, text in places.items():
        assert secret not in text, place
        assert encoded not in text, place


def test_what_every_call_tells_is_cleaned_anew_once_a_secret_is_known() -> None:
    """Models, servers and reasons are remembered, but not beyond a registration."""
    spans = Spans()
    run = events.RunStarted("a", "?", "m", "native", "en", {}, "", {})
    asked = events.ModelCallStarted(
        "Mu7-model", "Mu7-maker", "http://mu7-host:1/api", (), (), {"stop": "Mu7-stop"}, False
    )
    answered = events.ModelCallEnded(Reply("", finish_reason="Mu7-reason", model="Mu7-answering"))
    secrets = ("Mu7-model", "Mu7-maker", "mu7-host", "Mu7-stop", "Mu7-reason", "Mu7-answering")
    with events.watching(RunObserver(spans.provider, None, Capture("none"))), events.scope(run):
        with events.scope(asked) as call:
            call.end(answered)
        for secret in secrets:
            register(secret)
        with events.scope(asked) as call:
            call.end(answered)
    before, after = spans.traces()[0].root.find("chat")
    for secret in secrets:
        assert secret in str(before)
        assert secret not in str(after)


@given(secret=tokens, over=st.integers(-100, 100), mode=st.sampled_from(["truncated", "full"]))
@settings(max_examples=10, deadline=None)
def test_a_secret_at_the_cut_is_not_half_kept(secret: str, over: int, mode: Any) -> None:
    """Redaction comes before cutting, so no beginning of a secret is left at the end."""
    capture = Capture(mode)
    for limit in (ATTRIBUTE_CHARS[mode], STRING_CHARS[mode]):
        text = "x " * ((limit + over) // 2 - 10) + secret
        for made in (capture.text(text)[0], capture.json({"k": [text]})[0]):
            assert secret[:12] not in made
        assert json.loads(capture.json({"k": [text]})[0])


def test_a_log_file_that_is_joined_to_a_page_is_read_as_foreign(tmp_path: Path) -> None:
    """Lines that are no JSON, or of other traces, are passed over."""
    with telemetry.session(directory=tmp_path, say=lambda _: None) as watch:
        drive(watch.observer, [PlannedStep()])
    assert watch.path is not None
    (trace,) = read_traces(watch.path)
    logs = tmp_path / "x.log"
    logs.write_text(f"{trace.trace_id} no json\n[1]\n\n", "utf-8")
    assert "Log records" in page(trace, logs=logs)
