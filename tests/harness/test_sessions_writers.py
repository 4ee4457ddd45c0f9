"""Who may write a session: one writer, under a name of a file, and only what was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_core.models import ScriptedModel
from harness.sessions.cassette import load_session
from harness.sessions.errors import SessionBusy, SessionError
from harness.sessions.journal import Journal
from harness.sessions.record import record, rewrite
from harness.sessions.sources import named_factory
from harness.sessions.storage import session_path
from tests.harness.sessions_support import (
    ANSWER,
    ASSISTANT,
    edited,
    ollama_reply,
    record_scripted,
    serving,
    three_steps,
    version_scripts,
)


def test_a_second_writer_is_told(tmp_path: Path) -> None:
    """Two recordings of one name: one has it, the other hears so and changes nothing."""
    path = tmp_path / "s.yaml"
    holder = Journal(path)
    holder.append({"session": {"note": "mine"}})
    with pytest.raises(SessionBusy, match=r"s\.yaml"):
        record_scripted(path, ollama_reply(ANSWER))
    assert holder.path.read_text(encoding="utf-8") == '{"session":{"note":"mine"}}\n'
    holder.discard()
    assert record_scripted(path, ollama_reply(ANSWER)).path == path


def test_there_has_to_be_something_to_resume(tmp_path: Path) -> None:
    """Without a journal a resume is refused and leaves nothing behind."""
    with pytest.raises(SessionError, match="nothing to resume"):
        record(None, named_factory(ASSISTANT), tmp_path / "s.yaml", mode="resume")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_rewrite_keeps_the_old_session(tmp_path: Path) -> None:
    """A factory that cannot be built changes nothing."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = path.read_bytes()

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        rewrite(path, broken)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["s.yaml"]


def test_an_agent_with_a_model_of_its_own_is_not_recorded(tmp_path: Path) -> None:
    """What does not go through the given model cannot be kept; the words say so."""
    own = edited(
        named_factory(ASSISTANT),
        lambda agent: agent.replace(model=ScriptedModel(["Final Answer: 1"])),
    )
    with pytest.raises(SessionError, match="use its `model`"):
        record_scripted(tmp_path / "s.yaml", factory=own)
    assert list(tmp_path.iterdir()) == []


def test_a_rewrite_asks_again(tmp_path: Path) -> None:
    """The same questions to the same agent, with new replies, from the file alone."""
    path = tmp_path / "s.yaml"
    old = three_steps(path).file.session
    assert old is not None
    with serving(*version_scripts(), ollama_reply("Final Answer: now")) as server:
        done = rewrite(
            path,
            named_factory(ASSISTANT),
            model=old.model.model_copy(update={"base_url": server.url}),
        )
    assert done.results[0].answer == "now"
    assert done.file.session is not None
    assert done.file.session.turns == old.turns
    assert load_session(path) == done.file


def test_a_stock_cassette_cannot_be_rewritten(tmp_path: Path) -> None:
    """It does not say what agent made it."""
    (tmp_path / "c.yaml").write_text("interactions: []\nversion: 1\n", encoding="utf-8")
    with pytest.raises(SessionError, match="session block"):
        rewrite(tmp_path / "c.yaml", named_factory(ASSISTANT))


@pytest.mark.parametrize("name", ["weather-zh", "a_b.2", "天气", "x.yaml"])
def test_names_of_sessions(name: str) -> None:
    """Letters of any language, digits and a few signs make a file in the folder."""
    assert session_path("folder", name) == Path("folder") / f"{name.removesuffix('.yaml')}.yaml"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../x",
        "/etc/passwd",
        "a/b",
        "a\\b",
        ".hidden",
        "a\0b",
        "a\n",
        "-rf",
        "CON",
        "x" * 200,
    ],
)
def test_names_cannot_leave_the_folder(name: str) -> None:
    """What could be another folder, or is no name for a file, is refused."""
    with pytest.raises(SessionError, match="session name"):
        session_path("folder", name)
