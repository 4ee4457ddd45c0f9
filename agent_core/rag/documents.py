"""Documents from files: UTF-8 Markdown and text, or JSON lines with `source` and `text`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_core.errors import RetrievalError

SUFFIXES = (".md", ".markdown", ".txt", ".rst")


@dataclass(frozen=True, slots=True)
class Document:
    """A decoded text and where it comes from. Offsets of chunks count its code points."""

    source: str
    text: str


def load_documents(path: str | Path) -> list[Document]:
    """Read a file, or the text files of a directory and below it, in a stable order.

    A file's source is its path below the directory, with `/`; a `.jsonl` file holds an object
    with `source` and `text` a line. A byte order mark is dropped.

    Raises:
        RetrievalError: there is nothing to read, or a file is not what it should be.
    """
    root = Path(path)
    if root.is_file():
        documents = (
            list(_from_lines(root)) if root.suffix == ".jsonl" else [_from_file(root, root.parent)]
        )
    else:
        files = sorted(each for each in root.rglob("*") if each.suffix.lower() in SUFFIXES)
        documents = [_from_file(each, root) for each in files if each.is_file()]
    if not documents:
        raise RetrievalError(f"there are no documents in {str(root)!r}; expected {SUFFIXES} files")
    return documents


def _from_file(path: Path, root: Path) -> Document:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RetrievalError(
            f"{path} is not UTF-8 (byte {error.start}); convert it, e.g. with: "
            f"iconv -f GB18030 -t UTF-8 {path.name}"
        ) from None
    return Document(path.relative_to(root).as_posix(), text)


def _from_lines(path: Path) -> Iterator[Document]:
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            source, text = entry["source"], entry["text"]
        except (ValueError, TypeError, KeyError):
            source = text = None
        if not isinstance(source, str) or not isinstance(text, str):
            raise RetrievalError(
                f"{path}, line {number}: expected an object with the texts `source` and `text`, "
                f"got {line[:80]!r}"
            )
        yield Document(source, text)
