"""Where sessions lie: names that stay in their folder, whole files, one writer each."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.sessions.errors import SessionBusy, SessionError

try:
    import fcntl
except ImportError:  # no advisory locks on this platform: writers are not kept apart
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".yaml"
_NAME = re.compile(r"\w[\w.\-]*")
_MAX_NAME = 120
_RESERVED = {"con", "prn", "aux", "nul"}


def session_path(folder: str | Path, name: str) -> Path:
    """The file of a session.

    Raises:
        SessionError: the name could leave the folder, or is no name for a file.
    """
    stem = name.removesuffix(SUFFIX)
    if not _NAME.fullmatch(stem) or len(stem) > _MAX_NAME or stem.lower() in _RESERVED:
        raise SessionError(
            "expected a session name of letters and digits of any language, '-', '_' and '.', "
            f"without spaces and of at most {_MAX_NAME} characters, got {name!r}"
        )
    return Path(folder) / f"{stem}{SUFFIX}"


def write_atomically(path: Path, text: str) -> None:
    """Write a file whole or not at all: whatever interrupts, the old content or the new is there.

    The caller sees to it that there is one writer. A link stays a link: what it points at is
    written. A device or a pipe is written into, since another file in its place would end it.

    Raises:
        OSError: the disk or the folder refuses; the old file is untouched.
    """
    with naming_file(path):
        if is_replaceable(path):
            _replace(Path(os.path.realpath(path)), text.encode())
            return
        with path.open("wb", buffering=0) as special:
            write_all(special.fileno(), text.encode())


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")  # one writer each: what a kill left is reused
    try:
        descriptor = open_binary(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)  # noqa: PTH105 - beside its descriptor-level siblings
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    _sync_folder(path.parent)


def is_replaceable(path: Path) -> bool:
    """Whether a regular file is there, behind links or not, or nothing yet.

    Raises:
        OSError: it cannot be told, as with links that go round in a circle.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return True


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Give an error of the system the name of a file: what is written to a descriptor has none."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def open_binary(path: Path, flags: int, mode: int) -> int:
    """`os.open` for bytes: Windows would write every line end as two."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0), mode)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte: the system may take fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def open_locked(path: Path) -> int:
    """Open a file for appending, as its only writer; give the descriptor.

    Raises:
        SessionBusy: someone else has it open.
    """
    while True:
        descriptor = open_binary(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        if fcntl is None:
            return descriptor
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise SessionBusy(
                f"another process is recording {path.name!r}; wait for it, or choose another name"
            ) from error
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # its writer finished and removed it between our open and our lock


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    """Make a rename last: without it a power cut may bring the old file back."""
    with suppress(OSError):  # not every file system lets a folder be opened or synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
