"""Spans reach their sinks, losses are counted and said, and the exit is never held up."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from agent_core.errors import ConfigError
from harness import telemetry
from harness.cli import main
from harness.otel_env import jaeger_page, traces_url
from harness.otlp_json import trace_files
from harness.sinks import Delivery
from harness.telemetry import ExportError
from harness.trace.spans import TraceFileError, read_traces
from tests.harness.agents import weather_agent
from tests.harness.event_script import PlannedStep, drive
from tests.harness.otlp_receiver import otlp_receiver

SPANS = 5  # of a run of one step: run, step, chat, POST, parse
DEAD = "http://127.0.0.1:9"  # nothing listens on the discard port


@pytest.fixture(autouse=True)
def _no_otel_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


def run_once(tmp_path: Path, **settings: Any) -> tuple[telemetry.Watch, list[str]]:
    """One run of one step in a session."""
    said: list[str] = []
    with telemetry.session(directory=tmp_path, say=said.append, **settings) as watch:
        drive(watch.observer, [PlannedStep()])
    return watch, said


def _pairs(attributes: Any) -> dict[str, str]:
    assert all(isinstance(each, KeyValue) for each in attributes)
    return {each.key: each.value.string_value for each in attributes}


def test_a_collector_gets_protobuf_with_resource_and_scope(tmp_path: Path) -> None:
    """What arrives says who sent it; it is compressed, and goes to `/v1/traces`."""
    with otlp_receiver() as receiver:
        watch, said = run_once(tmp_path, otlp=receiver.url)
        (got,) = receiver.received
    assert got.path == "/v1/traces"
    assert got.headers["Content-Encoding"] == "gzip"
    assert got.headers["content-type"] == "application/x-protobuf"
    (group,) = got.request.resource_spans
    resource = _pairs(group.resource.attributes)
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
    """503, then 200."""
    with otlp_receiver(answers=[503]) as receiver:
        watch, _ = run_once(tmp_path, otlp=receiver.url)
        assert len(receiver.traces()[0].spans()) == SPANS
    assert watch.deliveries[1].lost == 0


@pytest.mark.parametrize("silent", [True, False])
def test_a_dead_or_silent_collector_does_not_hold_up_the_exit(tmp_path: Path, silent: bool) -> None:
    """The spans are lost and counted; the file has them."""
    with otlp_receiver(silent=True) as receiver:
        began = time.monotonic()
        watch, said = run_once(tmp_path, otlp=receiver.url if silent else DEAD)
        assert time.monotonic() - began < 6  # 3 s by design; the rest is slack
    assert watch.deliveries[1].lost == SPANS
    assert "5 lost" in said[1]
    assert watch.path is not None
    assert len(read_traces(watch.path)[0].spans()) == SPANS


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


NO_ROOM = """
import resource, sys
from pathlib import Path
from tests.harness.test_telemetry import run_once
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))
watch, (said, *_) = run_once(Path(sys.argv[1]))
print(watch.deliveries[0].exported, watch.deliveries[0].lost, said)
"""


def test_no_room_is_told_and_leaves_whole_lines(tmp_path: Path) -> None:
    """What does not fit is taken back, so that the next line is read."""
    child = [sys.executable, "-B", "-c", NO_ROOM, str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(child, cwd=root, capture_output=True, text=True, check=True, timeout=60)
    exported, lost, said = done.stdout.strip().split(" ", 2)
    assert 0 < int(lost) < SPANS
    assert said.endswith(f"{lost} lost (File too large)")
    (path,) = trace_files(tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len([json.loads(line) for line in lines]) == int(exported)


def test_lost_spans_are_an_error_when_asked_for(tmp_path: Path) -> None:
    """`require_export` raises at the end; the lines before it say why."""
    with otlp_receiver(answers=[400]) as receiver, pytest.raises(ExportError, match="5 spans"):
        run_once(tmp_path, otlp=receiver.url, require_export=True)


def test_a_directory_that_cannot_be_written_is_a_loss_and_no_more(tmp_path: Path) -> None:
    """A file stands where the directory would be."""
    (tmp_path / "file").write_text("x", "utf-8")
    watch, said = run_once(tmp_path / "file" / "traces")
    assert watch.deliveries[0].lost == SPANS
    assert said[0].endswith("5 lost (Not a directory)")


def test_the_environment_names_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoint, headers, service name and attributes come from the standard variables."""
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        run_once(tmp_path)
        (got,) = receiver.received
    resource = _pairs(got.request.resource_spans[0].resource.attributes)
    assert got.path == "/v1/traces"
    assert got.headers["x-team"] == "blue"
    assert resource["service.name"] == "shop"
    assert resource["deployment.environment.name"] == "test"


