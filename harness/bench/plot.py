"""Results as a picture: recall at the budget against the time a question takes, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from harness.bench.retrieval import Result

_WIDTH, _HEIGHT, _MARGIN = 760, 420, 60
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


def question_ms(result: Result) -> float:
    """Median milliseconds from the question to its hits."""
    parts = (result.embed_ms, result.search_ms, result.rerank_ms)
    return sum(part[0] for part in parts if part is not None)


def as_svg(results: Sequence[Result], budget: int) -> str:
    """Draw the results: up is better, left is quicker (on a logarithmic scale)."""
    times = [max(question_ms(result), 1e-3) for result in results]
    low = math.floor(math.log10(min(times)))
    high = max(math.ceil(math.log10(max(times))), low + 1)
    body = [_axes(low, high, budget)]
    for number, (result, ms) in enumerate(zip(results, times, strict=True)):
        x = _x(math.log10(ms), low, high)
        y = _y(result.recall_at_budget)
        colour = _COLOURS[number % len(_COLOURS)]
        label = escape(f"{result.retriever}, {result.chunker}")
        body.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>'
            f'<text x="{_WIDTH + 10}" y="{_MARGIN + 18 * number}" fill="{colour}">{label}: '
            f"{result.recall_at_budget:.3f}, {ms:.2g} ms</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 340} {_HEIGHT}" '
        f'font-family="sans-serif" font-size="12">\n' + "\n".join(body) + "\n</svg>\n"
    )


def _axes(low: int, high: int, budget: int) -> str:
    lines = [
        f'<text x="{_MARGIN}" y="20">'
        f"recall within {budget} characters / median ms a question</text>"
    ]
    for tenth in range(0, 11, 2):
        y = _y(tenth / 10)
        lines.append(
            f'<line x1="{_MARGIN}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
            f'<text x="{_MARGIN - 30}" y="{y + 4:.1f}">{tenth / 10:.1f}</text>'
        )
    for power in range(low, high + 1):
        x = _x(power, low, high)
        lines.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(1):.1f}" y2="{_y(0):.1f}" stroke="#ddd"/>'
            f'<text x="{x - 12:.1f}" y="{_HEIGHT - 30}">{10.0**power:g}</text>'
        )
    return "\n".join(lines)


def _x(power: float, low: int, high: int) -> float:
    return _MARGIN + (power - low) / (high - low) * (_WIDTH - _MARGIN)


def _y(share: float) -> float:
    return _HEIGHT - _MARGIN - share * (_HEIGHT - 2 * _MARGIN)
