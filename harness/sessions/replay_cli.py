"""`agentrig replay`: parse arguments, replay, and say it on the terminal, as JSON, as a page.

Exit codes: 0 all is well, 1 a check failed, 2 wrong usage, 3 the endpoint cannot be reached.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from agent_core.clock import SystemClock
from agent_core.messages import JsonObject
from harness.files import is_replaceable
from harness.options import FAILED, USAGE, annotations_option, json_option, leave, paths_argument
from harness.output import echo_json, naming, safe_line, safe_text, write_output
from harness.sessions import github
from harness.sessions.accept import accept
from harness.sessions.arguments import Tracing, code_of, exit_codes, trace_options, traced
from harness.sessions.borders import BORDERS
from harness.sessions.cassette import load_session
from harness.sessions.errors import NotReplaced, SessionError
from harness.sessions.format import GoldenTurn
from harness.sessions.record import Recorded, rewrite
from harness.sessions.replay import replay, with_lies
from harness.sessions.report import SuiteReport, suite_report
from harness.sessions.servers import Servers
from harness.sessions.session_report import Report
from harness.sessions.show import console, show_report, show_summary
from harness.sessions.sources import allowed_factory, named_factory, reachable
from harness.sessions.suite import Shard, Unjudged, replay_all, session_files
from harness.sessions.trajectory import first_divergence

_MANY = 20  # sessions from which on a progress bar is of use


def _shard(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Shard | None:
    try:
        return None if text is None else Shard.named(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@click.command("replay")
@paths_argument
@click.option("--agent", help="Factory to use instead of the session's, as module:function.")
@click.option("--allow", multiple=True, metavar="MODULE|URL",
              help="A module or package whose factories a session file may name; for --rewrite "
              "also a server that it may name.")  # fmt: skip
@click.option("--mode", type=click.Choice(["strict", "lenient"]), default="strict",
              show_default=True, help="lenient reports drift and never fails for it.")  # fmt: skip
@click.option("--tools", type=click.Choice(["taped", "live"]), default="taped",
              show_default=True, help="Answer tool calls from the tape, or run them.")  # fmt: skip
@click.option("--borders", type=click.Choice(BORDERS),
              help="Where streams are cut into chunks; as they came unless given.")  # fmt: skip
@click.option("--pace", default=0.0, show_default=True, type=click.FloatRange(0, 1),
              help="1: as slowly as it was recorded, 0: without waiting.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(["warn", "fail"]), default="warn",
              show_default=True, help="The least severity of drift that fails.")  # fmt: skip
@click.option("--accept", "accepted", multiple=True, metavar="CAUSE",
              help="Take this cause of drift over into the sessions, without asking the model "
              "again; may be repeated.")  # fmt: skip
@click.option("--rewrite", "again", is_flag=True,
              help="Ask the live model and record the sessions again.")  # fmt: skip
@click.option("--shard", callback=_shard, metavar="I/N",
              help="Replay only the I-th of N equal parts.")  # fmt: skip
@annotations_option
@click.option("--html", "html_file", type=click.Path(dir_okay=False, path_type=Path),
              metavar="FILE", help="Write a page, and the traces beside it.")  # fmt: skip
@click.option("--sweep", "sweep_file", metavar="FILE",
              type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="With --html: what `sweep --json` printed, to show its matrix.")  # fmt: skip
@trace_options
@json_option
def replay_command(
    *,
    paths: tuple[Path, ...],
    agent: str | None,
    allow: tuple[str, ...],
    accepted: tuple[str, ...],
    again: bool,
    shard: Shard | None,
    annotate: str | None,
    html_file: Path | None,
    sweep_file: Path | None,
    as_json: bool,
    tracing: Tracing,
    **how: Any,
) -> None:
    """Replay sessions offline and say what changed and why. PATHS are files or folders.

    \b
    Examples:
      agentrig replay cassettes
      agentrig replay cassettes/weather-zh.yaml --json
      agentrig replay cassettes --allow shop.agents --fail-on fail
      agentrig replay cassettes --accept "description of tool get_weather"
      agentrig replay cassettes --html report.html
      agentrig replay cassettes --shard 2/4 --json > shard-2.json
      agentrig replay cassettes/a.yaml --otlp http://localhost:4318
      agentrig replay cassettes/a.yaml cassettes/b.yaml --rewrite
    """
    with exit_codes():
        if (again or how["mode"] == "lenient") and accepted:
            raise click.UsageError(
                "--accept is offline and strict: no --rewrite, no --mode lenient"
            )
        sweep = _sweep_of(sweep_file, html_file)
        suite = session_files(paths)
        files = suite if shard is None else shard.files(suite)
        if not suite:
            raise click.UsageError(f"no session files in {', '.join(map(str, paths))}")
        if again:
            _rewrite_all(files, agent=agent, allow=allow, as_json=as_json)
            return
        how |= {"factory": agent, "allow": allow}
        reports, unjudged = _replayed(files, tracing, how)
        how["pace"] = 0.0  # to look once more, nobody has to wait
        if accepted:
            reports = accept(reports, accepted, SystemClock(), **how)
        pages: dict[Path, list[str]] = {}
        if html_file is not None:
            pages, reports = _trace_pages(reports, html_file, how)
        report = suite_report(reports, unjudged, shard=shard, suite=suite, traces=pages)
        if html_file is not None:
            from harness.sessions.report_page import report_page  # noqa: PLC0415 - slow to load

            write_output("--html", html_file, report_page(report, sweep))
    _print(report, reports, unjudged, as_json=as_json)
    if annotate:
        for line in github.of_replay(reports, unjudged):
            click.echo(line, err=as_json)
    if any(not each.ok for each in reports) or any(each.crashed for each in unjudged):
        leave(FAILED)
    if unjudged:
        leave(USAGE)


def _replayed(
    files: Sequence[Path], tracing: Tracing, how: Mapping[str, Any]
) -> tuple[list[Report], list[Unjudged]]:
    """Replay them, traced if an option asks for it: that makes replays slower."""
    with traced(tracing, replayed=True) if any(tracing) else nullcontext() as watch:
        seen = {"observers": [watch.observer], "traces": watch.take_traces} if watch else {}
        return replay_all(progress(files, "replaying"), **how, **seen)


def progress(files: Sequence[Path], what: str) -> Iterator[Path]:
    """The files, under a progress bar where there are many and a terminal is there to show it."""
    err = console(stderr=True)
    silent = len(files) < _MANY or not err.is_terminal
    yield from track(files, description=what, console=err, disable=silent, transient=True)


def _print(
    report: SuiteReport, reports: Iterable[Report], unjudged: Sequence[Unjudged], *, as_json: bool
) -> None:
    if as_json:
        echo_json(report.as_json(), indent=2)
        return
    out = console()
    reports = list(reports)
    for each in reports:
        show_report(out, each)
    for failed in unjudged:
        out.print(safe_text(f"ERROR  {failed.path.stem}: {failed.words}"), style="bold red")
    show_summary(out, reports, len(unjudged))


def _trace_pages(
    reports: Sequence[Report], html_file: Path, how: Mapping[str, Any]
) -> tuple[dict[Path, list[str]], list[Report]]:
    """Write a page for each turn of each session, beside the report; give their addresses.

    The reports come back with what the traces say otherwise than the recordings.
    """
    from harness.trace.html import page  # noqa: PLC0415 - OpenTelemetry takes a while to load
    from harness.trace.memory import MemoryTraces  # noqa: PLC0415

    with naming("--html", html_file):
        if not is_replaceable(html_file):  # a device or a pipe has no place beside it
            return {}, list(reports)
    folder = html_file.with_name(f"{html_file.stem}-traces")
    with naming("--html (the traces that it links to)", folder):
        folder.mkdir(parents=True, exist_ok=True)
    written: dict[Path, list[str]] = {}
    checked: list[Report] = []
    for number, report in enumerate(reports, start=1):
        path = report.path
        if path is not None and report.results:
            memory = MemoryTraces(replayed=True)
            again = replay(path, **how, observers=[memory.observer], traces=memory.traces)
            report = with_lies(report, again.lies)  # noqa: PLW2901 - the same, checked
            trouble = "" if report.ok else f"session {report.name} failed: {report.in_words()[0]}"
            for turn, trace in enumerate(memory.traces(), start=1):
                name = f"{number:03d}-{report.name}-{turn}.html"
                write_output("--html", folder / name, page(trace, trouble=trouble))
                written.setdefault(path, []).append(f"{folder.name}/{name}")
        checked.append(report)
    return written, checked


def _sweep_of(sweep_file: Path | None, html_file: Path | None) -> JsonObject | None:
    if sweep_file is None:
        return None
    if html_file is None:
        raise click.UsageError("--sweep is shown on the page of --html")
    try:
        sweep = json.loads(sweep_file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SessionError(f"{sweep_file}: expected what `sweep --json` prints; {error}") from error
    if not isinstance(sweep, dict) or not isinstance(sweep.get("rows"), list):
        raise SessionError(f"{sweep_file}: expected what `sweep --json` prints, with `rows`")
    return sweep


def _rewrite_all(
    files: Sequence[Path], *, agent: str | None, allow: Sequence[str], as_json: bool
) -> None:
    factories, recorded, servers = {}, {}, Servers(allow)
    for path in files:  # everything that can be wrong is found before anything is asked
        session = load_session(path).session
        if session is None:
            raise SessionError(
                f"{path} is a cassette without a session block: no agent to run; record it again "
                f"with the test that serves it (pytest --agentrig-record=rewrite), or with "
                f"agentrig record --proxy --name {path.stem} --rewrite"
            )
        servers.check_model(session.model)
        reachable(session.model)
        recorded[path] = session.trajectory
        factories[path] = (
            named_factory(agent) if agent else allowed_factory(session.agent.factory, allow)
        )
    told: list[JsonObject] = []
    kept: list[NotReplaced] = []
    out = console(stderr=as_json)
    for path in progress(files, "recording"):
        try:
            done = rewrite(path, factories[path], allow=allow)
        except NotReplaced as error:
            kept.append(error)
            told.append({"path": str(path), "error": str(error)})
            out.print(f"KEPT   {safe_text(str(error))}", style="bold red")
            continue
        told.append(done.as_json())
        if not as_json:
            out.print(safe_text(done.in_words()))
            _print_change(out, recorded[path], done)
    if as_json:
        echo_json(told, indent=2)
    if kept:
        leave(max(code_of(each.__cause__) for each in kept))


def _print_change(out: Console, recorded: Sequence[GoldenTurn], done: Recorded) -> None:
    """Say where the new recording goes another way than the old one."""
    assert done.file.session is not None
    change = first_divergence(recorded, done.file.session.trajectory)
    if change is not None:
        out.print(f"    {safe_line(str(change))}")
