"""The fast path without torch: the same weights on ONNX Runtime (extra `onnx`).

`export_onnx` writes a sentence-transformers model into a directory once; that needs torch.
`OnnxEmbedder` then answers from the directory alone, a short question in about a third of the
time, with vectors that differ in the seventh digit.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from agent_core.errors import RetrievalError
from agent_core.messages import JsonObject
from agent_core.rag.embedding import Vectors, warn_about_tokens
from agent_core.rag.local import SentenceTransformerEmbedder

_FILES = ("model.onnx", "tokenizer.json", "embedder.json")
_INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
_INSTALL = "install it with: pip install onnxruntime onnx tokenizers sentence-transformers"
_TOLERANCE = 1e-3
_PROBES = (
    "ferry",
    "A longer sentence about boats that leave the harbour at six.",
    "灯塔 1903",
    "x " * 80,
)


def export_onnx(directory: str | Path, model: str | Path | None = None) -> Path:
    """Write a model for `OnnxEmbedder`; a directory that has one already is left as it is.

    Args:
        directory: where `model.onnx`, `tokenizer.json` and `embedder.json` go.
        model: as for `SentenceTransformerEmbedder`; None is the packaged MiniLM.

    Raises:
        RetrievalError: the model takes other inputs than tokens, or the export does not give
            the same vectors as the model.
    """
    folder = Path(directory)
    if all((folder / name).exists() for name in _FILES):
        return folder
    embedder = SentenceTransformerEmbedder(model, device="cpu")
    transformer = embedder.transformer
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as scratch:
        draft = Path(scratch)
        inputs = _write_graph(transformer, draft / "model.onnx")
        transformer.tokenizer.backend_tokenizer.save(str(draft / "tokenizer.json"))
        meta = {
            "name": embedder.name,
            "dimension": embedder.dimension,
            "max_tokens": embedder.max_tokens,
            "inputs": inputs,
            "query_prompt": transformer.prompts.get("query", ""),
            "document_prompt": transformer.prompts.get("document", ""),
            "unknown": transformer.tokenizer.unk_token_id,
        }
        (draft / "embedder.json").write_text(json.dumps(meta, ensure_ascii=False), encoding="utf-8")
        _compare(embedder, OnnxEmbedder(draft))
        for name in _FILES:
            (draft / name).replace(folder / name)
    return folder


class OnnxEmbedder:
    """Vectors by an exported model. One thread unless told: pools of threads get in each
    other's way on a busy machine. Safe under threads.

    Args:
        directory: what `export_onnx` wrote.
        threads: that work on one batch.
        batch_size: texts that go through the model together.
    """

    def __init__(self, directory: str | Path, *, threads: int = 1, batch_size: int = 32) -> None:
        self.directory = folder = Path(directory)
        try:
            meta: JsonObject = json.loads((folder / "embedder.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RetrievalError(
                f"there is no exported model in {folder}; export_onnx({str(folder)!r}) makes one"
            ) from None
        self.name: str = meta["name"]
        self.dimension: int = meta["dimension"]
        self.max_tokens: int | None = meta["max_tokens"]
        self._meta = meta
        self._batch_size = batch_size
        self._session, self._tokenizer = _load(folder, self.max_tokens, threads)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row a text; warns about unknown tokens and about texts that are cut."""
        return self._encode([self._meta["document_prompt"] + text for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """One vector."""
        row: Vectors = self._encode([self._meta["query_prompt"] + text])[0]
        return row

    def unknown_share(self, text: str) -> float:
        """The share of a text's tokens that the model does not know."""
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids.count(self._meta["unknown"]) / len(ids) if ids else 0.0

    def _encode(self, texts: list[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        encodings = self._tokenizer.encode_batch(texts)
        lengths = [len(each.ids) + sum(len(o.ids) for o in each.overflowing) for each in encodings]
        unknown = sum(each.ids.count(self._meta["unknown"]) for each in encodings)
        read = sum(len(each.ids) for each in encodings)
        warn_about_tokens(self.name, read, unknown, lengths, self.max_tokens)
        order = sorted(range(len(texts)), key=lambda number: len(encodings[number].ids))
        for at in range(0, len(order), self._batch_size):
            rows = order[at : at + self._batch_size]
            vectors[rows] = self._run([encodings[row] for row in rows])
        return vectors

    def _run(self, encodings: Sequence[Any]) -> Vectors:
        """One batch, padded to its longest text; texts of like length come together."""
        width = max(len(each.ids) for each in encodings)
        feed = {}
        for name in self._meta["inputs"]:
            array = np.zeros((len(encodings), width), dtype=np.int64)
            for row, each in zip(array, encodings, strict=True):
                row[: len(each.ids)] = getattr(each, _INPUTS[name])
            feed[name] = array
        result: Vectors = self._session.run(None, feed)[0]
        return result


def _load(folder: Path, max_tokens: int | None, threads: int) -> tuple[Any, Any]:
    try:
        import onnxruntime  # noqa: PLC0415 - optional
        from tokenizers import Tokenizer  # noqa: PLC0415 - optional
    except ImportError as error:
        raise RetrievalError(f"{error.name} is not here; {_INSTALL}") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
    )
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()  # the file may pad each text to a fixed length, which costs sevenfold
    if max_tokens is not None:
        tokenizer.enable_truncation(max_tokens)
    return session, tokenizer


def _write_graph(transformer: Any, path: Path) -> list[str]:
    """Trace the whole model, pooling and normalising included; gives the names of its inputs."""
    import torch  # noqa: PLC0415 - only to export

    names = [name for name in transformer.tokenizer.model_input_names if name in _INPUTS]

    class Graph(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.model = transformer  # its weights must belong to what is traced

        def forward(self, *tensors: Any) -> Any:
            vectors = self.model(dict(zip(names, tensors, strict=True)))["sentence_embedding"]
            return torch.nn.functional.normalize(vectors, dim=1)

    tokens = transformer.tokenizer(list(_PROBES[:2]), padding=True, return_tensors="pt")
    axes = {name: {0: "batch", 1: "sequence"} for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tracer; `_compare` looks at what came out
        torch.onnx.export(
            Graph().eval(),
            tuple(tokens[name] for name in names),
            str(path),
            input_names=names,
            output_names=["vectors"],
            dynamic_axes={**axes, "vectors": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )
    return names


def _compare(model: SentenceTransformerEmbedder, exported: OnnxEmbedder) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the probes are to be in languages it may not know
        expected, got = (each.embed_documents(_PROBES) for each in (model, exported))
    difference = float(np.abs(expected - got).max())
    if not difference <= _TOLERANCE:
        raise RetrievalError(
            f"the export of {model.name!r} gives other vectors than the model (off by "
            f"{difference:.2g}); use SentenceTransformerEmbedder for it"
        )
