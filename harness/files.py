"""Files: written whole or not at all, read where they have an end, with errors that name them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


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


def read_file(path: Path) -> bytes:
    """What is in a file. A pipe waits for somebody to write, and a device may have no end.

    Raises:
        OSError: it cannot be read, or is a pipe, a socket or a device.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # of a folder the system says it
        kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
        raise OSError(f"{path}: expected a file, got {kind}; write what it gives into a file first")
    return path.read_bytes()


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


def in_words(error: OSError) -> str:
    """An error of the system and its file; one without a file is about standard output.

    Where a file may not be written, what to do about it.
    """
    name = error.filename
    if name is None and error.errno == errno.ENOSPC:  # what we write elsewhere is named
        return f"standard output: {error.strerror}"
    if error.errno not in _FORBIDDEN or not isinstance(name, str):
        return str(error)
    if os.path.exists(name) and not os.access(name, os.R_OK):  # noqa: PTH110 - a name, no more
        return f"cannot read {name!r} ({error.strerror}); expected a file that this user may read"
    return (
        f"cannot write {name!r} ({error.strerror}); let this user write in "
        f"{os.path.dirname(name) or '.'!r}, or use another folder (--dir, --out, or a copy)"  # noqa: PTH120
    )


def open_binary(path: Path, flags: int, mode: int) -> int:
    """`os.open` for bytes: Windows would write every line end as two."""
    return os.open(path, flags | getattr(os, "O_BINARY", 0), mode)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte: the system may take fewer at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


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


def _sync_folder(folder: Path) -> None:
    """Make a rename last: without it a power cut may bring the old file back."""
    with suppress(OSError):  # not every file system lets a folder be opened or synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
