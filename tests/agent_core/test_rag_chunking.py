"""Chunks lose nothing, stay under the limit and know where they come from."""

from __future__ import annotations

import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_core.errors import ConfigError
from agent_core.messages import Chunk
from agent_core.rag.chunking import chunk_text, valid_unicode
from agent_core.rag.markdown import parse_blocks
from agent_core.rag.sentences import joins, sentence_ends

LINES = st.sampled_from([
    "# Title", "## 第二节 ##", "### Deep", "Setext", "=====", "-----", "---", "```", "```py",
    "~~~~", "~~~", "````", "| a | b |", "|---|---|", "| 1 | 2 |", "| a much longer cell | b |", "",
    "   ", "\t", "- item one", "1. first", "> quoted", "    indented code",
    "Dr. Smith paid 3.14 dollars, e.g. for tea. Then he left!", "今天下雨。我没带伞！怎么办？",
    "他说：“走吧。”然后走了；没有回头……", "x" * 70, "深" * 70, "👩‍👩‍👧‍👦" * 5,
    "e\u0301" * 30, "🇨🇳🇩🇪" * 9,
    "# comment, not a heading", "see https://example.org/a.b?c=d!e and J. R. R. Tolkien",
    "\u3000全角空格　开头", "a\u200db", "한국어 문장입니다. 다음", "क्षत्रिय", "\ufeff",
    "\x00", "\ud83d",
])  # fmt: skip
DOCUMENTS = st.builds(
    lambda pieces: "".join(line + end for line, end in pieces),
    st.lists(st.tuples(LINES, st.sampled_from(["\n", "\r\n", "\n\n", "\r", " ", ""])), max_size=25),
) | st.text(max_size=300)  # fmt: skip


def given_out(chunk: Chunk, text: str) -> str:
    """What a chunk's text must be, from its offsets and its metadata."""
    before = chunk.metadata.get("repeated_before", "")
    after = chunk.metadata.get("repeated_after", "")
    return f"{before}{text[chunk.start : chunk.end]}{after}"


@settings(max_examples=400, deadline=None)
@given(DOCUMENTS, st.integers(1, 120), st.integers(0, 40))
@example("\r\n" * 9 + "a", 3, 0)
@example("# Title\n" + "🇨🇳🇩🇪" * 9, 3, 0)
@example("क \u200d \r\nᄀa", 2, 0)
@example("深" * 5 + "\n\n深", 5, 2)
@example("# T\n\n" + "word " * 40, 20, 10)
def test_every_property_holds_for_any_text(document: str, size: int, overlap: int) -> None:
    """Nothing is lost, offsets are exact, the limit is kept, no character is cut in two."""
    overlap = min(overlap, size - 1)
    text = valid_unicode(document)
    chunks = chunk_text(document, chunk_size=size, overlap=overlap)
    covered = 0
    for chunk in chunks:
        chunk.text.encode("utf-8")
        assert 0 < len(chunk.text) <= size
        assert chunk.text.strip()
        assert chunk.text == given_out(chunk, text)
        assert chunk.start <= covered or not text[covered : chunk.start].strip("\ufeff").strip()
        assert chunk.end > covered
        assert chunk.start >= covered - overlap
        covered = chunk.end
        if not chunk.metadata.get("cut_character"):
            assert not joins(text, chunk.end)
    assert not text[covered:].strip("\ufeff").strip()
    assert len({chunk.id for chunk in chunks}) == len(chunks)


@pytest.mark.parametrize("size", range(40, 400, 7))
def test_the_chunks_of_prose_join_to_the_text(size: int) -> None:
    """Without overlap and repeated parts, white space is kept too."""
    text = (
        "# 灯塔\n\n港口的灯塔建于一九零三年。它的高度是四十一米！现在还有人住在里面吗？没有。\n\n"
        "The lighthouse was built in 1903. It is 41 m high!\r\n\r\nNobody lives there; the keys "
        "went to the museum.\n\n- one\n- two\n\n## 二\n\n最后一位守塔人已经离开了。\n"
    ) * 5
    assert "".join(chunk.text for chunk in chunk_text(text, chunk_size=size)) == text


def test_a_section_is_never_mixed_with_another() -> None:
    """Every chunk knows its headings, levels that jump included, and setext ones too."""
    text = (
        "Before.\n\n# Guide\n\nIntro.\n\n### Deep\n\ndeep\n\n## Next ##\n\nnext\n\n"
        "Other\n=====\n\nother\n\nSub\n---\nsub\n"
    )
    paths = {chunk.text.split()[-1]: chunk.metadata["headings"] for chunk in chunk_text(text)}
    assert paths == {
        "Before.": [],
        "Intro.": ["Guide"],
        "deep": ["Guide", "Deep"],
        "next": ["Guide", "Next"],
        "other": ["Other"],
        "sub": ["Other", "Sub"],
    }


