"""Chunkers side by side: speed, and what they do to text, fences, tables and sentences.

Usage:  python -m benchmarks.chunkers [--size 500] [--json FILE]

Needs `pip install langchain-text-splitters llama-index-core chonkie semantic-text-splitter` for
those; what is missing is left out. Every chunker gets the same documents, without overlap.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from agent_core.rag import chunk_text

Chunker = Callable[[str], list[str]]

TABLE_HEAD = "| Nr | 城市 | Temperature |"
ABBREVIATION = re.compile(r"(?:\b(?:Dr|Mr|e\.g|U\.S|No|Fig)|\b[A-Z])\.\s*$")


def prose_en(count: int) -> str:
    """Sentences full of stops that end nothing."""
    return " ".join(
        f"Dr. A. Smith paid {n}.14 dollars in the U.S. shop, e.g. for item No. {n} of Fig. {n}."
        for n in range(count)
    )


def prose_zh(count: int) -> str:
    """Sentences without a blank, with quotes."""
    return "".join(
        f"港口的第{n}座灯塔建于一九零三年，高四十一米。他问：“还有人住在里面吗？”没有；钥匙交给了博物馆……"
        for n in range(count)
    )


def probe() -> str:
    """A document with everything in it; each part longer than a chunk."""
    rows = "\n".join(f"| {n} | 城市{n} | {n} degrees in row{n} |" for n in range(60))
    code = "\n".join(f"    value_{n} = call({n})  # comment {n}" for n in range(60))
    return (
        f"# Guide\n\n{prose_en(20)}\n\n## 灯塔\n\n{prose_zh(20)}\n\n### Table\n\n{TABLE_HEAD}\n"
        f"|---|---|---|\n{rows}\n\n### Code\n\n````python\ndef f():\n{code}\n````\n\n"
        "## Empty section\n\n## End\n\nThe end.\n"
    )


def ours(size: int) -> Chunker:
    """agent_core.rag.chunk_text."""
    return lambda text: [chunk.text for chunk in chunk_text(text, chunk_size=size)]


def fixed(size: int) -> Chunker:
    """Every so many characters."""
    return lambda text: [text[at : at + size] for at in range(0, len(text), size)]


def langchain_recursive(size: int) -> Chunker:
    """Defaults."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0).split_text


def langchain_recursive_zh(size: int) -> Chunker:
    """With Chinese separators, at the end of a piece."""
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    return RecursiveCharacterTextSplitter(
        chunk_size=size, chunk_overlap=0, keep_separator="end",
        separators=["\n\n", "\n", "。", "！", "？", "；", ". ", " ", ""],
    ).split_text  # fmt: skip


def langchain_markdown(size: int) -> Chunker:
    """For Markdown."""
    from langchain_text_splitters import MarkdownTextSplitter

    return MarkdownTextSplitter(chunk_size=size, chunk_overlap=0).split_text


def llama_index_sentence(size: int) -> Chunker:
    """Counts tokens; given as many as half the characters."""
    from llama_index.core.node_parser import SentenceSplitter

    return SentenceSplitter(chunk_size=size // 2, chunk_overlap=0).split_text


def chonkie_recursive(size: int) -> Chunker:
    """Counting characters."""
    from chonkie import RecursiveChunker

    chunker = RecursiveChunker(tokenizer="character", chunk_size=size)
    return lambda text: [chunk.text for chunk in chunker.chunk(text)]


def semantic_text(size: int) -> Chunker:
    """Rust, plain text."""
    from semantic_text_splitter import TextSplitter

    return TextSplitter(size).chunks


def semantic_markdown(size: int) -> Chunker:
    """Rust, Markdown."""
    from semantic_text_splitter import MarkdownSplitter

    return MarkdownSplitter(size).chunks


CHUNKERS = (ours, fixed, langchain_recursive, langchain_recursive_zh, langchain_markdown,
            llama_index_sentence, chonkie_recursive, semantic_text, semantic_markdown)  # fmt: skip


def report(chunker: Chunker, size: int) -> dict[str, float]:
    """What the chunker does to the probe, and how quickly it cuts a megabyte."""
    text = probe()
    chunks = chunker(text)
    kept = "".join("".join(chunks).split())
    english, chinese = chunker(prose_en(60)), chunker(prose_zh(60))
    rows = [chunk for chunk in chunks if re.search(r"row\d", chunk)]
    corpus = [text * 20] * 5
    began = time.process_time()
    for each in corpus:
        chunker(each)
    seconds = time.process_time() - began
    return {
        "chunks": len(chunks),
        "MB a CPU second": sum(len(each.encode()) for each in corpus) / 1e6 / seconds,
        "words lost": sum("".join(word.split()) not in kept for word in set(text.split())),
        "over limit": sum(len(chunk) > size for chunk in chunks + english + chinese),
        "fences unbalanced": sum(chunk.count("````") % 2 for chunk in chunks),
        "tables without header": sum(TABLE_HEAD not in chunk for chunk in rows),
        "lines cut": sum(
            line.strip() != "" and line not in text.split("\n")
            for chunk in rows + [c for c in chunks if "value_" in c]
            for line in (chunk.rstrip("\n").split("\n")[0], chunk.rstrip("\n").split("\n")[-1])
        ),
        "bad ends en": sum(bool(ABBREVIATION.search(chunk)) for chunk in english[:-1])
        + sum(chunk.rstrip()[-1:] != "." for chunk in english[:-1]),
        "bad ends zh": sum(chunk.rstrip()[-1:] not in "。！？；…”" for chunk in chinese[:-1]),
        "headings at end": sum(
            bool(re.search(r"\n#+ [^\n]*\s*$", "\n" + chunk)) and "Empty" not in chunk
            for chunk in chunks
        ),
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=500)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: dict[str, dict[str, float]] = {}
    for make in CHUNKERS:
        try:
            results[make.__name__] = report(make(options.size), options.size)
        except ImportError as error:
            print(f"{make.__name__:24} left out: {error}")
    names = list(next(iter(results.values())))
    print(f"{'':24}" + "".join(f"{name:>23}" for name in names))
    for title, row in results.items():
        print(f"{title:24}" + "".join(f"{row[name]:>23.4g}" for name in names))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
