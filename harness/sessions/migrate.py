"""Older session files: their block is brought to today's version, one version at a time.

Every version that was ever written has its step here, so that a session outlives the program
that recorded it. Reading migrates; whatever writes a file writes today's version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent_core.messages import JsonObject
from harness.sessions.errors import SessionFormatError
from harness.sessions.format import FORMAT_VERSION

STEPS: Mapping[int, Callable[[JsonObject], JsonObject]] = {
    1: lambda block: block,  # 2 has `provenance.accepted`, and an older file accepted nothing
}
"""Version to the function that makes the next version's block of it."""


def migrated(block: object, name: str) -> JsonObject:
    """A `session:` or `traffic:` block of any version, as one of today's.

    Raises:
        SessionFormatError: it is no block, or of a version that this program does not know.
    """
    if not isinstance(block, dict):
        raise SessionFormatError(
            f"expected `{name}:` to hold a block of keys such as `version:`, got {block!r:.80}"
        )
    version = block.get("version", FORMAT_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SessionFormatError(
            f"expected {name} version 1 to {FORMAT_VERSION}, got {version!r:.80}"
        )
    if version > FORMAT_VERSION:
        raise SessionFormatError(
            f"expected {name} version {FORMAT_VERSION} or older, got {version}: "
            "a newer agentrig wrote it, upgrade to read it"
        )
    for number in range(version, FORMAT_VERSION):
        block = STEPS[number](block)
    return {**block, "version": FORMAT_VERSION}
