"""Post a trace file to a collector."""

from __future__ import annotations

import json
from pathlib import Path

import requests

from harness.content import name
from harness.sinks import Delivery, refused_spans
from harness.trace.spans import traces, without_spans

_TIMEOUT = (2.0, 10.0)


def send_file(path: Path, url: str) -> Delivery:
    """Post the lines of a file, each as it is: they are export requests already.

    Raises:
        TraceFileError: there is no span in it.
    """
    sent = lost = 0
    reason = ""
    with requests.Session() as session, path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            number = _spans_in(line)
            if not number:
                continue
            refused, why = _post(session, url, line)
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


def _spans_in(line: str) -> int:
    try:
        return sum(len(trace.spans()) for trace in traces([json.loads(line)]))
    except ValueError:
        return 0
