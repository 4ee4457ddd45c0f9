"""The standard variables and addresses name the collector; what cannot be followed is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_core.errors import ConfigError
from harness.otel_env import export_timeout, jaeger_page, resource_of_process, traces_url
from harness.sinks import OTLP_TIMEOUT
from tests.harness.command_line import agentrig
from tests.harness.otlp_receiver import otlp_receiver
from tests.harness.telemetry_support import DEAD, pairs, run_once

pytestmark = pytest.mark.usefixtures("no_otel_variables")


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
    resource = pairs(got.request.resource_spans[0].resource.attributes)
    assert got.path == "/v1/traces"
    assert got.headers["x-team"] == "blue"
    assert resource["service.name"] == "shop"
    assert resource["deployment.environment.name"] == "test"


def test_no_proxy_is_asked_on_the_way_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for models: spans and metrics for a loopback address go there, whatever is in the way."""
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, DEAD)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", receiver.url + "/v1/metrics")
        watch, _ = run_once(tmp_path, otlp=receiver.url)
        assert {each.path for each in receiver.received} == {"/v1/traces", "/v1/metrics"}
        assert watch.path is not None
        assert agentrig("trace", "send", watch.path, "--otlp", receiver.url).exit_code == 0


def test_none_turns_the_collector_of_the_environment_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`OTEL_TRACES_EXPORTER=none` wins over an endpoint that the environment names."""
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


@pytest.mark.parametrize(
    ("said", "seconds"), [("", OTLP_TIMEOUT), ("0.5", 0.5), ("100000", OTLP_TIMEOUT), ("0", 0.1)]
)
def test_an_export_takes_as_long_as_it_may(said: str, seconds: float) -> None:
    """As the variables say, and no longer than an exit may be held up."""
    assert export_timeout({"OTEL_EXPORTER_OTLP_TIMEOUT": said}) == seconds
    own = {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": said, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.7"}
    assert export_timeout(own) == (seconds if said else 0.7)


@pytest.mark.parametrize(
    ("head", "commit"),
    [("ref: refs/heads/topic\n", "a" * 40), ("b" * 40 + "\n", "b" * 40), (None, None)],
    ids=["branch", "detached", "damaged"],
)
def test_a_trace_names_the_commit_that_is_checked_out(
    head: str | None, commit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read from the files of git, above the current directory too."""
    branch = tmp_path / ".git" / "refs" / "heads" / "topic"
    branch.parent.mkdir(parents=True)
    branch.write_text("a" * 40 + "\n", encoding="utf-8")
    if head is not None:
        (tmp_path / ".git" / "HEAD").write_text(head, encoding="utf-8")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert resource_of_process().attributes.get("vcs.ref.head.revision") == commit


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("http://localhost:4318/", "http://localhost:4318/v1/traces"),
        ("https://host/base/v1/traces", "https://host/base/v1/traces"),
    ],
)
def test_the_path_is_added_to_the_base_url(given: str, url: str) -> None:
    """It is added once, and not to a URL that ends with it."""
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
