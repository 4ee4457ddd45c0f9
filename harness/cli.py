"""The command line: finds the command, which parses its arguments, calls and prints.

Each command lives beside what it calls and is imported when it is used, so that
`agentrig --help` stays quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

COMMANDS = {
    "demo": ("harness.demo.cli", "Replay a recorded session and show every step."),
    "run": ("harness.sessions.cli", "Ask an agent one question."),
    "record": ("harness.sessions.cli", "Ask an agent and keep the session in a file."),
    "serve": ("harness.sessions.serve_cli", "Serve recorded sessions as a fake model server."),
    "replay": ("harness.sessions.replay_cli", "Replay sessions offline; say what changed and why."),
    "report": ("harness.sessions.report_cli", "Merge the reports of a suite's shards."),
    "lint": ("harness.sessions.lint_cli", "Look for what is wrong with recorded files."),
    "minimize": ("harness.minimize.cli", "Shrink a failing session to the smallest that fails."),
    "trace": ("harness.trace.cli", "Look at traces: a tree, an explanation, a difference, a page."),
    "bench": ("harness.bench.cli", "Measure retrievers on your own documents and questions."),
    "fuzz": ("harness.fuzz.cli", "Fuzz a parser, arguments, a loop, a chunker."),
    "sweep": ("harness.faults.cli", "Let things go wrong in recorded sessions, step by step."),
    "doctor": ("harness.doctor", "See what stands ready: packages, sessions, servers."),
}
"""Command name to the module that holds it (as `<name>_command`) and its one-line help."""

_INTERRUPTED = 130
_TERMINATED = 128 + signal.SIGTERM
_UNREAD = 141  # as of a program that SIGPIPE ends


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module, or give None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        try:
            module = import_module(COMMANDS[cmd_name][0])
        except ImportError as error:
            if (error.name or "").partition(".")[0] != "agent_core":
                raise
            theirs = getattr(sys.modules.get("agent_core"), "__file__", None)
            raise click.UsageError(
                f"the module `agent_core` of {theirs} hides agentrig's: rename it, or keep its "
                "folder out of sys.path (`agentrig`, not `python -m harness`)"
            ) from error
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the arguments; some, like `--help`, print and end here."""
        with _ending_in_order():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        for stream in (sys.stdout, sys.stderr):  # a code page lacks what models and we write
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        with _ending_in_order():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in COMMANDS.items()])


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """A file that cannot be read or written is one line, not a traceback.

    So is Ctrl-C while the command is still being loaded. Whoever reads us may stop (`| head`):
    that is no failed check, and has the code that shells have for it.
    """
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        raise click.exceptions.Exit(_INTERRUPTED) from None
    except BrokenPipeError:
        # What is left to be written goes nowhere.
        with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise click.exceptions.Exit(_UNREAD) from None
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # rich ends so, with code 1
            raise click.exceptions.Exit(_UNREAD) from None
        if end.code == _TERMINATED:
            click.echo("terminated", err=True)
        raise
    except OSError as error:
        from harness.files import in_words  # noqa: PLC0415 - `--help` stays quick
        from harness.output import OutputError  # noqa: PLC0415

        raise OutputError(in_words(error)) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="agentrig")
def main() -> None:
    """Record, replay, fuzz, trace and measure a ReAct agent.

    \b
    Examples:
      agentrig demo
      agentrig run harness.demo.agents:assistant "(15 + 27) * 3" --model qwen2.5-coder:1.5b
      agentrig replay cassettes
    """
