"""What a command is told to write goes where its path leads, and an error names the option."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from harness.files import in_words, write_atomically
from tests.harness.command_line import agentrig
from tests.harness.sessions_support import three_steps

Command = Callable[[Path], list[Any]]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of three steps."""
    return three_steps(tmp_path_factory.mktemp("outputs") / "three.yaml").path


@pytest.fixture(scope="module", params=["replay", "report", "sweep", "trace"])
def writes(request: pytest.FixtureRequest, session: Path) -> Command:
    """A command that writes a page to a path."""
    if request.param == "report":
        report = session.with_name("shard.json")
        report.write_text(
            agentrig("replay", session, "--shard", "1/1", "--json").stdout, encoding="utf-8"
        )
        return lambda page: ["report", "merge", report, "--html", page]
    if request.param == "trace":
        return lambda page: ["trace", "html", session, "-o", page]
    if request.param == "sweep":
        return lambda page: ["sweep", session, "--operators", "429", "--steps", "1",
                             "--workers", "1", "--html", page]  # fmt: skip
    return lambda page: ["replay", session, "--html", page]


def through_a_pipe(path: Path, write: Callable[[], Any]) -> bytes:
    """What arrives at the other end of a named pipe."""
    os.mkfifo(path)
    arrived: list[bytes] = []
    reader = Thread(target=lambda: arrived.append(path.read_bytes()), daemon=True)
    reader.start()
    write()
    reader.join(20)
    return b"".join(arrived)


def test_a_pipe_is_written_into_and_stays(tmp_path: Path, writes: Command) -> None:
    """A file in its place would end it; so it is with a device."""
    pipe = tmp_path / "pipe"
    page = through_a_pipe(pipe, lambda: agentrig(*writes(pipe)))
    assert page.startswith(b"<!doctype html>")
    assert page.rstrip().endswith(b"</html>")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_its_target_is_written(
    tmp_path: Path, writes: Command, there: bool
) -> None:
    """Whether the target was there before or not."""
    (tmp_path / "pages").mkdir()
    target, link = tmp_path / "pages" / "target.html", tmp_path / "link.html"
    if there:
        target.write_text("old", encoding="utf-8")
    link.symlink_to(target)
    assert agentrig(*writes(link)).exit_code == 0
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [each.name for each in target.parent.iterdir()] == ["target.html"]


def test_a_missing_folder_is_made(tmp_path: Path, writes: Command) -> None:
    """All commands do the same."""
    assert agentrig(*writes(tmp_path / "a" / "b" / "page.html")).exit_code == 0
    assert (tmp_path / "a" / "b" / "page.html").is_file()


def test_what_cannot_be_written_is_one_line_with_its_option(
    tmp_path: Path, writes: Command
) -> None:
    """A folder that is a file, and links that go round."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for page in (tmp_path / "file" / "page.html", tmp_path / "loop"):
        done = agentrig(*writes(page))
        assert done.exit_code == 2
        errors = done.stderr.splitlines()
        assert len(errors) == 1
        assert errors[0].startswith(("Error: --html", "Error: --output: cannot"))
        assert repr(str(page.parent))[1:-1] in errors[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", [["--help"], ["lint", "--json"]])
def test_an_error_without_an_option_is_one_line_too(session: Path, command: list[str]) -> None:
    """Standard output is full: no usage of a command has to do with it."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *command, *([str(session)] if command[1:] else [])],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("Error: standard output: No space left")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_log_without_room_is_told_by_its_option(session: Path) -> None:
    """What is still to be written when it is closed belongs to the log too."""
    done = agentrig("replay", session, "--log", "/dev/full")
    assert done.exit_code == 2
    assert "Error: --log: cannot write to '/dev/full' (No space left on device)" in done.stderr


@pytest.mark.parametrize("command", [["--help"], ["lint"], ["lint", "--json"], ["replay"]])
def test_who_stops_reading_sees_no_failed_check(session: Path, command: list[str]) -> None:
    """`agentrig … | head`: code 141, as of a program that SIGPIPE ends, and not a word."""
    arguments = command if command == ["--help"] else [*command, str(session)]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_session_behind_a_link_is_written_whole(tmp_path: Path) -> None:
    """The link stays, and nothing is left beside either."""
    (tmp_path / "real").mkdir()
    (tmp_path / "linked.yaml").symlink_to(tmp_path / "real" / "s.yaml")
    write_atomically(tmp_path / "linked.yaml", "new")
    assert (tmp_path / "real" / "s.yaml").read_text(encoding="utf-8") == "new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["linked.yaml", "real"]
    assert (tmp_path / "linked.yaml").is_symlink()


def test_json_of_a_replay_is_not_mixed_with_a_page(tmp_path: Path, session: Path) -> None:
    """A page into a pipe leaves standard output to the JSON."""
    pipe, done = tmp_path / "pipe", []
    through_a_pipe(pipe, lambda: done.append(agentrig("replay", session, "--json", "--html", pipe)))
    assert json.loads(done[0].stdout)["ok"] is True


@pytest.mark.parametrize(
    ("name", "folder"), [("cassettes/x.yaml.journal", "cassettes"), ("minimized", ".")]
)
@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_what_may_not_be_written_is_told_with_a_way_on(name: str, folder: str, code: int) -> None:
    """Whatever command it is, and whether the user may not or nobody can."""
    words = in_words(OSError(code, os.strerror(code), name))
    assert words.startswith(f"cannot write {name!r} ({os.strerror(code)})")
    assert f"write in {folder!r}, or use another folder" in words


def test_other_errors_of_the_system_keep_their_words() -> None:
    """A full disk is about standard output where no file is named."""
    assert in_words(OSError(errno.ENOENT, "No such file", "x")) == "[Errno 2] No such file: 'x'"
    assert in_words(OSError(errno.ENOSPC, "No space left")) == "standard output: No space left"