def test_none_turns_the_collector_of_the_environment_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`OTEL_TRACES_EXPORTER=none`."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", DEAD)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    watch, _ = run_once(tmp_path)
    assert len(watch.deliveries) == 1


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "http/protobuf"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "'otlp', 'console' or 'none'"),
        ("OTEL_TRACES_SAMPLER", "nonsense", "'always_on', 'always_off'"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "like http://localhost:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://x", "like http://localhost:4318"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "localhost:4318", "like http://localhost:4318"),
    ],
)
def test_variables_that_cannot_be_followed_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, expected: str
) -> None:
    """Loudly, with what was expected and what came."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable} expects .*{expected}.*{value}"):
        run_once(tmp_path)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "zzz"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nope"),
        ("OTEL_TRACES_SAMPLER_ARG", "half"),
    ],
)
def test_variables_of_an_exporter_count_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """What an exporter would take wrongly, or tell in its own words, is refused in ours."""
    monkeypatch.setenv(variable, value)
    run_once(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", DEAD)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    with pytest.raises(ConfigError, match=f"{variable} expects .*{value}"):
        run_once(tmp_path)


def test_metrics_that_were_lost_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The spans went to the file: this is about nothing else."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{DEAD}/v1/metrics")
    _, said = run_once(tmp_path)
    assert len(said) == 2
    assert said[1].startswith(f"metrics: lost on the way to {DEAD}/v1/metrics (Failed to export")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://host/base/v1/traces", "https://host/base/v1/traces"),
    ],
)
def test_the_path_is_added_to_the_base_url(given: str, url: str) -> None:
    """Once."""
    assert traces_url(given) == url


@pytest.mark.parametrize("given", ["localhost:4318", "ftp://host", "http://", "", "http://h:x"])
def test_an_address_that_is_none_is_refused(given: str) -> None:
    """With an example of one."""
    with pytest.raises(ConfigError, match="http://localhost:4318"):
        traces_url(given)


def test_jaeger_is_named_only_where_it_can_be() -> None:
    """Its page is on another port of the same host."""
    assert jaeger_page("http://localhost:4318/v1/traces") == "http://localhost:16686"
    assert jaeger_page("https://[::1]:4318/v1/traces") == "https://[::1]:16686"
    assert jaeger_page("https://collector.example/v1/traces") is None


def test_old_files_are_pruned_and_files_are_private(tmp_path: Path) -> None:
    """Fifty are kept; the newest is this run's, readable by its owner alone."""
    for number in range(60):
        (tmp_path / f"20200101T0000{number:02}-1.jsonl").write_text("{}\n", "utf-8")
    watch, _ = run_once(tmp_path)
    assert len(trace_files(tmp_path)) == 50
    assert trace_files(tmp_path)[-1] == watch.path
    assert watch.path is not None
    assert watch.path.stat().st_mode & 0o077 == 0


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


SCRIPT = """
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
from harness import telemetry
from tests.harness.event_script import PlannedStep, drive
how, url, directory = sys.argv[1:]
def tool():
    print("ready", flush=True)
    if how == "wait":
        time.sleep(60)
    if how == "raise":
        raise SystemExit(7)
    if how == "die":
        os._exit(9)
with telemetry.session(otlp=url, directory=Path(directory)) as watch:
    drive(watch.observer, [PlannedStep(in_tool=tool), PlannedStep()])
"""


def _child(how: str, url: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, how, url, str(directory)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("how", "send", "status", "error"),
    [
        ("end", None, 0, None),
        ("raise", None, 7, "SystemExit"),
        ("wait", signal.SIGTERM, 143, "SystemExit"),
        ("wait", signal.SIGINT, -signal.SIGINT, "KeyboardInterrupt"),
    ],
)
def test_every_way_out_of_the_process_closes_and_sends_the_spans(
    tmp_path: Path, how: str, send: signal.Signals | None, status: int, error: str | None
) -> None:
    """A normal end, an exit, SIGTERM and Ctrl-C: one whole tree arrives."""
    with otlp_receiver() as receiver:
        child = _child(how, receiver.url, tmp_path)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        if send:
            child.send_signal(send)
        _, said = child.communicate(timeout=30)
        (trace,) = receiver.traces()
    assert child.returncode == status, said
    assert trace.complete
    assert trace.root.attributes.get("error.type") == error
    assert f"{len(trace.spans())} spans to {receiver.url}/v1/traces" in said


