"""A trace as a tree in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from harness import semconv
from harness.plain import visible
from harness.trace.describe import REPLAY, duration, facts, is_replay, title
from harness.trace.spans import Trace, TraceSpan

_CONTENT = (
    ("thought", "harness.parse.thought"),
    ("arguments", semconv.TOOL_ARGUMENTS),
    ("observation", semconv.TOOL_RESULT),
    ("error", semconv.ERROR_MESSAGE),
    ("repairs", "harness.parse.repair_values"),
    ("coercions", "harness.coercion_values"),
    ("reply", semconv.OUTPUT_MESSAGES),
    ("answer", "harness.answer"),
)
_SHOWN_CHARS = 400
_NARROWEST = 40


def print_trace(trace: Trace, console: Console, *, content: bool = False) -> None:
    """Print the tree; texts only of the failed step unless `content` asks for all."""
    remark = f"  {REPLAY}" if is_replay(trace.root) else ""
    console.width = max(console.width, _NARROWEST)  # below, a word is a column of letters
    console.print(Text(f"trace {trace.trace_id}{remark}", style="dim"))
    for root in trace.roots:
        failed = root.attributes.get(semconv.FAILED_STEP)
        console.print(_tree(root, failed, shown=content))
    if not trace.complete:
        console.print(Text("incomplete: spans are missing that others name as their parent"))


def _tree(span: TraceSpan, failed_step: object, *, shown: bool) -> Tree:
    """One span and what is below it. Colour only repeats what the marks say."""
    is_failed_step = (
        span.kind == "harness.step"
        and failed_step is not None
        and span.attributes.get(semconv.STEP_INDEX) == failed_step
    )
    shown = shown or is_failed_step
    mark, style = ("✗ ", "bold red") if span.failed else ("", "")
    label = Text(mark + _printable(title(span)), style=style)
    label.append(f"  {duration(span.milliseconds)}", style="dim")
    said = [fact for fact in facts(span) if fact]
    if said:
        label.append("  " + _printable(" · ".join(said)), style="red" if span.failed else "")
    tree = Tree(label)
    for name, key in _CONTENT if shown else ():
        if key in span.attributes:
            text = str(span.attributes[key])
            more = f" …[+{len(text) - _SHOWN_CHARS} chars]" if len(text) > _SHOWN_CHARS else ""
            tree.add(Text(f"{name}: {_printable(text[:_SHOWN_CHARS])}{more}", style="cyan"))
    for child in span.children:
        child_failed = child.attributes.get(semconv.FAILED_STEP, failed_step)
        tree.children.append(_tree(child, child_failed, shown=shown))
    return tree


def _printable(text: str) -> str:
    """Without control characters: a reply must not drive the terminal."""
    return visible("".join(c if c.isprintable() else " " for c in text))
