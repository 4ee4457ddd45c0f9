"""A vector index on disk: one `.npy` that is mapped, chunks as JSON lines, no pickle.

`index.json` names the two data files and is replaced last: a save that is interrupted leaves
the old index whole.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import numpy as np

from agent_core.errors import RetrievalError
from agent_core.messages import Chunk, JsonObject
from agent_core.rag.index import VectorIndex

_FORMAT = 1


def save_index(index: VectorIndex, directory: str | Path) -> None:
    """Write an index into a directory, which is made if it is not there.

    Raises:
        RetrievalError: a chunk's metadata hold what JSON cannot.
    """
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    chunks, vectors = index.contents()
    tag = uuid4().hex[:12]
    try:
        lines = [json.dumps(asdict(chunk), ensure_ascii=False, allow_nan=False) for chunk in chunks]
    except (TypeError, ValueError) as error:
        raise RetrievalError(f"the metadata of a chunk cannot be saved as JSON: {error}") from None
    meta = {
        "format": _FORMAT,
        "model": index.model,
        "dimension": vectors.shape[1],
        "count": len(chunks),
        "vectors": f"vectors-{tag}.npy",
        "chunks": f"chunks-{tag}.jsonl",
    }
    np.save(folder / meta["vectors"], vectors, allow_pickle=False)
    text = "".join(line + "\n" for line in lines)
    (folder / meta["chunks"]).write_text(text, encoding="utf-8", newline="\n")
    draft = folder / f"index-{tag}.json"
    draft.write_text(json.dumps(meta, ensure_ascii=False, indent=1), encoding="utf-8")
    draft.replace(folder / "index.json")
    for old in [*folder.glob("vectors-*.npy"), *folder.glob("chunks-*.jsonl")]:
        if old.name not in meta.values():
            old.unlink(missing_ok=True)


def load_index(directory: str | Path, model: str, *, prefilter: bool = False) -> VectorIndex:
    """Open a saved index; the vectors stay on disk and are mapped.

    Args:
        directory: what `save_index` wrote.
        model: the name of the embedder that will make the queries.
        prefilter: see `VectorIndex`.

    Raises:
        RetrievalError: there is no index, it is damaged, or another model made it.
    """
    folder = Path(directory)
    meta = _read_meta(folder)
    if meta["model"] != model:
        raise RetrievalError(
            f"the index in {folder} holds vectors of {meta['model']!r}, not of {model!r}: their "
            "scores would mean nothing; embed the documents again or load it for its own model"
        )
    try:
        vectors = np.load(_inside(folder, meta["vectors"]), mmap_mode="r", allow_pickle=False)
        text = _inside(folder, meta["chunks"]).read_text(encoding="utf-8")
        chunks = [Chunk(**json.loads(line)) for line in text.split("\n") if line]
    except (OSError, ValueError, TypeError) as error:
        raise RetrievalError(f"the index in {folder} is damaged: {error}; build it again") from None
    expected = (meta["count"], meta["dimension"])
    if vectors.shape != expected or vectors.dtype != np.float32 or len(chunks) != expected[0]:
        raise RetrievalError(
            f"the index in {folder} is damaged: expected {expected} float32 vectors and as many "
            f"chunks, got {vectors.shape} {vectors.dtype} and {len(chunks)}; build it again"
        )
    index = VectorIndex(model, prefilter=prefilter)
    index.adopt(chunks, vectors)
    return index


def _read_meta(folder: Path) -> JsonObject:
    try:
        meta = json.loads((folder / "index.json").read_text(encoding="utf-8"))
        missing = {"model", "dimension", "count", "vectors", "chunks"} - set(meta)
        fits = meta.get("format") == _FORMAT and not missing
    except FileNotFoundError:
        raise RetrievalError(f"there is no index in {folder}; save_index makes one") from None
    except (OSError, ValueError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise RetrievalError(
            f"{folder / 'index.json'} is not of format {_FORMAT}; build the index again"
        )
    result: JsonObject = meta
    return result


def _inside(folder: Path, name: str) -> Path:
    """A data file of the index, which must lie in its folder."""
    if Path(name).name != name:
        raise ValueError(f"{name!r} is not a plain file name")
    return folder / name
