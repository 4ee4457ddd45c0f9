"""Embeddings from a server, over the same HTTP layer as the chat models."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import requests

from agent_core.clock import SystemClock
from agent_core.errors import BadRequest, BadResponse, ConfigError
from agent_core.gears import Clock
from agent_core.messages import JsonObject, JsonValue
from agent_core.models.address import Address, ollama_address, parse_address
from agent_core.models.failures import Target, excerpt
from agent_core.models.http import HttpClient, authorization
from agent_core.models.incoming import Incoming
from agent_core.models.policy import RetryPolicy, Timeouts
from agent_core.models.wire import NotJson, decode_json
from agent_core.rag.embedding import Vectors, checked_vectors, warn_about_cut

_Read = Callable[[JsonObject], JsonValue]


class _HttpEmbedder:
    """Sends texts in batches and puts the rows together."""

    def __init__(
        self,
        name: str,
        address: Address,
        path: str,
        *,
        key: str | None,
        session: requests.Session | None,
        batch_size: int,
        max_tokens: int | None,
        timeouts: Timeouts,
        retry: RetryPolicy,
        clock: Clock | None,
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size must be at least 1, got {batch_size!r}")
        self.name = name
        self.max_tokens = max_tokens
        self._batch_size = batch_size
        self._target = Target(address.join(path), name, ollama=path.startswith("/api/"))
        self._http = HttpClient(
            session=session,
            timeouts=timeouts,
            retry=retry,
            clock=clock or SystemClock(),
            authorization=authorization(key, address.userinfo),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, url={self._target.url!r})"

    @cached_property
    def dimension(self) -> int:
        """Numbers in a vector; asks the server once."""
        return int(self.embed_query("dimension").shape[0])

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in their order.

        Raises:
            ModelError: the server cannot be asked or refuses.
            RetrievalError: it returned vectors that cannot be used.
        """
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        starts = range(0, len(texts), self._batch_size)
        rows = [self._embed(list(texts[at : at + self._batch_size])) for at in starts]
        return np.concatenate(rows)

    def embed_query(self, text: str) -> Vectors:
        """One vector."""
        row: Vectors = self._embed([text])[0]
        return row

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _embed(self, texts: list[str]) -> Vectors:
        raise NotImplementedError

    def _post(self, payload: JsonObject, count: int, read: _Read) -> Vectors:
        def rows(incoming: Incoming) -> JsonValue:
            body = incoming.whole()
            try:
                return read(decode_json(body))
            except (NotJson, KeyError, TypeError, IndexError, AttributeError):
                raise BadResponse(
                    f"expected embeddings of {count} texts from {self._target.url}, got "
                    f"{excerpt(body[:400])!r}; is {self.name!r} an embedding model?",
                    status=200,
                ) from None

        vectors, _ = self._http.post(self._target, payload, rows)
        return checked_vectors(vectors, count, name=self.name)


class OllamaEmbedder(_HttpEmbedder):
    """Vectors from Ollama's `/api/embed`.

    A text that is longer than the model's context is refused by the server; it is then sent
    again to be cut there, and an `EmbeddingWarning` says so.

    Args:
        name: the model, e.g. "nomic-embed-text".
        base_url: where the server is; None reads `OLLAMA_HOST`, else http://127.0.0.1:11434.
        session: a `requests.Session` to use, e.g. one that records.
        batch_size: texts in a request.
        options: Ollama's options, e.g. {"num_ctx": 8192}.
        keep_alive: how long the model stays loaded, e.g. "10m".
        max_tokens: what the model reads of a text, if you know it.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        session: requests.Session | None = None,
        batch_size: int = 64,
        options: JsonObject | None = None,
        keep_alive: str | float | None = None,
        max_tokens: int | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        extras = {"options": options, "keep_alive": keep_alive}
        self._extras = {key: value for key, value in extras.items() if value is not None}
        super().__init__(
            name,
            ollama_address(base_url),
            "/api/embed",
            key=None,
            session=session,
            batch_size=batch_size,
            max_tokens=max_tokens,
            timeouts=timeouts,
            retry=retry,
            clock=clock,
        )

    def _embed(self, texts: list[str]) -> Vectors:
        payload = {"model": self.name, "input": texts, "truncate": False, **self._extras}
        try:
            return self._post(payload, len(texts), _ollama_rows)
        except BadRequest as refused:
            if "length" not in str(refused):
                raise
        warn_about_cut(self.name, f"of {len(texts)} texts at least one")
        return self._post({**payload, "truncate": True}, len(texts), _ollama_rows)


class OpenAIEmbedder(_HttpEmbedder):
    """Vectors from an OpenAI-compatible `/embeddings`.

    Args:
        name: the model, e.g. "text-embedding-3-small".
        base_url: up to and including the version, e.g. "https://api.openai.com/v1".
        api_key: None reads `OPENAI_API_KEY`. Never logged.
        session: a `requests.Session` to use, e.g. one that records.
        batch_size: texts in a request.
        dimensions: asks the server for shorter vectors.
        max_tokens: what the model reads of a text, if you know it.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        api_key: str | None = None,
        session: requests.Session | None = None,
        batch_size: int = 64,
        dimensions: int | None = None,
        max_tokens: int | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - frozen
        clock: Clock | None = None,
    ) -> None:
        self._extras = {} if dimensions is None else {"dimensions": dimensions}
        super().__init__(
            name,
            parse_address(base_url, what="base_url"),
            "/embeddings",
            key=os.environ.get("OPENAI_API_KEY") if api_key is None else api_key,
            session=session,
            batch_size=batch_size,
            max_tokens=max_tokens,
            timeouts=timeouts,
            retry=retry,
            clock=clock,
        )

    def _embed(self, texts: list[str]) -> Vectors:
        payload = {"model": self.name, "input": texts, **self._extras}
        return self._post(payload, len(texts), _openai_rows)


def _ollama_rows(body: JsonObject) -> JsonValue:
    return body["embeddings"]


def _openai_rows(body: JsonObject) -> JsonValue:
    """The rows by their index: the API does not promise an order."""
    rows: dict[int, JsonValue] = {}
    for entry in body["data"]:
        rows[entry["index"]] = entry["embedding"]
    return [rows[number] for number in range(len(body["data"]))]
