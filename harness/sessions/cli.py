"""`agentrig run` and `record`: parse arguments, call, print.

Exit codes: 0 all is well, 1 a check failed, 2 wrong usage, 3 the endpoint cannot be reached,
130 interrupted.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_core.clock import SystemClock
from agent_core.messages import RunResult
from agent_core.models.http import new_session
from harness.envfile import env_file_option
from harness.options import json_option, leave
from harness.output import echo_json, safe_text
from harness.sessions.arguments import (
    Tracing,
    code_of,
    exit_codes,
    model_options,
    no_text,
    plan_from,
    plan_to_resume,
    trace_options,
    traced,
)
from harness.sessions.journal import journal_path
from harness.sessions.plan import Plan
from harness.sessions.record import Mode, Recorded, begun_plan, record
from harness.sessions.show import (
    RunPrinter,
    console,
    run_as_json,
)
from harness.sessions.sources import (
    build_agent,
    build_model,
    named_factory,
    reachable,
)
from harness.sessions.storage import session_path

if TYPE_CHECKING:
    from harness.telemetry import Watch


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
    tracing: Tracing,
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
    with exit_codes(), traced(tracing) as watch:
        more = _typed() if interactive else iter(())
        plan = plan_from(factory, questions or tuple(islice(more, 1)), **model)
        show = None if as_json else RunPrinter(plan.agent.language)
        results = _run(plan, more, show=show, watch=watch)
        if as_json:
            echo_json([run_as_json(result) for result in results], indent=2)
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
    tracing: Tracing,
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
    with exit_codes():
        if proxy:
            if factory is not None:
                raise click.UsageError("--proxy records others: no FACTORY")
            _record_traffic(upstream, folder, name, port=port, mode=mode, as_json=as_json)
            return
        if factory is None:
            raise click.UsageError("no agent: expected FACTORY as module:function, or --proxy")
        path = session_path(folder, name)
        with traced(tracing, session=path) as watch:
            done = _record(
                factory, questions, path, mode or "new", as_json=as_json, watch=watch, **model
            )
            if as_json:
                echo_json(done.as_json(), indent=2)
            else:
                console().print(safe_text(done.in_words()))
            if done.failure is not None:
                leave(code_of(done.failure))


def _record(
    factory: str,
    questions: Sequence[str],
    path: Path,
    mode: Mode,
    *,
    as_json: bool,
    watch: Watch,
    **model: Any,
) -> Recorded:
    """Record anew, or go on where a recording was interrupted."""
    servers = None
    if mode == "resume":
        plan = plan_to_resume(begun_plan(path), factory, questions, **model)
        servers = [model["base_url"]] if model["base_url"] else None
    else:
        plan = plan_from(factory, questions, **model)
        reachable(plan.model)
    printer = [] if as_json else [RunPrinter(plan.agent.language)]
    try:
        return record(
            plan, named_factory(factory), path, mode=mode, servers=servers,
            observers=[*printer, watch.observer],
        )  # fmt: skip
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, or SIGTERM while it is traced
        _say_how_to_resume(path, factory)
        raise


def _say_how_to_resume(path: Path, factory: str) -> None:
    """An interrupted recording for which anything was asked has left its journal."""
    if journal_path(path).exists():
        words = ["agentrig", "record", factory, "--name", path.stem, "--dir", str(path.parent)]
        command = shlex.join([*words, "--resume"])
        click.echo(f"what was recorded so far is kept; go on with: {command}", err=True)


def _record_traffic(
    upstream: str, folder: Path, name: str, *, port: int, mode: Mode | None, as_json: bool
) -> None:
    from harness.sessions.serve_cli import record_traffic  # noqa: PLC0415 - only when it is used

    record_traffic(upstream, folder, name, port=port, mode=mode or "new", as_json=as_json)


def _typed() -> Iterator[str]:
    """Questions that someone types, up to an empty line or the end of the input."""
    while True:
        if sys.stdin.isatty():
            click.echo("> ", nl=False, err=True)
        try:
            question = sys.stdin.readline().strip()
            question.encode()  # stdin may read what is no text as halves of pairs
        except UnicodeError:
            raise no_text() from None
        if not question:
            return
        yield question


def _run(
    plan: Plan, more: Iterator[str], *, show: RunPrinter | None, watch: Watch
) -> list[RunResult]:
    """Ask the questions of the plan in turn, then those that still come."""
    clock = SystemClock()
    with new_session() as session:
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


def _exit_for(result: RunResult) -> None:
    if result.answer is None:
        leave(code_of(result.error))