def test_a_heading_stays_with_the_text_under_it() -> None:
    """No chunk ends with a heading when its text can begin beside it."""
    text = "# A\n\n## B\n\n" + "One short sentence. " * 10
    chunks = chunk_text(text, chunk_size=60)
    assert chunks[0].text.startswith("# A\n\n## B\n\nOne short sentence.")
    assert chunks[0].metadata["headings"] == ["A", "B"]


def test_sections_without_text_are_kept() -> None:
    """An empty section is text like any other."""
    chunks = chunk_text("## A\n\n## B\n\ntext\n")
    assert [(c.text.strip(), c.metadata["headings"]) for c in chunks] == [
        ("## A", ["A"]),
        ("## B\n\ntext", ["B"]),
    ]


@pytest.mark.parametrize("fence", ["```", "~~~", "`````"])
def test_hashes_in_a_fence_are_code(fence: str) -> None:
    """A comment is no heading, other or shorter fences inside do not close, no code is cut."""
    inner = "```" if len(fence) > 3 or fence[0] == "~" else "~~~"
    code = f"{fence}sh\n{inner}\n# comment\nx\n{inner}\n\n    indented\n{fence}\n"
    chunks = chunk_text(f"# T\n\n{'Prose. ' * 8}\n\n{code}\nEnd.", chunk_size=80)
    assert any(code in chunk.text for chunk in chunks)
    assert {tuple(chunk.metadata["headings"]) for chunk in chunks} == {("T",)}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Text\n   ---\n", "heading"),
        ("Text\n    ---\n", "paragraph"),
        ("| a |\n|---|\n| 1 |\n", "table"),
        ("|---|\n|---|\n| 1 |\n", "paragraph"),
    ],
)
def test_lines_of_dashes_are_what_commonmark_takes_them_for(text: str, kind: str) -> None:
    """Four columns further in they underline nothing, and they are no header of a table."""
    assert [block.kind for block in parse_blocks(text)] == [kind]


def test_an_unclosed_fence_runs_to_the_end() -> None:
    """Its size is limited all the same."""
    chunks = chunk_text("```\n" + "# code line\n" * 50, chunk_size=100)
    assert all(len(chunk.text) <= 100 for chunk in chunks)
    assert all(chunk.text.startswith("```\n") for chunk in chunks)
    assert {tuple(chunk.metadata["headings"]) for chunk in chunks} == {()}


def test_a_long_table_repeats_its_header() -> None:
    """Each piece begins with the header rows, holds whole rows and points at its own rows."""
    head = "| 城市 | 温度 |\n|---|---|\n"
    rows = [f"| 城市{number} | {number} |\n" for number in range(40)]
    text = "Intro.\n\n" + head + "".join(rows) + "\nEnd."
    chunks = chunk_text(text, chunk_size=120)
    assert len(chunks) > 3
    assert all(head in chunk.text for chunk in chunks if "| 城市" in chunk.text[8:])
    for row in rows:
        assert sum(row in chunk.text for chunk in chunks) == 1
    for chunk in chunks[1:-1]:
        assert chunk.metadata["repeated_before"] == head
        assert text[chunk.start : chunk.end].strip() in "".join(rows)


def test_a_table_that_fits_is_not_cut() -> None:
    """It goes into the next chunk rather than being cut."""
    table = "a | b\n--|--\n" + "1 | 2\n" * 10
    chunks = chunk_text("Prose before it. " * 5 + "\n\n" + table, chunk_size=100)
    assert table in chunks[-1].text


