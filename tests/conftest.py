"""What holds for all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

# A shell that runs the suite in the background has it ignore Ctrl-C, and every process that a
# test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
