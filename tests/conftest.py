"""What holds for all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
settings.load_profile("untimed")

# A shell that runs the suite in the background has it ignore Ctrl-C, and every process that a
# test starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What a CI runner or a terminal sets changes what pytest, rich and click print, also in the runs
# that a test starts: pytest's summary is whole where CI is set, and cut to the width elsewhere.
for name in (
    *("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "GITLAB_CI", "TF_BUILD"),
    *("NO_COLOR", "FORCE_COLOR", "PY_COLORS", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE"),
    *("COLUMNS", "LINES", "PYTEST_THEME", "TTY_INTERACTIVE"),
):
    os.environ.pop(name, None)

# Where this machine's own collector, models and proxies are is no business of a test.
for name in [*os.environ]:
    if name.startswith(("OTEL_", "OLLAMA_", "OPENAI_")) or name.lower().endswith("_proxy"):
        del os.environ[name]

# Each run of pytest that a test starts would import that plugin again (see pyproject.toml).
os.environ["PYTEST_ADDOPTS"] = "-p no:langsmith_plugin"

# Coverage is measured where the tests run. In the processes that they start it takes as much time
# again, shows next to nothing more, and those that are killed leave damaged data.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, for many tests wait; each worker imports all tests."""
    return min(8, (os.cpu_count() or 1) + 1)
