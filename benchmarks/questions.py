"""The 24 fixed questions, asked of a real model in each protocol.

Usage:  python -m benchmarks.questions --model qwen2.5-coder:1.5b [--protocol react-json …]
        [--transcripts FOLDER] [--json FILE]

Needs an Ollama server. The answers of the demo tools are fixed (harness/demo/world.json), so
that an answer is right when it matches one of the question's patterns.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from agent_core.messages import RunResult
from agent_core.models import OllamaChat
from harness.demo.agents import assistant
from harness.demo.world import world_clock

QUESTIONS = Path(__file__).parent / "data" / "agent_questions.jsonl"
PROTOCOLS = ("react-json", "react-labels", "native")


def load_questions() -> list[dict[str, Any]]:
    """Read the questions, their language and the patterns of a right answer."""
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def is_right(question: dict[str, Any], answer: str | None) -> bool:
    """Whether any of the patterns matches."""
    patterns = question["answer_matches_any"]
    return answer is not None and any(re.search(each, answer, re.DOTALL) for each in patterns)


def transcript(question: dict[str, Any], result: RunResult) -> str:
    """The whole conversation, as the model saw it."""
    head = f"{question['id']} {question['question']}  ->  {result.stop_reason}: {result.answer!r}"
    lines = [head, "=" * len(head)]
    for message in result.messages[1:]:
        calls = "".join(f"\n  call {call.name}({call.arguments})" for call in message.tool_calls)
        lines.append(f"[{message.role}] {message.content}{calls}")
    lines += [f"reply {step.index}: {step.reply.text!r}" for step in result.steps]
    return "\n".join(lines) + "\n"


def ask_all(args: argparse.Namespace, protocol: str) -> list[dict[str, Any]]:
    """Ask every question once."""
    rows = []
    for question in load_questions():
        if args.only and question["id"] not in args.only:
            continue
        model = OllamaChat(
            args.model,
            base_url=args.base_url,
            options={"temperature": 0, "seed": 0, "num_predict": 400, **dict(args.option)},
            stream=True,
        )
        agent = assistant(
            model, clock=world_clock(), language=question["language"], protocol=protocol
        )
        began = time.monotonic()
        result = agent.run(question["question"])
        row = {
            "id": question["id"],
            "protocol": protocol,
            "right": is_right(question, result.answer),
            "stop_reason": str(result.stop_reason),
            "steps": len(result.steps),
            "seconds": round(time.monotonic() - began, 1),
            "answer": result.answer,
        }
        rows.append(row)
        mark = "right" if row["right"] else "WRONG"
        print(
            f"{protocol:12} {row['id']} {mark} {row['stop_reason']:15} {row['steps']:2} steps "
            f"{row['seconds']:6.1f} s  {(result.answer or '')[:70]!r}",
            flush=True,
        )
        if args.transcripts:
            folder = Path(args.transcripts) / protocol
            folder.mkdir(parents=True, exist_ok=True)
            text = transcript(question, result)
            (folder / f"{row['id']}.txt").write_text(text, encoding="utf-8")
    return rows


def option(text: str) -> tuple[str, Any]:
    """Read `key=value`; the value is JSON."""
    key, _, value = text.partition("=")
    return key, json.loads(value)


def main() -> None:
    """Ask, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url", default=None)
    parser.add_argument("-o", "--option", action="append", default=[], type=option)
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS)
    parser.add_argument("--only", action="append", help="id of a question; may be repeated")
    parser.add_argument("--transcripts", help="folder for the conversations")
    parser.add_argument("--json", help="file for the rows")
    args = parser.parse_args()
    rows = [row for each in args.protocol or PROTOCOLS for row in ask_all(args, each)]
    for protocol in args.protocol or PROTOCOLS:
        mine = [row for row in rows if row["protocol"] == protocol]
        right = sum(row["right"] for row in mine)
        reasons = Counter(row["stop_reason"] for row in mine)
        print(f"{protocol:12} {right}/{len(mine)} right, stop reasons {dict(reasons)}")
    if args.json:
        text = json.dumps(rows, ensure_ascii=False, indent=1)
        Path(args.json).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
