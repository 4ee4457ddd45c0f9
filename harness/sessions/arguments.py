"""What the commands about sessions share: options, what they mean, and errors in words."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click
from pydantic import ValidationError

from agent_core.errors import ConfigError, ConnectionFailed
from agent_core.messages import JsonObject
from harness import semconv
from harness.files import in_words
from harness.options import FAILED, INTERRUPTED, UNREACHABLE, USAGE, Command, leave, together
from harness.output import naming, safe_text
from harness.redact import register_environment
from harness.sessions.errors import NotReplaced, SessionError
from harness.sessions.format import AgentSource, Api, ModelSource, Turn
from harness.sessions.plan import Plan
from harness.sessions.sources import resolved
from harness.workers import NoCluster, WorkError

if TYPE_CHECKING:
    from harness.content import ContentMode
    from harness.telemetry import Watch

_TYPED = click.core.ParameterSource.COMMANDLINE

model_options = together(
    click.option("--model", help="The model, e.g. qwen2.5-coder:1.5b."),
    click.option("--api", type=click.Choice(["ollama", "openai"]), default="ollama",
                 show_default=True, help="Which API the server speaks."),
    click.option("--base-url", help="The server; for ollama $OLLAMA_HOST unless given."),
    click.option("--stream/--no-stream", default=False, help="Receive replies as they grow."),
    click.option("-o", "--option", "options", multiple=True, metavar="KEY=VALUE",
                 help="An option of the model, e.g. -o temperature=0 -o num_ctx=4096."),
    click.option("--param", "parameters", multiple=True, metavar="KEY=VALUE",
                 help="A parameter of the factory, e.g. --param language=zh."),
)  # fmt: skip
_trace_options = together(
    click.option("--otlp", metavar="URL",
                 help="Send traces to a collector, e.g. http://localhost:4318."),
    click.option("--content", type=click.Choice(["none", "truncated", "full"]),
                 help="Texts in traces. Unless given, cut in the local file, none over OTLP."),
    click.option("--log", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
                 help="Append log records to this file, one JSON object a line."),
    click.option("--require-export", is_flag=True, help="Fail if a span was lost."),
)  # fmt: skip


class Tracing(NamedTuple):
    """What `trace_options` say; each is false where nothing is asked for."""

    otlp: str | None
    content: ContentMode | None
    log: Path | None
    require_export: bool


def trace_options(command: Command) -> Command:
    """Declare the options about traces; the command gets them as one argument, `tracing`."""

    @wraps(command)
    def with_tracing(**given: Any) -> Any:
        tracing = Tracing(*(given.pop(field) for field in Tracing._fields))
        return command(tracing=tracing, **given)

    return _trace_options(with_tracing)


def plan_from(
    factory: str,
    questions: Sequence[str],
    *,
    model: str | None,
    api: Api,
    base_url: str | None,
    stream: bool,
    options: Sequence[str],
    parameters: Sequence[str],
) -> Plan:
    """What the options of `model_options` ask for."""
    if not questions:
        raise click.UsageError("no question: expected at least one")
    if not all(each.strip() for each in questions):
        raise click.UsageError("an empty question: expected some words in each")
    try:
        "".join(questions).encode()
    except UnicodeError:
        raise no_text() from None
    if not model:
        raise click.UsageError("no model: expected e.g. --model qwen2.5-coder:1.5b")
    if api == "openai" and not base_url:
        raise click.UsageError("--api openai needs --base-url, e.g. http://127.0.0.1:11434/v1")
    given = _pairs(parameters)
    known = {key: given.pop(key) for key in ("language", "protocol") if key in given}
    source = ModelSource(
        api=api, name=model, base_url=base_url, stream=stream, options=_pairs(options)
    )
    return Plan(
        AgentSource(factory=factory, parameters=given, **known),
        resolved(source),
        tuple(Turn(question=each) for each in questions),
    )


def no_text() -> click.UsageError:
    """The error about a question of which a model would read `??`."""
    return click.UsageError("a question is not UTF-8: it holds bytes that are no characters")


def plan_to_resume(
    begun: Plan,
    factory: str,
    questions: Sequence[str],
    *,
    options: Sequence[str],
    parameters: Sequence[str],
    **model: Any,
) -> Plan:
    """A plan with what the command line says in place of what the recording was begun with."""
    said = click.get_current_context().get_parameter_source
    given = {key: value for key, value in model.items() if said(key) is _TYPED}
    if "model" in given:
        given["name"] = given.pop("model")
    given["options"] = {**begun.model.options, **_pairs(options)}
    values = _pairs(parameters)
    agent: JsonObject = {key: values.pop(key) for key in ("language", "protocol") if key in values}
    agent.update(factory=factory, parameters={**begun.agent.parameters, **values})
    turns = begun.turns
    if questions and list(questions) != [turn.question for turn in turns]:
        turns = tuple(Turn(question=each) for each in questions)
    return Plan(
        begun.agent.model_copy(update=agent),
        begun.model.model_copy(update=given),
        turns,
        begun.seed,
    )


def _pairs(texts: Sequence[str]) -> JsonObject:
    """Read KEY=VALUE; a value is JSON where it can be read as such, else text."""
    pairs: JsonObject = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"expected KEY=VALUE, got {text!r}")
        try:
            pairs[key] = json.loads(value)
        except ValueError:
            pairs[key] = value
    return pairs


def code_of(failure: BaseException | None) -> int:
    """The exit code of a run that got no answer."""
    return UNREACHABLE if isinstance(failure, ConnectionFailed) else FAILED


@contextmanager
def traced(
    tracing: Tracing, *, session: Path | None = None, replayed: bool = False
) -> Iterator[Watch]:
    """Trace what is run inside; the traces are kept in `.agentrig/traces`.

    Args:
        session: the file that is being recorded.
        replayed: what is run gets its replies from recordings.
    """
    from harness import logs, telemetry  # noqa: PLC0415 - OpenTelemetry takes a while to load

    extra: dict[str, str | bool] = {semconv.REPLAY: True} if replayed else {}
    if session is not None:
        extra["harness.session_path"] = str(session)
    with ExitStack() as stack:
        if tracing.log is not None:
            with naming("--log", tracing.log):
                stream = tracing.log.open("ab")
            stack.callback(_close, tracing.log, stream)
            logs.configure(stream)
            extra["harness.log_path"] = str(tracing.log)
        try:
            with telemetry.session(
                otlp=tracing.otlp,
                content=tracing.content,
                require_export=tracing.require_export,
                extra=extra,
            ) as watch:
                yield watch
        except telemetry.ExportError as error:
            click.echo(f"Error: {error}", err=True)
            leave(FAILED)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn what the user has to know into one line and a code; keep its secrets out of it."""
    register_environment(os.environ)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        leave(INTERRUPTED)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            _complain(f"{'.'.join(map(str, each['loc']))}: {each['msg']}")
        leave(USAGE)
    except (ConnectionFailed, NoCluster) as error:
        _complain(str(error))
        leave(UNREACHABLE)
    except NotReplaced as error:
        _complain(str(error))
        leave(code_of(error.__cause__))
    except BrokenPipeError:  # nobody reads what we print: that is not the user's mistake
        raise
    except OSError as error:
        _complain(in_words(error))
        leave(USAGE)
    except (SessionError, ConfigError, WorkError) as error:
        _complain(str(error))
        leave(USAGE)


def _close(log: Path, stream: BinaryIO) -> None:
    """Close the log: what was not written yet may not find room."""
    with naming("--log", log):
        stream.close()


def _complain(words: str) -> None:
    click.echo(f"Error: {safe_text(words)}", err=True)
