"""Fixtures of several test files of the harness."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.faults import FaultServer, Received, Response
from tests.harness.agents import Spans
from tests.harness.serve_support import record
from tests.harness.sessions_support import three_steps

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def own_directory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traces are kept under the current directory."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.fixture
def importable_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers find what is defined under `tests` as a module."""
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def no_otel_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine that runs the tests names a collector."""
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps: weather, a sum, the answer."""
    return three_steps(tmp_path_factory.mktemp("recorded") / "three.yaml").path


@pytest.fixture
def live() -> Iterator[FaultServer]:
    """A server like Ollama, whose model knows one answer."""

    def answer(received: Received) -> Response:
        if received.path == "/api/chat":
            return Response(body=record("Final Answer: 5"))
        return Response(body={"version": "0.24.0", "models": []})

    with FaultServer(answer) as server:
        yield server


@pytest.fixture
def named(live: FaultServer, monkeypatch: pytest.MonkeyPatch) -> FaultServer:
    """The same, where `OLLAMA_HOST` names it."""
    monkeypatch.setenv("OLLAMA_HOST", live.url)
    return live


@pytest.fixture
def spans() -> Spans:
    """Where the spans of a test go."""
    return Spans()


@pytest.fixture
def no_trouble(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Neither the harness nor OpenTelemetry may complain while a test runs."""
    yield
    said = [r for r in caplog.get_records("call") if r.name.startswith(("harness", "opentel"))]
    assert [record.getMessage() for record in said] == []
