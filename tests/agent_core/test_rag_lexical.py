"""BM25 finds Chinese, English and identifiers, and says nothing when it has nothing."""

from __future__ import annotations

import threading

import pytest

from agent_core.errors import ConfigError
from agent_core.events import Ended, RetrievalEnded, RetrievalStarted, Started, watching
from agent_core.messages import Chunk
from agent_core.rag import LexicalRetriever, chunk_text
from agent_core.rag.terms import identifiers, query_terms, terms


def chunks(*texts: str) -> list[Chunk]:
    """One chunk a text, named by its number."""
    return [Chunk(str(n), text, f"{n}.md", 0, len(text)) for n, text in enumerate(texts)]


def found(retriever: LexicalRetriever, query: str, top_k: int = 5) -> list[str]:
    """Ids of the hits."""
    return [hit.chunk.id for hit in retriever.retrieve(query, top_k)]


def test_terms_are_characters_pairs_words_and_identifiers() -> None:
    """Full-width letters are folded, compounds are kept whole and split."""
    assert terms("退款流程") == ["退", "款", "流", "程", "退款", "款流", "流程"]
    assert terms("ＡＢＣ Policies") == ["abc", "policy"]
    assert terms("user.getName") == ["user.getname", "user", "get", "name"]
    assert terms("ERR-4012") == ["err-4012", "err", "4012"]
    assert terms("C++ and C#") == ["c++", "c", "and", "c#", "c"]
    assert terms("Cafés") == ["cafés", "cafes"]
    assert terms("Straße ЁЛКА") == ["strasse", "ёлка", "елка"]
    assert terms("用Python写") == ["用", "python", "写"]


def test_a_question_leaves_out_words_that_say_nothing() -> None:
    """Unless there is nothing else in it."""
    assert query_terms("What is the deadline?") == {"deadline": 1.0}
    assert set(query_terms("who are you")) == {"who", "are", "you"}
    assert "的" not in query_terms("港口的灯塔")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("错误码 E1042 怎么办", ["E1042"]),
        ("what does max_tokens do", ["max_tokens"]),
        ("call os.path.join", ["os.path.join"]),
        ("the HTTP status of PBL rules in 2019", []),
        ("invoice 20931, 2nd copy, 20km away", ["20931"]),
        ("3.14 and/or 1,200", []),
        ("is C++ or C# quicker", ["C++", "C#"]),
        ("getUserName fails", ["getUserName"]),
        ("how do I get a refund?", []),
        ("怎样退款", []),
        ("He lives in Paris.", []),
    ],
)
def test_identifiers_are_told_from_words(query: str, expected: list[str]) -> None:
    """Digits, joints and capitals make a name or a code."""
    assert identifiers(query) == expected


def test_the_exact_identifier_ranks_first() -> None:
    """Near misses share its parts only."""
    texts = chunks("ERR-4013: disk full", "Error 4012 is old, ERR means error", "See ERR-4012 here")
    assert found(LexicalRetriever(texts), "我遇到了 ERR-4012，请问怎么办")[0] == "2"


def test_chinese_is_found_without_a_dictionary() -> None:
    """Single characters and pairs are enough."""
    texts = chunks("员工每年有十五天年假。", "报销须在三十天内提交。", "办公室在二楼。")
    assert found(LexicalRetriever(texts), "年假有多少天？")[0] == "0"


def test_headings_count_where_the_text_does_not_show_them() -> None:
    """A later piece of a section is found by the section's title."""
    text = (
        "# 退货\n\n"
        + "请在签收后联系客服，并保留原包装。" * 4
        + "\n\n# 其他\n\n请在签收后联系客服。"
    )
    retriever = LexicalRetriever(chunk_text(text, chunk_size=40))
    hits = retriever.retrieve("退货", 9)
    assert len(hits) > 1
    assert {hit.chunk.metadata["headings"][0] for hit in hits} == {"退货"}


def test_no_common_term_means_no_hit() -> None:
    """Better nothing than something that has nothing to do with it."""
    retriever = LexicalRetriever(chunks("", "   \n", "postal code", "She planted elms in 1820"))
    assert len(retriever) == 2
    assert found(retriever, "how many subscribers are late", 4) == []
    assert found(retriever, "", 4) == []
    assert found(retriever, '"*:^( NEAR OR', 4) == []
    assert found(LexicalRetriever(), "anything") == []


def test_adding_twice_replaces() -> None:
    """One source, one hit; a changed text counts at once."""
    retriever = LexicalRetriever(chunk_text("The boat leaves at six.", source="a.txt"))
    retriever.add(chunk_text("The boat leaves at six.", source="a.txt"))
    hits = retriever.retrieve("when does the boat leave", 3)
    assert [(hit.chunk.source, hit.chunk.start, hit.chunk.end) for hit in hits] == [
        ("a.txt", 0, 23)
    ]
    before = retriever.version
    assert retriever.delete([hits[0].chunk.id, "unknown"]) == 1
    assert retriever.retrieve("boat") == []
    assert retriever.version != before


def test_equal_scores_keep_their_order() -> None:
    """Ties are broken by the order of adding, however many there are."""
    retriever = LexicalRetriever(chunks(*["same text"] * 20, "same text"))
    assert found(retriever, "same", 7) == [str(n) for n in range(7)]


def test_filters_apply_before_ranking() -> None:
    """By source, by metadata, by any of several values, by a function."""
    text = "ferry times"
    docs = [
        Chunk(str(n), text, f"{n % 2}.md", 0, 5, {"lang": "en" if n < 4 else "zh"})
        for n in range(8)
    ]
    retriever = LexicalRetriever(docs)

    def ids(where: object) -> list[str]:
        return [hit.chunk.id for hit in retriever.retrieve("ferry", 9, where=where)]  # type: ignore[arg-type]

    assert ids({"source": "1.md", "lang": "en"}) == ["1", "3"]
    assert ids({"id": ["0", "7"]}) == ["0", "7"]
    assert ids(lambda chunk: chunk.id == "5") == ["5"]
    assert ids({"lang": "fr"}) == []


def test_a_search_is_told_to_observers() -> None:
    """With its hits and the version of the index."""
    seen: list[Started | Ended] = []

    class Watcher:
        def started(self, event: Started) -> None:
            seen.append(event)

        def ended(self, token: object, event: Ended) -> None:
            seen.append(event)

    retriever = LexicalRetriever(chunks("boat"), name="docs")
    with watching(Watcher()):
        hits = retriever.retrieve("boat", 2)
    assert seen == [RetrievalStarted("docs", "boat", 2), RetrievalEnded(hits, retriever.version)]


def test_threads_may_search_while_others_add() -> None:
    """Every search sees a whole index."""
    retriever = LexicalRetriever(chunks(*["boat number"] * 50))
    failures: list[BaseException] = []

    def search() -> None:
        try:
            for _ in range(50):
                assert len(retriever.retrieve("boat", 50)) == 50
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(50):
        retriever.add([Chunk(f"new-{n}", "boat", "new", 0, 4)])
    for thread in threads:
        thread.join(30)
    assert not failures
    assert len(retriever) == 100


@pytest.mark.parametrize("top_k", [0, -1])
def test_asking_for_no_hits_is_a_mistake(top_k: int) -> None:
    """A `top_k` below 1 is refused before anything is searched."""
    with pytest.raises(ConfigError, match="top_k"):
        LexicalRetriever().retrieve("x", top_k)
