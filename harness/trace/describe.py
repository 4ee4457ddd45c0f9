"""The facts of a span in few words, for the terminal and the page alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import semconv
from harness.plain import counted
from harness.trace.spans import TraceSpan

REPLAY = "a replay: its times are its own; tokens, tokens/s and load are the recording's"


def title(span: TraceSpan) -> str:
    """What a span is, for people."""
    if span.kind == "harness.step":
        return f"step {span.attributes.get(semconv.STEP_INDEX, '?')}"
    if span.kind == "harness.memory":
        return f"memory {span.attributes.get('harness.memory.operation', '')}".strip()
    return span.name.removeprefix("harness.")


def duration(milliseconds: float) -> str:
    """Milliseconds below ten seconds, seconds above."""
    return f"{milliseconds:.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:.1f} s"


def facts(span: TraceSpan) -> list[str]:
    """What is worth saying about a span, most important first. No content."""
    said = [f"{span.attributes.get(semconv.ERROR_TYPE)}"] if span.failed else []
    if span.failed and span.error and span.error != said[0]:
        said = [span.error]
    return said + _FACTS.get(span.kind, _other)(span.attributes)


def tokens(attributes: dict[str, Any], prefix: str) -> list[str]:
    """`120→34 tokens`, where counts are known."""
    counts = [attributes.get(f"{prefix}{each}_tokens") for each in ("input", "output")]
    if counts == [None, None]:
        return []
    estimated = "~" if attributes.get("harness.usage.estimated") else ""
    shown = "→".join("?" if count is None else str(count) for count in counts)
    return [f"{estimated}{shown} tokens"]


def steps_of(a: dict[str, Any]) -> str:
    """How many steps a run took; one that an error ended is none of them and counts apart."""
    steps, failed = a.get("harness.steps", "?"), a.get(semconv.FAILED_STEP)
    said = counted(steps, "step")
    if isinstance(steps, int) and isinstance(failed, int) and failed > steps:
        return f"{said} and step {failed} that failed" if steps else f"step {failed} failed"
    return said


def listed(items: Any, limit: int = 5) -> str:
    """The first few of a list."""
    if not isinstance(items, Sequence) or isinstance(items, str):
        return str(items)
    shown = ", ".join(str(item) for item in items[:limit])
    return shown + (f" and {len(items) - limit} more" if len(items) > limit else "")


def is_replay(root: TraceSpan) -> bool:
    """Whether a run got its replies from a recording."""
    return root.attributes.get(semconv.REPLAY) is True


def _run(a: dict[str, Any]) -> list[str]:
    good = a.get(semconv.ERROR_TYPE) is None  # otherwise the description has said it
    said = [str(a.get(semconv.STOP_REASON, "not ended"))] if good else []
    if a.get("harness.steps") is not None:
        said.append(steps_of(a))
    return said + tokens(a, "harness.total_")


def _step(a: dict[str, Any]) -> list[str]:
    said = tokens(a, "harness.step.")
    if a.get(semconv.REPEAT_OF_STEP) is not None:
        said.append(f"repeats step {a[semconv.REPEAT_OF_STEP]}")
    notes = [key for key in a if key.startswith("harness.note.")]
    return said + [f"{key.removeprefix('harness.note.')}: {a[key]}" for key in notes]


def _chat(a: dict[str, Any]) -> list[str]:
    said = tokens(a, "gen_ai.usage.")
    share = window_share(a)
    if share is not None:
        said.append(f"{share:.0%} of the window")
    if a.get("harness.tokens_per_second"):
        said.append(f"{a['harness.tokens_per_second']:.0f} tokens/s")
    if a.get("harness.ollama.load_ms"):
        said.append(f"load {duration(a['harness.ollama.load_ms'])}")
    if a.get("harness.finish_reason") not in {None, "stop", "tool_calls"}:
        said.append(f"finish_reason {a['harness.finish_reason']}")
    if a.get(semconv.PROMPT_CHUNK_IDS):
        said.append(f"chunks {listed(a[semconv.PROMPT_CHUNK_IDS])} in the prompt")
    if a.get(semconv.CUT_CHUNK_IDS):
        said.append(f"chunks {listed(a[semconv.CUT_CHUNK_IDS])} cut")
    return said


def window_share(a: dict[str, Any]) -> float | None:
    """Share of the context window that the prompt took."""
    used, window = a.get(semconv.INPUT_TOKENS), a.get(semconv.CONTEXT_WINDOW)
    return used / window if used and window else None


def _attempt(a: dict[str, Any]) -> list[str]:
    said = [f"attempt {a[semconv.ATTEMPT]}"] if semconv.ATTEMPT in a else []
    if semconv.HTTP_STATUS in a:
        said.append(f"HTTP {a[semconv.HTTP_STATUS]}")
    if semconv.RETRY_REASON in a:
        said.append(f"retried: {a[semconv.RETRY_REASON]}")
    return said


def _parse(a: dict[str, Any]) -> list[str]:
    said = [str(a.get(semconv.PARSE_DECISION, ""))]
    if a.get(semconv.PARSE_REPAIRS):
        said.append(f"repaired {listed(a[semconv.PARSE_REPAIRS])}")
    if a.get(semconv.PARSE_IGNORED):
        said.append(f"ignored {listed(a[semconv.PARSE_IGNORED])}")
    return said


def _tool(a: dict[str, Any]) -> list[str]:
    said = []
    if a.get(semconv.COERCIONS):
        said.append(f"coerced {listed(a[semconv.COERCIONS])}")
    if a.get("harness.dropped"):
        said.append(f"dropped {listed(a['harness.dropped'])}")
    if a.get("harness.observation.truncated_from"):
        said.append(f"result cut from {a['harness.observation.truncated_from']} chars")
    return said


def _retrieval(a: dict[str, Any]) -> list[str]:
    ids, scores = a.get(semconv.CHUNK_IDS) or [], a.get(semconv.CHUNK_SCORES) or []
    if not ids:
        return ["no hits"]
    pairs = [f"{each} {score:.2f}" for each, score in zip(ids, scores, strict=False)]
    return [listed(pairs)]


def _embeddings(a: dict[str, Any]) -> list[str]:
    return [f"{a.get('harness.embeddings.texts', '?')} texts"]


def _rerank(a: dict[str, Any]) -> list[str]:
    if a.get("harness.rerank.in_time") is False:
        return ["too slow: first order kept"]
    return [listed(a.get("harness.rerank.chunk_ids") or [])]


def _memory(a: dict[str, Any]) -> list[str]:
    return [f"{a.get('harness.memory.items', '?')} items"]


def _other(_: dict[str, Any]) -> list[str]:
    return []


_FACTS = {
    "invoke_agent": _run,
    "harness.step": _step,
    "chat": _chat,
    "POST": _attempt,
    "GET": _attempt,
    "harness.parse": _parse,
    "execute_tool": _tool,
    "retrieval": _retrieval,
    "embeddings": _embeddings,
    "harness.rerank": _rerank,
    "harness.memory": _memory,
}
