"""`agentrig lint`: look at recorded files, print, exit."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import click
from rich.text import Text

from harness.options import FAILED, annotations_option, json_option, leave, paths_argument
from harness.output import echo_json, safe_text
from harness.plain import counted
from harness.sessions import github
from harness.sessions.arguments import exit_codes
from harness.sessions.lint import Finding, Level, fix, lint, lone_journals
from harness.sessions.show import console
from harness.sessions.suite import session_files

_COLOURS: dict[Level, str] = {"error": "bold red", "warning": "yellow", "info": "dim"}


@click.command("lint")
@paths_argument
@click.option("--fix", "mend", is_flag=True, help="Take secrets out of the files.")
@click.option("--max-age", type=click.IntRange(min=1), metavar="DAYS",
              help="Warn of recordings older than this.")  # fmt: skip
@annotations_option
@json_option
def lint_command(
    *,
    paths: tuple[Path, ...],
    mend: bool,
    max_age: int | None,
    annotate: str | None,
    as_json: bool,
) -> None:
    """Look for what is wrong with session files and cassettes. PATHS are files or folders.

    Ends with code 1 if there is an error; warnings and notes do not fail.

    \b
    Examples:
      agentrig lint cassettes
      agentrig lint cassettes --max-age 180 --json
      agentrig lint cassettes/weather-zh.yaml --fix
    """
    with exit_codes():
        files = session_files(paths)
        fixed = _mended(files) if mend else []
        found = lint(files, max_age=None if max_age is None else timedelta(days=max_age))
        found += lone_journals(paths)
    if as_json:
        report = {
            "ok": not _errors(found),
            "files": len(files),
            "fixed": [str(each) for each in fixed],
            "findings": [each.as_json() for each in found],
        }
        echo_json(report, indent=2)
    else:
        _show(files, fixed, found)
    if annotate:
        for line in github.of_lint(found):
            click.echo(line, err=as_json)
    if _errors(found):
        leave(FAILED)


def _mended(files: Sequence[Path]) -> list[Path]:
    """Files that had secrets; one that cannot be read is for `lint` to tell of."""
    unreadable = {each.path for each in lint(files) if each.rule == "unreadable"}
    return [path for path in files if path not in unreadable and fix(path)]


def _errors(found: Sequence[Finding]) -> int:
    return sum(each.level == "error" for each in found)


def _show(files: Sequence[Path], fixed: Sequence[Path], found: Sequence[Finding]) -> None:
    out = console()
    for path in fixed:
        out.print(f"fixed  {safe_text(str(path))}: secrets are out of it")
    for each in found:
        where = f", {each.where}" if each.where else ""
        out.print(
            Text(f"{each.level:8}", style=_COLOURS[each.level]),
            safe_text(f"{each.path}{where}: {each.words} [{each.rule}]"),
        )
    warnings = sum(each.level == "warning" for each in found)
    out.print(
        Text(
            f"{counted(len(files), 'file')}: {counted(_errors(found), 'error')}, "
            f"{counted(warnings, 'warning')}",
            style="bold",
        )
    )