def test_a_process_that_dies_leaves_what_had_ended_in_its_file(tmp_path: Path) -> None:
    """Spans are written as they end; `explain` says that the rest is missing."""
    child = _child("die", DEAD, tmp_path)
    child.communicate(timeout=30)
    assert child.returncode == 9
    (path,) = trace_files(tmp_path)
    (trace,) = read_traces(path)
    assert [span.name for span in trace.spans()] == ["chat qwen", "POST", "harness.parse"]
    assert not trace.complete


def invoke(*arguments: object) -> Any:
    """Run the command line."""
    return CliRunner().invoke(main, [str(each) for each in arguments])


def test_files_can_be_sent_later(tmp_path: Path) -> None:
    """Line by line; a collector that refuses is named, with code 3, what is no trace with 2."""
    watch, _ = run_once(tmp_path)
    assert watch.path is not None
    with otlp_receiver() as receiver:
        sent = invoke("trace", "send", watch.path, "--otlp", receiver.url)
        assert sent.exit_code == 0, sent.output
        assert f"{SPANS} spans to {receiver.url}/v1/traces" in sent.output
        (trace,) = receiver.traces()
        assert trace.complete
        other = tmp_path / "other.yaml"
        other.write_text("session: {}\n", encoding="utf-8")
        mixed = invoke("trace", "send", other, watch.path, "--otlp", receiver.url)
        assert mixed.exit_code == invoke("trace", "show", other).exit_code == 2
        assert f"{str(other)!r} holds no span; expected lines of OTLP-JSON" in mixed.stderr
        assert f"{watch.path}: {SPANS} spans to " in mixed.stdout
        receiver.answers = [400] * SPANS
        refused = invoke("trace", "send", watch.path, "--otlp", receiver.url)
    assert refused.exit_code == 3
    assert "5 lost (HTTP 400)" in refused.output
    assert invoke("trace", "send", watch.path, "--otlp", DEAD).exit_code == 3
    assert invoke("trace", "send", watch.path, "--otlp", "nowhere").exit_code == 2


def test_traces_are_sent_by_the_names_that_show_takes(tmp_path: Path) -> None:
    """Of a file with several only the one that is named; a name of none sends nothing at all."""
    runs = [run_once(tmp_path)[0].path for _ in range(2)]
    together = tmp_path / "together.jsonl"
    groups: list[Any] = []
    for each in runs:
        assert each is not None
        for line in each.read_text("utf-8").splitlines():
            groups += json.loads(line)["resourceSpans"]
        each.unlink()
    together.write_text(json.dumps({"resourceSpans": groups}) + "\n", "utf-8")
    older, newer = (trace.trace_id for trace in read_traces(together))
    with otlp_receiver() as receiver:
        ways: tuple[list[object], ...] = (
            [],
            ["last~1"],
            [older.upper()[:12]],
            ["last", together],
            [newer, "nothere"],
        )
        codes = [
            invoke("trace", "send", *names, "--dir", tmp_path, "--otlp", receiver.url).exit_code
            for names in ways
        ]
        arrived = [
            span.trace_id.hex()
            for request in receiver.accepted
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
    assert codes == [0, 0, 0, 0, 2]
    assert list(dict.fromkeys(arrived)) == [newer, older]
    assert (arrived.count(newer), arrived.count(older)) == (3 * SPANS, 3 * SPANS)


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[: len(line) // 2],
        lambda line: "[]\n" + line,
        lambda line: '{"resourceSpans": [{"scopeSpans": 3}, 4]}\n' + line,
    ],
)
def test_a_damaged_file_is_read_as_far_as_it_goes(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    """A crash may cut the last line; foreign lines are passed over."""
    watch, _ = run_once(tmp_path)
    assert watch.path is not None
    lines = watch.path.read_text("utf-8").splitlines(keepends=True)
    watch.path.write_text("".join([*lines[:-1], damage(lines[-1])]), "utf-8")
    assert len(read_traces(watch.path)[0].spans()) >= SPANS - 1


def test_a_file_without_spans_is_refused(tmp_path: Path) -> None:
    """With a word on what was expected."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("{}\nhello\n", "utf-8")
    with pytest.raises(TraceFileError, match="expected lines of OTLP-JSON"):
        read_traces(empty)


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
