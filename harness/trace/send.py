"""Post a trace file, or one trace of it, to a collector."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from agent_core.models.address import is_loopback
from harness.content import name
from harness.sinks import Delivery, refused_spans
from harness.trace.spans import narrowed, traces, without_spans

_TIMEOUT = (2.0, 10.0)


def send_file(path: Path, url: str, trace_id: str | None = None) -> Delivery:
    """Post the lines of a file, each as it is: they are export requests already.

    Args:
        trace_id: of the one trace to send, where the file holds others too.

    Raises:
        TraceFileError: there is no span in it.
    """
    sent = lost = 0
    reason = ""
    with requests.Session() as session, path.open(encoding="utf-8", errors="replace") as lines:
        session.trust_env = not is_loopback(urlsplit(url).hostname or "")  # no proxy on the way
        for line in lines:
            request, number = _request(line, trace_id)
            if not number:
                continue
            refused, why = _post(session, url, request)
            refused = number if refused is None else min(refused, number)
            sent += number - refused
            lost += refused
            reason = why or reason
    if not sent + lost:
        raise without_spans(path)
    return Delivery(url, sent, lost, reason)


def _post(session: requests.Session, url: str, line: str) -> tuple[int | None, str]:
    """How many spans of this line were refused (None: all), and why."""
    try:
        response = session.post(
            url,
            data=line.encode("utf-8"),
            headers={"Content-Type": "application/json"},
            timeout=_TIMEOUT,
            allow_redirects=False,
        )
    except requests.RequestException as error:
        return None, f"{type(error).__name__} at {name(url)}"
    if response.status_code != 200:
        return None, f"HTTP {response.status_code}"
    return refused_spans(response)


def _request(line: str, trace_id: str | None) -> tuple[str, int]:
    """What is to be posted of a line, and how many spans that is."""
    try:
        request: Any = json.loads(line)
    except ValueError:
        return line, 0
    if trace_id is not None:
        request = narrowed(request, trace_id)
        line = json.dumps(request, ensure_ascii=False)
    return line, sum(len(trace.spans()) for trace in traces([request]))
