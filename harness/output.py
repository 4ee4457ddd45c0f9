"""JSON on standard output: without secrets, and without characters that steer a terminal."""

from __future__ import annotations

import json
import re
from typing import Any

import click

from harness.plain import STEERING, plain
from harness.redact import redactor

_TO_ESCAPE = re.compile(rf"{STEERING.pattern}|[\ud800-\udfff]")


def echo_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON, every secret in it replaced; any command that prints JSON does so.

    Chinese stays Chinese. Controls, marks that turn the direction of text and halves of a
    surrogate pair are escaped, so that a JSON parser reads what was there.
    """
    text = json.dumps(redactor.value(plain(value)), ensure_ascii=False, indent=indent)
    click.echo(_TO_ESCAPE.sub(_escaped, text))


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
