"""The command line and pytest, run as a user does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from harness.cli import main


def agentrig(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(each) for each in arguments])


def run_pytest(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run pytest with the plugins that are installed: its exit code and its output."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder, capture_output=True, encoding="utf-8", timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr
