"""Options and exit codes that several commands share; importing them is quick."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn

import click

from harness.output import safe_text

FAILED, USAGE, UNREACHABLE, INTERRUPTED = 1, 2, 3, 130

Command = Callable[..., Any]


def together(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator."""
    return lambda command: reduce(lambda done, each: each(done), reversed(decorators), command)


class _Entry(click.Path):
    """A file or a folder; a link that leads nowhere is one too: reading it names it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check that it is there."""
        if os.path.islink(value):  # noqa: PTH114 - `value` may be any kind of path
            return Path(value)
        return super().convert(value, param, ctx)


paths_argument = click.argument(
    "paths", nargs=-1, required=True, type=_Entry(exists=True, path_type=Path)
)
annotations_option = click.option(
    "--annotations", "annotate", type=click.Choice(["github"]),
    help="Print what is wrong as annotations of a GitHub workflow too.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
allow_option = click.option(
    "--allow", multiple=True, metavar="MODULE",
    help="A module or package whose factories a session file may name; may be repeated.",
)  # fmt: skip

workers_options = together(
    click.option("--workers", type=click.IntRange(1), default=os.cpu_count() or 1,
                 show_default="one per core", help="Processes on this machine."),
    click.option("--dask", metavar="ADDRESS",
                 help="Have it done by the workers of this Dask scheduler instead."),
)  # fmt: skip


def leave(code: int) -> NoReturn:
    """End the command with this exit code."""
    raise click.exceptions.Exit(code)


def left_out(path: Path, why: Exception | str) -> None:
    """Name a file that is left out, and say why."""
    words = str(why) if str(path) in str(why) else f"{path}: {why}"
    click.echo(f"left out: {safe_text(words)}", err=True)
