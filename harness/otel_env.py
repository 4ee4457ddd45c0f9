"""Addresses and the standard `OTEL_*` variables: what they ask for, and what is refused.

Honoured variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`,
`OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` and, for each, `…_PROTOCOL` (`http/protobuf` only),
`…_HEADERS`, `…_TIMEOUT` (at most 2 s), `…_COMPRESSION`, `…_CERTIFICATE`, `…_CLIENT_KEY`,
`…_CLIENT_CERTIFICATE`; `OTEL_TRACES_EXPORTER` (`otlp`, `console`, `none`), `OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG`, `OTEL_BSP_*`,
`OTEL_SDK_DISABLED`.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from opentelemetry.sdk.resources import Resource

from agent_core.errors import ConfigError
from harness.content import name
from harness.redact import redactor
from harness.sinks import OTLP_TIMEOUT

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider


def jaeger_page(target: str) -> str | None:
    """The address of Jaeger's page for an OTLP endpoint on its usual port, else None."""
    with suppress(ValueError):
        parts = urlsplit(target)
        if parts.port == 4318 and parts.hostname:
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return f"{parts.scheme}://{host}:16686"
    return None


def traces_url(otlp: str) -> str:
    """The address that takes traces, for the base URL of a collector.

    Raises:
        ConfigError: no http or https URL.
    """
    try:
        parts = urlsplit(otlp)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"--otlp expects the base URL of an OTLP/HTTP collector, like http://localhost:4318,"
            f" got {name(otlp)!r}"
        )
    base = otlp.rstrip("/")
    return base if base.endswith("/v1/traces") else base + "/v1/traces"


def destination(otlp: str | None, environ: Mapping[str, str]) -> tuple[str | None, bool, bool]:
    """The URL that was given, whether the environment names one, whether it asks for the console.

    Empty variables count as unset.
    """
    for signal_name in ("", "_TRACES"):
        variable = f"OTEL_EXPORTER_OTLP{signal_name}_PROTOCOL"
        protocol = environ.get(variable) or "http/protobuf"
        if protocol != "http/protobuf":
            raise ConfigError(
                f"{variable} expects 'http/protobuf', got {protocol!r};"
                " collectors take it on port 4318"
            )
    exporter = environ.get("OTEL_TRACES_EXPORTER") or ""
    if exporter not in {"", "otlp", "console", "none"}:
        raise ConfigError(
            f"OTEL_TRACES_EXPORTER expects 'otlp', 'console' or 'none', got {exporter!r}"
        )
    if otlp is not None:
        return traces_url(otlp), False, exporter == "console"
    named = environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or environ.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    wanted = exporter == "otlp" or (bool(named) and not exporter)
    return None, wanted, exporter == "console"


def export_timeout(environ: Mapping[str, str]) -> float:
    """Seconds for an export: what the variables say, at most `OTLP_TIMEOUT`."""
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        if value := environ.get(variable):
            try:
                return min(max(float(value), 0.1), OTLP_TIMEOUT)
            except ValueError:
                raise ConfigError(f"{variable} expects seconds, got {value!r}") from None
    return OTLP_TIMEOUT


def resource_of_process() -> Resource:
    """Who sends: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win, less their secrets."""
    own = {"service.name": "agentrig", "service.version": version("agentrig")}
    commit = _git_commit(Path.cwd())
    if commit:
        own["vcs.ref.head.revision"] = commit
    resource = Resource(own).merge(Resource.create())
    if resource.attributes.get("service.name", "").startswith("unknown_service"):  # type: ignore[union-attr]
        resource = resource.merge(Resource({"service.name": "agentrig"}))
    return Resource(redactor.value(dict(resource.attributes)), resource.schema_url)


def _git_commit(directory: Path) -> str | None:
    """The commit that is checked out, read without running anything."""
    for each in (directory, *directory.parents):
        git = each / ".git"
        if not git.is_dir():
            continue
        with suppress(OSError, ValueError):
            head = (git / "HEAD").read_text("utf-8").strip()
            if not head.startswith("ref: "):
                return head
            return (git / head.removeprefix("ref: ")).read_text("utf-8").strip()
        return None
    return None


def meter_provider(environ: Mapping[str, str]) -> MeterProvider | None:
    """Metrics are off unless their own endpoint is named."""
    if not environ.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"):
        return None
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - rare
        OTLPMetricExporter,
    )
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    reader = PeriodicExportingMetricReader(OTLPMetricExporter(timeout=export_timeout(environ)))
    return MeterProvider([reader], resource_of_process(), shutdown_on_exit=False)
