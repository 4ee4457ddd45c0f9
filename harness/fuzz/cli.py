"""`agentrig fuzz`: parse arguments, run a campaign, print and save.

Exit codes: 0 nothing found, 1 findings, 2 wrong usage, 3 no Dask scheduler, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from harness.fuzz import arguments, chunks, loop
from harness.fuzz.cases import CASE_COLUMNS, CaseError, CasesCampaign, read_cases
from harness.fuzz.generate import Plan
from harness.fuzz.growth import FAMILIES
from harness.fuzz.noise import NoReplies, Seed, read_seeds
from harness.fuzz.operators import OPERATORS
from harness.fuzz.parser import COLUMNS, ParserCampaign
from harness.fuzz.pool import Campaign, Result, run
from harness.fuzz.report import as_json, save, show
from harness.fuzz.targets import TargetError, load_target
from harness.options import FAILED, INTERRUPTED, UNREACHABLE, USAGE, left_out, workers_options
from harness.output import echo_json
from harness.workers import NoCluster, WorkError

Command = Callable[..., Any]


def _target(default: str, help_: str) -> Callable[[Command], Command]:
    return click.option("--target", default=default, show_default=True, help=help_)


_examples = click.option(
    "--examples", type=click.IntRange(1), default=20_000, show_default=True, help="How many."
)
_seed = click.option(
    "--seed", type=int, default=1, show_default=True, help="Same seed, same examples."
)
_seeds = click.option(
    "--seeds", type=click.Path(exists=True, path_type=Path),
    help="A session, a vcrpy cassette, or a directory of them: real replies, used and mutated.",
)  # fmt: skip
_json = click.option("--json", "json_out", is_flag=True, help="Print JSON.")
_save = click.option(
    "--save", "folder", type=click.Path(file_okay=False, path_type=Path),
    help="Write findings.jsonl, a pytest file, and replies as sessions, into this directory.",
)  # fmt: skip


@click.group("fuzz")
def fuzz_command() -> None:
    """Fuzz a parser of model replies, and the other borders of an agent.

    \b
    Examples:
      agentrig fuzz parser --examples 20000 --seed 1
      agentrig fuzz parser --target my_agent.parsing:parse --save found
      agentrig fuzz cases cases.jsonl --target my_agent.parsing:parse
      agentrig fuzz args --examples 5000
    """


@fuzz_command.command()
@_target(
    "harness.fuzz.targets:ours",
    "package.module:function that takes (text, tools) and gives an outcome.",
)
@click.option("--only", multiple=True, metavar="CODE",
              help="Only this operator, e.g. J4; may be repeated.")  # fmt: skip
@_seeds
@_examples
@_seed
@workers_options
@_json
@_save
def parser(
    *, target: str, only: tuple[str, ...], seeds: Path | None, examples: int, seed: int,
    json_out: bool, folder: Path | None, **where: Any,
) -> None:  # fmt: skip
    """Read malformed replies whose truth is known.

    A target is a function (text, tools) -> {"kind": "action", "name", "arguments"} or
    {"kind": "final", "answer"} or {"kind": "error"}. To declare the exceptions that mean
    "refused", wrap it: harness.fuzz.Target(parse, raises=(ValueError,)).

    \b
    Examples:
      agentrig fuzz parser --examples 200000 --workers 2
      agentrig fuzz parser --only J15 --only T2 --examples 2000
      agentrig fuzz parser --target harness.fuzz.targets:langchain_react
      agentrig fuzz parser --seeds cassettes --json > report.json
      agentrig fuzz parser --examples 1000000 --dask tcp://127.0.0.1:8786
    """
    try:
        real: tuple[Seed, ...] = read_seeds(seeds, unreadable=left_out) if seeds else ()
        plan = Plan(operators=only or tuple(OPERATORS), seeds=real)
        load_target(target)
    except (TargetError, NoReplies, ValueError) as error:
        _refuse(error)
    families = () if only else tuple(FAMILIES)
    result = _run(ParserCampaign, (target, plan, seed, examples, families),
                  examples + len(families), json_out, **where)  # fmt: skip
    about = {"target": target, "examples": examples, "seed": seed}
    _report(result, COLUMNS, about, json_out=json_out, folder=folder, spec=target)


@fuzz_command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_target("harness.fuzz.targets:ours", "The parser.")
@workers_options
@_json
def cases(*, file: Path, target: str, json_out: bool, **where: Any) -> None:
    """Score a parser on replies with known outcomes.

    Each line of FILE is a JSON object with text, tools, and expect or expect_any (the first is
    preferred); finish_reason where it matters.

    \b
    Examples:
      agentrig fuzz cases tests/data/parsing/parser_cases.jsonl
      agentrig fuzz cases found/findings.jsonl --target my_agent.parsing:parse
    """
    try:
        known = read_cases(file)
        load_target(target)
    except (TargetError, CaseError) as error:
        _refuse(error)
    result = _run(CasesCampaign, (target, known), len(known), json_out, **where)
    about = {"target": target, "cases": len(known)}
    _report(result, CASE_COLUMNS, about, json_out=json_out)


@fuzz_command.command("args")
@_target(
    "harness.fuzz.arguments:ours",
    'package.module:function (schema, arguments) -> {"arguments"} or {"error"}.',
)
@_examples
@_seed
@workers_options
@_json
@_save
def args_(**options: Any) -> None:
    """Coerce and validate arguments: valid ones unchanged, the rest exact or refused.

    \b
    Examples:
      agentrig fuzz args --examples 5000
      agentrig fuzz args --target my_agent.tools:prepare --seed 7
    """
    _border(arguments.ArgumentCampaign, arguments.COLUMNS, **options)


@fuzz_command.command("loop")
@_target("harness.fuzz.loop:react_json", "package.module:function (model, tools, limits) -> Agent.")
@_seeds
@_examples
@_seed
@workers_options
@_json
@_save
def loop_(*, seeds: Path | None, **options: Any) -> None:
    """Run an agent with a hostile model: it ends, in time, for a typed reason.

    \b
    Examples:
      agentrig fuzz loop --examples 2000
      agentrig fuzz loop --target harness.fuzz.loop:native
      agentrig fuzz loop --seeds cassettes
    """
    try:
        real = read_seeds(seeds, unreadable=left_out) if seeds else ()
    except NoReplies as error:
        _refuse(error)
    _border(partial(loop.LoopCampaign, seeds=real), loop.COLUMNS, **options)


@fuzz_command.command("chunks")
@_target(
    "harness.fuzz.chunks:ours", "package.module:function (text, chunk_size, overlap) -> chunks."
)
@_examples
@_seed
@workers_options
@_json
@_save
def chunks_(**options: Any) -> None:
    """Cut texts: nothing lost, offsets exact, limits kept.

    \b
    Examples:
      agentrig fuzz chunks --examples 5000
      agentrig fuzz chunks --target my_rag:split --save found
    """
    _border(chunks.ChunkCampaign, chunks.COLUMNS, **options)


def _border(
    campaign: Callable[..., Campaign], columns: Sequence[str], *, target: str, examples: int,
    seed: int, json_out: bool, folder: Path | None, **where: Any,
) -> None:  # fmt: skip
    try:
        campaign(target, seed)
    except TargetError as error:
        _refuse(error)
    result = _run(campaign, (target, seed), examples, json_out, **where)
    about = {"target": target, "examples": examples, "seed": seed}
    _report(result, columns, about, json_out=json_out, folder=folder)


def _run(
    campaign: Callable[..., Campaign], given: tuple[Any, ...], total: int, quiet: bool, **where: Any
) -> Result:
    """Run it under a progress bar, which only a terminal shows."""
    errors = Console(stderr=True)
    bar = Progress(
        TextColumn("fuzzing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
        console=errors, transient=True, disable=quiet or not errors.is_terminal,
    )  # fmt: skip
    try:
        with bar if not bar.disable else nullcontext():
            task = bar.add_task("fuzzing", total=total)
            return run(campaign, given, total, **where,
                       progress=lambda done: bar.advance(task, done))  # fmt: skip
    except WorkError as error:
        _refuse(error, UNREACHABLE if isinstance(error, NoCluster) else USAGE)
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


def _report(
    result: Result, columns: Sequence[str], about: dict[str, Any], *, json_out: bool,
    folder: Path | None = None, spec: str | None = None,
) -> NoReturn:  # fmt: skip
    written = save(result, folder, spec) if folder and result.findings else []
    if json_out:
        echo_json(as_json(result, columns, **about))
    else:
        title = ", ".join(f"{key} {value}" for key, value in about.items())
        show(Console(), result, columns, title)
        for path in written:
            click.echo(f"wrote {path}")
        kept, total = len(result.findings), result.kinds.total()
        if written and kept < total:
            click.echo(f"saved are {kept} of {total}: the smallest of each kind and operator")
        if result.findings and not folder and spec:
            click.echo("--save DIRECTORY keeps them as cases, and as a pytest file.")
    sys.exit(FAILED if result.kinds or result.left else 0)


def _refuse(error: Exception, code: int = USAGE) -> NoReturn:
    click.echo(f"Error: {error}", err=True)
    sys.exit(code)
