"""Damaged files in a folder of sessions are named, and nothing odd in it ends the command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harness.sessions.discovery import files_in, kind_of
from tests.harness.command_line import agentrig
from tests.harness.sessions_support import three_steps

DAMAGED = {
    "empty": b"",
    "blank": b"\xef\xbb\xbf \n\n",
    "zeros": bytes(4_000),
    "utf-16": "session:\n  version: 2\n".encode("utf-16"),
    "latin-1": "a: caf\xe9\n".encode("latin-1"),
    "conflict": b"<<<<<<< HEAD\nsession:\n=======\nsession:\n>>>>>>> other\n",
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n",
    "cut": b"  agent: {factory: 'harness",
    "words": b"Not Found\n",
}
FOREIGN = {
    "workflow": b"on: push\njobs: {a: {steps: [{session: 1}]}}\n",
    "list": b"- session\n- interactions\n",
    "documents": b"---\n---\na: 1\n---\n- b\n",
    "tags": b"key: !Ref Bucket\nother: !!python/name:os.system\n",
    "aliases": b"a: &x {b: [1, {interactions: 2}]}\nc: *x\nd: session\n",
    "comments": b"# nothing yet\n",
    "values": b"a: [1]\nb: interactions\n? [session]\n: traffic\n",
}
SESSIONS = {
    "block": b"session:\n",
    "bom": b"\xef\xbb\xbfinteractions: []\n",
    "comment": b"# made by hand\n---\nsession: {}\n",
    "json": b'{"version": 1, "interactions": []}',
    "late": b"note: {a: [b, c]}\nmore: &m [1]\nagain: *m\ntraffic: {}\n",
}


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A folder with a session."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    three_steps(folder / "good.yaml")
    return folder


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        pytest.param(kind, content, id=f"{kind}-{name}")
        for kind, files in (("damaged", DAMAGED), ("foreign", FOREIGN), ("session", SESSIONS))
        for name, content in files.items()
    ],
)
def test_a_file_is_known_by_its_outermost_keys(tmp_path: Path, kind: str, content: bytes) -> None:
    """What is deeper, or a value, does not count; what is no YAML is damaged."""
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    assert kind_of(path) == kind


def test_damaged_files_fail_where_the_folder_is_replayed(sessions: Path) -> None:
    """Each is named, and the others are judged; so it is with lint and sweep."""
    for name, content in (DAMAGED | FOREIGN).items():
        (sessions / f"{name}.yaml").write_bytes(content)
    replayed = agentrig("replay", sessions, "--json")
    assert replayed.exit_code == 2
    report = json.loads(replayed.stdout)
    assert {Path(each).stem for each in report["errors"]} == set(DAMAGED)
    assert [each["session"] for each in report["sessions"]] == ["good"]
    linted = agentrig("lint", sessions, "--json")
    assert linted.exit_code == 1
    found = json.loads(linted.stdout)["findings"]
    assert {Path(each["path"]).stem for each in found if each["rule"] == "unreadable"} == set(
        DAMAGED
    )


def test_odd_names_do_not_end_the_command(sessions: Path) -> None:
    """Folders and pipes are no files; a link that leads nowhere is a lost session."""
    (sessions / "dir.yaml").mkdir()
    os.mkfifo(sessions / "pipe.yaml")
    (sessions / "loop.yaml").symlink_to(sessions / "loop.yaml")
    (sessions / "lost.yaml").symlink_to(sessions / "gone")
    for command in (["replay"], ["lint"], ["sweep", "--operators", "404", "--workers", "1"]):
        done = agentrig(*command, sessions)
        assert done.exit_code in {1, 2}
        assert "loop.yaml" in done.stdout or "loop:" in done.stdout
        assert "lost.yaml" in done.stdout or "lost:" in done.stdout
        assert "dir" not in done.stdout.replace("directory", "")
        assert "good" in done.stdout or "3 files" in done.stdout


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "command",
    [
        ["replay"],
        ["replay", "--rewrite"],
        ["lint"],
        ["lint", "--fix"],
        ["minimize"],
        ["serve", "--port", "0"],
        ["sweep", "--operators", "404", "--workers", "1"],
        ["fuzz", "parser", "--seeds"],
    ],
    ids=" ".join,
)
def test_what_is_no_file_is_refused_and_not_waited_for(
    tmp_path: Path, command: list[str], kind: str
) -> None:
    """Nobody writes into the pipe, and the device has no end."""
    path = Path("/dev/zero")
    if kind == "device" and not path.exists():
        pytest.skip("no device without an end")
    if kind == "pipe":
        os.mkfifo(path := tmp_path / "a.yaml")
    done = agentrig(*command, path)
    assert done.exit_code in {1, 2}
    assert f"expected a file, got a {kind}" in " ".join((done.stdout + done.stderr).split())


def test_what_is_no_yaml_counts_only_among_sessions(sessions: Path) -> None:
    """A template of another program, in a folder of its own, is left alone."""
    templates = sessions.parent / "templates"
    templates.mkdir()
    (templates / "deploy.yaml").write_text("{{- if .Values.x }}\na: b\n", encoding="utf-8")
    (sessions / "deep").mkdir()
    (sessions / "deep" / "empty.yaml").write_bytes(b"")
    assert [each.name for each in files_in(sessions.parent)] == ["empty.yaml", "good.yaml"]
    assert [each.name for each in files_in(templates)] == ["deploy.yaml"]
