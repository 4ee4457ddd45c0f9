"""A key that does not show itself."""

from __future__ import annotations

from agent_core.scrub import register_secret
from agent_core.secret_shapes import MASK

_SHORTEST = 8  # what is shorter ("ollama", "none") is a placeholder; masking it garbles errors


class Secret:
    """A value that is masked wherever it is printed, and that `scrub` knows from then on."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value
        if len(value) >= _SHORTEST:
            register_secret(value)

    def reveal(self) -> str:
        """The value itself, for the one place that sends it."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({MASK!r})"

    __str__ = __repr__
