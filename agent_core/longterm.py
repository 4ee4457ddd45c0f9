"""Long-term memory: facts and past conversations in one SQLite file.

Several processes may use the file at the same time: every change is one transaction. Secrets
are masked before anything is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Literal

import numpy as np

from agent_core.errors import RetrievalError, ToolError
from agent_core.events import MemoryEnded, MemoryStarted, scope
from agent_core.gears import Embedder
from agent_core.messages import Chunk, Hit, Language
from agent_core.rag.dense import DenseRetriever
from agent_core.rag.embedding import CachedEmbedder
from agent_core.rag.index import VectorIndex
from agent_core.rag.lexical import LexicalRetriever
from agent_core.scrub import scrub_told
from agent_core.tools.definition import FunctionDefinition

Kind = Literal["fact", "conversation"]

_VERSION = 1
_SCHEMA = f"""
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, text TEXT NOT NULL,
    created TEXT NOT NULL, UNIQUE (kind, text)
);
CREATE TABLE vectors (
    id INTEGER NOT NULL REFERENCES memories (id) ON DELETE CASCADE, model TEXT NOT NULL,
    vector BLOB NOT NULL, PRIMARY KEY (id, model)
);
PRAGMA user_version = {_VERSION};
"""
_WAIT = 30.0  # seconds for another process to finish writing
_MAX_CHARS = 1_000  # of one memory
_MAX_CONVERSATIONS = 1_000  # older ones are forgotten

_TEXTS: dict[Language, dict[str, str]] = {
    "en": {
        "remember": "Remember a fact about the user or the task for later conversations.",
        "fact": "the fact, one complete sentence",
        "remembered": "Remembered as [{number}].",
        "forget": "Forget something that was remembered.",
        "number": "its number, as shown in brackets",
        "forgotten": "Forgotten: {text}",
        "unknown": "nothing is remembered as [{number}]",
        "empty": "expected a fact, got an empty text",
        "conversation": "Asked: {question} - Answered: {answer}",
    },
    "zh": {
        "remember": "记住一个关于用户或任务的事实，供以后的对话使用。",
        "fact": "这个事实，一句完整的话",
        "remembered": "已记住，编号 [{number}]。",
        "forget": "忘记一条已经记住的内容。",
        "number": "它的编号，即方括号里的数字",
        "forgotten": "已忘记：{text}",
        "unknown": "没有编号为 [{number}] 的记忆",
        "empty": "应为一个事实，实际是空文本",
        "conversation": "问：{question} 答：{answer}",
    },
}


class LongTermMemory:
    """What an agent knows from earlier conversations.

    Give it to an agent as `longterm`: what fits the question is put into the prompt, and each
    answered question is kept. `tools` lets the model remember and forget by itself.

    Args:
        path: the file; made when it is not there.
        embedder: finds by meaning; without one, memories are found by their words.
        language: of the tools and of what is kept of conversations.
        name: said in traces.

    Raises:
        RetrievalError: the file cannot be opened, is something else, or of a newer version.

    Example:
        >>> import tempfile
        >>> memory = LongTermMemory(Path(tempfile.mkdtemp()) / "memory.db")
        >>> memory.remember("The user's cat is called Miso.")
        1
        >>> [hit.chunk.text for hit in memory.retrieve("What is my cat called?")]
        ["The user's cat is called Miso."]
        >>> memory.forget(1)
        "The user's cat is called Miso."
    """

    def __init__(
        self,
        path: str | Path,
        *,
        embedder: Embedder | None = None,
        language: Language = "en",
        name: str = "memory",
    ) -> None:
        self.path = Path(path)
        self.language: Language = language
        self.name = name
        self._embedder = None if embedder is None else CachedEmbedder(embedder)
        self._index: tuple[str, DenseRetriever | LexicalRetriever] | None = None
        self._lock = Lock()
        self._prepare()

    def __len__(self) -> int:
        with self._connection() as connection:
            count: int = connection.execute("SELECT count(*) FROM memories").fetchone()[0]
        return count

    def remember(self, text: str, *, kind: Kind = "fact") -> int:
        """Keep a text, with secrets masked; gives its number. The same text is kept once.

        Raises:
            ValueError: the text is blank.
        """
        text = " ".join(scrub_told(text).split())[:_MAX_CHARS]
        if not text:
            raise ValueError("expected a text to remember, got a blank one")
        with scope(MemoryStarted("remember")) as memory:
            with self._connection(write=True) as connection:
                number = _insert(connection, kind, text)
            memory.end(MemoryEnded(1))
        return number

    def forget(self, number: int) -> str | None:
        """Remove a memory for good; gives its text, or None when there is none of this number."""
        with scope(MemoryStarted("forget")) as memory:
            with self._connection(write=True) as connection:
                found = connection.execute(
                    "DELETE FROM memories WHERE id = ? RETURNING text", (number,)
                ).fetchall()
            memory.end(MemoryEnded(len(found)))
        return found[0][0] if found else None

    def keep_conversation(self, question: str, answer: str) -> None:
        """Keep a question with its answer; the oldest of very many are forgotten."""
        half = _MAX_CHARS // 2 - 20
        # masked before it is cut
        question, answer = scrub_told(question)[:half], scrub_told(answer)[:half]
        text = _TEXTS[self.language]["conversation"]
        self.remember(text.format(question=question, answer=answer), kind="conversation")

    def retrieve(self, query: str, top_k: int = 5) -> Sequence[Hit]:
        """The memories that fit best, as they are in the file now."""
        return self._retriever().retrieve(query, top_k)

    def tools(self) -> tuple[FunctionDefinition, FunctionDefinition]:
        """`remember` and `forget`, for the model."""
        texts = _TEXTS[self.language]

        def remember(fact: str) -> str:
            if not fact.strip():
                raise ToolError(texts["empty"])
            return texts["remembered"].format(number=self.remember(fact))

        def forget(number: int) -> str:
            text = self.forget(number)
            if text is None:
                raise ToolError(texts["unknown"].format(number=number))
            return texts["forgotten"].format(text=text)

        fact = {"type": "string", "description": texts["fact"]}
        number = {"type": "integer", "description": texts["number"]}
        return (
            FunctionDefinition(
                "remember", texts["remember"], _object("fact", fact), function=remember
            ),
            FunctionDefinition(
                "forget", texts["forget"], _object("number", number), function=forget
            ),
        )

    # The file.

    @contextmanager
    def _connection(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection inside one transaction; a connection belongs to one thread."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_WAIT, isolation_level=None)) as opened:
                opened.execute("PRAGMA foreign_keys = ON")
                opened.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves the file
                opened.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield opened
                opened.execute("COMMIT")
        except sqlite3.Error as error:
            raise RetrievalError(
                f"the memory {self.path.name!r} cannot be used: {error}"
            ) from error

    def _prepare(self) -> None:
        with suppress(OSError):  # what is wrong with the path, SQLite says
            self.path.touch(mode=0o600)  # for its owner alone
        with self._connection(write=True) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if version == 0 and tables == 0:
                for statement in _SCHEMA.split(";"):
                    connection.execute(statement)
            elif version != _VERSION:
                raise RetrievalError(
                    f"{self.path.name!r} is no memory of version {_VERSION}, it says {version}; "
                    "choose another file, or a newer agentrig"
                )

    # What is searched: built again when the file has changed.

    def _retriever(self) -> DenseRetriever | LexicalRetriever:
        with self._lock:
            version, chunks = self._read()
            if self._index is None or self._index[0] != version:
                self._index = version, self._built(chunks)
            return self._index[1]

    def _read(self) -> tuple[str, list[Chunk]]:
        with self._connection() as connection:
            rows = connection.execute("SELECT id, kind, text, created FROM memories").fetchall()
            last = connection.execute("SELECT max(seq) FROM sqlite_sequence").fetchone()[0]
        return f"{last}-{len(rows)}", [_chunk(*row) for row in rows]

    def _built(self, chunks: list[Chunk]) -> DenseRetriever | LexicalRetriever:
        if self._embedder is None:
            return LexicalRetriever(chunks, name=self.name)
        index = VectorIndex(self._embedder.name)
        if chunks:
            index.add(chunks, self._vectors(self._embedder, chunks))
        return DenseRetriever(self._embedder, index=index, name=self.name)

    def _vectors(self, embedder: CachedEmbedder, chunks: list[Chunk]) -> list[np.ndarray]:
        """The vectors of all chunks; those not in the file yet are made and kept there."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT id, vector FROM vectors WHERE model = ?", (embedder.name,)
            ).fetchall()
        known = {str(number): np.frombuffer(blob, dtype="<f4") for number, blob in rows}
        new = [chunk for chunk in chunks if chunk.id not in known]
        if new:
            made = embedder.embed_documents([chunk.text for chunk in new])
            known |= {chunk.id: vector for chunk, vector in zip(new, made, strict=True)}
            self._keep_vectors(embedder.name, {chunk.id: known[chunk.id] for chunk in new})
        return [known[chunk.id] for chunk in chunks]

    def _keep_vectors(self, model: str, vectors: dict[str, np.ndarray]) -> None:
        with self._connection(write=True) as connection:
            connection.executemany(  # a memory may have been forgotten meanwhile
                "INSERT OR IGNORE INTO vectors SELECT id, ?, ? FROM memories WHERE id = ?",
                [(model, vector.astype("<f4").tobytes(), key) for key, vector in vectors.items()],
            )


def _insert(connection: sqlite3.Connection, kind: Kind, text: str) -> int:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    connection.execute(
        "INSERT OR IGNORE INTO memories (kind, text, created) VALUES (?, ?, ?)",
        (kind, text, created),
    )
    connection.execute(
        "DELETE FROM memories WHERE kind = 'conversation' AND id NOT IN (SELECT id FROM memories "
        "WHERE kind = 'conversation' ORDER BY id DESC LIMIT ?)",
        (_MAX_CONVERSATIONS,),
    )
    found = connection.execute(
        "SELECT id FROM memories WHERE kind = ? AND text = ?", (kind, text)
    ).fetchone()
    return int(found[0])


def _chunk(number: int, kind: str, text: str, created: str) -> Chunk:
    return Chunk(str(number), text, kind, 0, len(text), {"kind": kind, "created": created})


def _object(name: str, schema: dict[str, str]) -> dict[str, object]:
    return {"type": "object", "properties": {name: schema}, "required": [name]}
