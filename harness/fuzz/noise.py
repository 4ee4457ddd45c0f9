"""Replies without a truth: noise, real replies out of recordings, and mutations of either."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml

from agent_core.messages import JsonObject
from harness.fuzz.examples import Tools

_PIECES = (
    " ", "\n", "\r", "\t", "\x00", "\u2028", "\u200b", "\ufeff", "\u202e", "é", "👩‍🚀",
    "\ud83d", "青屿",
    "Thought: ", "Action: ", "Action Input: ", "Observation: ", "Final Answer: ",
    "思考：", "行动：", "动作：", "行动输入：", "观察：", "最终答案：",
    "{", "}", "[", "]", "(", ")", '"', "'", ":", ",", "=", "\\", "（", "）", "：", "，", "｛",
    "｝", "“", "”",
    "null", "true", "NaN", "12", "-", ".", "1e9", "//", "/*", "*/", "**", "> ", "a", "x y",
    '"name"', '"arguments"', '"parameters"', "```", "```json\n", "<think>", "</think>",
    "<tool_call>", "</tool_call>", "<|python_tag|>", "[TOOL_CALLS]", "<｜tool▁calls▁begin｜>",
    "<｜tool▁sep｜>",
)  # fmt: skip


def noise(rng: Random, tools: Tools) -> str:
    """A heap of pieces that parsers look for."""
    pieces = (*_PIECES, *tools)
    return "".join(rng.choice(pieces) for _ in range(rng.randint(0, 40)))


def mutate(rng: Random, text: str) -> str:
    """A text with a few pieces taken out, doubled, moved, or put in."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        end = min(len(text), at + rng.choice((1, 2, 5, 20)))
        piece = text[at:end]
        change = rng.randrange(5)
        if change == 0:
            text = text[:at] + text[end:]
        elif change == 1:
            text = text[:end] + piece + text[end:]
        elif change == 2:
            text = text[:at] + rng.choice(_PIECES) + text[at:]
        elif change == 3:
            text = text[:at] + rng.choice(_PIECES) + text[end:]
        else:
            text = text[:at]
    return text


@dataclass(frozen=True, slots=True)
class Seed:
    """A real reply, with the tools it could call."""

    text: str
    tools: Tools


class NoReplies(ValueError):
    """A path that holds no recorded reply."""


def read_seeds(path: Path) -> tuple[Seed, ...]:
    """The replies in a vcrpy cassette or session file, or in every one below a directory.

    Understands the answers of Ollama and of OpenAI-compatible servers, streams included.

    Raises:
        NoReplies: there is none, or a file that is no YAML.
    """
    files = sorted(filter(Path.is_file, path.rglob("*.y*ml"))) if path.is_dir() else [path]
    seeds = {seed.text: seed for file in files for seed in _seeds_in(file)}
    if not seeds:
        raise NoReplies(
            f"expected vcrpy cassettes (.yaml) with replies of Ollama or an OpenAI-compatible "
            f"server, found none in {str(path)!r}"
        )
    return tuple(seeds.values())


def _seeds_in(file: Path) -> Iterator[Seed]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - a safe one
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NoReplies(f"{file}: expected a YAML file of plain data: {error}") from error
    interactions = data.get("interactions", ()) if isinstance(data, dict) else ()
    for each in interactions:
        asked = _json(each.get("request", {}).get("body"))
        text = "".join(_contents(each.get("response", {}).get("body", {}).get("string")))
        if text:
            yield Seed(text, _tools(asked, text))


def _contents(body: Any) -> Iterator[str]:
    """The text in a body: one JSON object, a line each, or server-sent events."""
    if isinstance(body, bytes):
        body = body.decode("utf-8", "replace")
    whole = _json(body)
    lines = [whole] if whole is not None else [
        _json(line.removeprefix("data:")) for line in str(body or "").splitlines()
    ]  # fmt: skip
    for line in lines:
        if not isinstance(line, dict):
            continue
        choice = (line.get("choices") or [{}])[0]
        message = line.get("message") or choice.get("message") or choice.get("delta") or {}
        content = message.get("content") or line.get("response")
        if isinstance(content, str):
            yield content


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        return None


_NAME = re.compile(
    r'"(?:name|action|tool)"\s*:\s*"(\w{1,60})"|^\W*(?:Action|行动|动作)\W+(\w{1,60})', re.MULTILINE
)


def _tools(asked: Any, text: str) -> dict[str, JsonObject]:
    """The tools of the request; where it names none (text protocols), those the reply names."""
    offered = asked.get("tools") if isinstance(asked, dict) else None
    tools: dict[str, JsonObject] = {}
    for each in offered or ():
        function = each.get("function", {})
        if isinstance(function.get("name"), str):
            tools[function["name"]] = function.get("parameters") or {"type": "object"}
    if not tools:
        tools = {a or b: {"type": "object"} for a, b in _NAME.findall(text)}
    return tools or {"find_ferry": {"type": "object"}}
