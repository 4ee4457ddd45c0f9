"""What is known when something has ended: the last attributes of its span, and its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from signal import SIGTERM
from typing import Any

from agent_core import events
from agent_core.errors import ModelError
from agent_core.messages import (
    Actions,
    Coercion,
    FormatError,
    Ignored,
    Repair,
    Timings,
)
from harness import semconv
from harness.content import digest, name, reply_parts
from harness.plain import to_json
from harness.redact import redactor
from harness.run_closings import (
    Closing,
    decision_of,
    describe_error,
    put,
    run_closing,
    step_closing,
    totals_of,
)
from harness.run_state import Attributes, RunState

_TERMINATED = 128 + SIGTERM  # the code that shells have for it


def failed(started: events.Started, error: BaseException, run: RunState) -> Closing:
    """The closing for what an exception has ended; `started` is the event that began it."""
    attributes: Attributes = {}
    kind, description = describe_error(error)
    if isinstance(error, ModelError) and error.status is not None:
        attributes["harness.error.status"] = error.status
    run.put_text(attributes, semconv.ERROR_MESSAGE, str(error))
    if isinstance(started, events.StepStarted):
        run.failed_step = started.index
    if isinstance(started, events.RunStarted):
        stop = "interrupted" if _is_from_outside(error) else "exception"
        attributes[semconv.STOP_REASON] = stop
        attributes |= totals_of(run)
    return Closing(attributes, _RECORDS[type(started)], (kind, description), "error")


def _is_from_outside(error: BaseException) -> bool:
    """Ctrl-C, or SIGTERM as `harness.telemetry` passes it on."""
    terminated = isinstance(error, SystemExit) and error.code == _TERMINATED
    return terminated or isinstance(error, KeyboardInterrupt)


def _model_call(event: events.ModelCallEnded, run: RunState) -> Closing:
    reply = event.reply
    usage = reply.usage
    attributes: Attributes = {
        **_answered(reply.model, reply.finish_reason, redactor.generation),
        "harness.reply.chars": len(reply.text),
        "harness.reply.sha256": run.digest(reply.text),
    }
    put(attributes, semconv.INPUT_TOKENS, usage.prompt_tokens)
    put(attributes, semconv.OUTPUT_TOKENS, usage.completion_tokens)
    if usage.estimated:
        attributes["harness.usage.estimated"] = True
    _put_timings(attributes, reply.timings, usage.completion_tokens)
    if reply.tool_calls:
        attributes["harness.reply.tool_calls"] = len(reply.tool_calls)
    if event.attempts > 1:
        attributes["harness.attempts"] = event.attempts
    if reply.thinking:
        attributes["harness.reply.thinking_chars"] = len(reply.thinking)
    if reply.cut_by_client:
        attributes["harness.reply.cut_by_client"] = True
    if run.capture.on:
        run.put_json(attributes, semconv.OUTPUT_MESSAGES, [reply_parts(reply)])
    run.count("llm_calls")
    return Closing(attributes, "llm.call", level="warning" if event.attempts > 1 else "info")


@lru_cache(maxsize=16)
def _answered(model: str | None, finish_reason: str | None, _generation: int) -> Attributes:
    """What a server says in reply after reply."""
    attributes: Attributes = {}
    if model:
        attributes[semconv.RESPONSE_MODEL] = name(model)
    if finish_reason:
        reason = name(finish_reason)
        attributes[semconv.FINISH_REASONS] = (reason,)
        attributes["harness.finish_reason"] = reason
    return attributes


def _put_timings(attributes: Attributes, timings: Timings, generated: int | None) -> None:
    if timings.total is not None:
        attributes["harness.ollama.total_ms"] = round(timings.total * 1_000, 3)
    if timings.load is not None:
        attributes["harness.ollama.load_ms"] = round(timings.load * 1_000, 3)
    if timings.prompt_eval is not None:
        attributes["harness.ollama.prompt_eval_ms"] = round(timings.prompt_eval * 1_000, 3)
    if timings.eval is not None:
        attributes["harness.ollama.eval_ms"] = round(timings.eval * 1_000, 3)
    put(attributes, semconv.TIME_TO_FIRST_CHUNK, timings.first_chunk)
    if timings.eval and generated:
        attributes["harness.tokens_per_second"] = round(generated / timings.eval, 2)


def _attempt(event: events.AttemptEnded, run: RunState) -> Closing:
    attributes: Attributes = {}
    put(attributes, semconv.HTTP_STATUS, event.status)
    put(attributes, semconv.HTTP_RESPONSE_BYTES, event.response_bytes)
    run.count("attempts")
    failed = event.error is not None or (event.status is not None and event.status >= 400)
    if event.retry_reason is not None:  # handled: another attempt follows, so no error
        run.count("retries")
        attributes[semconv.RETRY_REASON] = name(event.retry_reason)
        put(attributes, semconv.RETRY_WAIT, event.wait)
        return Closing(attributes, "llm.attempt", level="warning")
    if not failed:
        return Closing(attributes, "llm.attempt")
    run.put_text(attributes, semconv.ERROR_MESSAGE, event.error)
    kind = str(event.status) if event.status is not None and event.status >= 400 else "no_response"
    return Closing(attributes, "llm.attempt", (kind, f"HTTP {kind}"), "error")


def _parse(event: events.ParseEnded, run: RunState) -> Closing:
    parsed = event.parsed
    decision = parsed.decision
    failed = isinstance(decision, FormatError)
    outcome = "failed" if failed else "repaired" if parsed.repairs else "ok"
    attributes: Attributes = {
        semconv.PARSE_OUTCOME: outcome,
        semconv.PARSE_DECISION: decision_of(parsed),
    }
    if parsed.repairs:
        _put_repairs(attributes, parsed.repairs, run)
    if parsed.ignored:
        _put_ignored(attributes, parsed.ignored, run)
    run.put_text(attributes, "harness.parse.thought", parsed.thought)
    if isinstance(decision, Actions):  # a name that is not registered is text of the model
        asked = [name(each.name) if each.name in run.tools else "?" for each in decision.actions]
        attributes["harness.parse.tools"] = asked
    if not isinstance(decision, FormatError):
        level = "warning" if parsed.repairs or parsed.ignored else "info"
        return Closing(attributes, f"parse.{outcome}", level=level)
    attributes[semconv.PARSE_ERROR] = decision.code
    run.put_text(attributes, semconv.ERROR_MESSAGE, decision.message)
    run.count("format_errors")
    return Closing(attributes, "parse.failed", (decision.code, decision.code), "warning")


def _put_repairs(attributes: Attributes, repairs: Sequence[Repair], run: RunState) -> None:
    kinds = [name(each.kind) for each in repairs]
    attributes |= {f"harness.repair.{kind}": n for kind, n in Counter(kinds).items()}
    attributes[semconv.PARSE_REPAIRS] = [
        f"{kind}@{name(str(each.where))}" for kind, each in zip(kinds, repairs, strict=True)
    ]
    run.count("repairs", len(repairs))
    values = [[each.kind, each.before, each.after] for each in repairs]
    run.put_json(attributes, "harness.parse.repair_values", values)


def _put_ignored(attributes: Attributes, ignored: Sequence[Ignored], run: RunState) -> None:
    kinds = Counter(name(each.kind) for each in ignored)
    attributes |= {f"harness.ignored.{kind}": n for kind, n in kinds.items()}
    attributes[semconv.PARSE_IGNORED] = sorted(kinds)
    attributes["harness.ignored.chars"] = sum(len(each.text) for each in ignored)
    values = [[each.kind, each.text] for each in ignored]
    run.put_json(attributes, "harness.parse.ignored_values", values)


def _tool(event: events.ToolEnded, run: RunState) -> Closing:
    seen = event.observation
    attributes: Attributes = {
        "harness.tool.ok": seen.ok,
        "harness.observation.chars": len(seen.text),
        "harness.observation.sha256": digest(seen.text),
        "harness.tool.seconds": seen.seconds,
    }
    run.count("tool_calls")
    put(attributes, "harness.observation.truncated_from", seen.truncated_from)
    if event.raw is not None:
        attributes["harness.result.sha256"] = digest(to_json(event.raw))
    if seen.coercions:
        attributes |= _coercions(seen.coercions)
        run.count("coercions", len(seen.coercions))
        values = [[each.path, each.before, each.after] for each in seen.coercions]
        run.put_json(attributes, "harness.coercion_values", values)
    if seen.dropped:
        attributes["harness.dropped"] = [name(each) for each in seen.dropped]
    run.put_text(attributes, semconv.TOOL_RESULT, seen.text)
    if seen.ok or seen.error is None:
        return Closing(attributes, "tool.call", level="warning" if seen.coercions else "info")
    run.count("tool_failures")
    attributes["harness.tool.failure"] = seen.error.kind
    run.put_text(attributes, semconv.ERROR_MESSAGE, seen.error.message)
    kind = name(seen.error.type) if seen.error.kind == "exception" else seen.error.kind
    return Closing(attributes, "tool.call", (kind, f"{seen.error.kind}: {kind}"), "warning")


def _coercions(coercions: Iterable[Coercion]) -> Attributes:
    changes = [(name(each.path), _kind(each.before), _kind(each.after)) for each in coercions]
    counts = Counter(f"{before}_to_{after}" for _, before, after in changes)
    attributes: Attributes = {
        semconv.COERCIONS: [f"{path}:{before}>{after}" for path, before, after in changes]
    }
    return attributes | {f"harness.coercion.{change}": n for change, n in counts.items()}


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def _retrieval(event: events.RetrievalEnded, run: RunState) -> Closing:
    hits = event.hits
    attributes: Attributes = {
        semconv.CHUNK_IDS: [name(hit.chunk.id) for hit in hits],
        semconv.CHUNK_SCORES: [float(hit.score) for hit in hits],
        "harness.retrieval.hits": len(hits),
    }
    if hits:
        attributes["harness.retrieval.top_id"] = name(hits[0].chunk.id)
        attributes["harness.retrieval.top_score"] = float(hits[0].score)
    if event.index_version is not None:
        attributes["harness.retrieval.index_version"] = name(event.index_version)
    run.put_json(
        attributes,
        semconv.RETRIEVAL_DOCUMENTS,
        [{"id": h.chunk.id, "score": float(h.score), "content": h.chunk.text} for h in hits],
    )
    run.chunks.add(hits)
    run.count("retrievals")
    return Closing(attributes, "retrieval.search", level="info" if hits else "warning")


def _embedding(event: events.EmbeddingEnded, _: RunState) -> Closing:
    attributes: Attributes = {
        semconv.EMBEDDING_DIMENSION: event.dimension,
        "harness.embeddings.cached": event.cached,
    }
    put(attributes, semconv.INPUT_TOKENS, event.prompt_tokens)
    return Closing(attributes, "embeddings.create")


def _rerank(event: events.RerankEnded, run: RunState) -> Closing:
    run.chunks.add(event.hits)
    attributes: Attributes = {
        "harness.rerank.chunk_ids": [name(hit.chunk.id) for hit in event.hits],
        "harness.rerank.in_time": event.in_time,
    }
    return Closing(attributes, "rerank", level="info" if event.in_time else "warning")


def _memory(event: events.MemoryEnded, _: RunState) -> Closing:
    attributes: Attributes = {
        "harness.memory.items": event.items,
        "harness.memory.chars": event.characters,
    }
    return Closing(attributes, "memory.end")


CLOSINGS: dict[type, Callable[[Any, RunState], Closing]] = {
    events.RunEnded: run_closing,
    events.StepEnded: step_closing,
    events.ModelCallEnded: _model_call,
    events.AttemptEnded: _attempt,
    events.ParseEnded: _parse,
    events.ToolEnded: _tool,
    events.RetrievalEnded: _retrieval,
    events.EmbeddingEnded: _embedding,
    events.RerankEnded: _rerank,
    events.MemoryEnded: _memory,
}
"""The closing for an event, by its type."""
_RECORDS: dict[type, str] = {
    events.RunStarted: "run.end",
    events.StepStarted: "step.end",
    events.ModelCallStarted: "llm.call",
    events.AttemptStarted: "llm.attempt",
    events.ParseStarted: "parse.failed",
    events.ToolStarted: "tool.call",
    events.RetrievalStarted: "retrieval.search",
    events.EmbeddingStarted: "embeddings.create",
    events.RerankStarted: "rerank",
    events.MemoryStarted: "memory.end",
}
