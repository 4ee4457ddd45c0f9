"""A trace as one page: no script, no request, every foreign text escaped.

Colours only repeat what words and marks say, so the page reads the same without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import semconv
from harness.page import document
from harness.page import escaped as _text
from harness.plain import counted
from harness.trace.describe import REPLAY, duration, facts, is_replay, listed, title
from harness.trace.explain import explain
from harness.trace.spans import Trace, TraceSpan

_BAR_CLASS = {"execute_tool": "tool", "chat": "", "invoke_agent": "part", "harness.step": "part"}
_MARKS = {"error": ("✗ ", "bad"), "warning": ("! ", "warn"), "note": ("· ", "soft")}
_MAX_RECORDS = 1_000


def page(trace: Trace, *, logs: Path | None = None, trouble: str = "") -> str:
    """The whole page.

    Args:
        logs: JSON lines of log records; those of this trace are shown.
        trouble: what the run was found fault with, which its trace does not know.
    """
    root = trace.root
    name = f"{root.name} · {root.attributes.get(semconv.STOP_REASON, 'not ended')}"
    parts = [
        *_header(trace, trouble),
        *_waterfall(trace),
        *_prompt_growth(trace),
        *_steps(trace),
        *_records(trace, logs),
    ]
    language = "zh" if root.attributes.get("harness.language") == "zh" else "en"
    return document(name, parts, language=language)


def _header(trace: Trace, trouble: str) -> Iterator[str]:
    root = trace.root
    a = root.attributes
    summary, *found = explain(trace)
    mark, kind = ("✗ failed", "bad") if root.failed else ("✓ ended", "ok")
    yield f"<h1>{_text(root.name)}</h1>"
    if trouble:
        yield f'<p class="bad">✗ {_text(trouble)}</p>'
    yield f'<p><span class="{kind}">{mark}</span> {_text(summary)}</p>'
    run_id = a.get(semconv.RUN_ID, "?")
    yield f'<p class="soft">trace {_text(trace.trace_id)} · run {_text(run_id)}</p>'
    if is_replay(root):
        yield f'<p class="soft">{REPLAY}</p>'
    if found:
        yield '<ul class="found">'
        for line in found:
            mark, kind = _MARKS.get(line.split(":", 1)[0], ("", "soft"))
            yield f'<li class="{kind}">{mark}{_text(line)}</li>'
        yield "</ul>"
    if not _has_content(trace):
        yield (
            '<p class="warn">! This trace holds no texts, only sizes and digests. '
            "Record with <code>--content truncated</code>, or name the session file "
            "(<code>--session</code>) to see them.</p>"
        )
    for label, key in (("Question", "harness.question"), ("Answer", "harness.answer")):
        if key in a:
            yield f"<h3>{label}</h3><pre>{_text(a[key])}</pre>"
    pairs = [("model", a.get(semconv.REQUEST_MODEL)), ("protocol", a.get("harness.protocol")),
             ("tools", listed(a.get("harness.tools") or [], 20)),
             ("limits", a.get("harness.limits"))]  # fmt: skip
    yield _pairs(pairs)


def _waterfall(trace: Trace) -> Iterator[str]:
    spans = trace.spans()
    begin = min(span.start for span in spans)
    whole = max(max(span.end for span in spans) - begin, 1)
    yield "<h2>Waterfall</h2>"
    depths = _depths(trace)
    for span in spans:
        at = 100 * (span.start - begin) / whole
        long = min(100 * (span.end - span.start) / whole, 100 - at)
        kind = "failed" if span.failed else _BAR_CLASS.get(span.kind, "part")
        mark = '<span class="bad">✗</span> ' if span.failed else ""
        said = " · ".join([duration(span.milliseconds), *(f for f in facts(span)[:2] if f)])
        yield (
            f'<div class="row"><div class="name" style="--deep:{depths[span.span_id]}">{mark}'
            f'{_text(title(span))} <span class="soft">{_text(said)}</span></div>'
            f'<div class="track" role="img" aria-label="from {at:.0f}% for {long:.0f}%">'
            f'<div class="bar {kind}" style="--at:{at:.2f}%;--long:{long:.2f}%"></div></div></div>'
        )


def _depths(trace: Trace) -> dict[str, int]:
    depths: dict[str, int] = {}

    def visit(span: TraceSpan, depth: int) -> None:
        depths[span.span_id] = min(depth, 8)
        for child in span.children:
            visit(child, depth + 1)

    for root in trace.roots:
        visit(root, 0)
    return depths


def _prompt_growth(trace: Trace) -> Iterator[str]:
    calls = [span for span in trace.spans() if span.kind == "chat"]
    sizes = [
        (c, c.attributes.get(semconv.INPUT_TOKENS), c.attributes.get("harness.prompt.chars", 0))
        for c in calls
    ]
    most = max((chars for _, _, chars in sizes), default=0)
    if not most:
        return
    yield "<h2>Prompt growth</h2>"
    for number, (call, tokens, chars) in enumerate(sizes, start=1):
        rewritten = number > 1 and call.attributes.get("harness.prompt.rewritten")
        said = f"{chars} chars" + (f", {tokens} tokens" if tokens is not None else "")
        said += ", rewritten" if rewritten else ""
        yield (
            f'<div class="row"><div class="name" style="--deep:0">call {number} '
            f'<span class="soft">{_text(said)}</span></div><div class="track" role="img" '
            f'aria-label="{chars} of {most} characters"><div class="bar" '
            f'style="--at:0%;--long:{100 * chars / most:.2f}%"></div></div></div>'
        )


def _steps(trace: Trace) -> Iterator[str]:
    yield "<h2>Steps</h2>"
    failed = trace.root.attributes.get(semconv.FAILED_STEP)
    steps = [span for span in trace.spans() if span.kind == "harness.step"]
    for step in steps:
        index = step.attributes.get(semconv.STEP_INDEX)
        is_open = " open" if len(steps) <= 5 or index == failed else ""
        mark = '<span class="bad">✗</span> ' if step.failed or index == failed else ""
        said = " · ".join([duration(step.milliseconds), *facts(step)])
        yield f"<details{is_open}><summary>{mark}{_text(title(step))} "
        yield f'<span class="soft">{_text(said)}</span></summary>'
        for span in step.walk():
            if span is not step:
                yield from _span(span)
        yield "</details>"


def _span(span: TraceSpan) -> Iterator[str]:
    said = [duration(span.milliseconds), *(fact for fact in facts(span) if fact)]
    mark = '<span class="bad">✗</span> ' if span.failed else ""
    yield f'<h3>{mark}{_text(title(span))}</h3><p class="soft">{_text(" · ".join(said))}</p>'
    a = span.attributes
    for label, key in _TEXTS:
        if key in a:
            yield f"<p>{label}</p><pre>{_text(_readable(key, a[key]))}</pre>"
    if "harness.parse.repair_values" in a:
        yield from _changes("Repairs", "harness.parse.repair_values", a)
    if "harness.coercion_values" in a:
        yield from _changes("Coercions", "harness.coercion_values", a)
    yield from _chunks(a)
    if semconv.INPUT_MESSAGES in a:
        text = _readable(semconv.INPUT_MESSAGES, a[semconv.INPUT_MESSAGES])
        yield "<details><summary>What the model saw</summary>"
        yield f"<pre>{_text(text)}</pre></details>"
    shown = {key for _, key in _TEXTS} | semconv.CONTENT
    rest = [(key, value) for key, value in sorted(a.items()) if key not in shown]
    yield f"<details><summary>{len(rest)} attributes</summary>{_pairs(rest)}</details>"


def _changes(label: str, key: str, a: dict[str, Any]) -> Iterator[str]:
    """Before and after, a row each."""
    yield f"<p>{label}</p><table><tr><th>where</th><th>before</th><th>after</th></tr>"
    for row in _json_list(a[key]):
        if isinstance(row, list) and len(row) == 3:
            what, before, after = (_text(cell) for cell in row)
            yield f"<tr><td>{what}</td><td><del>{before}</del></td><td><ins>{after}</ins></td></tr>"
    yield "</table>"


def _chunks(a: dict[str, Any]) -> Iterator[str]:
    documents = _json_list(a.get(semconv.RETRIEVAL_DOCUMENTS, "[]"))
    if not documents:
        return
    yield "<p>Retrieved</p><table><tr><th>chunk</th><th>text</th></tr>"
    for each in documents:
        if isinstance(each, dict):
            identity, score = _text(each.get("id")), _text(each.get("score"))
            yield f'<tr><td>{identity}<br><span class="soft">{score}</span></td>'
            yield f"<td>{_text(each.get('content', ''))}</td></tr>"
    yield "</table>"


def _records(trace: Trace, logs: Path | None) -> Iterator[str]:
    if logs is None:
        return
    yield "<h2>Log records</h2><table><tr><th>event</th><th>fields</th></tr>"
    with logs.open(encoding="utf-8", errors="replace") as lines:
        mine = [line for line in lines if trace.trace_id in line]
    for line in mine[:_MAX_RECORDS]:
        record = _json(line)
        if isinstance(record, dict):
            event = _text(record.pop("event", ""))
            level = _text(record.pop("level", ""))
            when = _text(record.pop("timestamp", ""))
            said = ", ".join(f"{key}={value}" for key, value in record.items() if key != "trace_id")
            yield (
                f'<tr><td>{event}<br><span class="soft">{level} {when}</span></td>'
                f"<td>{_text(said[:2_000])}</td></tr>"
            )
    yield "</table>"
    if len(mine) > _MAX_RECORDS:
        yield f"<p>… and {len(mine) - _MAX_RECORDS} more</p>"


def _readable(key: str, value: Any) -> str:
    """Messages as a conversation; anything else as it is."""
    if key not in {semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES}:
        return str(value)
    lines = []
    for message in _json_list(value):
        if not isinstance(message, dict):
            continue
        if "count" in message:
            lines.append(f"… {counted(message['count'], 'message')} left out …")
        parts = [part for part in message.get("parts") or [] if isinstance(part, dict)]
        lines += [f"[{message.get('role')}] {_part(part)}" for part in parts]
    return "\n".join(lines) or str(value)


def _part(part: dict[str, Any]) -> str:
    if part.get("type") == "tool_call":
        arguments = json.dumps(part.get("arguments"), ensure_ascii=False)
        return f"→ {part.get('name')}({arguments})"
    return str(part.get("content", part.get("response", "")))


def _pairs(pairs: Sequence[tuple[str, Any]]) -> str:
    rows = "".join(
        f"<dt>{_text(key)}</dt><dd>{_text(value)}</dd>" for key, value in pairs if value is not None
    )
    return f"<dl>{rows}</dl>"


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return None


def _json_list(text: Any) -> list[Any]:
    value = _json(text)
    return value if isinstance(value, list) else []


def _has_content(trace: Trace) -> bool:
    return any(semconv.CONTENT & span.attributes.keys() for span in trace.spans())


_TEXTS = (
    ("Thought", "harness.parse.thought"),
    ("Reply", semconv.OUTPUT_MESSAGES),
    ("Error", semconv.ERROR_MESSAGE),
    ("Ignored", "harness.parse.ignored_values"),
    ("Query", semconv.RETRIEVAL_QUERY),
    ("Arguments", semconv.TOOL_ARGUMENTS),
    ("Observation", semconv.TOOL_RESULT),
)
