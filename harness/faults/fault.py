"""What a fault is: something that goes wrong once, at one step of a recorded session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Group = Literal["reply", "http", "tool"]

SECRET = "sk-sweep-4f9a27c1d8e35b60"
"""Put into error bodies and exceptions; it has the shape of a key and unlocks nothing."""

USERINFO = "sweep:Pw-7d1e90b2-decoy"
"""Credentials in the address of the model, the same decoy for the HTTP layer."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way in which something goes wrong.

    Attributes:
        code: its name in reports and on the command line.
        group: where it strikes.
        about: what happens, in a few words.
        lasting: it does not pass, so that a typed stop is the right end; it does not count
            for the score.
    """

    code: str
    group: Group
    about: str
    lasting: bool = False
