"""How long to wait for a server, and when to ask it again."""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, and for the next bytes of a response.

    A model on a CPU may be silent for minutes while it loads and reads the prompt. A
    cancelled run gives up at once, except while it connects: that lasts until `connect` is over.
    """

    connect: float = 5.0
    read: float = 300.0

    def __post_init__(self) -> None:
        if self.connect <= 0 or self.read <= 0:
            raise ConfigError(f"timeouts must be positive seconds, got {self!r}")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a request is sent again.

    Attributes:
        attempts: requests at most, the first included.
        wait: seconds before the second request; it doubles from one to the next.
        max_wait: seconds a wait has at most, also where `Retry-After` asks for more.
        timeouts: whether a request that timed out is sent again; a busy server gets busier.
    """

    attempts: int = 3
    wait: float = 0.5
    max_wait: float = 30.0
    timeouts: bool = False

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.wait < 0 or self.max_wait < 0:
            raise ConfigError(f"a retry policy needs attempts >= 1 and waits >= 0, got {self!r}")

    def wait_after(self, attempt: int, asked: float | None) -> float:
        """Seconds to wait after this many attempts; `asked` is what the server asks for."""
        backoff = self.wait * 2.0 ** min(attempt - 1, 16)
        return min(self.max_wait, backoff if asked is None else max(backoff, asked))
