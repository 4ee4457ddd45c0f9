"""What differs between two runs: the cause first, then the tree with `+`, `-` and `~`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rich.text import Text
from rich.tree import Tree

from harness import semconv
from harness.plain import one_line
from harness.trace.describe import duration, title
from harness.trace.spans import TraceSpan

Mark = Literal["=", "~", "+", "-"]

_VOLATILE_PREFIXES = (
    "harness.ollama.", "harness.last_good.", "harness.changed.", "harness.total_",
)  # fmt: skip
_VOLATILE = {
    semconv.RUN_ID, semconv.PARENT_RUN_ID, semconv.TIME_TO_FIRST_CHUNK, semconv.TOOL_CALL_ID,
    semconv.INPUT_TOKENS, semconv.OUTPUT_TOKENS, "harness.step.seconds", "harness.tool.seconds",
    "harness.step.input_tokens", "harness.step.output_tokens", "harness.tokens_per_second",
    "harness.retry_wait_s", "harness.config.sha256", semconv.CONTENT_MODE,
}  # fmt: skip
_STYLES: dict[str, str] = {"=": "dim", "~": "yellow", "+": "green", "-": "red"}
_CAUSES = {
    "harness.question.sha256": "the question",
    "harness.system.sha256": "the system prompt",
    "harness.tools.sha256": "the tools' names or schemas",
    "harness.tools_sent": "the tools that were sent",
    semconv.REQUEST_MODEL: "the model",
    semconv.RESPONSE_MODEL: "the model that answered",
    "harness.limits": "the limits",
    "harness.protocol": "the protocol",
    "harness.language": "the language",
    "harness.options.sha256": "the sampling options",
}


@dataclass(slots=True)
class Difference:
    """A span in one or both runs. `details` say what changed in it, without its children."""

    mark: Mark
    before: TraceSpan | None
    after: TraceSpan | None
    details: list[str] = field(default_factory=list)
    children: list[Difference] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether nothing differs here or below."""
        return self.mark == "=" and all(child.same for child in self.children)

    @property
    def span(self) -> TraceSpan:
        """The newer of the two."""
        span = self.after or self.before
        assert span is not None
        return span


def compare(before: TraceSpan, after: TraceSpan) -> Difference:
    """Compare two spans and what is below them. Ids and the order of siblings do not matter."""
    details = list(_changed_attributes(before, after))
    if before.failed != after.failed:
        details.append(f"{_state(before)} → {_state(after)}")
    children = [
        compare(old, new) if old and new else Difference("-" if old else "+", old, new)
        for old, new in pairs(before.children, after.children)
    ]
    return Difference("~" if details else "=", before, after, details, children)


def causes(difference: Difference) -> list[str]:
    """Why the runs differ, most likely first: what was put in, else where they part."""
    found = []
    for each in _walk(difference):
        if each.before and each.after:
            a, b = each.before.attributes, each.after.attributes
            found += [what for key, what in _CAUSES.items() if a.get(key) != b.get(key)]
    lines = [f"cause: {what} changed" for what in dict.fromkeys(found)]
    first = next((each for each in _walk(difference) if _parts(each)), None)
    if first is not None:
        lines.append(_first_line(first))
    return lines


def render(difference: Difference) -> Tree:
    """The tree, with subtrees that are the same folded into one line."""
    span = difference.span
    label = Text(one_line(f"{difference.mark} {title(span)}"), style=_STYLES[difference.mark])
    delta = _delta(difference)
    if delta:
        label.append(f"  {delta}", style="dim")
    tree = Tree(label)
    for detail in difference.details:
        tree.add(Text(one_line(detail), style="yellow"))
    same = 0
    for child in difference.children:
        if child.same:
            same += 1
        else:
            tree.children.append(render(child))
    if same:
        tree.add(Text(f"= {same} the same", style="dim"))
    return tree


def _walk(difference: Difference) -> Iterator[Difference]:
    yield difference
    for child in difference.children:
        yield from _walk(child)


def _parts(difference: Difference) -> bool:
    """Whether the runs part here: below the run and its steps, which only sum up."""
    return difference.mark != "=" and difference.span.kind not in {"invoke_agent", "harness.step"}


def _first_line(first: Difference) -> str:
    name = title(first.span)
    if first.mark != "~":
        return f"first difference: {name} only in the {'second' if first.mark == '+' else 'first'}"
    assert first.before is not None
    assert first.after is not None
    a, b = first.before.attributes, first.after.attributes
    prompt = "harness.prompt.sha256"
    if first.span.kind == "chat" and a.get(prompt) == b.get(prompt):
        return f"first difference: {name}: the same prompt, another reply"
    return f"first difference: {name}: {'; '.join(first.details)}"


def pairs(
    old: Sequence[TraceSpan], new: Sequence[TraceSpan]
) -> Iterator[tuple[TraceSpan | None, TraceSpan | None]]:
    """Siblings that belong together: those with the same name; among these the most alike."""
    left = list(new)
    for span in old:
        alike = [each for each in left if title(each) == title(span)]
        best = min(alike, key=lambda each: _distance(span, each), default=None)
        if best is not None:
            left.remove(best)
        yield span, best
    for span in left:
        yield None, span


def _distance(a: TraceSpan, b: TraceSpan) -> int:
    return sum(1 for _ in _changed_attributes(a, b))


def _changed_attributes(before: TraceSpan, after: TraceSpan) -> Iterator[str]:
    a, b = before.attributes, after.attributes
    for key in sorted(a.keys() | b.keys()):
        volatile = key in _VOLATILE or key in semconv.CONTENT or key.startswith(_VOLATILE_PREFIXES)
        if not volatile and a.get(key) != b.get(key):
            yield f"{key}: {_shown(a.get(key))} → {_shown(b.get(key))}"


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    text = str(value)
    return text if len(text) <= 60 else text[:40] + "…"


def _state(span: TraceSpan) -> str:
    return f"failed ({span.error})" if span.failed else "no error"


def _delta(difference: Difference) -> str:
    """Time and tokens, and by how much they changed."""
    if difference.before is None or difference.after is None:
        return duration(difference.span.milliseconds)
    before, after = difference.before, difference.after
    said = f"{duration(after.milliseconds)} ({after.milliseconds - before.milliseconds:+.0f} ms)"
    for key in ("harness.total_{}_tokens", "harness.step.{}_tokens", "gen_ai.usage.{}_tokens"):
        for way in ("input", "output"):
            old, new = (span.attributes.get(key.format(way)) for span in (before, after))
            if old is not None and new is not None and old != new:
                said += f", {new - old:+d} {way} tokens"
    return said
