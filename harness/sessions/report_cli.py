"""`agentrig report merge`: the reports of a suite's shards become one."""

from __future__ import annotations

from pathlib import Path

import click
from rich.text import Text

from harness.options import FAILED, json_option, leave
from harness.output import echo_json, safe_line, safe_text, write_output
from harness.sessions.arguments import exit_codes
from harness.sessions.report import SuiteReport, merged, read_report
from harness.sessions.report_page import report_page
from harness.sessions.session_report import summary
from harness.sessions.show import console


@click.group("report")
def report_command() -> None:
    """Work with reports that `agentrig replay --json` has printed.

    \b
    Examples:
      agentrig report merge shard-1.json shard-2.json --html report.html
    """


@report_command.command("merge")
@click.argument("files", nargs=-1, required=True,
                type=click.Path(exists=True, dir_okay=False, path_type=Path))  # fmt: skip
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path),
              metavar="FILE", help="Write a page.")  # fmt: skip
@json_option
def merge_command(*, files: tuple[Path, ...], html_file: Path | None, as_json: bool) -> None:
    """Make one report of those of all shards of a suite. FILES are what each printed.

    Ends with code 1 if any shard failed, and with 2 if one is missing or there twice.

    \b
    Examples:
      agentrig report merge shard-1.json shard-2.json
      agentrig report merge shard-*.json --json > suite.json
      agentrig report merge shard-*.json --html report.html
    """
    with exit_codes():
        report = merged({str(path): read_report(path) for path in files})
        if html_file is not None:
            write_output("--html", html_file, report_page(report))
    if as_json:
        echo_json(report.as_json(), indent=2)
    else:
        _show(report)
    if not report.ok:
        leave(FAILED)


def _show(report: SuiteReport) -> None:
    out = console()
    for each in report.sessions:
        if each.verdict != "failed":
            continue
        out.print(Text("FAILED", style="bold red"), safe_line(each.session))
        for line in each.words:
            out.print(f"    {safe_line(line)}")
    for path, words in report.errors.items():
        out.print(f"ERROR  {safe_text(path)}: {safe_text(words)}", style="bold red")
    said = summary([each.verdict for each in report.sessions], len(report.errors))
    out.print(Text(said, style="bold"))
