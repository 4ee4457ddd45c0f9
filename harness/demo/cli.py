"""`agentrig demo`: the main job in one minute, without a model and without a network."""

from __future__ import annotations

from dataclasses import replace as changed
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from agent_core.agent import Agent
from agent_core.messages import Language
from harness.output import safe_text
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionError
from harness.sessions.format import SessionFile
from harness.sessions.replay import replay
from harness.sessions.show import RunPrinter, console, show_report
from harness.sessions.sources import Factory, allowed_factory

_TEXTS: dict[str, dict[str, str]] = {
    "en": {
        "intro": "1. A session recorded from {model} ({server}), replayed offline:",
        "same": "Verdict: the agent did exactly what it did when this was recorded.",
        "differs": "Verdict: the agent did something else than when this was recorded.",
        "change": "2. Now one word changes in what the model is told about the tool `{tool}`:",
        "verdict": "and the same replay says what changed:",
        "next": "Next: record your own agent with `agentrig record`, see `agentrig record --help`.",
    },
    "zh": {
        "intro": "1. 从 {model}（{server}）录制的一次会话，现在离线重放：",
        "same": "结论：智能体的每一步都与录制时完全相同。",
        "differs": "结论：智能体的行为与录制时不同。",
        "change": "2. 现在，告诉模型的工具 `{tool}` 的说明里改了一个词：",
        "verdict": "同样的重放会指出改了什么：",
        "next": "接下来：用 `agentrig record` 录制你自己的智能体，见 `agentrig record --help`。",
    },
}


@click.command("demo")
@click.option("--language", type=click.Choice(["en", "zh"]), default="en", show_default=True,
              help="Of the session and of what is said about it.")  # fmt: skip
def demo_command(*, language: Language) -> None:
    """Replay a recorded session step by step, then see what a small change does.

    \b
    Examples:
      agentrig demo
      agentrig demo --language zh
    """
    out, texts = console(), _TEXTS[language]
    try:
        name, file = demo_session(language)
    except SessionError as error:
        raise click.ClickException(str(error)) from error
    session = file.session
    assert session is not None
    server = session.provenance.server or "?"
    out.print(Text(texts["intro"].format(model=session.model.name, server=server), style="bold"))
    factory = allowed_factory(session.agent.factory)
    report = replay(file, factory=factory, name=name, observers=[RunPrinter(language)])
    out.print(
        Text(texts["same" if report.ok else "differs"], style="green" if report.ok else "red")
    )
    for line in report.in_words():
        out.print(Text(f"  {safe_text(line)}"))
    out.print()
    out.print(Text(texts["change"].format(tool=_first_tool(file)), style="bold"))
    edited = replay(file, factory=_with_edited_tool(factory, _first_tool(file)), name=name)
    out.print(texts["verdict"])
    show_report(out, edited)
    out.print()
    out.print(texts["next"])
    if not report.ok or edited.ok:  # the demo itself is a check: it has to tell the two apart
        raise click.exceptions.Exit(1)


def demo_session(language: Language) -> tuple[str, SessionFile]:
    """The name and the content of the packaged session in this language.

    Raises:
        SessionError: the package holds none.
    """
    folder = files("harness.demo").joinpath("sessions")
    with as_file(folder) as path:
        for each in sorted(Path(path).glob("*.yaml")):
            file = load_session(each)
            if file.session is not None and file.session.agent.language == language:
                return each.stem, file
    raise SessionError(f"no packaged session in {language!r}; is agentrig installed completely?")


def _first_tool(file: SessionFile) -> str:
    assert file.session is not None
    return file.session.tape[0].tool if file.session.tape else file.session.tools[0].name


def _with_edited_tool(factory: Factory, tool: str) -> Factory:
    """The same factory, but one word of one tool's description is another."""

    def edited(*args: Any, **kwargs: Any) -> Agent:
        agent = factory(*args, **kwargs)
        tools = [
            changed(each, description=_edited(each.description)) if each.name == tool else each
            for each in agent.executor.definitions.values()
        ]
        return agent.replace(executor=agent.executor.replace(tools=tools))  # type: ignore[attr-defined]

    return edited


def _edited(description: str) -> str:
    edited = description.replace("Current", "Latest", 1)
    return edited if edited != description else f"{description} (edited)"
