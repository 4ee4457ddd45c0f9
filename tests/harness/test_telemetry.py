"""Spans reach their sinks, and losses are counted and said."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import telemetry
from harness.sinks import Delivery
from harness.telemetry import ExportError
from harness.trace.spans import read_traces
from tests.harness.agents import weather_agent
from tests.harness.event_script import PlannedStep, drive
from tests.harness.otlp_receiver import otlp_receiver
from tests.harness.telemetry_support import DEAD, SPANS, pairs, run_once

pytestmark = pytest.mark.usefixtures("no_otel_variables")


def test_a_collector_gets_protobuf_with_resource_and_scope(tmp_path: Path) -> None:
    """What arrives says who sent it; it is compressed, and goes to `/v1/traces`."""
    with otlp_receiver() as receiver:
        watch, said = run_once(tmp_path, otlp=receiver.url)
        (got,) = receiver.received
    assert got.path == "/v1/traces"
    assert got.headers["Content-Encoding"] == "gzip"
    assert got.headers["content-type"] == "application/x-protobuf"
    (group,) = got.request.resource_spans
    resource = pairs(group.resource.attributes)
    assert resource["service.name"] == "agentrig"
    assert resource["service.version"]
    (scope,) = group.scope_spans
    assert scope.scope.name == "agentrig"
    assert scope.scope.version == resource["service.version"]
    assert len(scope.spans) == SPANS
    assert [(each.exported, each.lost) for each in watch.deliveries] == [(SPANS, 0)] * 2
    assert said == [
        f"trace: {SPANS} spans to {watch.path}",
        f"trace: {SPANS} spans to {receiver.url}/v1/traces",
    ]


def test_the_file_and_the_collector_get_the_same_tree(tmp_path: Path) -> None:
    """Ids, names, times and parents agree."""
    with otlp_receiver() as receiver:
        watch, _ = run_once(tmp_path, otlp=receiver.url, content="full")
        (sent,) = receiver.traces()
    assert watch.path is not None
    (kept,) = read_traces(watch.path)
    assert [vars_of(span) for span in kept.spans()] == [vars_of(span) for span in sent.spans()]
    assert watch.trace_ids == [kept.trace_id]


def vars_of(span: Any) -> list[Any]:
    """What identifies a span."""
    return [
        span.span_id, span.parent_id, span.name, span.start, span.end, span.failed, span.attributes,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"answers": [400]}, "400"),
        ({"rejects": 2}, "too old"),
        ({"answers": [503] * 9}, ""),
    ],
)
def test_losses_are_counted_and_said(tmp_path: Path, how: dict[str, Any], reason: str) -> None:
    """Also those that a good answer refuses."""
    with otlp_receiver(**how) as receiver:
        watch, said = run_once(tmp_path, otlp=receiver.url)
    lost = how.get("rejects", SPANS)
    delivery = watch.deliveries[1]
    assert (delivery.exported, delivery.lost) == (SPANS - lost, lost)
    assert f"{lost} lost" in said[1]
    assert reason in said[1]


def test_two_runs_from_the_same_seed_are_two_traces(tmp_path: Path) -> None:
    """A recording seeds `random`; the ids of its trace must still be its own."""
    ids = []
    for _ in range(2):
        random.seed(0)
        watch, _ = run_once(tmp_path)
        ids += watch.trace_ids
    assert len(ids) == len(set(ids)) == 2


def test_a_collector_that_recovers_loses_nothing(tmp_path: Path) -> None:
    """What was answered with 503 is sent again and arrives."""
    with otlp_receiver(answers=[503]) as receiver:
        watch, _ = run_once(tmp_path, otlp=receiver.url)
        assert len(receiver.traces()[0].spans()) == SPANS
    assert watch.deliveries[1].lost == 0


def test_a_lone_surrogate_does_not_lose_the_batch(tmp_path: Path) -> None:
    """In the name of a span, in texts, in attributes: protobuf would refuse all of them."""
    bad = "a \ud83d b"
    with otlp_receiver() as receiver:
        session = telemetry.session(
            directory=tmp_path, otlp=receiver.url, content="full", extra={"k": bad},
            say=lambda _: None,
        )  # fmt: skip
        with session as watch:
            plan = PlannedStep(text=bad, tool=bad, arguments={bad: bad}, observation=bad)
            drive(watch.observer, [plan, plan], agent=bad, question=bad, system=bad, answer=bad)
        assert [each.lost for each in watch.deliveries] == [0, 0]
        assert receiver.traces()[0].root.name == "invoke_agent a � b"


def test_spans_that_a_full_queue_drops_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A burst while the collector is not ready: what is gone is said once, at the end."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "16")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8")
    said: list[str] = []
    with otlp_receiver(answers=[503]) as receiver:
        session = telemetry.session(directory=tmp_path, otlp=receiver.url, say=said.append)
        with session as watch:
            drive(watch.observer, [PlannedStep()] * 40)
        arrived = sum(len(trace.spans()) for trace in receiver.traces())
    delivery = watch.deliveries[1]
    assert delivery.exported == arrived
    assert delivery.lost == watch.deliveries[0].exported - arrived > 0
    assert f"{delivery.lost} lost" in said[1]
    assert capsys.readouterr().err == ""


def test_lost_spans_are_an_error_when_asked_for(tmp_path: Path) -> None:
    """`require_export` raises at the end; the lines before it say why."""
    with otlp_receiver(answers=[400]) as receiver, pytest.raises(ExportError, match="5 spans"):
        run_once(tmp_path, otlp=receiver.url, require_export=True)


def test_metrics_that_were_lost_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans went to the file: this is about nothing else."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{DEAD}/v1/metrics")
    _, said = run_once(tmp_path)
    assert len(said) == 2
    assert said[1].startswith(f"metrics: lost on the way to {DEAD}/v1/metrics (Failed to export")


def test_the_console_shows_the_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the words of `agentrig trace show`."""
    run_once(tmp_path, console=True)
    assert "parse" in capsys.readouterr().err


