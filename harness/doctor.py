"""`agentrig doctor`: what stands ready on this machine, and what to do about the rest."""

from __future__ import annotations

import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import click

from agent_core.errors import ConfigError, ConnectionFailed
from harness.options import FAILED, UNREACHABLE, json_option, leave
from harness.output import echo_json, safe_text
from harness.redact import redactor
from harness.sessions.arguments import exit_codes
from harness.sessions.format import Api, ModelSource

State: TypeAlias = Literal["ok", "note", "wrong", "unreachable"]

_EXTRAS = {
    "rag": ("sentence-transformers", "dense retrieval with local weights"),
    "onnx": ("onnxruntime", "the same weights without torch"),
    "qdrant": ("qdrant-client", "retrieval from Qdrant"),
    "dask": ("distributed", "fuzzing and sweeps on many machines"),
}
_PROBE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        subject: what was looked at.
        state: `note` is worth knowing and stops nothing.
        said: what was found.
        advice: what to do about it; empty where nothing is to be done.
    """

    subject: str
    state: State
    said: str
    advice: str = ""


def examine(source: ModelSource, sessions: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at everything, the quickest first."""
    yield _python()
    yield from _extras()
    yield _sessions(sessions)
    yield _writing(sessions, Path(".agentrig"))
    yield _collector(environ)
    yield from _server(source)


def _python() -> Finding:
    said = f"Python {platform.python_version()}, agentrig {version('agentrig')}"
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        advice = "set PYTHONIOENCODING=utf-8 to see Chinese text"
        return Finding("python", "note", f"{said}; output is {sys.stdout.encoding}", advice)
    return Finding("python", "ok", said)


def _extras() -> Iterator[Finding]:
    for extra, (package, purpose) in _EXTRAS.items():
        try:
            yield Finding(f"extra {extra}", "ok", f"{package} {version(package)}")
        except PackageNotFoundError:
            advice = f"pip install {package} for {purpose}"
            yield Finding(f"extra {extra}", "note", f"{package} is not installed", advice)


def _sessions(folder: Path) -> Finding:
    from harness.sessions.cassette import load_session  # noqa: PLC0415 - YAML takes a while
    from harness.sessions.errors import SessionError  # noqa: PLC0415
    from harness.sessions.suite import session_files  # noqa: PLC0415

    files = session_files([folder]) if folder.is_dir() else []
    broken = []
    for path in files:
        try:
            load_session(path)
        except (SessionError, OSError) as error:
            broken.append(f"{path}: {error}")
    if broken:
        said = f"{len(broken)} of {len(files)} cannot be read, the first is {broken[0]}"
        return Finding("sessions", "wrong", said, "see `agentrig lint`")
    if not files:
        return Finding("sessions", "note", f"none in {folder}", "record one: `agentrig record -h`")
    return Finding("sessions", "ok", f"{len(files)} in {folder}")


def _writing(*folders: Path) -> Finding:
    for folder in folders:
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        try:
            with TemporaryFile(dir=there):
                pass
        except OSError as error:
            said = f"{folder} cannot be written ({error.strerror}): no recordings, pages, traces"
            advice = "let this user write there, or work in a copy; replay, lint and run go on"
            return Finding("writing", "note", said, advice)
    return Finding("writing", "ok", f"{' and '.join(map(str, folders))} can be written")


def _collector(environ: Mapping[str, str]) -> Finding:
    from harness.otel_env import destination  # noqa: PLC0415 - OpenTelemetry takes a while

    try:
        _, wanted, _ = destination(None, environ)
    except ConfigError as error:
        return Finding("collector", "wrong", str(error))
    if not wanted:
        advice = "--otlp http://localhost:4318 sends them to a collector"
        return Finding("collector", "note", "none named; traces stay in .agentrig/traces", advice)
    url = (
        environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
        or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        or "http://localhost:4318"
    )
    if _listens(url):
        return Finding("collector", "ok", f"something listens at {url}")
    return Finding("collector", "unreachable", f"nothing listens at {url}", "start the collector")


def _listens(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), timeout=_PROBE_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _server(source: ModelSource) -> Iterator[Finding]:
    from harness.sessions.sources import reachable, resolved, server_facts  # noqa: PLC0415

    asked = resolved(source)
    try:
        reachable(asked)
    except ConnectionFailed as error:
        yield Finding("model server", "unreachable", str(error), "`ollama serve`, or --base-url")
        return
    facts = server_facts(asked)
    yield Finding("model server", "ok", f"{facts.server or asked.api} at {asked.base_url}")
    if not source.name:
        return
    if facts.model_digest is not None:
        yield Finding("model", "ok", f"{source.name}, digest {facts.model_digest[:12]}")
    elif facts.server is not None:
        advice = f"`ollama pull {source.name}`"
        yield Finding("model", "wrong", f"the server has no {source.name!r}", advice)
    else:
        yield Finding("model", "note", "this server does not say which models it has")


@click.command("doctor")
@click.option("--model", default="", help="Also see whether the server has this model.")
@click.option("--api", type=click.Choice(["ollama", "openai"]), default="ollama",
              show_default=True, help="Which API the server speaks.")  # fmt: skip
@click.option("--base-url", help="The server; for ollama $OLLAMA_HOST unless given.")
@click.option(
    "--dir", "folder", default="cassettes", show_default=True,
    type=click.Path(file_okay=False, path_type=Path), help="Where sessions lie.",
)  # fmt: skip
@json_option
def doctor_command(
    *, model: str, api: Api, base_url: str | None, folder: Path, as_json: bool
) -> None:
    """See what stands ready: packages, sessions, the collector, the model server.

    \b
    Examples:
      agentrig doctor
      agentrig doctor --model qwen2.5-coder:1.5b
      agentrig doctor --api openai --base-url http://127.0.0.1:8000/v1 --json
    """
    with exit_codes():
        if api == "openai" and not base_url:
            raise click.UsageError("--api openai needs --base-url, e.g. http://127.0.0.1:8000/v1")
        source = ModelSource(api=api, name=model, base_url=base_url)
        findings = list(examine(source, folder, os.environ))
    if as_json:
        rows = [redactor.value(asdict(each)) for each in findings]
        echo_json(rows, indent=2)
    else:
        _show(findings)
    states = {each.state for each in findings}
    if "unreachable" in states:
        leave(UNREACHABLE)
    if "wrong" in states:
        leave(FAILED)


def _show(findings: list[Finding]) -> None:
    for each in findings:
        advice = f" ({each.advice})" if each.advice else ""
        text = safe_text(f"{each.said}{advice}")
        click.echo(f"{each.state:<11} {each.subject:<14} {text}")
