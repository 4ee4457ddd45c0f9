"""From names to things: the agent's factory, its model, what the server says of itself.

A session file may come from a stranger. It names its factory as `module:function`, but a module
is imported only when the user named it on the command line or allowed it: reading a file never
runs code of its author's choice.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from inspect import signature
from typing import Any
from urllib.parse import urlsplit

import requests

from agent_core.agent import Agent
from agent_core.errors import ConnectionFailed
from agent_core.gears import ChatModel, Clock
from agent_core.models import OllamaChat, OpenAIChat, RouterChat
from agent_core.models.address import is_loopback, ollama_address, parse_address
from agent_core.models.base import HttpChat
from agent_core.tools import FunctionCallExecutor
from harness.redact import redactor
from harness.sessions.errors import FactoryRefused
from harness.sessions.format import AgentSource, ModelSource, Provenance, ToolDefinition
from harness.sessions.scrubbing import scrub_url

Factory = Callable[..., Agent]

ALWAYS_ALLOWED = ("harness.demo",)
"""Packages whose factories a session file may name without being asked for."""

REFERENCE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<function>[^\W\d_]\w*)")
"""How a factory is named."""

_OLLAMA_ARGUMENTS = frozenset({"keep_alive", "think"})
_PROBE_SECONDS = (2.0, 5.0)


def named_factory(reference: str) -> Factory:
    """Import the factory that the user named, from the current folder too.

    Raises:
        FactoryRefused: there is none of this name, or importing its module fails.
    """
    module_name, function_name = _split(reference)
    if "" not in sys.path and os.getcwd() not in sys.path:  # noqa: PTH109 - as sys.path has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - a console script does not look here
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise FactoryRefused(f"cannot import {module_name!r} of {reference!r}: {error}") from error
    except Exception as error:
        raise FactoryRefused(f"importing {module_name!r} raised {_told(error)}") from error
    factory = getattr(module, function_name, None)
    if not callable(factory):
        raise FactoryRefused(
            f"{module_name!r} has no function {function_name!r}; expected "
            "`def factory(model, *, clock, language, protocol) -> Agent`"
        )
    return factory  # type: ignore[no-any-return]


def allowed_factory(reference: str, allow: Sequence[str] = ()) -> Factory:
    """Import the factory that a session file names, if its module is allowed.

    Args:
        allow: packages or modules that may be imported, with everything below them.

    Raises:
        FactoryRefused: it is not allowed, or there is none; in the first case nothing was
            imported.
    """
    module_name, _ = _split(reference)
    packages = (*ALWAYS_ALLOWED, *allow)
    if not any(_is_below(module_name, package) for package in packages):
        raise FactoryRefused(
            f"the session names the factory {reference!r}, and importing it would run its code; "
            f"if you trust it, add `--allow {module_name}` (allowed now: {', '.join(packages)})"
        )
    factory = named_factory(reference)
    home = str(getattr(factory, "__module__", None))
    if not any(_is_below(home, package) for package in packages):
        raise FactoryRefused(f"{reference!r} was defined in {home!r}, which is not allowed")
    return factory


def build_model(source: ModelSource, *, session: requests.Session, clock: Clock) -> ChatModel:
    """The model client of a session. Keys come from the environment only."""
    if source.api == "openai":
        return OpenAIChat(
            source.name,
            base_url=source.base_url or "",
            session=session,
            stream=source.stream,
            options=source.options,
            clock=clock,
        )
    options = {key: v for key, v in source.options.items() if key not in _OLLAMA_ARGUMENTS}
    arguments = {key: v for key, v in source.options.items() if key in _OLLAMA_ARGUMENTS}
    return OllamaChat(
        source.name,
        base_url=source.base_url,
        session=session,
        stream=source.stream,
        options=options,
        clock=clock,
        **arguments,
    )


def build_agent(
    factory: Factory,
    source: AgentSource,
    model: ChatModel,
    clock: Clock,
    http: requests.Session,
) -> Agent:
    """Call the factory.

    Args:
        http: what records or replays; handed to a factory that takes `http`, for gears that
            ask a server themselves, such as an embedder.

    Raises:
        FactoryRefused: it does not take the parameters, or what it gives is no agent.
    """
    parameters: dict[str, Any] = {
        "language": source.language,
        "protocol": source.protocol,
        **source.parameters,
    }
    name = source.factory
    if hasattr(factory, "__qualname__"):  # another one may have been given
        name = f"{factory.__module__}:{factory.__qualname__}"
    takes = signature(factory)
    if "http" in takes.parameters:
        parameters["http"] = http
    try:
        takes.bind(model, clock=clock, **parameters)
    except TypeError as error:
        raise FactoryRefused(
            f"{name} cannot be called: {error}; it takes {takes}, expected "
            "`def factory(model, *, clock, language, protocol) -> Agent` and its own parameters"
        ) from error
    agent = factory(model, clock=clock, **parameters)
    if not isinstance(agent, Agent):
        raise FactoryRefused(f"{name} gave {type(agent).__name__}, expected an Agent")
    return agent if source.tools is None else _with_tools(agent, source.tools)


def see_that_it_asks_through(http: requests.Session, agent: Agent) -> None:
    """A replay opens no socket: the agent's models use what they were given.

    Raises:
        FactoryRefused: one of them would ask a server by itself.
    """
    asked: list[Any] = [agent.model, getattr(agent.memory, "model", None)]
    for each in asked:
        if isinstance(each, RouterChat):
            asked += [route.model for route in each.routes]
        elif isinstance(each, HttpChat) and each.session is not http:
            raise FactoryRefused(
                f"the agent asks {each!r}, a model of its own; expected the one that its factory "
                "is given as `model` (or another one with `session=http`, which a factory that "
                "takes `http` is given)"
            )


def tool_definitions(agent: Agent) -> list[ToolDefinition]:
    """The tools of an agent as the model is told of them."""
    return [
        ToolDefinition(
            name=each.name, description=each.description, parameters=redactor.value(each.parameters)
        )
        for each in agent.executor.definitions.values()
    ]


def _with_tools(agent: Agent, names: Sequence[str]) -> Agent:
    """The agent with some of its tools only."""
    executor = agent.executor
    if not isinstance(executor, FunctionCallExecutor) or agent.catalogue is not None:
        kind = type(executor if agent.catalogue is None else agent.catalogue).__name__
        raise FactoryRefused(f"the session keeps the tools {list(names)}, but {kind} chooses")
    kept = [each for name, each in executor.definitions.items() if name in names]
    return agent.replace(executor=executor.replace(tools=kept))


def resolved(source: ModelSource) -> ModelSource:
    """The model with the address that will be asked, without credentials."""
    if source.base_url is not None or source.api == "openai":
        return source
    return source.model_copy(update={"base_url": ollama_address().url})


def public(source: ModelSource) -> ModelSource:
    """The model as it may stand in a file."""
    url = None if source.base_url is None else scrub_url(source.base_url)
    return source.model_copy(update={"base_url": url, "options": redactor.value(source.options)})


def reachable(source: ModelSource) -> None:
    """See that something answers at the address, before a recording is begun.

    Raises:
        ConnectionFailed: nothing does.
    """
    address = parse_address(resolved(source).base_url or "", what="base_url")
    with requests.Session() as session:
        session.trust_env = not is_loopback(urlsplit(address.url).hostname or "")
        try:
            session.get(address.url, timeout=_PROBE_SECONDS, stream=True).close()
        except requests.ConnectionError as error:
            raise ConnectionFailed(
                f"nothing answers at {address.url}; is the server running?"
            ) from error
        except requests.RequestException:
            return  # it is there, only slow or strange: the model client says it better


def server_facts(source: ModelSource) -> Provenance:
    """Ask an Ollama server for its version and the model's digest; what it does not say is None.

    A `/v1` address is asked only on this machine, where it is likely to be Ollama.
    """
    if source.base_url is None:
        return Provenance()
    root = parse_address(source.base_url, what="base_url").url
    if source.api == "openai":
        if not is_loopback(urlsplit(root).hostname or ""):
            return Provenance()
        root = root.removesuffix("/v1")
    with requests.Session() as session:
        session.trust_env = not is_loopback(urlsplit(root).hostname or "")
        version = _ask(session, f"{root}/api/version").get("version")
        if not isinstance(version, str):
            return Provenance()
        models = _ask(session, f"{root}/api/tags").get("models") or []
    names = {source.name, f"{source.name}:latest"}
    digests = [
        each.get("digest")
        for each in models
        if isinstance(each, dict) and each.get("name") in names
    ]
    digest = digests[0] if digests and isinstance(digests[0], str) else None
    return Provenance(server=f"ollama {version}", model_digest=digest)


def _ask(session: requests.Session, url: str) -> dict[str, Any]:
    answer = None
    with suppress(requests.RequestException, ValueError):
        answer = session.get(url, timeout=_PROBE_SECONDS).json()
    return answer if isinstance(answer, dict) else {}


def _told(error: Exception) -> str:
    """An error of the user's code, and where it came from."""
    if isinstance(error, SyntaxError):  # names its file and line
        return f"{type(error).__name__}: {error}"
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def _split(reference: str) -> tuple[str, str]:
    found = REFERENCE.fullmatch(reference)
    if found is None:
        raise FactoryRefused(f"expected an agent factory as module:function, got {reference!r}")
    return found["module"], found["function"]


def _is_below(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
