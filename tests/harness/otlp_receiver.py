"""A loopback OTLP/HTTP receiver: real protobuf, gzip, headers, and failures on request."""

from __future__ import annotations

import gzip
import json
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from harness.trace.spans import Trace, traces


@dataclass(frozen=True)
class Received:
    """One export request as it came."""

    path: str
    headers: dict[str, str]
    request: ExportTraceServiceRequest


@dataclass
class Receiver:
    """What arrived, and how to answer. `answers` are statuses for the next requests, then 200."""

    url: str = ""
    answers: list[int] = field(default_factory=list)
    rejects: int = 0
    silent: bool = False
    received: list[Received] = field(default_factory=list)
    accepted: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)

    def traces(self) -> list[Trace]:
        """The accepted spans as trees."""
        return traces([_json(request) for request in self.accepted])

    def text(self) -> str:
        """All that arrived, as text to search in."""
        return "\n".join(str(each.request) + str(each.headers) for each in self.received)


@contextmanager
def otlp_receiver(
    *, answers: Sequence[int] = (), rejects: int = 0, silent: bool = False
) -> Iterator[Receiver]:
    """Listen on a free port of the loopback interface."""
    receiver = Receiver(answers=list(answers), rejects=rejects, silent=silent)
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.silent:
                release.wait(60)
                self.close_connection = True
                return
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path.endswith("/v1/metrics"):
                receiver.metrics.append(ExportMetricsServiceRequest.FromString(body))
                request = ExportTraceServiceRequest()
            else:
                request = _decoded(body, self.headers.get("Content-Type", ""))
            receiver.received.append(Received(self.path, dict(self.headers), request))
            status = receiver.answers.pop(0) if receiver.answers else 200
            answer = ExportTraceServiceResponse()
            if status == 200:
                receiver.accepted.append(request)
                if receiver.rejects:
                    answer.partial_success.rejected_spans = receiver.rejects
                    answer.partial_success.error_message = "too old"
            payload = answer.SerializeToString()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        release.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def wait_for_spans(receiver: Receiver, number: int) -> None:
    """Return when that many spans were accepted, or after five seconds."""
    deadline = time.monotonic() + 5
    while sum(len(t.spans()) for t in receiver.traces()) < number and time.monotonic() < deadline:
        time.sleep(0.01)


def _decoded(body: bytes, kind: str) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    if "json" in kind:
        message = json.loads(body)
        _convert_ids(message, lambda text: b64encode(bytes.fromhex(text)).decode())
        ParseDict(message, request)
    else:
        request.ParseFromString(body)
    return request


def _json(request: ExportTraceServiceRequest) -> Any:
    """The request as OTLP-JSON has it: hex ids, where protobuf's JSON has base64."""
    message = MessageToDict(request, use_integers_for_enums=True)
    _convert_ids(message, lambda text: b64decode(text).hex())
    return message


def _convert_ids(message: Any, convert: Callable[[str], str]) -> None:
    for group in message.get("resourceSpans", []):
        for scope in group.get("scopeSpans", []):
            for span in scope.get("spans", []):
                for holder in (span, *span.get("links", [])):
                    for key in ("traceId", "spanId", "parentSpanId"):
                        if key in holder:
                            holder[key] = convert(holder[key])
