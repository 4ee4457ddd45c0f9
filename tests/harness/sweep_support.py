"""A session rehearsed with an agent, and the verdict on one fault."""

from __future__ import annotations

from pathlib import Path

from harness.faults.catalogue import FAULTS
from harness.faults.recording import Recording
from harness.faults.trial import Rehearsal, Trial
from harness.faults.verdicts import Judgement
from harness.sessions.cassette import load_session
from harness.sessions.sources import Factory


def rehearsal_of(path: Path, factory: Factory) -> Rehearsal:
    return Rehearsal(Recording(path.stem, load_session(path), factory))


def verdict(rehearsal: Rehearsal, code: str, step: int = 0, turn: int = 0) -> Judgement:
    return rehearsal.attempt(Trial(turn, step, FAULTS[code]), seed=1)
