"""`agentrig run`, `record` and `replay`: parse arguments, call, print.

Exit codes: 0 all is well, 1 a check failed, 2 wrong usage, 3 the endpoint cannot be reached,
130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import requests
from rich.progress import track

from agent_core.clock import SystemClock
from agent_core.errors import ConnectionFailed
from agent_core.messages import JsonObject, RunResult
from harness.envfile import env_file_option
from harness.redact import redactor
from harness.sessions.arguments import (
    FAILED,
    UNREACHABLE,
    USAGE,
    allow_option,
    exit_codes,
    json_option,
    leave,
    model_options,
    plan_from,
    trace_options,
    traced,
)
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionError
from harness.sessions.journal import journal_path
from harness.sessions.record import Mode, Plan, Recorded, record, rewrite
from harness.sessions.replay import Report
from harness.sessions.show import (
    RunPrinter,
    console,
    run_as_json,
    show_report,
    show_summary,
    visible,
)
from harness.sessions.sources import (
    allowed_factory,
    build_agent,
    build_model,
    named_factory,
    reachable,
)
from harness.sessions.storage import session_path
from harness.sessions.suite import Unjudged, replay_all, session_files

if TYPE_CHECKING:
    from harness.content import ContentMode
    from harness.telemetry import Watch

_MANY = 20  # sessions from which on a progress bar is of use


@click.command("run")
@click.argument("factory")
@click.argument("questions", nargs=-1)
@click.option("-i", "--interactive", is_flag=True,
              help="Go on asking for questions until an empty line.")  # fmt: skip
@env_file_option
@model_options
@trace_options
@json_option
def run_command(
    *,
    factory: str,
    questions: tuple[str, ...],
    interactive: bool,
    as_json: bool,
    otlp: str | None,
    content: ContentMode | None,
    log: Path | None,
    require_export: bool,
    **model: Any,
) -> None:
    """Ask the agent of FACTORY (module:function) one question, or several in turn.

    \b
    Examples:
      agentrig run harness.demo.agents:assistant "(15 + 27) * 3" --model qwen2.5-coder:1.5b
      agentrig run shop.agents:support "Where is my parcel?" --model m --stream
      agentrig run shop:agent "Hi" --model m --api openai --base-url http://127.0.0.1:8000/v1
      agentrig run shop:agent -i --model m --env-file .env
    """
    with exit_codes(), traced(otlp, content, log, require_export) as watch:
        more = _typed() if interactive else iter(())
        plan = plan_from(factory, questions or tuple(islice(more, 1)), **model)
        show = None if as_json else RunPrinter(plan.agent.language)
        results = _run(plan, more, show=show, watch=watch)
        if as_json:
            click.echo(_dump([run_as_json(result) for result in results]))
        _exit_for(results[-1])


@click.command("record")
@click.argument("factory", required=False)
@click.argument("questions", nargs=-1)
@click.option("--name", required=True, help="Name of the session: DIR/NAME.yaml.")
@click.option(
    "--dir", "folder", default="cassettes", show_default=True,
    type=click.Path(file_okay=False, path_type=Path), help="Where sessions lie.",
)  # fmt: skip
@click.option("--rewrite", "mode", flag_value="rewrite", help="Replace a session of this name.")
@click.option("--resume", "mode", flag_value="resume", help="Go on with an interrupted recording.")
@click.option("--proxy", is_flag=True,
              help="Record any agent that is pointed at --port, until Ctrl-C.")  # fmt: skip
@click.option("--upstream", default="http://localhost:11434", show_default=True, metavar="URL",
              help="With --proxy: the server that answers.")  # fmt: skip
@click.option("--port", default=11435, show_default=True, type=click.IntRange(0, 65535),
              help="With --proxy: where to listen on 127.0.0.1.")  # fmt: skip
@env_file_option
@model_options
@trace_options
@json_option
def record_command(
    *,
    factory: str | None,
    questions: tuple[str, ...],
    name: str,
    folder: Path,
    mode: Mode | None,
    proxy: bool,
    upstream: str,
    port: int,
    as_json: bool,
    otlp: str | None,
    content: ContentMode | None,
    log: Path | None,
    require_export: bool,
    **model: Any,
) -> None:
    """Ask the agent of FACTORY and keep the session in a file; several questions are turns.

    \b
    Examples:
      agentrig record harness.demo.agents:assistant "(15 + 27) * 3" --name calc --model m
      agentrig record shop:agent "Hi" "And then?" --name two-turns --model m --stream
      agentrig record shop:agent --name two-turns --resume
      agentrig record --proxy --upstream http://localhost:11434 --port 11435 --name any
    """
    with ExitStack() as stack:
        stack.enter_context(exit_codes())
        if proxy:
            if factory is not None:
                raise click.UsageError("--proxy records others: no FACTORY")
            _record_traffic(upstream, folder, name, port=port, mode=mode, as_json=as_json)
            return
        if factory is None:
            raise click.UsageError("no agent: expected FACTORY as module:function, or --proxy")
        path = session_path(folder, name)
        watch = stack.enter_context(traced(otlp, content, log, require_export, session=path))
        plan = (
            None if mode == "resume" and not questions else plan_from(factory, questions, **model)
        )
        if plan is not None:
            reachable(plan.model)
        printer = None if as_json else RunPrinter(plan.agent.language if plan else "en")
        observers = [each for each in (printer, watch.observer) if each]
        try:
            done = record(
                plan, named_factory(factory), path, mode=mode or "new", observers=observers
            )
        except KeyboardInterrupt:
            _say_how_to_resume(path, factory)
            raise
        if as_json:
            click.echo(_dump(_recorded_as_json(done)))
        else:
            console().print(f"recorded {done.path} ({len(done.file.takes)} requests)")


@click.command("replay")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--agent", help="Factory to use instead of the session's, as module:function.")
@allow_option
@click.option("--mode", type=click.Choice(["strict", "lenient"]), default="strict",
              show_default=True, help="lenient reports drift and never fails for it.")  # fmt: skip
@click.option("--tools", type=click.Choice(["taped", "live"]), default="taped",
              show_default=True, help="Answer tool calls from the tape, or run them.")  # fmt: skip
@click.option("--fail-on", type=click.Choice(["warn", "fail"]), default="warn",
              show_default=True, help="The least severity of drift that fails.")  # fmt: skip
@click.option("--rewrite", "again", is_flag=True,
              help="Ask the live model and record the sessions again.")  # fmt: skip
@trace_options
@json_option
def replay_command(
    *,
    paths: tuple[Path, ...],
    agent: str | None,
    allow: tuple[str, ...],
    again: bool,
    as_json: bool,
    otlp: str | None,
    content: ContentMode | None,
    log: Path | None,
    require_export: bool,
    **how: Any,
) -> None:
    """Replay sessions offline and say what changed and why. PATHS are files or folders.

    \b
    Examples:
      agentrig replay cassettes
      agentrig replay cassettes/weather-zh.yaml --json
      agentrig replay cassettes --allow shop.agents --fail-on fail
      agentrig replay cassettes/a.yaml --otlp http://localhost:4318
      agentrig replay cassettes/a.yaml cassettes/b.yaml --rewrite
    """
    with exit_codes():
        files = session_files(paths)
        if not files:
            raise click.UsageError(f"no session files in {', '.join(map(str, paths))}")
        if again:
            _rewrite_all(files, agent=agent, allow=allow, as_json=as_json)
            return
        wanted = otlp or content or log or require_export
        watching = traced(otlp, content, log, require_export) if wanted else nullcontext()
        with watching as watch:
            if watch:
                how |= {"observers": [watch.observer], "traces": watch.take_traces}
            progress = _progress(files, "replaying")
            reports, unjudged = replay_all(progress, factory=agent, allow=allow, **how)
    if as_json:
        click.echo(_dump(_reports_as_json(reports, unjudged)))
    else:
        _show_all(reports, unjudged)
    _exit_for_reports(reports, unjudged)


def _say_how_to_resume(path: Path, factory: str) -> None:
    """An interrupted recording for which anything was asked has left its journal."""
    if journal_path(path).exists():
        words = ["agentrig", "record", factory, "--name", path.stem, "--dir", str(path.parent)]
        command = shlex.join([*words, "--resume"])
        click.echo(f"what was recorded so far is kept; go on with: {command}", err=True)


def _rewrite_all(
    files: Sequence[Path], *, agent: str | None, allow: Sequence[str], as_json: bool
) -> None:
    factories = {}
    for path in files:  # everything that can be wrong is found before anything is asked
        session = load_session(path).session
        if session is None:
            raise SessionError(f"{path} is a cassette without a session block: nothing to run")
        reachable(session.model)
        factories[path] = (
            named_factory(agent) if agent else allowed_factory(session.agent.factory, allow)
        )
    rewritten = []
    for path in _progress(files, "recording"):
        done = rewrite(path, factories[path])
        rewritten.append(_recorded_as_json(done))
        if not as_json:
            console().print(f"recorded {path} ({len(done.file.takes)} requests)")
    if as_json:
        click.echo(_dump(rewritten))


def _record_traffic(
    upstream: str, folder: Path, name: str, *, port: int, mode: Mode | None, as_json: bool
) -> None:
    from harness.sessions.serve_cli import record_traffic  # noqa: PLC0415 - only when it is used

    record_traffic(upstream, folder, name, port=port, mode=mode or "new", as_json=as_json)


def _typed() -> Iterator[str]:
    """Questions that someone types, up to an empty line or the end of the input."""
    while True:
        click.echo("> ", nl=False, err=True)
        question = sys.stdin.readline().strip()
        if not question:
            return
        yield question


def _run(
    plan: Plan, more: Iterator[str], *, show: RunPrinter | None, watch: Watch
) -> list[RunResult]:
    """Ask the questions of the plan in turn, then those that still come."""
    clock = SystemClock()
    with requests.Session() as session:
        model = build_model(plan.model, session=session, clock=clock)
        agent = build_agent(named_factory(plan.agent.factory), plan.agent, model, clock, session)
        if show is not None:
            agent = agent.replace(observers=(*agent.observers, show))
        agent = watch.instrument(agent)
        results: list[RunResult] = []
        for question in chain((turn.question for turn in plan.turns), more):
            history = results[-1].messages if results else ()
            results.append(agent.run(question, history))
    return results


def _progress(files: Sequence[Path], what: str) -> Iterator[Path]:
    err = console(stderr=True)
    silent = len(files) < _MANY or not err.is_terminal
    yield from track(files, description=what, console=err, disable=silent, transient=True)


def _show_all(reports: Sequence[Report], unjudged: Sequence[Unjudged]) -> None:
    out = console()
    for report in reports:
        show_report(out, report)
    for each in unjudged:
        out.print(f"ERROR  {each.path.stem}: {visible(each.words)}", style="bold red")
    show_summary(out, reports, len(unjudged))


def _reports_as_json(reports: Sequence[Report], unjudged: Sequence[Unjudged]) -> JsonObject:
    return {
        "ok": all(report.ok for report in reports) and not unjudged,
        "sessions": [report.as_json() for report in reports],
        "errors": {str(each.path): each.words for each in unjudged},
    }


def _recorded_as_json(done: Recorded) -> JsonObject:
    return {
        "path": str(done.path),
        "requests": len(done.file.takes),
        "stop_reasons": [str(result.stop_reason) for result in done.results],
        "answers": [result.answer for result in done.results],
        "data": [result.data for result in done.results],
    }


def _exit_for(result: RunResult) -> None:
    if isinstance(result.error, ConnectionFailed):
        leave(UNREACHABLE)
    if result.answer is None:
        leave(FAILED)


def _exit_for_reports(reports: Sequence[Report], unjudged: Sequence[Unjudged]) -> None:
    if any(not report.ok for report in reports) or any(each.crashed for each in unjudged):
        leave(FAILED)
    if unjudged:
        leave(USAGE)


def _dump(value: Any) -> str:
    return json.dumps(redactor.value(value), ensure_ascii=False, indent=2)
