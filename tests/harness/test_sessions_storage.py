"""A session on the disk is whole, old or new, whatever stops its writer; a journal goes on."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.files import write_all, write_atomically
from harness.sessions.cassette import load_session, render_session
from harness.sessions.errors import SessionError, SessionExists, SessionFormatError
from harness.sessions.journal import Journal, read_journal
from harness.sessions.record import record
from harness.sessions.replay import replay
from harness.sessions.sources import named_factory
from tests.harness.sessions_support import (
    ANSWER,
    ASSISTANT,
    SUM,
    WEATHER,
    ollama_reply,
    plan,
    record_scripted,
    serving,
    three_steps,
)

CALLS = ("open", "write", "fsync", "close", "replace", "unlink", "ftruncate")


class Interrupted(BaseException):
    """Stands for whatever stops a process that is still able to clean up."""


def breaking_at(
    monkeypatch: pytest.MonkeyPatch, folder: Path, number: int, *, after: bool
) -> list[str]:
    """Let the system's n-th call about this folder fail, before or after it does its work."""
    made: list[str] = []
    ours: set[int] = set()

    def wrap(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            is_ours = args[0] in ours if isinstance(args[0], int) else str(folder) in str(args[0])
            if not is_ours:
                return real(*args, **kwargs)
            made.append(name)
            if len(made) == number and not after:
                raise Interrupted(name)
            result = real(*args, **kwargs)
            if name == "open":
                ours.add(result)
            elif name == "close":
                ours.discard(args[0])
            if len(made) == number:
                raise Interrupted(name)
            return result

        return call

    for name in CALLS:
        monkeypatch.setattr(os, name, wrap(name, getattr(os, name)))
    return made


@pytest.mark.parametrize("after", [False, True])
def test_a_fault_at_any_call_leaves_the_old_file_or_the_new(tmp_path: Path, after: bool) -> None:
    """Each write, flush and rename fails once, and so does what comes between two of them."""
    path = tmp_path / "s.yaml"
    for number in count(1):
        path.write_text("old", encoding="utf-8")
        with pytest.MonkeyPatch.context() as patch:
            made = breaking_at(patch, tmp_path, number, after=after)
            with suppress(Interrupted):
                write_atomically(path, "new" * 50_000)
        assert path.read_text(encoding="utf-8") in {"old", "new" * 50_000}
        if len(made) < number:
            break
        for left in tmp_path.glob(".*.tmp"):  # what a real kill would leave behind
            left.unlink()
    assert path.read_text(encoding="utf-8") == "new" * 50_000
    assert {"open", "write", "fsync", "close", "replace"} <= set(made)


def test_a_fault_at_any_call_of_a_rewrite_can_be_resumed(tmp_path: Path) -> None:
    """The old session or a whole new one is there; the journal, where there is one, goes on."""
    path = tmp_path / "s.yaml"
    old = record_scripted(path, ollama_reply("Final Answer: old")).file
    outcomes = set()
    for number in count(1):
        path.unlink(missing_ok=True)
        (tmp_path / "s.yaml.journal").unlink(missing_ok=True)
        write_atomically(path, render_session(old))
        with pytest.MonkeyPatch.context() as patch:
            made = breaking_at(patch, tmp_path, number, after=False)
            with suppress(Interrupted):
                record_scripted(
                    path, ollama_reply(WEATHER), ollama_reply("Final Answer: new"), mode="rewrite"
                )
        answer = load_session(path).session.trajectory[0].answer  # type: ignore[union-attr]
        assert answer in {"old", "new"}
        journal = tmp_path / "s.yaml.journal"
        if answer == "old" and journal.exists() and read_journal(journal.read_bytes()):
            earlier = read_journal(journal.read_bytes())
            assert earlier is not None
            if earlier.has_work:
                rest = [ollama_reply(WEATHER), ollama_reply("Final Answer: new")]
                with serving(*rest[len(earlier.takes) :]) as server:
                    resume_at(path, server.url)
                answer = load_session(path).session.trajectory[0].answer  # type: ignore[union-attr]
                assert answer == "new"
                outcomes.add("resumed")
        outcomes.add(answer or "")
        for left in tmp_path.glob(".*.tmp"):
            left.unlink()
        if len(made) < number:
            break
    assert outcomes == {"old", "new", "resumed"}


def resume_at(path: Path, url: str) -> Any:
    """Resume against another server: the journal's address is the old one's."""
    journal = path.with_name(path.name + ".journal")
    text = journal.read_text(encoding="utf-8")
    old = text.split('"base_url":"')[1].split('"')[0]
    journal.write_text(text.replace(old, url), encoding="utf-8")
    return record(None, named_factory(ASSISTANT), path, mode="resume")


KILLED = """
import os, signal, sys
from pathlib import Path
import tests.harness.test_sessions_storage as t
import pytest

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

folder, number = Path(sys.argv[1]), int(sys.argv[2])
t.Interrupted = die  # raising it is the end
patch = pytest.MonkeyPatch()
t.breaking_at(patch, folder, number, after=True)
t.record_scripted(folder / "s.yaml", t.ollama_reply(t.WEATHER), t.ollama_reply(t.ANSWER),
                  mode="rewrite")
"""


@pytest.mark.parametrize("number", [3, 9, 16])
def test_a_killed_recording_leaves_a_whole_session_and_a_journal(
    tmp_path: Path, number: int
) -> None:
    """SIGKILL between two calls: nothing gets a chance to clean up."""
    path = tmp_path / "s.yaml"
    record_scripted(path, ollama_reply("Final Answer: old"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(number)],
        env=environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr.decode()
    answer = load_session(path).session.trajectory[0].answer  # type: ignore[union-attr]
    assert answer in {"old", "It is fine 😀 and the sum is 5."}
    journal = Journal(path)  # its lock died with its holder
    earlier = journal.earlier()
    journal.close()
    assert earlier is None or earlier.header


def test_an_interrupted_recording_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What was asked is not asked again, tools do not run again, and nothing is lost."""
    path = tmp_path / "s.yaml"
    first = "Thought: t\nAction: " + WEATHER.split("Action: ")[1]
    with pytest.raises(Interrupted):
        record_scripted(path, ollama_reply(first), ollama_reply(SUM), observers=[StopAt(2)])
    assert not path.exists()
    with serving(ollama_reply(ANSWER)) as server:
        done = resume_at(path, server.url)
        assert server.connections == 1
    assert [step.index for step in done.results[0].steps] == [1, 2, 3]
    assert len(done.file.takes) == 3
    assert [call.tool for call in done.file.session.tape] == ["get_weather", "calculator"]
    assert not path.with_name("s.yaml.journal").exists()
    assert replay(path).ok


def test_a_resumed_recording_that_goes_another_way_keeps_what_fits(tmp_path: Path) -> None:
    """From the first request that is not the recorded one, the live model answers."""
    path = tmp_path / "s.yaml"
    with pytest.raises(Interrupted):
        record_scripted(path, ollama_reply(WEATHER), ollama_reply(SUM), observers=[StopAt(2)])
    journal = path.with_name("s.yaml.journal")
    text = journal.read_text(encoding="utf-8")
    assert '"condition":"' in text
    changed = text.replace('"condition":"', '"condition":"not ')
    journal.write_text(changed, encoding="utf-8")
    with serving(ollama_reply(SUM), ollama_reply(ANSWER)) as server:
        done = resume_at(path, server.url)
        assert server.connections == 2  # the second request is another one now
    assert done.results[0].answer is not None
    assert replay(path).ok


class StopAt:
    """An observer that stops everything at the end of a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self._step = step

    def started(self, event: object) -> None:
        return None

    def ended(self, token: object, event: object) -> None:
        if getattr(getattr(event, "step", None), "index", None) == self._step:
            raise Interrupted


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    """A session and an interrupted recording are both safe from `new`."""
    path = tmp_path / "s.yaml"
    three_steps(path)
    before = path.read_bytes()
    with pytest.raises(SessionExists, match="--rewrite"):
        three_steps(path)
    assert path.read_bytes() == before
    other = tmp_path / "other.yaml"
    with pytest.raises(Interrupted):
        record_scripted(other, ollama_reply(WEATHER), observers=[StopAt(1)])
    with pytest.raises(SessionExists, match="--resume"):
        three_steps(other)
    assert three_steps(other, mode="rewrite").path == other


def test_a_resume_for_another_agent_is_refused(tmp_path: Path) -> None:
    """The journal knows what it is a recording of."""
    path = tmp_path / "s.yaml"
    with pytest.raises(Interrupted):
        record_scripted(path, ollama_reply(WEATHER), observers=[StopAt(1)])
    other = plan("http://127.0.0.1:1")
    other = type(other)(other.agent.model_copy(update={"factory": "a:b"}), other.model, other.turns)
    with pytest.raises(SessionError, match="interrupted recording is of"):
        record(other, named_factory(ASSISTANT), path, mode="resume")


def test_a_journal_cut_off_in_a_line_reads_up_to_it(tmp_path: Path) -> None:
    """The last line of a killed writer may be half there; a line before it may not."""
    whole = b'{"session":{"a":1}}\n{"now":"2026-01-01T00:00:00"}\n'
    earlier = read_journal(whole + b'{"now":"20')
    assert earlier is not None
    assert earlier.readings == ["2026-01-01T00:00:00"]
    assert read_journal(b'{"session":') is None
    with pytest.raises(SessionFormatError, match="line 1"):
        read_journal(b'{"session\n' + whole)


def test_a_journal_forgets_what_was_asked_before_a_rewind() -> None:
    """Requests from the named one on are asked again; what is left says how long it lasted."""

    def entry(number: int) -> str:
        take = {"exchange": number, "at": 10.0 * number, "seconds": 2.0}
        return json.dumps({"take": take, "number": number, "interaction": None})

    call = {"tool": "t", "value": 1, "at": 25.0}
    lines = [*map(entry, range(3)), json.dumps({"rewind": 1}), json.dumps({"call": call})]
    earlier = read_journal("\n".join([*lines, ""]).encode())
    assert earlier is not None
    assert list(earlier.takes) == [0]
    assert earlier.seconds == 25.0


def test_every_byte_is_written_though_the_system_takes_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short write is gone on with."""
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    descriptor = os.open(tmp_path / "f", os.O_WRONLY | os.O_CREAT)
    write_all(descriptor, b"x" * 100)
    os.close(descriptor)
    assert (tmp_path / "f").read_bytes() == b"x" * 100


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system names no file where it refuses a descriptor, and a file beside ours is nobody's."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    session = tmp_path / "s.yaml"
    journal = Journal(session)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left") as caught:
            journal.append({"now": "2026-01-01T00:00:00"})
        assert caught.value.filename == f"{session}.journal"
        with pytest.raises(OSError, match="No space left") as caught:
            write_atomically(session, "x")
        assert caught.value.filename == str(session)
    journal.discard()
    with pytest.raises(FileNotFoundError, match=r"'[^']*nowhere/s\.yaml'"):
        write_atomically(tmp_path / "nowhere" / "s.yaml", "x")
    assert list(tmp_path.iterdir()) == []
