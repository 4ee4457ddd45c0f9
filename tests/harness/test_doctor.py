"""The doctor names what is missing, and ends as what it found."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli import main
from harness.sessions.serve import SessionServer, serve
from tests.harness.serve_support import tool_turn


def doctor(*arguments: str, **environ: str) -> Result:
    """Run the command with nothing named by the environment but `environ`."""
    unset = dict.fromkeys(("OLLAMA_HOST", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), "")
    return CliRunner().invoke(main, ["doctor", *arguments], env={**unset, **environ})


def found(result: Result, subject: str) -> dict[str, Any]:
    """The finding about this subject, of a result in JSON."""
    return next(each for each in json.loads(result.output) if each["subject"] == subject)


def closed_port() -> int:
    """A port at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def server(tmp_path: Path) -> Any:
    """A model server that has the models of one session."""
    with serve([tool_turn(tmp_path / "tour.yaml")]) as running:
        yield running


def test_all_is_well(server: SessionServer, tmp_path: Path) -> None:
    """A server that answers and sessions that load: exit 0."""
    result = doctor("--base-url", server.url, "--dir", str(tmp_path), "--json")
    assert result.exit_code == 0
    assert found(result, "model server")["state"] == "ok"
    assert found(result, "sessions")["said"].startswith("1 in ")


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops nothing that only reads; and what was tried leaves nothing behind."""
    monkeypatch.chdir(tmp_path)
    good = found(doctor("--dir", "some/where", "--json"), "writing")
    assert good["state"] == "ok"
    assert not list(tmp_path.iterdir())
    Path(".agentrig").write_text("", encoding="utf-8")  # as little a folder as a locked one
    bad = found(doctor("--json"), "writing")
    assert bad["state"] == "note"
    assert bad["said"].startswith(".agentrig cannot be written (Not a directory)")


def test_a_missing_model_is_named_with_the_command_that_pulls_it(server: SessionServer) -> None:
    """The server is there, the model is not: exit 1."""
    result = doctor("--base-url", server.url, "--model", "absent:1b")
    assert result.exit_code == 1
    assert "ollama pull absent:1b" in result.output


def test_a_dead_server_is_unreachable() -> None:
    """Nothing answers: exit 3, as of every command; the rest is still looked at."""
    secret = "hunter22-of-the-url"
    url = f"http://someone:{secret}@127.0.0.1:{closed_port()}"
    result = doctor("--base-url", url, "--json")
    assert result.exit_code == 3
    assert found(result, "model server")["state"] == "unreachable"
    assert found(result, "python")["state"] == "ok"
    assert secret not in result.output


def test_a_session_that_cannot_be_read_is_named(server: SessionServer, tmp_path: Path) -> None:
    """Broken files are a failure, not a traceback."""
    (tmp_path / "broken.yaml").write_text("session: {version: 1", encoding="utf-8")
    result = doctor("--base-url", server.url, "--dir", str(tmp_path), "--json")
    assert result.exit_code == 1
    assert "broken.yaml" in found(result, "sessions")["said"]


@pytest.mark.parametrize(
    ("variable", "value", "state", "code"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "wrong", 1),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:{port}", "unreachable", 3),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://[", "wrong", 1),
    ],
)
def test_the_collector_that_the_environment_names_is_looked_at(
    server: SessionServer, variable: str, value: str, state: str, code: int
) -> None:
    """What would lose every trace later is said now."""
    named = {variable: value.format(port=closed_port())}
    result = doctor("--base-url", server.url, "--json", **named)
    assert result.exit_code == code
    assert found(result, "collector")["state"] == state
