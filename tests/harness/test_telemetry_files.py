"""Spans in files: whole lines, private, pruned, and sent later."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.trace.spans import TraceFileError, read_traces, trace_files
from tests.harness.command_line import agentrig
from tests.harness.otlp_receiver import otlp_receiver
from tests.harness.telemetry_support import DEAD, SPANS, run_once

pytestmark = pytest.mark.usefixtures("no_otel_variables")


NO_ROOM = """
import resource, sys
from pathlib import Path
from tests.harness.telemetry_support import run_once
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, 3_000))
watch, (said, *_) = run_once(Path(sys.argv[1]))
print(watch.deliveries[0].exported, watch.deliveries[0].lost, said)
"""


def test_no_room_is_told_and_leaves_whole_lines(tmp_path: Path) -> None:
    """What does not fit is taken back, so that the next line is read."""
    child = [sys.executable, "-B", "-c", NO_ROOM, str(tmp_path)]
    root = Path(__file__).parents[2]
    done = subprocess.run(child, cwd=root, capture_output=True, text=True, check=True, timeout=60)
    exported, lost, said = done.stdout.strip().split(" ", 2)
    assert 0 < int(lost) < SPANS
    assert said.endswith(f"{lost} lost (File too large)")
    (path,) = trace_files(tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len([json.loads(line) for line in lines]) == int(exported)


def test_a_directory_that_cannot_be_written_is_a_loss_and_no_more(tmp_path: Path) -> None:
    """A file stands where the directory would be."""
    (tmp_path / "file").write_text("x", "utf-8")
    watch, said = run_once(tmp_path / "file" / "traces")
    assert watch.deliveries[0].lost == SPANS
    assert said[0].endswith("5 lost (Not a directory)")


def test_old_files_are_pruned_and_files_are_private(tmp_path: Path) -> None:
    """Fifty are kept; the newest is this run's, readable by its owner alone."""
    for number in range(60):
        (tmp_path / f"20200101T0000{number:02}-1.jsonl").write_text("{}\n", "utf-8")
    watch, _ = run_once(tmp_path)
    assert len(trace_files(tmp_path)) == 50
    assert trace_files(tmp_path)[-1] == watch.path
    assert watch.path is not None
    assert watch.path.stat().st_mode & 0o077 == 0


def test_files_can_be_sent_later(tmp_path: Path) -> None:
    """Line by line; a collector that refuses is named, with code 3, what is no trace with 2."""
    watch, _ = run_once(tmp_path)
    assert watch.path is not None
    with otlp_receiver() as receiver:
        sent = agentrig("trace", "send", watch.path, "--otlp", receiver.url)
        assert sent.exit_code == 0, sent.output
        assert f"{SPANS} spans to {receiver.url}/v1/traces" in sent.output
        (trace,) = receiver.traces()
        assert trace.complete
        other = tmp_path / "other.yaml"
        other.write_text("session: {}\n", encoding="utf-8")
        mixed = agentrig("trace", "send", other, watch.path, "--otlp", receiver.url)
        assert mixed.exit_code == agentrig("trace", "show", other).exit_code == 2
        assert f"{str(other)!r} holds no span; expected lines of OTLP-JSON" in mixed.stderr
        assert f"{watch.path}: {SPANS} spans to " in mixed.stdout
        receiver.answers = [400] * SPANS
        refused = agentrig("trace", "send", watch.path, "--otlp", receiver.url)
    assert refused.exit_code == 3
    assert "5 lost (HTTP 400)" in refused.output
    assert agentrig("trace", "send", watch.path, "--otlp", DEAD).exit_code == 3
    assert agentrig("trace", "send", watch.path, "--otlp", "nowhere").exit_code == 2


def test_traces_are_sent_by_the_names_that_show_takes(tmp_path: Path) -> None:
    """Of a file with several only the one that is named; a name of none sends nothing at all."""
    runs = [run_once(tmp_path)[0].path for _ in range(2)]
    together = tmp_path / "together.jsonl"
    groups: list[Any] = []
    for each in runs:
        assert each is not None
        for line in each.read_text("utf-8").splitlines():
            groups += json.loads(line)["resourceSpans"]
        each.unlink()
    together.write_text(json.dumps({"resourceSpans": groups}) + "\n", "utf-8")
    older, newer = (trace.trace_id for trace in read_traces(together))
    with otlp_receiver() as receiver:
        ways: tuple[list[object], ...] = (
            [],
            ["last~1"],
            [older.upper()[:12]],
            ["last", together],
            [newer, "nothere"],
        )
        codes = [
            agentrig("trace", "send", *names, "--dir", tmp_path, "--otlp", receiver.url).exit_code
            for names in ways
        ]
        arrived = [
            span.trace_id.hex()
            for request in receiver.accepted
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]
    assert codes == [0, 0, 0, 0, 2]
    assert list(dict.fromkeys(arrived)) == [newer, older]
    assert (arrived.count(newer), arrived.count(older)) == (3 * SPANS, 3 * SPANS)


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line[: len(line) // 2],
        lambda line: "[]\n" + line,
        lambda line: '{"resourceSpans": [{"scopeSpans": 3}, 4]}\n' + line,
    ],
)
def test_a_damaged_file_is_read_as_far_as_it_goes(
    tmp_path: Path, damage: Callable[[str], str]
) -> None:
    """A crash may cut the last line; foreign lines are passed over."""
    watch, _ = run_once(tmp_path)
    assert watch.path is not None
    lines = watch.path.read_text("utf-8").splitlines(keepends=True)
    watch.path.write_text("".join([*lines[:-1], damage(lines[-1])]), "utf-8")
    assert len(read_traces(watch.path)[0].spans()) >= SPANS - 1


def test_a_file_without_spans_is_refused(tmp_path: Path) -> None:
    """With a word on what was expected."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("{}\nhello\n", "utf-8")
    with pytest.raises(TraceFileError, match="expected lines of OTLP-JSON"):
        read_traces(empty)
