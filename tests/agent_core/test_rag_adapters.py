"""Ours inside LangChain and LlamaIndex (dependency group `adapters`)."""

from __future__ import annotations

from agent_core.rag import DenseRetriever, LexicalRetriever, chunk_text
from agent_core.rag.adapters import (
    langchain_retriever,
    langchain_vector_store,
    llama_index_retriever,
)
from tests.agent_core.rag_helpers import LetterEmbedder

CHUNKS = chunk_text("# Ferry\n\nIt leaves at six.\n\n# Rent\n\nDue on the first.", source="a.md")


def test_a_langchain_retriever() -> None:
    """Documents with what it takes to cite."""
    found = langchain_retriever(LexicalRetriever(CHUNKS), top_k=1).invoke("when does it leave")
    assert [(each.id, each.metadata["source"], each.metadata["headings"]) for each in found] == [
        (CHUNKS[0].id, "a.md", ["Ferry"])
    ]
    assert (found[0].metadata["start"], found[0].page_content) == (0, CHUNKS[0].text)


def test_a_langchain_vector_store() -> None:
    """Adding, searching with scores and filters, deleting, and as a retriever."""
    store = langchain_vector_store(DenseRetriever(LetterEmbedder()))
    ids = store.add_texts(["aaa", "bbb"], [{"lang": "x"}, {"lang": "y"}], ids=["1", "2"])
    assert ids == ["1", "2"]
    document, score = store.similarity_search_with_score("aa", k=1)[0]
    assert (document.page_content, round(score, 4)) == ("aaa", 1.0)
    assert store.similarity_search("aa", k=1, filter={"lang": "y"})[0].id == "2"
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("b")[0].page_content == "bbb"
    assert store.delete(["1"]) is True
    assert [each.id for each in store.similarity_search("a", k=4)] == ["2"]
    assert len(set(store.add_texts(["ccc", "ddd", "ccc"]))) == 2


def test_a_llama_index_retriever() -> None:
    """Nodes with scores and offsets."""
    nodes = llama_index_retriever(LexicalRetriever(CHUNKS)).retrieve("rent due")
    assert nodes[0].node.node_id == CHUNKS[1].id
    assert nodes[0].node.start_char_idx == CHUNKS[1].start
    assert nodes[0].score > 0
