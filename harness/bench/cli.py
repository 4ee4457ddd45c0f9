"""`agentrig bench`: measurements on the user's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache as once
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from agent_core.errors import AgentError, ConfigError, ConnectionFailed
from agent_core.gears import Embedder
from agent_core.rag import CrossEncoderReranker
from agent_core.rag.documents import Document, load_documents
from agent_core.rag.hybrid import Tuning
from harness.bench.plot import as_svg
from harness.bench.questions import Question, load_questions
from harness.bench.retrieval import Result, as_json, measure, tune
from harness.bench.setups import embedder_named
from harness.options import UNREACHABLE
from harness.output import echo_json, uncut, write_output

_FILE = click.Path(exists=True, path_type=Path)


@click.group("bench")
def bench_command() -> None:
    """Measure on your own data.

    \b
    Examples:
      agentrig bench retrieval --corpus docs --queries questions.jsonl
    """


@bench_command.command("retrieval")
@click.option(
    "--corpus",
    type=_FILE,
    required=True,
    help="A directory of .md and .txt files, one file, or JSON lines {source, text}.",
)
@click.option(
    "--queries",
    type=_FILE,
    required=True,
    help="JSON lines {query, source, answer}: a file of the corpus and the passage of it that "
    "answers; or {query, source, start, end}, its place in characters.",
)
@click.option(
    "--retriever",
    "retrievers",
    multiple=True,
    default=("bm25",),
    show_default=True,
    help="bm25, minilm, minilm-onnx, ollama:MODEL, openai:MODEL, a path or hub name; "
    "hybrid: before any of them. May be given several times.",
)
@click.option(
    "--chunker",
    "chunkers",
    multiple=True,
    default=("structure:500",),
    show_default=True,
    help="structure:SIZE or fixed:SIZE, +OVERLAP behind it. May be given several times.",
)
@click.option(
    "--budget",
    default=2500,
    show_default=True,
    type=click.IntRange(1),
    help="Characters that a model would get to read, for recall and MRR.",
)
@click.option("--rerank", "rerank_model", help="A CrossEncoder: a path or hub name.")
@click.option(
    "--rerank-seconds", default=0.5, show_default=True, type=click.FloatRange(0, min_open=True)
)
@click.option(
    "--tune",
    "labels",
    type=_FILE,
    help="Learn the weight of words beside each embedder from other labelled questions.",
)
@click.option("--base-url", help="Of the embedding server.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    default=Path(".agentrig"),
    show_default=True,
    help="Where an exported model is kept.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Write an SVG picture there.")
@click.option("--json", "as_json_", is_flag=True, help="Print JSON.")
def retrieval_command(
    *,
    corpus: Path,
    queries: Path,
    retrievers: tuple[str, ...],
    chunkers: tuple[str, ...],
    budget: int,
    rerank_model: str | None,
    rerank_seconds: float,
    labels: Path | None,
    base_url: str | None,
    cache: Path,
    plot: Path | None,
    as_json_: bool,
) -> None:
    """Recall, MRR, times and memory of retrievers on your documents and questions.

    Larger chunks find more merely by returning more: compare at the budget.

    \b
    A line of the questions:
      {"query": "When is the last ferry?", "source": "ferry.md", "answer": "leaves at 21:40"}

    \b
    Examples:
      agentrig bench retrieval --corpus docs --queries q.jsonl
      agentrig bench retrieval --corpus docs --queries q.jsonl --retriever bm25 --retriever minilm
      agentrig bench retrieval --corpus docs --queries q.jsonl --chunker fixed:300 --json
      agentrig bench retrieval --corpus docs --queries q.jsonl --retriever minilm --tune l.jsonl
    """

    @once
    def embedder(name: str) -> Embedder:
        return embedder_named(name, base_url=base_url, cache=cache)

    try:
        documents = load_documents(corpus)
        questions = load_questions(queries, documents)
        labelled = _labelled(labels, documents, questions, retrievers) if labels else []
        reranker = None if rerank_model is None else CrossEncoderReranker(rerank_model)
        setups = [(name, chunker) for chunker in chunkers for name in retrievers]
        shown = Console(stderr=True)
        results = [
            measure(
                name, chunker, documents, questions,
                embedder=embedder, budget=budget, reranker=reranker, rerank_seconds=rerank_seconds,
            )
            for name, chunker in track(setups, console=shown, disable=not shown.is_terminal)
        ]  # fmt: skip
        tunings = _tuned(setups, documents, labelled, embedder) if labels else {}
    except ConnectionFailed as error:
        click.echo(f"Error: {error}", err=True)
        raise SystemExit(UNREACHABLE) from None
    except AgentError as error:
        raise click.UsageError(str(error)) from None
    if plot is not None:
        write_output("--plot", plot, as_svg(results, budget))
    if as_json_:
        echo_json(as_json(results, tunings, budget), indent=1)
    else:
        _show(results, tunings, budget)


def _labelled(
    path: Path,
    documents: Sequence[Document],
    questions: Sequence[Question],
    retrievers: Sequence[str],
) -> list[Question]:
    """The questions to learn from: others than those that are scored."""
    labelled = load_questions(path, documents)
    if set(labelled) & set(questions):
        raise ConfigError(
            "--tune and --queries share questions: a weight must not be learned on the set "
            "that is scored; split it"
        )
    if set(retrievers) == {"bm25"}:
        raise ConfigError(
            "--tune weighs words against vectors: add a --retriever that has vectors, "
            "e.g. minilm-onnx"
        )
    return labelled


def _tuned(
    setups: Sequence[tuple[str, str]],
    documents: Sequence[Document],
    labelled: Sequence[Question],
    embedder: Callable[[str], Embedder],
) -> dict[str, Tuning]:
    """The weight of words beside each embedder, once for each way of chunking."""
    dense = [(name.removeprefix("hybrid:"), chunker) for name, chunker in setups if name != "bm25"]
    return {
        f"{name}, {chunker}": tune(name, chunker, documents, labelled, embedder=embedder)
        for name, chunker in dict.fromkeys(dense)
    }


def _show(results: list[Result], tunings: dict[str, Tuning], budget: int) -> None:
    console = Console()
    uncut(console)
    count = results[0].questions
    table = Table(title=f"{count} questions; recall and MRR within {budget} characters")
    for heading in ("retriever", "chunker"):
        table.add_column(heading, overflow="fold")
    for heading in ("chunks", "recall", "MRR", "recall@1", "recall@5", "embed ms", "search ms",
                    "rerank ms", "index s", "vectors MB", "peak MB"):  # fmt: skip
        table.add_column(heading, justify="right")
    for each in sorted(results, key=lambda result: -result.recall_at_budget):
        table.add_row(
            each.retriever, each.chunker, str(each.chunks),
            f"{each.recall_at_budget:.3f}", f"{each.mrr:.3f}",
            f"{each.recall_at_1:.3f}", f"{each.recall_at_5:.3f}",
            _pair(each.embed_ms), _pair(each.search_ms), _pair(each.rerank_ms),
            f"{each.index_seconds:.1f}", f"{each.vector_megabytes:.1f}",
            f"{each.peak_megabytes:.0f}",
        )  # fmt: skip
    console.print(table)
    cached = sum(each.cache_hits for each in results)
    console.print(f"Times are p50/p95, {cached} question vectors came from a cache. Peak memory is "
                  "that of the whole process so far.")  # fmt: skip
    for warning in dict.fromkeys(each for result in results for each in result.warnings):
        console.print(f"Warning: {warning}", markup=False)
    for name, tuning in tunings.items():
        console.print(
            f"Weight of words beside {name}: {tuning.weight:g}. MRR {tuning.held_out:.3f} on "
            f"questions it was not chosen on, {tuning.held_out_zero:.3f} without words.",
            markup=False,
        )


def _pair(ms: tuple[float, float] | None) -> str:
    return "-" if ms is None else f"{ms[0]:.2f}/{ms[1]:.2f}"
