"""Read a `.env` file, and only when asked to: `--env-file`.

Names that are set already stay as they are. Every value counts as a secret from then on, so
that no error, record or session file shows it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from agent_core.errors import ConfigError
from agent_core.models import Secret
from harness.redact import register_urls

_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)")
_QUOTED = re.compile(r"(?P<mark>['\"])(?P<inside>.*?)(?P=mark)[ \t]*(?:#.*)?")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r"\\([nt\"\\])")


def read_env_file(path: Path) -> dict[str, Secret]:
    """The variables of a file: `NAME=value` lines, with quotes, comments and `export`.

    Raises:
        ConfigError: the file cannot be read, or a line is something else. Its content is not
            shown.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path.name!r}: {type(error).__name__}") from error
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.fullmatch(stripped)
        if match is None:
            raise ConfigError(f"{path.name}, line {number}: expected NAME=value")
        value = _value(match["value"])
        found[match["name"]] = Secret(value)
        register_urls(value)  # the password alone is a secret, too
    return found


def load_env_file(path: Path) -> None:
    """Put the variables of a file into the environment, where they are not set yet."""
    for name, value in read_env_file(path).items():
        os.environ.setdefault(name, value.reveal())


def _value(text: str) -> str:
    quoted = _QUOTED.fullmatch(text)
    if quoted is None:
        return re.sub(r"[ \t]+#.*", "", text).strip()
    inside = quoted["inside"]
    if quoted["mark"] == "'":
        return inside
    return _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], inside)


def _load(_context: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        try:
            load_env_file(path)
        except ConfigError as error:
            raise click.BadParameter(str(error)) from error


env_file_option = click.option(
    "--env-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), is_eager=True,
    expose_value=False, callback=_load, help="Read variables such as OPENAI_API_KEY from a file.",
)  # fmt: skip
