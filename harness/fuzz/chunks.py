"""Fuzz a chunker: nothing lost, offsets exact, limits kept.

A target is `(text, chunk_size, overlap) -> chunks`; a chunk has `text`, `start` and `end` (code
points of the source) as attributes or keys. What it repeats around its own piece of the source
(the header of a table that was cut) it names in `metadata` as `repeated_before` and
`repeated_after`.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from agent_core.rag.chunking import chunk_text
from harness.fuzz.functions import load_function
from harness.fuzz.pool import Checked, Finding

KINDS = ("prose", "markdown", "long lines", "odd characters")
COLUMNS = ("seen", "right", "wrong", "crash")

_PROSE = (
    "Low water is at nine. ", "The ferry left. ", "今天退潮很早。", "渡轮停航；明天再说！",
    "Dr. Orla pays 3.50. ", "“走吧。”他说。", "\n\n", "\n", "Really?! ", "见https://quay.example/a.b。",
)  # fmt: skip
_MARKDOWN = (
    "# Tides\n", "## 潮汐\n\n", "```sh\n", "```\n", "| a | b |\n", "|---|---|\n", "| 1 | 二 |\n",
    "- item\n", "1. first\n", "> quoted\n", "---\n", "text\n", "\n", "    code\n", "Title\n=====\n",
    "~~~\n",
)  # fmt: skip
_ODD = (
    "👩‍🚀", "e\u0301", "\u200b", "\ufeff", "\u2028", "\r\n", "\r", "\t", " ", "\u3000", "🇳🇴🇨🇳",
    "한국어", "क्षि", "\x00", "x", "\n", "深",
)  # fmt: skip


def ours(text: str, chunk_size: int, overlap: int) -> list[Any]:
    """The chunker of `agent_core`."""
    return chunk_text(text, chunk_size=chunk_size, overlap=overlap)


class ChunkCampaign:
    """Texts of several kinds, with sizes from tiny to ample."""

    def __init__(self, spec: str, seed: int) -> None:
        self.target, self.seed = load_function(spec, 3), seed

    def make(self, index: int) -> tuple[str, str, int, int]:
        """Kind, text, size, overlap."""
        rng = Random(f"{self.seed}/{index}")  # noqa: S311 - reproducible, not secret
        kind = KINDS[index % len(KINDS)]
        pieces: tuple[str, ...] = (_PROSE, _MARKDOWN, ("word ", "深", "x" * 80, "。"), _ODD)[
            index % 4
        ]
        if kind != "prose":
            pieces = (*pieces, *_PROSE[:3])
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(0, 60)))
        size = rng.choice((1, 7, 20, 60, 200, 500))
        return kind, text, size, rng.choice((0, 0, size // 10, size - 1))

    def check(self, index: int) -> Checked:
        kind, text, size, overlap = self.make(index)
        try:
            fault, detail = faults_of(text, size, overlap, list(self.target(text, size, overlap)))
            column = "wrong" if fault else "right"
        except Exception as error:
            fault, column = "crash", "crash"
            detail = f"{type(error).__name__}: {str(error)[:200]}"
        counts = Counter({(kind, "seen"): 1, (kind, column): 1})
        return Checked(counts, (self._finding(fault, index, detail),) if fault else ())

    def killed(self, index: int, how: str) -> Checked:
        kind = KINDS[index % len(KINDS)]
        counts = Counter({(kind, "seen"): 1, (kind, "crash"): 1})
        return Checked(counts, (self._finding("killed", index, how),))

    def _finding(self, fault: str, index: int, detail: str) -> Finding:
        kind, text, size, overlap = self.make(index)
        case = {"input": {"text": text, "chunk_size": size, "overlap": overlap}}
        return Finding(fault, kind, index, case, detail)

    def shrink(self, finding: Finding) -> Finding:
        """The shortest text that shows the fault, by leaving pieces out."""
        given = finding.case["input"]
        text, step = given["text"], len(given["text"]) // 2
        while step:
            at = 0
            while at < len(text):
                shorter = text[:at] + text[at + step :]
                if self._fault(shorter, given["chunk_size"], given["overlap"]) == finding.kind:
                    text = shorter
                else:
                    at += step
            step //= 2
        return Finding(finding.kind, finding.label, finding.index,
                       {"input": {**given, "text": text}}, finding.detail)  # fmt: skip

    def _fault(self, text: str, size: int, overlap: int) -> str:
        try:
            return faults_of(text, size, overlap, list(self.target(text, size, overlap)))[0]
        except Exception:
            return "crash"


def faults_of(text: str, size: int, overlap: int, chunks: list[Any]) -> tuple[str, str]:
    """The first thing wrong with the chunks of a text, and where; two empty strings for none."""
    covered = 0
    for number, chunk in enumerate(chunks):
        start, end, body = (_part(chunk, key) for key in ("start", "end", "text"))
        extra = _part(chunk, "metadata") or {}
        before, after = extra.get("repeated_before", ""), extra.get("repeated_after", "")
        wrong = {
            "too_long": len(body) > size,
            "offsets": body != f"{before}{text[start:end]}{after}",
            "text_lost": start > covered and _visible(text[covered:start]),
            "no_progress": number > 0 and end <= covered,
            "overlap": covered - start > overlap,
        }
        fault = next((kind for kind, found in wrong.items() if found), "")
        if fault:
            return fault, f"chunk {number}, {start} to {end} after {covered}: {body!r}"
        covered = end
    if _visible(text[covered:]):
        return "text_lost", f"{text[covered:]!r} at the end is in no chunk"
    return "", ""


def _part(chunk: Any, key: str) -> Any:
    return chunk.get(key) if isinstance(chunk, dict) else getattr(chunk, key, None)


def _visible(text: str) -> bool:
    return bool(text.strip().strip("\ufeff").strip())
