"""Replies without a truth: noise, real replies out of recordings, and mutations of either."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from agent_core.messages import JsonObject
from harness.fuzz.examples import Tools
from harness.sessions.cassette import load_session
from harness.sessions.conversion import reply_of
from harness.sessions.discovery import files_in
from harness.sessions.errors import SessionError
from harness.sessions.exchange import json_body

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


def read_seeds(
    path: Path, *, unreadable: Callable[[Path, Exception], None] | None = None
) -> tuple[Seed, ...]:
    """The replies in a vcrpy cassette or session file, or in every one below a directory.

    Understands the answers of Ollama and of OpenAI-compatible servers, streams included.

    Args:
        unreadable: told of each file of a directory that cannot be read, and why. Unless it is
            given, such a file is an error.

    Raises:
        NoReplies: there is none, or a file that is neither.
    """
    seeds: dict[str, Seed] = {}
    for file in files_in(path) if path.is_dir() else [path]:
        try:
            seeds |= {seed.text: seed for seed in _seeds_in(file)}
        except (SessionError, OSError) as error:
            if unreadable is None or file == path:
                raise NoReplies(str(error)) from error
            unreadable(file, error)
    if not seeds:
        raise NoReplies(
            f"expected vcrpy cassettes (.yaml) with replies of Ollama or an OpenAI-compatible "
            f"server, found none in {str(path)!r}"
        )
    return tuple(seeds.values())


def _seeds_in(file: Path) -> Iterator[Seed]:
    for each in load_session(file).exchanges:
        reply = reply_of(each.request, each.response)
        if reply is not None and reply.text:
            yield Seed(reply.text, _tools(json_body(each.request.body), reply.text))


_NAME = re.compile(
    r'"(?:name|action|tool)"\s*:\s*"(\w{1,60})"|^\W*(?:Action|行动|动作)\W+(\w{1,60})', re.MULTILINE
)


def _tools(asked: Any, text: str) -> dict[str, JsonObject]:
    """The tools of the request; where it names none (text protocols), those the reply names."""
    offered = asked.get("tools") if isinstance(asked, dict) else None
    tools: dict[str, JsonObject] = {}
    for each in offered if isinstance(offered, list) else ():
        function = each.get("function") if isinstance(each, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            tools[function["name"]] = function.get("parameters") or {"type": "object"}
    if not tools:
        tools = {a or b: {"type": "object"} for a, b in _NAME.findall(text)}
    return tools or {"find_ferry": {"type": "object"}}
