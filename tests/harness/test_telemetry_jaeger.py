"""A run arrives in Jaeger and is found there, read through its own query API.

The query is tested here against a server of canned answers; with `pytest -m jaeger` and
JAEGER_URL (and JAEGER_OTLP_URL, port 4318 of the same host unless given) against a real one.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from agent_core import events
from agent_core.messages import Coercion, Repair
from harness import telemetry
from harness.trace.findings import findings
from harness.trace.spans import Trace, trace_files, traces
from tests.harness.event_script import PlannedStep, drive

PLANS = [
    PlannedStep(
        repairs=(Repair("fence", "0", "", ""),),
        attempts=(
            events.AttemptEnded(503, 9, retry_reason="HTTP 503", wait=0.1),
            events.AttemptEnded(200, 99),
        ),
    ),
    PlannedStep(coercions=(Coercion("$.days", "3", 3),)),
    PlannedStep(),
]
SEARCHES = [
    {"harness.repair.fence": "1"},
    {"harness.coercion.str_to_int": "1"},
    {"harness.retry_reason": "HTTP 503"},
    {"harness.stop_reason": "final_answer"},
    {"harness.step.index": "2"},
    {"gen_ai.tool.name": "get_weather"},
    {"gen_ai.request.model": "qwen"},
]


class Jaeger:
    """Asks Jaeger's query API, version 3."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def trace(self, trace_id: str, spans: int) -> Trace | None:
        """A trace, once it has that many spans; None if it has not within ten seconds."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            answer = requests.get(f"{self._url}/api/v3/traces/{trace_id}", timeout=5)
            if answer.status_code == 200:
                (found,) = traces([answer.json()["result"]])
                if len(found.spans()) == spans:
                    return found
            time.sleep(0.1)
        return None

    def search(self, service: str, attributes: dict[str, str]) -> set[str]:
        """Ids of the traces of the last hour that have a span with these attributes."""
        now = datetime.now(UTC)
        query = {
            "query.service_name": service,
            "query.start_time_min": _rfc3339(now - timedelta(hours=1)),
            "query.start_time_max": _rfc3339(now + timedelta(minutes=1)),
            "query.attributes": json.dumps(attributes),
            "query.search_depth": "20",
        }
        answer = requests.get(f"{self._url}/api/v3/traces", params=query, timeout=5)
        if answer.status_code == 404:  # what it says when nothing matches
            return set()
        answer.raise_for_status()
        return {found.trace_id for found in traces([answer.json()["result"]])}


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def check_arrival(jaeger: Jaeger, otlp: str, directory: Path) -> Trace:
    """Send a run and read it back: one tree, the same spans, found by every attribute."""
    with telemetry.session(
        otlp=otlp, directory=directory, content="truncated", require_export=True,
        say=lambda _: None,
    ) as watch:  # fmt: skip
        drive(watch.observer, PLANS)
    (trace_id,) = watch.trace_ids
    found = jaeger.trace(trace_id, watch.deliveries[1].exported)
    assert found is not None, f"trace {trace_id} did not arrive"
    assert found.complete
    assert {each.question for each in findings(found)} == {"repairs", "coercions", "retries"}
    for attributes in SEARCHES:
        assert trace_id in jaeger.search("agentrig", attributes), attributes
    assert trace_id not in jaeger.search("agentrig", {"harness.repair.fence": "7"})
    return found


@pytest.mark.jaeger
def test_a_run_arrives_in_jaeger_and_is_found(tmp_path: Path) -> None:
    """Against the Jaeger that JAEGER_URL names."""
    url = os.environ.get("JAEGER_URL")
    assert url, "JAEGER_URL must name a running Jaeger, like http://localhost:16686"
    otlp = os.environ.get("JAEGER_OTLP_URL") or f"http://{urlsplit(url).hostname}:4318"
    check_arrival(Jaeger(url), otlp, tmp_path)


def _texts(attributes: list[dict[str, Any]]) -> dict[str, str]:
    return {each["key"]: str(next(iter(each["value"].values()))) for each in attributes}


@contextmanager
def canned_jaeger(directory: Path) -> Iterator[str]:
    """The two query calls and the OTLP address, over what a session wrote to its files."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200, b"")

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            groups = [
                group
                for path in trace_files(directory)
                for line in path.read_text("utf-8").splitlines()
                for group in json.loads(line)["resourceSpans"]
            ]
            wanted = json.loads(parse_qs(parts.query).get("query.attributes", ["{}"])[0])
            spans = [span for group in groups for span in group["scopeSpans"][0]["spans"]]
            if not any(wanted.items() <= _texts(span["attributes"]).items() for span in spans):
                self._answer(404, b'{"error": "No traces found"}')
                return
            self._answer(200, json.dumps({"result": {"resourceSpans": groups}}).encode())

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_check_itself_works_on_canned_answers(tmp_path: Path) -> None:
    """The shape of version 3 of the API, and what it says when nothing is found."""
    with canned_jaeger(tmp_path) as url:
        found = check_arrival(Jaeger(url), url, tmp_path)
    assert found.root.name == "invoke_agent weather"
