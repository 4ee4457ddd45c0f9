"""Defects of one line, planted one at a time in a copy of the agent: what catches them?

Usage:  python -m benchmarks.planted_defects [--only NUMBER …]

Each is given to `agentrig replay` on all sessions, then to `agentrig sweep` on four of them,
then to `agentrig lint`; the first that fails has caught it. Exit code 1 if fewer than nine in
ten are caught, or a place in the code is not found any more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SWEPT = ("fahrenheit-en", "weather-zh", "native-weather-en", "native-weather-zh-stream")
ENOUGH = 0.9


@dataclass(frozen=True, slots=True)
class Defect:
    """What is wrong, and the line of `agent_core` that makes it so."""

    about: str
    file: str
    right: str
    wrong: str


DEFECTS = (
    Defect("the last action of a reply is taken", "parsing/native.py",
           "            reply.text, tools=tools, protocol=self.protocol,",
           "            reply.text[max(0, reply.text.rfind('Action:')):], tools=tools, "
           "protocol=self.protocol,"),
    Defect("`length` is trusted in a text", "parsing/native.py",
           "            finish_reason=reply.finish_reason, language=self.language,\n"
           "        )  # fmt: skip\n\n\nEND",
           "            finish_reason='stop', language=self.language,\n"
           "        )  # fmt: skip\n\n\nEND"),
    Defect("`length` is trusted in native calls", "parsing/native.py",
           "if finish_reason in CUT:", "if False:"),
    Defect("the hint is dropped", "loop.py", "hint = decision.hint", "hint = '?'"),
    Defect("format errors never end a run", "loop.py",
           "over = self.format_errors >= limits.max_format_errors", "over = False"),
    Defect("an empty reply crashes the loop", "loop.py",
           "said = reply.text.strip()[:_RAW_REPLY_CHARS]", "said = reply.text.strip()[0]"),
    Defect("prose without a label is the answer", "loop.py",
           '(decision.labelled or agent.protocol == "native")', "True"),
    Defect("stop strings are not sent", "loop.py", "stop = () if native else STOP_STRINGS",
           "stop = ()"),
    Defect("the thought is lost from the history", "loop.py",
           "            asked.actions, thought, protocol=agent.protocol,",
           "            asked.actions, None, protocol=agent.protocol,"),
    Defect("only the last call's tokens are counted", "loop.py", "self.usage += reply.usage",
           "self.usage = reply.usage"),
    Defect("an error of the model is the answer", "loop.py",
           "return self.result(StopReason.MODEL_ERROR, error=error)",
           "return self.result(StopReason.FINAL_ANSWER, answer=str(error))"),
    Defect("the error of the model is lost", "loop.py",
           "return self.result(StopReason.MODEL_ERROR, error=error)",
           "return self.result(StopReason.MODEL_ERROR)"),
    Defect("the limit of steps is ignored", "budget.py", "if self._steps_left() <= 0:",
           "if False:"),
    Defect("repetition is not noticed", "limits.py", "if self._limits.refuse_repeat is None:",
           "if True:"),
    Defect("an action runs twice", "acting.py",
           "outcomes[number] = call(number, run.cancel)",
           "outcomes[number] = call(number, run.cancel) and call(number, run.cancel)"),
    Defect("no timeout of tools", "tools/runner.py", "if left == 0.0:", "if False:"),
    Defect("a tool's failure counts as a result", "tools/executor.py", "ok=error is None",
           "ok=True"),
    Defect("observations are not capped", "tools/executor.py",
           "capped = cut_middle(text, limit, marker)", "capped = text"),
    Defect("results escape what is not ASCII", "tools/executor.py",
           "json.dumps(value, ensure_ascii=False, allow_nan=False)",
           "json.dumps(value, allow_nan=False)"),
    Defect("a secret in a tool's exception", "tools/jsonable.py",
           "scrub(clean_text(message[: 10 * _ERROR_CHARS]))",
           "clean_text(message[: 10 * _ERROR_CHARS])"),
    Defect("a secret in a server's error", "models/failures.py", "text = scrub(", "text = str("),
    Defect("retries never end", "models/http.py", "number >= self._retry.attempts", "False"),
    Defect("an error of the server is not tried again", "models/failures.py",
           "return ServerError(what, status=status, retry_after=retry_after), True",
           "return ServerError(what, status=status, retry_after=retry_after), False"),
    Defect("a connection that breaks is an end", "models/ollama.py",
           'raise incoming.cut("ended")', "pass"),
    Defect("Retry-After is ignored", "models/policy.py",
           "backoff if asked is None else max(backoff, asked)", "backoff"),
    Defect("the context window is not sent", "models/ollama.py",
           'self._sampling = {"num_ctx": num_ctx, **(options or {})}\n'
           '        window = as_count(self._sampling["num_ctx"])',
           "self._sampling = {**(options or {})}\n        window = num_ctx"),
)  # fmt: skip


def plant(defect: Defect, package: Path) -> None:
    """Change the line in a copy of the package.

    Raises:
        LookupError: it is not there, or more than once.
    """
    path = package / defect.file
    text = path.read_text(encoding="utf-8") + "\n\nEND"
    if text.count(defect.right) != 1:
        found = text.count(defect.right)
        raise LookupError(f"{defect.file}: expected {defect.right!r} once, found it {found} times")
    text = text.replace(defect.right, defect.wrong).removesuffix("\n\nEND")
    path.write_text(text, encoding="utf-8")


def checks(threshold: float) -> dict[str, list[str]]:
    """The commands, by name, in the order they are tried."""
    swept = [str(ROOT / "cassettes" / f"{name}.yaml") for name in SWEPT]
    return {
        "replay": ["replay", str(ROOT / "cassettes")],
        "sweep": ["sweep", *swept, "--steps", "2", "--threshold", str(threshold)],
        "lint": ["lint", str(ROOT / "cassettes")],
    }


def run(arguments: list[str], package: Path) -> subprocess.CompletedProcess[str]:
    """One command on the copy."""
    return subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        cwd=package.parent, text=True, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(package.parent)},
    )  # fmt: skip


def caught_by(defect: Defect | None, threshold: float) -> tuple[str | None, str]:
    """The first command that fails, and a line of what it said; None where none does."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("agent_core", "harness"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=ignored)
        package = Path(folder) / "agent_core"
        if defect is not None:
            plant(defect, package)
        for name, arguments in checks(threshold).items():
            done = run(arguments, package)
            if done.returncode != 0:
                return name, _telling(done.stdout + done.stderr)
    return None, ""


def _telling(output: str) -> str:
    """The line that says most."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    words = ("VIOLATION", "differ", "trajectory", "decision", "recovery score", "Error")
    for word in words:
        found = next((line for line in lines if word in line), None)
        if found:
            return found
    return lines[-1] if lines else "no output"


def main() -> None:
    """Plant, run, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", type=int, nargs="*", help="numbers, from 1")
    asked = parser.parse_args()
    sound = run([*checks(0)["sweep"], "--json"], ROOT / "agent_core")
    threshold = json.loads(sound.stdout)["score"] - 0.0001
    by, why = caught_by(None, threshold)
    if by is not None:
        sys.exit(f"the agent without a defect fails {by}: {why}")
    caught = 0
    chosen = asked.only or range(1, len(DEFECTS) + 1)
    for number in chosen:
        by, why = caught_by(DEFECTS[number - 1], threshold)
        caught += by is not None
        print(
            f"{number:2} {by or 'SURVIVES':8} {DEFECTS[number - 1].about}: {why[:110]}", flush=True
        )
    print(f"{caught} of {len(chosen)} caught (sweep below {threshold:.4f} fails)")
    sys.exit(caught < ENOUGH * len(chosen))


if __name__ == "__main__":
    main()
