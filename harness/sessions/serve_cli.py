"""`agentrig serve` and `record --proxy`: servers that run until Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import click

from harness.options import FAILED, json_option, leave, left_out, paths_argument
from harness.output import echo_json, safe_text
from harness.plain import counted
from harness.sessions.arguments import exit_codes
from harness.sessions.borders import BORDERS
from harness.sessions.proxy import RecordingProxy
from harness.sessions.serve import serve
from harness.sessions.show import console
from harness.sessions.suite import session_files
from harness.sessions.traffic import Mode

_POLL = 0.5  # seconds; a wait without end would not see Ctrl-C on every platform


@click.command("serve")
@paths_argument
@click.option("--port", default=11434, show_default=True, type=click.IntRange(0, 65535),
              help="Where to listen on 127.0.0.1; 0 takes a free one.")  # fmt: skip
@click.option("--pace", default=0.0, show_default=True, type=click.FloatRange(0, 1),
              help="1 replies as slowly as recorded, 0 at once.")  # fmt: skip
@click.option("--borders", type=click.Choice(BORDERS), default="lines",
              show_default=True, help="Where streams are cut into chunks.")  # fmt: skip
@click.option("--fault", "faults", multiple=True, metavar="[N:]CODE",
              help="Fail request N of a session, or every one, once before its reply: 429, 500, "
                   "html, cut, broken, stall, short, reset, timeout, wrong-type; always: "
                   "404, 429-stays, 500-stays. Or a fault of the reply instead of it, as in "
                   "a sweep: empty, unknown-tool, J4, …")  # fmt: skip
@click.option("--once", is_flag=True,
              help="Answer each recorded request once; fail if any was not sent.")  # fmt: skip
@json_option
def serve_command(*, paths: tuple[Path, ...], once: bool, as_json: bool, **how: Any) -> None:
    """Serve recorded sessions as a fake Ollama, and /v1 for those recorded there.

    PATHS are files or folders. A request that was not recorded is refused with status 409 and a
    report of what differs; the command then ends with code 1.

    \b
    Examples:
      agentrig serve cassettes
      agentrig serve cassettes/weather-zh.yaml --port 11435 --pace 1
      agentrig serve cassettes/weather-zh.yaml --once --json
      agentrig serve cassettes/weather-zh.yaml --borders mid-utf8 --fault 2:cut
      agentrig serve cassettes/weather-zh.yaml --fault 1:unknown-tool
    """
    with exit_codes():
        files = session_files(paths)
        if not files:
            raise click.UsageError(f"no session files in {', '.join(map(str, paths))}")
        with (
            _interruption() as stopped,
            serve(files, repeat=not once, unreadable=left_out, **how) as it,
        ):
            what = counted(len(it.names), "session")
            click.echo(f"serving {what} on {it.url}; stop with Ctrl-C", err=True)
            _wait(stopped)
            verdict = it.verdict()
    if as_json:
        echo_json(verdict.as_json(), indent=2)
    else:
        out = console()
        answered = counted(verdict.answered, "request")
        out.print(f"{answered} answered, {len(verdict.refused)} refused")
        for line in verdict.in_words():
            out.print(f"  {safe_text(line)}")
    if not verdict.ok:
        leave(FAILED)


def record_traffic(
    upstream: str, folder: Path, name: str, *, port: int, mode: Mode, as_json: bool
) -> None:
    """Record the clients of a proxy until Ctrl-C; then the sessions are written."""
    with _interruption() as stopped:
        proxy = RecordingProxy(upstream, folder, name, port=port, mode=mode)
        with proxy:
            click.echo(f"recording {proxy.url} → {upstream}; stop with Ctrl-C", err=True)
            _wait(stopped)
    if as_json:
        echo_json({"written": [str(each) for each in proxy.written]})
    elif not proxy.written:
        console().print("nothing was sent, nothing is written")
    for path in () if as_json else proxy.written:
        console().print(f"recorded {path}")


def _wait(stopped: Event) -> None:
    while not stopped.wait(_POLL):
        pass


@contextmanager
def _interruption() -> Iterator[Event]:
    """An event that Ctrl-C and SIGTERM set: here they are how the work ends, not an accident."""
    stopped = Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    before = {each: signal.signal(each, stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
