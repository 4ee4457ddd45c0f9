"""`agentrig minimize`: parse arguments, call, write, print.

Exit codes: 0 a smaller session was written, 2 the session does not fail or cannot be made smaller,
or wrong usage, 130 interrupted; with nothing written but for 0.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click
from rich.status import Status
from rich.text import Text

from harness.minimize.output import write
from harness.minimize.shrink import SECONDS, Minimized, minimize
from harness.options import INTERRUPTED, USAGE, allow_option, json_option, leave
from harness.output import echo_json, safe_line
from harness.sessions.arguments import exit_codes
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionError
from harness.sessions.format import SessionFile
from harness.sessions.show import console
from harness.sessions.sources import Factory, allowed_factory, named_factory
from harness.sessions.trajectory import in_words


@click.command("minimize")
@click.argument("session", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--out", "folder", default="minimized", show_default=True, metavar="DIR",
              type=click.Path(file_okay=False, path_type=Path),
              help="Where the small session and its test go.")  # fmt: skip
@click.option("--check", metavar="CHECK",
              help="What fails: replay, lint, or module:function that takes the RunResult of the "
              "last turn and raises or gives False. Unless given, replay, then lint.")  # fmt: skip
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=SECONDS,
              show_default=True, help="What is found until then is the result.")  # fmt: skip
@click.option("--agent", help="Factory to use instead of the session's, as module:function.")
@allow_option
@json_option
def minimize_command(
    *,
    session: Path,
    folder: Path,
    check: str | None,
    seconds: float,
    agent: str | None,
    allow: tuple[str, ...],
    as_json: bool,
) -> None:
    """Shrink a failing session to the smallest that fails the same way.

    Writes a session, marked as derived, and a pytest file that fails until the defect is mended.

    \b
    Examples:
      agentrig minimize cassettes/weather-zh.yaml
      agentrig minimize cassettes/weather-zh.yaml --check checks:answer_has_a_number
      agentrig minimize cassettes/a.yaml --allow shop.agents --out found --seconds 20
    """
    with exit_codes():
        file = load_session(session)
        factory, named = _factory(file, agent, allow)
        try:
            result = _minimized(file, factory, session.stem, check, seconds, quiet=as_json)
            written = write(result, folder, agent=named) if result.smaller else []
        except KeyboardInterrupt:
            click.echo("interrupted: nothing is written", err=True)
            leave(INTERRUPTED)
    if as_json:
        report = {**result.as_json(), "written": [str(each) for each in written]}
        echo_json(report, indent=2)
    else:
        _show(result, session, written)
    if not result.smaller:
        leave(USAGE)


def _factory(file: SessionFile, agent: str | None, allow: tuple[str, ...]) -> tuple[Factory, str]:
    if file.session is None:
        raise SessionError("it is a cassette without a session block: no agent to run")
    if agent is not None:
        return named_factory(agent), agent
    named = file.session.agent.factory
    return allowed_factory(named, allow), named


def _minimized(
    file: SessionFile,
    factory: Factory,
    name: str,
    check: str | None,
    seconds: float,
    *,
    quiet: bool,
) -> Minimized:
    err = console(stderr=True)
    shown = err.is_terminal and not quiet
    with Status("minimizing", console=err) if shown else nullcontext() as status:
        return minimize(
            file, factory, name=name, check=check, seconds=seconds,
            progress=lambda words: status.update(words) if status is not None else None,
        )  # fmt: skip


def _show(result: Minimized, session: Path, written: list[Path]) -> None:
    out = console()
    out.print(Text(f"{session} fails: {safe_line(str(result.failure))}", style="bold"))
    for line in result.failure.words:
        out.print(Text(f"    {safe_line(line)}", style="dim"))
    good = result.finished and result.smaller
    out.print(Text(result.in_words(), style="green" if good else "yellow"))
    if not result.smaller:
        out.print("nothing is written", style="dim")
        return
    for number, words in enumerate(_left(result), start=1):
        out.print(f"    step {number}: {safe_line(words)}", markup=False, highlight=False)
    for path in written:
        out.print(f"wrote {path}", markup=False, highlight=False)
    words = "the test fails until the defect is mended"
    if result.failure.check == "replay":
        words += "; if the change was meant and is accepted, remove both"
    out.print(words, style="dim", highlight=False)


def _left(result: Minimized) -> list[str]:
    """The steps that are left, in words."""
    assert result.file.session is not None  # it was made from one
    return [in_words(step) for turn in result.file.session.trajectory for step in turn.steps]
