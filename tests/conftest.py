"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")
