"""`agentrig sweep`: parse arguments, sweep, print and save.

Exit codes: 0 no violation and the threshold reached, 1 otherwise, 2 wrong usage, 3 no Dask
scheduler, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.faults.page import page
from harness.faults.report import SweepReport
from harness.faults.show import show_sweep, sweep_annotations
from harness.faults.sweep import Plan, sweep
from harness.options import (
    FAILED,
    INTERRUPTED,
    allow_option,
    annotations_option,
    json_option,
    leave,
    left_out,
    paths_argument,
    workers_options,
)
from harness.output import echo_json, write_output
from harness.sessions.arguments import exit_codes
from harness.sessions.discovery import names_no_agent
from harness.sessions.show import console
from harness.sessions.suite import session_files


@click.command("sweep")
@paths_argument
@click.option("--operators", "operators", multiple=True, metavar="NAME",
              help="Only these: reply, http, tool, or a code such as J4; may be repeated, "
              "or be several with commas between.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), metavar="N",
              help="At most so many steps of a session, evenly spread.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same trials.")
@click.option("--threshold", type=click.FloatRange(0.0, 1.0), default=0.0, metavar="SCORE",
              help="Fail below this recovery score, from 0 to 1.")  # fmt: skip
@workers_options
@click.option("--agent", help="Factory to use instead of the sessions' own, as module:function.")
@allow_option
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path),
              metavar="FILE", help="Write the matrix as one page.")  # fmt: skip
@annotations_option
@json_option
def sweep_command(
    *,
    paths: tuple[Path, ...],
    operators: tuple[str, ...],
    steps: int | None,
    seed: int,
    threshold: float,
    workers: int,
    dask: str | None,
    agent: str | None,
    allow: tuple[str, ...],
    html_file: Path | None,
    annotate: str | None,
    as_json: bool,
) -> None:
    """Let things go wrong in recorded sessions and see what the agent makes of it.

    Every step of every session is run again with every fault: of the reply, of HTTP, of the
    tool. Nothing waits and nothing is sent. PATHS are files or folders.

    \b
    Examples:
      agentrig sweep cassettes
      agentrig sweep cassettes --operators http,tool --threshold 0.9
      agentrig sweep cassettes/weather-zh.yaml --operators J15 --json
      agentrig sweep cassettes --steps 2 --workers 4 --html sweep.html
      agentrig sweep cassettes --dask tcp://127.0.0.1:8786
    """
    with exit_codes():
        files = _with_agents(session_files(paths), paths)
        if not files:
            raise click.UsageError(f"no session files in {', '.join(map(str, paths))}")
        names = tuple(name for each in operators for name in each.split(",") if name)
        plan = Plan(names, steps, seed, agent, allow)
        report = _swept(files, plan, workers=workers, dask=dask)
        if html_file is not None:
            write_output("--html", html_file, page(report))
    if as_json:
        echo_json(report.as_json(), indent=2)
    else:
        show_sweep(console(), report, threshold)
    if annotate:
        for line in sweep_annotations(report, files):
            click.echo(line, err=as_json)
    if report.interrupted:
        leave(INTERRUPTED)
    if report.violations or report.errors or not report.reaches(threshold):
        leave(FAILED)


def _with_agents(files: Sequence[Path], named: Sequence[Path]) -> list[Path]:
    """What can be swept; of what nobody named, recordings of other agents are only told of."""
    swept = []
    for path in files:
        if path in named or not names_no_agent(path):
            swept.append(path)
        else:
            left_out(path, "it does not say what agent made it")
    return swept


def _swept(files: Sequence[Path], plan: Plan, **where: Any) -> SweepReport:
    """Sweep under a progress bar; without a terminal a line tells of each tenth of many."""
    err = console(stderr=True)
    bar = Progress(
        TextColumn("sweeping"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=err, transient=True, disable=not err.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("sweeping", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)
            if bar.disable and total >= 10 and done * 10 % total < 10:
                click.echo(f"swept {done} of {total}", err=True)

        return sweep(files, plan, progress=progress, **where)
