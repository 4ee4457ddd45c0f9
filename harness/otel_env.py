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

import requests
from opentelemetry.sdk.resources import Resource

from agent_core.errors import ConfigError
from agent_core.models.address import is_loopback
from harness.content import name
from harness.redact import redactor
from harness.sinks import OTLP_TIMEOUT

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider

_PROTOCOL = "http/protobuf"
_FILES = ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")
_SAMPLERS = (
    "always_on", "always_off", "traceidratio",
    "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
)  # fmt: skip


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
    _check_url("--otlp", otlp)
    base = otlp.rstrip("/")
    return base if base.endswith("/v1/traces") else base + "/v1/traces"


def destination(otlp: str | None, environ: Mapping[str, str]) -> tuple[str | None, bool, bool]:
    """The URL that was given, whether the environment names one, whether it asks for the console.

    Empty variables count as unset.

    Raises:
        ConfigError: one that counts says what we, or the exporter, do not understand.
    """
    _check_choice(environ, "OTEL_TRACES_EXPORTER", "otlp", "console", "none")
    _check_sampler(environ)
    for kind in ("", "_TRACES"):
        _check_choice(environ, f"OTEL_EXPORTER_OTLP{kind}_PROTOCOL", _PROTOCOL)
    exporter = environ.get("OTEL_TRACES_EXPORTER") or ""
    url = None if otlp is None else traces_url(otlp)
    named = [each for each in ("_TRACES", "") if environ.get(f"OTEL_EXPORTER_OTLP{each}_ENDPOINT")]
    wanted = url is None and (exporter == "otlp" or (bool(named) and not exporter))
    if wanted and named:
        variable = f"OTEL_EXPORTER_OTLP{named[0]}_ENDPOINT"
        _check_url(variable, environ[variable])
    if wanted or url is not None:
        _check_transport(environ, "_TRACES")
    return url, wanted, exporter == "console"


def export_timeout(environ: Mapping[str, str], kind: str = "_TRACES") -> float:
    """Seconds for an export: what the variables say, at most `OTLP_TIMEOUT`."""
    for variable in (f"OTEL_EXPORTER_OTLP{kind}_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        if value := environ.get(variable):
            try:
                return min(max(float(value), 0.1), OTLP_TIMEOUT)
            except ValueError:
                raise ConfigError(f"{variable} expects seconds, got {value!r}") from None
    return OTLP_TIMEOUT


def resource_of_process() -> Resource:
    """This process; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` win, without secrets."""
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
    """Metrics are off unless their own endpoint is named.

    Raises:
        ConfigError: a variable about them says what the exporter does not understand.
    """
    variable = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
    if not environ.get(variable):
        return None
    _check_url(variable, environ[variable])
    _check_choice(environ, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", _PROTOCOL)
    _check_transport(environ, "_METRICS")
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - rare
        OTLPMetricExporter,
    )
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    session = requests.Session()
    session.trust_env = not is_loopback(urlsplit(environ[variable]).hostname or "")  # no proxy
    exporter = OTLPMetricExporter(timeout=export_timeout(environ, "_METRICS"), session=session)
    reader = PeriodicExportingMetricReader(exporter)
    return MeterProvider([reader], resource_of_process(), shutdown_on_exit=False)


def _check_url(what: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"{what} expects the URL of an OTLP/HTTP collector, like http://localhost:4318,"
            f" got {name(url)!r}"
        )


def _check_choice(
    environ: Mapping[str, str], variable: str, *choices: str, any_case: bool = False
) -> None:
    value = environ.get(variable)
    if value and (value.strip().lower() if any_case else value) not in choices:
        *others, last = map(repr, choices)
        expected = f"{', '.join(others)} or {last}" if others else last
        more = "; collectors take it on port 4318" if choices == (_PROTOCOL,) else ""
        raise ConfigError(f"{variable} expects {expected}, got {name(value)!r}{more}")


def _check_transport(environ: Mapping[str, str], kind: str) -> None:
    """Variables of an exporter that is used: what it compresses with, and its files."""
    for each in (kind, ""):
        prefix = f"OTEL_EXPORTER_OTLP{each}_"
        _check_choice(environ, f"{prefix}COMPRESSION", "gzip", "deflate", "none", any_case=True)
        for variable in (f"{prefix}{file}" for file in _FILES):
            path = environ.get(variable)
            if path and not Path(path).is_file():
                raise ConfigError(f"{variable} expects a file, there is none at {name(path)!r}")


def _check_sampler(environ: Mapping[str, str]) -> None:
    _check_choice(environ, "OTEL_TRACES_SAMPLER", *_SAMPLERS, any_case=True)
    variable = "OTEL_TRACES_SAMPLER_ARG"
    if "ratio" in environ.get("OTEL_TRACES_SAMPLER", "").lower() and (
        share := environ.get(variable)
    ):
        try:
            usable = 0 <= float(share) <= 1
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(f"{variable} expects a share from 0 to 1, got {name(share)!r}")
