"""`agentrig trace`: look at traces without a server, or send them to one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from harness.options import FAILED, UNREACHABLE, USAGE, allow_option, leave
from harness.output import echo_json, write_output
from harness.plain import counted, one_line
from harness.sessions.errors import SessionError
from harness.trace.diff import causes, compare, render
from harness.trace.explain import explain
from harness.trace.findings import findings
from harness.trace.html import page
from harness.trace.spans import TRACES, Trace, TraceFileError, read_traces, trace_files
from harness.trace.tree import print_trace

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_DIRECTORY = click.option(
    "--dir", "directory", type=click.Path(path_type=Path), default=TRACES, show_default=True,
    help="Where the trace files are.",
)  # fmt: skip


@click.group()
def trace_command() -> None:
    """Look at traces: list, show, explain, diff, html, send.

    A trace is named by the beginning of its id, by `last` (unless another is named), `last~1`, …,
    or by a file: a trace file, of which the last trace is taken, or a session, which is replayed.

    \b
    Examples:
      agentrig trace list
      agentrig trace show
      agentrig trace explain 4f1c
      agentrig trace diff last~1 last
      agentrig trace html last -o run.html
      agentrig trace send last --otlp http://localhost:4318
    """


@trace_command.command("list")
@_DIRECTORY
@click.option("--json", "as_json", is_flag=True, help="One JSON object a trace.")
def list_command(directory: Path, *, as_json: bool) -> None:
    """List the traces, newest first.

    \b
    Example:
      agentrig trace list --json
    """
    rows = [_facts(trace) for trace in reversed(_all_traces(directory))]
    if not rows:
        click.echo(_no_traces(directory), err=True)
        return
    if as_json:
        for facts in rows:
            echo_json(facts)
        return
    table = [_COLUMNS, *([one_line(str(facts[key])) for key in _COLUMNS] for facts in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(_COLUMNS))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


@trace_command.command("show")
@click.argument("name", default="last")
@_DIRECTORY
@allow_option
@click.option("--content", is_flag=True, help="Texts of every step, not only the failed one.")
def show_command(name: str, directory: Path, allow: tuple[str, ...], *, content: bool) -> None:
    """Show a trace as a tree.

    \b
    Example:
      agentrig trace show last --content
    """
    print_trace(_named(name, directory, allow), Console(highlight=False), content=content)


@trace_command.command("explain")
@click.argument("name", default="last")
@_DIRECTORY
@allow_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a finding.")
def explain_command(name: str, directory: Path, allow: tuple[str, ...], *, as_json: bool) -> None:
    """Say what is abnormal in a run, in at most ten lines.

    \b
    Example:
      agentrig trace explain last
    """
    trace = _named(name, directory, allow)
    if not as_json:
        click.echo("\n".join(explain(trace)))
        return
    for each in findings(trace):
        fields = ("severity", "question", "step", "text")
        line = {field: getattr(each, field) for field in fields}
        echo_json(line)


@trace_command.command("diff")
@click.argument("before")
@click.argument("after")
@_DIRECTORY
@allow_option
def diff_command(before: str, after: str, directory: Path, allow: tuple[str, ...]) -> None:
    """Say what differs between two runs, the cause first.

    Exit code 1 where they differ in more than time and tokens.

    \b
    Example:
      agentrig trace diff last~1 last
    """
    difference = compare(
        _named(before, directory, allow).root, _named(after, directory, allow).root
    )
    console = Console(highlight=False)
    for line in causes(difference):
        console.print(one_line(line), markup=False)
    console.print(render(difference))
    if not difference.same:
        leave(FAILED)


@trace_command.command("html")
@click.argument("name", default="last")
@_DIRECTORY
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File; trace-ID.html here.")
@click.option("--session", type=_FILE, help="Session file to take texts from.")
@click.option("--logs", type=_FILE, help="JSON lines of log records.")
@allow_option
def html_command(
    *,
    name: str,
    directory: Path,
    output: Path | None,
    session: Path | None,
    logs: Path | None,
    allow: tuple[str, ...],
) -> None:
    """Write a trace as one page that needs nothing else.

    \b
    Example:
      agentrig trace html last -o run.html
      agentrig trace html cassettes/weather.yaml
    """
    trace = _named(name, directory, allow)
    if session is not None:
        from harness.trace.replayed import add_texts  # noqa: PLC0415 - OpenTelemetry is slow to load

        with _readable():
            add_texts(trace, session, allow=allow)
    output = output or Path(f"trace-{trace.trace_id[:8]}.html")
    write_output("--output", output, page(trace, logs=logs))
    click.echo(str(output))


@trace_command.command("send")
@click.argument("names", nargs=-1)
@_DIRECTORY
@click.option("--otlp", required=True, help="Base URL of a collector: http://localhost:4318.")
def send_command(names: tuple[str, ...], directory: Path, otlp: str) -> None:
    """Post traces, or trace files with all that they hold, to a collector.

    Exit code 3 where spans were lost, 2 where a file is none of traces; the others are sent.

    \b
    Examples:
      agentrig trace send last --otlp http://localhost:4318
      agentrig trace send .agentrig/traces/*.jsonl --otlp http://localhost:4318
    """
    from harness.otel_env import traces_url  # noqa: PLC0415 - OpenTelemetry is slow to load
    from harness.trace.send import send_file  # noqa: PLC0415

    try:
        url = traces_url(otlp)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    lost = unread = 0
    for file, trace_id in [_to_send(name, directory) for name in names or ("last",)]:
        try:
            delivery = send_file(file, url, trace_id)
        except TraceFileError as error:
            unread += 1
            click.echo(f"Error: {one_line(str(error))}", err=True)
            continue
        lost += delivery.lost
        why = f", {delivery.lost} lost ({delivery.reason})" if delivery.lost else ""
        words = f"{file}: {counted(delivery.exported, 'span')} to {delivery.target}{why}"
        click.echo(one_line(words))
    if lost or unread:
        leave(UNREACHABLE if lost else USAGE)


_COLUMNS = ("trace_id", "started", "agent", "stop_reason", "steps", "ms")


def _facts(trace: Trace) -> dict[str, object]:
    root = trace.root
    return {
        "trace_id": trace.trace_id,
        "started": _time(root.start),
        "agent": root.attributes.get("gen_ai.agent.name", root.name),
        "stop_reason": root.attributes.get("harness.stop_reason", "not ended"),
        "steps": root.attributes.get("harness.steps", "?"),
        "ms": round(root.milliseconds),
        "spans": len(trace.spans()),
        "file": str(trace.source),
    }


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _all_traces(directory: Path) -> list[Trace]:
    found = []
    for path in trace_files(directory):
        try:
            found += read_traces(path)
        except TraceFileError:  # another process has only just begun it
            continue
    return sorted(found, key=lambda trace: trace.root.start)


def _no_traces(directory: Path) -> str:
    return f"no traces in {str(directory)!r}; `agentrig run` writes them"


class _Unreadable(click.ClickException):
    exit_code = USAGE


@contextmanager
def _readable() -> Iterator[None]:
    """Turn a file that cannot be used into one line, and the exit code of wrong usage."""
    try:
        yield
    except (TraceFileError, SessionError) as error:
        raise _Unreadable(one_line(str(error))) from None


def _to_send(name: str, directory: Path) -> tuple[Path, str | None]:
    """A file to send as it is, or a trace and the file that holds it."""
    if Path(name).is_file():
        return Path(name), None
    trace = _named(name, directory)
    assert trace.source is not None, "it was read from a file"
    return trace.source, trace.trace_id


def _named(name: str, directory: Path, allow: Sequence[str] = ()) -> Trace:
    """A trace by file, id or `last`, `last~1`, …."""
    path = Path(name)
    if path.is_file():
        with _readable():
            return (_replayed(path, allow) if _is_session(path) else read_traces(path))[-1]
    found = _all_traces(directory)
    if not found:
        raise click.UsageError(f"{_no_traces(directory)}, or name a file")
    if name == "last" or name.startswith("last~"):
        digits = name.removeprefix("last").removeprefix("~") or "0"
        back = int(digits) if digits.isdecimal() else len(found)
        if back >= len(found):
            raise click.UsageError(f"{name!r}: only {counted(len(found), 'trace')} to go back over")
        return found[-1 - back]
    matching = [trace for trace in found if trace.trace_id.startswith(name.lower())]
    if len(matching) != 1:
        what = "several traces begin with it" if matching else "no trace begins with it"
        raise click.UsageError(f"{name!r} is no file, and as an id {what}")
    return matching[0]


def _is_session(path: Path) -> bool:
    """Whether a file begins like a session file."""
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").startswith(b"session:")


def _replayed(path: Path, allow: Sequence[str]) -> list[Trace]:
    from harness.trace.replayed import replayed  # noqa: PLC0415 - OpenTelemetry is slow to load

    return replayed(path, allow=allow)
