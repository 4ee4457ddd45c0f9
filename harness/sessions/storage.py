"""Where sessions lie: names that stay in their folder, and one writer each."""

from __future__ import annotations

import os
import re
from pathlib import Path

from harness.files import open_binary
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
