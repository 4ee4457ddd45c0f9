"""One watched run, for the tests of where its spans go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from harness import telemetry
from tests.harness.event_script import PlannedStep, drive

SPANS = 5  # of a run of one step: run, step, chat, POST, parse

DEAD = "http://127.0.0.1:9"  # nothing listens on the discard port


def run_once(tmp_path: Path, **settings: Any) -> tuple[telemetry.Watch, list[str]]:
    """One run of one step in a session."""
    said: list[str] = []
    with telemetry.session(directory=tmp_path, say=said.append, **settings) as watch:
        drive(watch.observer, [PlannedStep()])
    return watch, said


def pairs(attributes: Any) -> dict[str, str]:
    """The attributes of a resource."""
    assert all(isinstance(each, KeyValue) for each in attributes)
    return {each.key: each.value.string_value for each in attributes}
