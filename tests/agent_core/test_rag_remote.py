"""Embeddings over HTTP: recorded answers, and servers that answer badly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent_core.errors import AgentError, BadResponse, ModelNotFound, RetrievalError
from agent_core.models import RetryPolicy
from agent_core.rag import EmbeddingWarning, OllamaEmbedder, OpenAIEmbedder
from harness.faults import FaultServer, Received, Response

RECORDED = {
    entry["name"]: entry
    for entry in map(
        json.loads,
        (Path(__file__).parent.parent / "data/rag/embeddings.jsonl")
        .read_text(encoding="utf-8")
        .splitlines(),
    )
}
ONCE = RetryPolicy(attempts=1)


def openai(server: FaultServer, **options: Any) -> OpenAIEmbedder:
    """An embedder for this server."""
    return OpenAIEmbedder("m", base_url=f"{server.url}/v1", api_key="", retry=ONCE, **options)


def entry(index: int, *numbers: float) -> dict[str, Any]:
    """One row of an OpenAI answer."""
    return {"object": "embedding", "index": index, "embedding": list(numbers)}


def test_a_recorded_answer_of_ollama_is_read() -> None:
    """Rows in the order of the texts, which go out as UTF-8."""
    recorded = RECORDED["embed_batch"]
    with FaultServer([Response(body=recorded["body"])]) as server:
        embedder = OllamaEmbedder("smollm2-plain:135m", base_url=server.url)
        vectors = embedder.embed_documents(recorded["request"]["input"])
    assert vectors.dtype == np.float32
    assert vectors.tolist() == np.float32(json.loads(recorded["body"])["embeddings"]).tolist()
    assert (server.requests[0].path, "北京".encode() in server.requests[0].body) == (
        "/api/embed",
        True,
    )


def test_a_recorded_answer_of_the_openai_route_is_read() -> None:
    """It is the same model and so are the vectors."""
    recorded = RECORDED["v1_embeddings"]
    with FaultServer([Response(body=recorded["body"])]) as server:
        vectors = openai(server).embed_documents(recorded["request"]["input"])
    expected = json.loads(RECORDED["embed_batch"]["body"])["embeddings"]
    assert vectors == pytest.approx(np.array(expected), abs=1e-6)


def test_rows_are_put_in_the_order_of_their_index() -> None:
    """The API does not promise one."""
    with FaultServer([Response(body={"data": [entry(1, 0, 1), entry(0, 1, 0)]})]) as server:
        assert openai(server).embed_documents(["a", "b"]).tolist() == [[1, 0], [0, 1]]


def batches() -> Iterator[Response]:
    """One row a request, each with another number."""
    for number in range(1, 6):
        yield Response(body={"embeddings": [[number, 1.0]]})


def test_texts_go_out_in_batches() -> None:
    """And come back as one matrix; the dimension is asked for once."""
    with FaultServer(batches()) as server:
        embedder = OllamaEmbedder("m", base_url=server.url, batch_size=1)
        assert embedder.embed_documents(["a", "b", "c"])[:, 0].tolist() == [1, 2, 3]
        assert embedder.dimension == embedder.dimension == 2
        assert embedder.embed_documents([]).shape == (0, 2)
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"data": [entry(0, 1, 0)]}, RetrievalError),
        ({"data": [entry(0, 1, 0), entry(0, 0, 1)]}, BadResponse),
        ({"data": [entry(0, 1, 0), entry(5, 0, 1)]}, BadResponse),
        ({"data": [entry(0, 1, 0), entry(1, 0)]}, RetrievalError),
        ({"data": [entry(0, 1, 0), entry(1, 0, 0)]}, RetrievalError),
        ({"data": [entry(0, 1, 0), {"index": 1, "embedding": [None, 1]}]}, RetrievalError),
        ({"data": [entry(0, 1, 0), {"index": 1, "embedding": "AACAPw=="}]}, RetrievalError),
        ({"data": []}, RetrievalError),
        ({"data": None}, BadResponse),
        ({"choices": []}, BadResponse),
        ([], BadResponse),
        ("<html>not json</html>", BadResponse),
        ('{"data": [{"index": 0, "embedding": [NaN, 1]}]}', BadResponse),
    ],
)
def test_answers_that_cannot_be_used_are_refused(body: Any, error: type[AgentError]) -> None:
    """Too few, twice the same, of unequal size, zero, no numbers, no JSON."""
    with FaultServer([Response(body=body)]) as server, pytest.raises(error):
        openai(server).embed_documents(["a", "b"])


def test_a_model_that_is_not_there_comes_with_the_command_that_gets_it() -> None:
    """The error tells how to get an embedding model, as it does for chat models."""
    body = {"error": 'model "m" not found, try pulling it first'}
    with FaultServer([Response(404, body=body)]) as server:
        embedder = OllamaEmbedder("m", base_url=server.url, retry=ONCE)
        with pytest.raises(ModelNotFound, match="ollama pull m"):
            embedder.embed_query("x")


def test_a_text_that_the_server_cuts_is_warned_about() -> None:
    """It is sent whole first, and to be cut only when the server refuses it."""

    def answer(request: Received) -> Response:
        if request.json()["truncate"]:
            return Response(body={"embeddings": [[1.0, 2.0]]})
        return Response(400, body={"error": "the input length exceeds the context length"})

    with FaultServer(answer) as server:
        embedder = OllamaEmbedder("m", base_url=server.url, retry=ONCE)
        with pytest.warns(EmbeddingWarning, match="chunk_size"):
            assert embedder.embed_query("long " * 9).tolist() == [1.0, 2.0]


def test_the_key_is_sent_and_not_shown() -> None:
    """Neither by repr nor in an error."""
    with FaultServer([Response(401, body={"error": "no"})]) as server:
        embedder = OpenAIEmbedder("m", base_url=server.url, api_key="sk-very-secret-1", retry=ONCE)
        with pytest.raises(AgentError) as caught:
            embedder.embed_query("x")
    assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret-1"
    assert "very-secret" not in repr(embedder) + str(caught.value)