def test_a_real_agent_is_watched(tmp_path: Path) -> None:
    """`Watch.instrument` is all a command needs."""
    with telemetry.session(directory=tmp_path, say=lambda _: None) as watch:
        assert watch.instrument(weather_agent()).run("?").answer
    assert watch.path is not None
    assert read_traces(watch.path)[0].root.name == "invoke_agent weather"


def test_metrics_are_sent_only_where_an_endpoint_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The collector for traces gets none."""
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", receiver.url + "/v1/metrics")
        run_once(tmp_path)
        assert [each.path for each in receiver.received] == ["/v1/metrics"]
        (request,) = receiver.metrics
        metrics = request.resource_metrics[0].scope_metrics[0].metrics
        assert {each.name for each in metrics} == {
            "gen_ai.client.operation.duration",
            "gen_ai.client.token.usage",
            "gen_ai.invoke_agent.duration",
        }
        bounds = {each.name: each.histogram.data_points[0].explicit_bounds for each in metrics}
        assert list(bounds["gen_ai.client.token.usage"])[:3] == [1, 4, 16]
        assert list(bounds["gen_ai.client.operation.duration"])[:3] == [0.01, 0.02, 0.04]
        receiver.received.clear()
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
        run_once(tmp_path, otlp=receiver.url)
        assert [each.path for each in receiver.received] == ["/v1/traces"]


@pytest.mark.parametrize(("traces", "lines"), [(1, 1), (3, 3), (50, 4)])
def test_a_suite_does_not_print_an_address_a_session(
    tmp_path: Path, traces: int, lines: int
) -> None:
    """The first few, and how many more there are."""
    watch, _ = run_once(tmp_path)
    sink: Any = SimpleNamespace(delivery=Delivery("http://localhost:4318/v1/traces", traces, 0))
    file: Any = SimpleNamespace(path=None)
    many = telemetry.Watch(watch.observer, [sink, sink], file)
    many.trace_ids = [f"{number:032x}" for number in range(traces)]
    pages = [line for line in many.summary() if ":16686" in line][:lines]
    assert len(many.summary()) == 2 * (lines + 1)
    assert pages[0].endswith("/trace/" + "0" * 32)
    assert (pages[-1] == "trace: and 47 more at http://localhost:16686") == (traces == 50)
