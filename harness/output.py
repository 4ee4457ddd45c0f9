"""What commands give: JSON on standard output, and files that an option names.

Neither holds a secret or a character that steers a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.files import write_atomically
from harness.plain import STEERING, one_line, plain, visible
from harness.redact import redactor

if TYPE_CHECKING:
    from rich.console import Console

_UNCUT = 100_000  # columns
_TO_ESCAPE = re.compile(rf"{STEERING.pattern}|[\ud800-\udfff]|(?<=#)#(?=\w*\[)")


def echo_json(value: Any, *, indent: int | None = None) -> None:
    """Print a value as JSON, every secret in it replaced; any command that prints JSON does so.

    Chinese stays Chinese. Controls, marks that turn the direction of text, commands to the runner
    of a build (`##[`) and halves of a surrogate pair are escaped, so that a JSON parser reads what
    was there; and all that is not ASCII where standard output has another encoding than UTF-8.
    """
    ascii_only = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    text = json.dumps(redactor.value(plain(value)), ensure_ascii=ascii_only, indent=indent)
    click.echo(_TO_ESCAPE.sub(_escaped, text))


def uncut(console: Console) -> None:
    """Let lines and tables be as wide as they need where no terminal sets a width."""
    if not console.is_terminal:
        console.width = _UNCUT


def safe_text(text: str) -> str:
    """Text for a terminal: control characters are shown and do nothing, secrets are not."""
    return visible(redactor.text(text))


def safe_line(text: str) -> str:
    """The same on one line: a name or a sentence that has several is no list of ours."""
    return one_line(redactor.text(text))


class OutputError(click.ClickException):
    """What a command was to write cannot be written: one line and the code of wrong usage."""

    exit_code = 2

    def format_message(self) -> str:
        """The words without secrets, on one line."""
        return safe_line(self.message)


def write_output(option: str, path: Path, text: str) -> None:
    """Write the file that an option names, and its folder where there is none.

    A link is followed, a device or a pipe written into.

    Raises:
        OutputError: it cannot be written.
    """
    with naming(option, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)


@contextmanager
def naming(option: str, path: Path) -> Iterator[None]:
    """Turn an error of the system about an output into one line that names its option.

    Raises:
        OutputError: instead of the OSError.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{option}: cannot write to {str(path)!r} ({error.strerror or error}); "
            "expected a file that can be written, in an existing folder"
        ) from error


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
