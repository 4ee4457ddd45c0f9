"""A log call writes one line of JSON, or text for people, and never raises."""

from __future__ import annotations

import io
import json
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given, settings

from agent_core.secret_shapes import MASK
from harness import instrument, logs
from tests.harness.agents import ANSWER, Spans, weather_agent
from tests.harness.secret_strategies import tokens


class _Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    """Leave structlog as other tests expect it."""
    yield
    structlog.reset_defaults()


def record(**fields: Any) -> dict[str, Any]:
    """Log one event and read its line."""
    stream = io.BytesIO()
    logs.json_logger(stream).info("some.event", **fields)
    (line,) = stream.getvalue().splitlines()
    read: dict[str, Any] = json.loads(line)
    return read


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [
        {uuid.UUID(int=1): 1, (1, 2): "x"},
        object(),
        _Hostile(),
        {_Hostile(): _Hostile()},
        "lone \ud800 surrogate",
        {"\udfff": 1},
        2**70,
        [10**5_000],
        float("nan"),
        float("-inf"),
        b"\xff\xfe\x00",
        {1, 2},
        CYCLE,
        ValueError("x"),
        "北京",
    ],
)
def test_any_value_makes_a_line_of_json(value: Any) -> None:
    """Whatever it is, as value, in a list, in a dictionary."""
    assert record(value=value, inside=[{"k": value}])["event"] == "some.event"


def test_chinese_stays_readable() -> None:
    """No escapes in the file."""
    stream = io.BytesIO()
    logs.json_logger(stream).info("some.event", city="北京")
    assert "北京" in stream.getvalue().decode()


def test_deep_nesting_is_no_recursion_error() -> None:
    """Foreign data may be nested without end."""
    value: Any = 1
    for _ in range(10_000):
        value = [value]
    assert record(value=value)["event"] == "some.event"


def test_a_record_has_level_time_and_no_ids_outside_a_span() -> None:
    """An id is there only where there is a span."""
    fields = record()
    assert fields["level"] == "info"
    assert fields["timestamp"].endswith("Z")
    assert "trace_id" not in fields


class _Broken(io.RawIOBase):
    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_and_a_closed_stream_lose_the_line_and_no_more() -> None:
    """The agent that logs must not notice."""
    closed = io.BytesIO()
    closed.close()
    for stream in (_Broken(), closed):
        logs.json_logger(stream).info("some.event")  # type: ignore[arg-type]


def test_levels_below_the_threshold_are_not_written() -> None:
    """`level` is the least that is."""
    stream = io.BytesIO()
    logs.json_logger(stream, level="warning").info("some.event")
    assert stream.getvalue() == b""


@given(secret=tokens)
@settings(max_examples=20, deadline=None)
def test_secrets_are_in_no_record(secret: str) -> None:
    """Not as value, key, part of a text, argument of an exception."""
    stream = io.BytesIO()
    log = logs.json_logger(stream)
    log.info("some.event", key=secret, nested={secret: [f"x {secret} y"]}, odd={(secret,): 1})
    try:
        raise ValueError(f"cannot log in with {secret}")
    except ValueError:
        log.exception("some.failure", password="short")
    assert secret not in stream.getvalue().decode()
    assert json.loads(stream.getvalue().splitlines()[1])["password"] == MASK


def test_records_of_a_tool_carry_the_ids_of_the_run() -> None:
    """The tool uses structlog as it likes; `configure` sees to the ids."""
    stream = io.BytesIO()
    logs.configure(stream)
    spans = Spans()

    def look(city: str) -> str:
        """Look."""
        structlog.get_logger().info("shop.looked", city=city, api_key="abcdefgh")
        return city

    call = 'Action: look\nAction Input: {"city": "x"}'
    instrument(weather_agent([call, ANSWER], [look]), tracer_provider=spans.provider).run("?")
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    (mine,) = [each for each in records if each["event"] == "shop.looked"]
    (tool,) = spans.traces()[0].root.find("execute_tool")
    assert mine["span_id"] == tool.span_id
    assert mine["trace_id"] == tool.trace_id
    assert mine["step"] == 1
    assert mine["run_id"] == records[0]["run_id"]
    assert mine["api_key"] == MASK
    assert {each["event"] for each in records} >= {"run.start", "llm.call", "parse.ok", "run.end"}


def test_nothing_is_logged_before_structlog_is_configured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A library stays quiet until the application asks for records."""
    instrument(weather_agent(), tracer_provider=Spans().provider).run("?")
    assert capsys.readouterr() == ("", "")


def test_people_get_text(capsys: pytest.CaptureFixture[str]) -> None:
    """The console rendering names event and fields, whatever they are."""
    logs.configure(sys.stderr, console=True)
    structlog.get_logger().info("some.event", city="北京", odd=_Hostile(), bad="\ud800")
    said = capsys.readouterr().err
    assert "some.event" in said
    assert "city=北京" in said
