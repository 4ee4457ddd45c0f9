"""Reading documents from disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_core.errors import RetrievalError
from agent_core.rag.documents import Document, load_documents


def test_a_directory_gives_its_texts_in_order(tmp_path: Path) -> None:
    """By their paths below it; a byte order mark is no text, line ends stay."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b/中.txt").write_text("乙", encoding="utf-8")
    (tmp_path / "a.md").write_bytes("\ufeffx\r\ny".encode())
    (tmp_path / "c.bin").write_bytes(b"\xff")
    assert load_documents(tmp_path) == [Document("a.md", "x\r\ny"), Document("b/中.txt", "乙")]
    assert load_documents(tmp_path / "a.md") == [Document("a.md", "x\r\ny")]


def test_json_lines_give_a_document_each(tmp_path: Path) -> None:
    """And a bad line is named."""
    file = tmp_path / "faq.jsonl"
    file.write_text('{"source": "1", "text": "一"}\n\n', encoding="utf-8")
    assert load_documents(file) == [Document("1", "一")]
    file.write_text('{"source": "1", "text": "一"}\n{"text": 3}', encoding="utf-8")
    with pytest.raises(RetrievalError, match="line 2"):
        load_documents(file)


def test_what_cannot_be_read_says_how_to_mend_it(tmp_path: Path) -> None:
    """Another encoding, or nothing there."""
    with pytest.raises(RetrievalError, match="no documents"):
        load_documents(tmp_path)
    (tmp_path / "gbk.txt").write_bytes("中文".encode("gb18030"))
    with pytest.raises(RetrievalError, match="iconv"):
        load_documents(tmp_path)