def sentences(text: str) -> list[str]:
    """The sentences of a text, stripped."""
    ends = list(sentence_ends(text, 0, len(text)))
    return [text[a:b].strip() for a, b in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize(
    "expected",
    [
        ["Dr. Smith met Mr. Wu, e.g. at 5 p.m. Friday.", "He left."],
        ["Pi is 3.14 today.", "J. R. R. Tolkien of the U.S. Army wrote (see Fig. 2).", "Next!"],
        ["See https://example.org/a.b?c!d first.", "Then stop."],
        ["He said no.", "Then (in 2019.)", "“Go.”", "Really?!", "Yes..."],
        ["1. First thing.", "Second in 2019.", "That was all."],
        ["“Why?” she asked."],
        ["Wait... there is more.", "Version 2.0 is out."],
    ],
)
def test_english_sentences(expected: list[str]) -> None:
    """Full stops in abbreviations, numbers, initials, addresses and list marks end nothing."""
    assert sentences(" ".join(expected)) == expected


@pytest.mark.parametrize(
    "expected",
    [
        ["今天下雨。", "怎么办？", "走吧！", "好；", "完了……"],
        ["他说：「你好。」", "（真的。）", "“去吗？”", "‘不去！’", "结束"],
        ["圆周率是3.14，版本是v2.0。", "见https://例子.cn/a.b。", "你好!", "再见."],
        ["什么？！", "对。」）", "完。"],
    ],
)
def test_chinese_sentences(expected: list[str]) -> None:
    """Marks need no blank after them and keep the closing quotes."""
    assert sentences("".join(expected)) == expected


def test_lists_without_full_stops_are_cut_between_items() -> None:
    """An item is a unit, as a sentence is in prose."""
    text = "".join(f"- item number {number}\n" for number in range(30))
    chunks = chunk_text(text, chunk_size=100)
    assert all(chunk.text.startswith("- item") and chunk.text.endswith("\n") for chunk in chunks)


def test_text_without_marks_is_cut_between_words() -> None:
    """And Latin words inside Chinese text stay whole as well."""
    chunks = chunk_text("word " * 100, chunk_size=32)
    assert all(set(chunk.text.split()) == {"word"} for chunk in chunks)
    chunks = chunk_text("使用Python编写程序" * 30, chunk_size=50)
    assert sum(chunk.text.count("Python") for chunk in chunks) == 30


def test_a_character_longer_than_the_limit_is_cut_and_flagged() -> None:
    """A shorter one is never cut."""
    chunks = chunk_text("ab" + "e" + "\u0301" * 20, chunk_size=10)
    assert [chunk.metadata.get("cut_character", False) for chunk in chunks] == [
        False, True, True, False,
    ]  # fmt: skip
    family = "👩‍👩‍👧‍👦"
    assert all(
        set(chunk.text.replace(family, "")) <= set()
        for chunk in chunk_text(family * 50, chunk_size=15)
    )


def test_front_matter_is_no_heading() -> None:
    """The line that closes it is not an underline."""
    chunks = chunk_text("---\ntitle: x\n---\n\n# Real\n\ntext")
    assert [chunk.metadata["headings"] for chunk in chunks] == [[], ["Real"]]


def test_overlap_repeats_whole_sentences() -> None:
    """Offsets then overlap as the texts do, never over a heading."""
    text = "# A\n\n" + "Sentence number one is here. " * 20 + "\n\n# B\n\nOther."
    chunks = chunk_text(text, chunk_size=150, overlap=50)
    for before, after in pairwise(chunks[:-1]):
        assert before.end - after.start == len("Sentence number one is here. ")
        assert after.text.startswith("Sentence")
    assert chunks[-1].text == "# B\n\nOther."


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-3, 0), (10, 10), (10, 11), (10, -1)])
def test_sizes_that_cannot_work_are_refused(size: int, overlap: int) -> None:
    """The message names both numbers."""
    with pytest.raises(ConfigError, match="chunk_size"):
        chunk_text("text", chunk_size=size, overlap=overlap)


@pytest.mark.parametrize("text", ["", " ", "\n\n\r\n", "\ufeff", "\u3000"])
def test_blank_text_gives_no_chunk(text: str) -> None:
    """Nothing to say, nothing to index."""
    assert chunk_text(text) == []


def test_surrogates_become_what_they_mean() -> None:
    """A pair is its character, a lone one is U+FFFD."""
    assert valid_unicode("a\ud83e\udd80b\ud83dc") == "a🦀b\ufffdc"
    assert unicodedata.is_normalized("NFC", chunk_text("\udc00")[0].text)


@pytest.mark.parametrize("rule", ["---\n", "===\n", "a\n---\n"])
def test_rules_under_a_long_paragraph_cost_no_more_than_other_lines(rule: str) -> None:
    """They make no heading of it, and nothing is counted anew at each: that took minutes."""
    began = time.monotonic()
    chunks = chunk_text("x" * 300 + "\n" + rule * 50_000)
    assert time.monotonic() - began < 30  # a guard with slack; it takes a second
    assert {tuple(chunk.metadata["headings"]) for chunk in chunks} == {()}
