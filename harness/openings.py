"""What is known when something begins: the name, the kind and the first attributes of its span."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.trace import SpanKind

from agent_core import events
from harness import semconv
from harness.content import attribute, digest, name
from harness.plain import to_json
from harness.redact import redactor
from harness.run_state import Attributes, RunState

Opening = tuple[str, SpanKind, Attributes]
"""How a span begins: its name, which holds no text of a model or a user, its kind, and what is
known of it."""


def _run(event: events.RunStarted, run: RunState) -> Opening:
    tools = to_json(event.tools)
    attributes: Attributes = {
        semconv.OPERATION: "invoke_agent",
        semconv.AGENT_NAME: name(event.agent),
        semconv.REQUEST_MODEL: name(event.model),
        semconv.RUN_ID: run.id,
        semconv.CONTENT_MODE: run.capture.mode,
        "harness.protocol": event.protocol,
        "harness.language": event.language,
        "harness.question.chars": len(event.question),
        "harness.question.sha256": digest(event.question),
        "harness.system.chars": len(event.system),
        "harness.system.sha256": digest(event.system),
        "harness.tools": [name(each) for each in event.tools],
        "harness.tools.sha256": digest(tools),
        "harness.limits": name(to_json(event.limits), 1_000),
        "harness.config.sha256": digest(to_json([event.protocol, event.language, event.limits])),
    }
    if run.parent_id:
        attributes[semconv.PARENT_RUN_ID] = run.parent_id
    run.put_text(attributes, "harness.question", event.question)
    return f"invoke_agent {name(event.agent)}", SpanKind.INTERNAL, attributes


def _step(event: events.StepStarted, _: RunState) -> Opening:
    return "harness.step", SpanKind.INTERNAL, {semconv.STEP_INDEX: event.index}


def _model_call(event: events.ModelCallStarted, run: RunState) -> Opening:
    attributes = run.request.described(event, _request).copy()
    new = run.prompt.put(attributes, event.messages)
    if run.chunks.waiting:
        whole, part = run.chunks.seen_in(new)
        if whole:
            attributes[semconv.PROMPT_CHUNK_IDS] = [name(each) for each in whole]
        if part:
            attributes[semconv.CUT_CHUNK_IDS] = [name(each) for each in part]
    if run.capture.on:
        run.put_messages(attributes)
        if event.tools:
            run.put_json(attributes, semconv.TOOL_DEFINITIONS, list(event.tools))
    return f"chat {attributes[semconv.REQUEST_MODEL]}", SpanKind.CLIENT, attributes


def _request(event: events.ModelCallStarted) -> Attributes:
    attributes: Attributes = {
        semconv.OPERATION: "chat",
        semconv.PROVIDER: name(event.provider),
        semconv.REQUEST_MODEL: name(event.model),
        **_server(event.url, redactor.generation),
        **_sampling(event.options),
        "harness.options.sha256": digest(to_json(event.options)),
    }
    if event.stream:
        attributes[semconv.STREAM] = True
    if event.tools:
        attributes["harness.tools_sent"] = len(event.tools)
    if event.context_window is not None:
        attributes[semconv.CONTEXT_WINDOW] = event.context_window
    return attributes


def _attempt(event: events.AttemptStarted, _: RunState) -> Opening:
    attributes: Attributes = {
        semconv.HTTP_METHOD: name(event.method),
        semconv.URL_FULL: name(event.url, 1_000),
        **_server(event.url, redactor.generation),
        semconv.ATTEMPT: event.number,
        semconv.HTTP_REQUEST_BYTES: event.body_bytes,
        "harness.request.sha256": event.body_sha256,
    }
    if event.number > 1:
        attributes[semconv.HTTP_RESEND_COUNT] = event.number - 1
    return name(event.method), SpanKind.CLIENT, attributes


def _parse(event: events.ParseStarted, run: RunState) -> Opening:
    text = event.reply.text
    attributes: Attributes = {
        "harness.protocol": event.protocol,
        "harness.reply.chars": len(text),
        "harness.reply.sha256": run.digest(text),
    }
    return "harness.parse", SpanKind.INTERNAL, attributes


def _tool(event: events.ToolStarted, run: RunState) -> Opening:
    action = event.action
    arguments = to_json(action.arguments)
    attributes: Attributes = {
        semconv.OPERATION: "execute_tool",
        semconv.TOOL_TYPE: "function",
        "harness.action.notation": name(action.notation),
        "harness.arguments.chars": len(arguments),
        "harness.arguments.sha256": digest(arguments),
    }
    if action.id:
        attributes[semconv.TOOL_CALL_ID] = name(action.id)
    if event.fingerprint:
        attributes[semconv.FINGERPRINT] = name(event.fingerprint)
    run.put_json(attributes, semconv.TOOL_ARGUMENTS, action.arguments)
    if action.name not in run.tools:  # text of the model
        attributes["harness.tool.unknown"] = 1
        run.put_text(attributes, semconv.TOOL_NAME, action.name)
        return "execute_tool", SpanKind.INTERNAL, attributes
    attributes[semconv.TOOL_NAME] = name(action.name)
    return f"execute_tool {name(action.name)}", SpanKind.INTERNAL, attributes


def _retrieval(event: events.RetrievalStarted, run: RunState) -> Opening:
    attributes: Attributes = {
        semconv.OPERATION: "retrieval",
        semconv.DATA_SOURCE: name(event.source),
        semconv.RETRIEVAL_TOP_K: event.top_k,
        "harness.query.chars": len(event.query),
        "harness.query.sha256": digest(event.query),
    }
    run.put_text(attributes, semconv.RETRIEVAL_QUERY, event.query)
    return f"retrieval {name(event.source)}", SpanKind.CLIENT, attributes


def _embedding(event: events.EmbeddingStarted, _: RunState) -> Opening:
    attributes: Attributes = {
        semconv.OPERATION: "embeddings",
        semconv.REQUEST_MODEL: name(event.model),
        "harness.embeddings.texts": event.texts,
        "harness.embeddings.chars": event.characters,
    }
    return f"embeddings {name(event.model)}", SpanKind.CLIENT, attributes


def _rerank(event: events.RerankStarted, _: RunState) -> Opening:
    attributes: Attributes = {
        "harness.rerank.model": name(event.model),
        "harness.rerank.candidates": event.candidates,
    }
    return "harness.rerank", SpanKind.INTERNAL, attributes


def _memory(event: events.MemoryStarted, _: RunState) -> Opening:
    attributes: Attributes = {"harness.memory.operation": name(event.operation)}
    return "harness.memory", SpanKind.INTERNAL, attributes


@lru_cache(maxsize=64)
def _server(url: str, _generation: int) -> Attributes:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number, brackets that do not close
        return {}
    if not host:
        return {}
    default = {"http": 80, "https": 443}.get(parts.scheme)
    found: Attributes = {semconv.SERVER_ADDRESS: name(host)}
    if port or default:
        found[semconv.SERVER_PORT] = port or default or 0
    return found


def _sampling(options: Any) -> Attributes:
    found: Attributes = {}
    for key, value in options.items():
        if key in semconv.REQUEST_OPTIONS and type(value) in {int, float}:
            convention, kind = semconv.REQUEST_OPTIONS[key]
            found[convention] = kind(value)
    stop = options.get("stop")
    if isinstance(stop, str | list | tuple) and stop:
        found[semconv.STOP_SEQUENCES] = attribute([stop] if isinstance(stop, str) else stop)
    return found


OPENINGS: dict[type, Callable[[Any, RunState], Opening]] = {
    events.RunStarted: _run,
    events.StepStarted: _step,
    events.ModelCallStarted: _model_call,
    events.AttemptStarted: _attempt,
    events.ParseStarted: _parse,
    events.ToolStarted: _tool,
    events.RetrievalStarted: _retrieval,
    events.EmbeddingStarted: _embedding,
    events.RerankStarted: _rerank,
    events.MemoryStarted: _memory,
}
"""The opening for an event, by its type."""
