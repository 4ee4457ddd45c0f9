"""Which files in a folder are sessions or cassettes, and which were, before they were damaged.

YAML of other programs is left alone. A file that is no YAML at all cannot be told from a session
that a power cut, a bad merge or a wrong encoding spoiled: among sessions it counts as one, so
that reading it gives an error and it is not passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Literal

import yaml

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml: the same, slower
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

Kind = Literal["session", "damaged", "foreign"]

_PATTERNS = ("*.yaml", "*.yml")
_BEGINNINGS = (b"session:", b"traffic:", b"interactions:", b"version:")  # only the first: an agent
_BLOCKS = {"session", "traffic", "interactions"}
_BOM = b"\xef\xbb\xbf"


def files_in(folder: Path) -> list[Path]:
    """The sessions and cassettes in a folder and below it.

    Damaged files are among them where they lie in the folder itself, or where there are sessions
    beside or above them.
    """
    named = {each for pattern in _PATTERNS for each in folder.rglob(pattern)}
    kinds = {each: kind_of(each) for each in sorted(named) if not _is_special(each)}
    homes = {each.parent for each, kind in kinds.items() if kind == "session"}
    return [
        each
        for each, kind in kinds.items()
        if kind == "session"
        or (kind == "damaged" and (each.parent == folder or homes.intersection(each.parents)))
    ]


def kind_of(path: Path) -> Kind:
    """What a file is by its beginning or, where that does not tell, by its outermost keys."""
    if _is_special(path):
        return "damaged"
    try:
        with path.open("rb") as file:
            if file.read(64).removeprefix(_BOM).startswith(_BEGINNINGS):
                return "session"
            file.seek(0)
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):  # who reads it says why
        return "damaged"
    if not text.strip():
        return "damaged"
    try:
        return "session" if not _BLOCKS.isdisjoint(_outermost_keys(text)) else "foreign"
    except (yaml.YAMLError, ValueError, RecursionError):
        return "damaged"


def names_no_agent(path: Path) -> bool:
    """Whether a file is a cassette that does not say what agent made it: a proxy's, or stock."""
    if _is_special(path):
        return False
    try:
        with path.open("rb") as file:
            return file.read(64).removeprefix(_BOM).startswith(_BEGINNINGS[1:])
    except OSError:  # who reads it says why
        return False


def _is_special(path: Path) -> bool:
    """Whether it is a folder, a pipe or a device; a link that leads nowhere is a lost file."""
    try:
        return not S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _outermost_keys(text: str) -> Iterator[str]:
    """The keys of the first level of all documents, without building what is below them.

    Raises:
        yaml.YAMLError: it is no YAML.
        ValueError: it is words, and nothing that a program reads.
    """
    depth = nodes = 0
    is_mapping = False
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.NodeEvent):
            if depth == 0:
                if isinstance(event, yaml.ScalarEvent) and event.value:
                    raise ValueError(f"expected a mapping or a list, got {event.value!r:.40}")
                is_mapping, nodes = isinstance(event, yaml.MappingStartEvent), 0
            elif depth == 1:
                if is_mapping and nodes % 2 == 0 and isinstance(event, yaml.ScalarEvent):
                    yield event.value
                nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
