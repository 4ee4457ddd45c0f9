"""What differs between two requests, part by part."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

from agent_core.messages import JsonObject
from agent_core.prompts import STOP_STRINGS
from harness.sessions.exchange import canonical_json, json_body
from harness.sessions.format import ToolDefinition
from harness.sessions.parts import Parts, Said
from harness.sessions.paths import changed_paths
from harness.sessions.styles import (
    Style,
    asked_schema,
    plain_message,
    plain_system,
    style_of,
)
from harness.sessions.volatile import changed_lines, changed_texts

Kind = Literal[
    "body", "description", "history", "message", "model", "option", "order", "protocol", "schema",
    "style", "system", "tool", "tool_text", "url",
]  # fmt: skip

LANGUAGE = "language of the prompts"
ANSWER_SCHEMA = "answer schema"

_FORMATS = frozenset({"format", "response_format"})  # of Ollama and of OpenAI


@dataclass(frozen=True, slots=True)
class Difference:
    """One part that is not what it was.

    Attributes:
        part: its name in words, e.g. "description of tool `get_weather`".
        tool: the tool it is about, if any.
        before, after: the part, or the lines of it that differ; None where it was not there.
    """

    kind: Kind
    part: str
    before: str | None
    after: str | None
    tool: str | None = None


def compare_parts(old: Parts, new: Parts, tools: Sequence[ToolDefinition] = ()) -> list[Difference]:
    """Every difference between what was recorded and what was sent.

    Args:
        tools: definitions, old and new, that the system texts may describe.
    """
    found = [*_changed("url", "address", old.url, new.url)]
    was, now = style_of(old.system), style_of(new.system)
    if was is not None and now is not None and was != now:
        found += _changed("style", "protocol of the prompts", was.protocol, now.protocol)
        found += _changed("style", LANGUAGE, was.language, now.language)
        if tools_moved(found):
            old, new = _without_tools(old, tools), _without_tools(new, tools)
        old, new = _in_plain_style(old, was), _in_plain_style(new, now)
    found += _compare_bodies(old.body, new.body)
    found += _changed("model", "model", old.model, new.model)
    for key in [*old.options, *(each for each in new.options if each not in old.options)]:
        found += _compare_options(key, old.options.get(key), new.options.get(key))
    found += compare_tools(old.tools, new.tools)
    found += _compare_system(old.system, new.system, tools)
    found += _compare_messages(old.messages, new.messages)
    return found


def tools_moved(differences: Sequence[Difference]) -> bool:
    """Whether the tools stand in the system text on one side and in the body on the other."""
    return any(
        each.kind == "style" and "native" in {each.before, each.after} for each in differences
    )


def compare_tools(old: Sequence[ToolDefinition], new: Sequence[ToolDefinition]) -> list[Difference]:
    """What changed in the tools: each description, each schema, the list, its order."""
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    found: list[Difference] = []
    for name, was in before.items():
        if name not in after:
            found.append(Difference("tool", f"tool `{name}` is gone", was.description, None, name))
            continue
        now = after[name]
        found += _changed(
            "description", f"description of tool `{name}`", was.description, now.description, name
        )
        places = changed_paths(was.parameters, now.parameters)
        found += _changed("schema", f"schema of tool `{name}`", *places, name)
    for name, now in after.items():
        if name not in before:
            found.append(Difference("tool", f"tool `{name}` is new", None, now.description, name))
    return [*found, *_reordered(before, after)]


def _without_tools(parts: Parts, tools: Sequence[ToolDefinition]) -> Parts:
    """A request that says nothing of its tools, nor where a call in its text would end."""
    system, _ = _split_system(parts.system, tools)
    return replace(parts, system=system, tools=(), options=_without_labels(parts.options))


def _without_labels(options: Mapping[str, str]) -> dict[str, str]:
    """Options without the labels that a protocol stops at; what else is in `stop` stays."""
    rest = {key: each for key, each in options.items() if key != "stop"}
    stops = json_body(options.get("stop", "").encode(errors="replace"))
    stops = [stops] if isinstance(stops, str) else stops
    if isinstance(stops, list):
        stops = [each for each in stops if each not in STOP_STRINGS]
    return {**rest, "stop": canonical_json(stops)} if stops else rest


def _in_plain_style(parts: Parts, style: Style) -> Parts:
    spoken = tuple(map(plain_message, parts.spoken))
    return replace(parts, system=plain_system(parts.system, style), spoken=spoken)


def _changed(
    kind: Kind, part: str, before: str | None, after: str | None, tool: str | None = None
) -> list[Difference]:
    return [] if before == after else [Difference(kind, part, before, after, tool)]


def _reordered(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """The tools of both sides, by name, where their order is another one."""
    before, after = [name for name in old if name in new], [name for name in new if name in old]
    return _changed("order", "order of the tools", ", ".join(before), ", ".join(after))


def _compare_options(key: str, old: str | None, new: str | None) -> Iterator[Difference]:
    """An option, but for the schema of the answer in it, which is a part of its own."""
    (was, old), (now, new) = _without_schema(key, old), _without_schema(key, new)
    yield from _changed("option", f"option `{key}`", old, new)
    if was is not None and now is not None:
        yield from _changed("schema", ANSWER_SCHEMA, *changed_paths(was, now))


def _without_schema(key: str, option: str | None) -> tuple[JsonObject | None, str | None]:
    """The schema that an option holds, and the option without it."""
    value = json_body(option.encode()) if option is not None and key in _FORMATS else None
    if not isinstance(value, dict):
        return None, option
    if key == "format":
        return value, "a schema"
    wrapped = value.get("json_schema")
    schema = wrapped.get("schema") if isinstance(wrapped, dict) else None
    if not isinstance(wrapped, dict) or not isinstance(schema, dict):
        return None, option
    return schema, canonical_json({**value, "json_schema": {**wrapped, "schema": {}}})


def _compare_bodies(old: str | None, new: str | None) -> Iterator[Difference]:
    """What differs in requests that are no chat; in JSON by its place."""
    was, now = json_body((old or "").encode()), json_body((new or "").encode())
    if isinstance(was, dict) and isinstance(now, dict):
        old, new = changed_paths(was, now)
    yield from _changed("body", "body", old, new)


def _compare_system(old: str, new: str, tools: Sequence[ToolDefinition]) -> Iterator[Difference]:
    if old == new:
        return
    old_text, old_blocks = _split_system(old, tools)
    new_text, new_blocks = _split_system(new, tools)
    for name in dict.fromkeys([*old_blocks, *new_blocks]):
        before, after = old_blocks.get(name), new_blocks.get(name)
        yield from _changed("tool_text", f"system text on tool `{name}`", before, after, name)
    for before, after in changed_lines(old_text, new_text):
        yield Difference("system", "system text", before, after)
    yield from _reordered(old_blocks, new_blocks)


def _split_system(text: str, tools: Sequence[ToolDefinition]) -> tuple[str, dict[str, str]]:
    """The lines about each tool, apart from the rest.

    A tool is described by a line that begins with its name, a bullet before it or not, and by
    the lines below, to the next tool or the next empty line.
    """
    described = sorted({each.description for each in tools}, key=len, reverse=True)
    for description in described:  # one of several paragraphs stays one block
        if "\n" in description:
            text = text.replace(description, " ".join(description.split()))
    names = "|".join(sorted({re.escape(each.name) for each in tools}, key=len, reverse=True))
    if not names:
        return text, {}
    begins = re.compile(rf"[ \t]*[-*•\d.)]*[ \t]*[`*\"]*(?P<name>{names})[`*\"]*[ \t]*[:：(—-]")
    rest: list[str] = []
    blocks: dict[str, str] = {}
    current: str | None = None
    for line in text.splitlines():
        start = begins.match(line)
        if start is not None and start["name"] not in blocks:
            current = start["name"]
            blocks[current] = line
        elif current is not None and line.strip():
            blocks[current] += f"\n{line}"
        else:
            current = None
            rest.append(line)
    return "\n".join(rest), blocks


def _compare_messages(old: Sequence[Said], new: Sequence[Said]) -> Iterator[Difference]:
    start = common_start(old, new)
    end = common_start(old[start:][::-1], new[start:][::-1])
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    blocks: Sequence[tuple[str, int, int, int, int]]
    if [each.role for each in before] == [each.role for each in after]:
        blocks = [("replace", 0, len(before), 0, len(after))] if before else []
    else:
        blocks = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for tag, a, b, c, d in blocks:
        gone, come = before[a:b], after[c:d]
        if tag == "equal":
            continue
        if [each.role for each in gone] != [each.role for each in come]:
            yield Difference("history", "messages of the history", _listed(gone), _listed(come))
            was_asked, now_asked = _asked(gone), _asked(come)
            if was_asked is not None and now_asked is not None:
                yield from _changed("message", "question", was_asked, now_asked)
            continue
        for was, now in zip(gone, come, strict=True):
            schemas = asked_schema(was.text), asked_schema(now.text)
            if None not in schemas:
                yield from _changed("schema", ANSWER_SCHEMA, *changed_paths(*schemas))
                continue
            label = now.label if was.label.endswith(" message") else was.label
            for before_after in changed_texts(was.text, now.text):
                yield Difference("message", label, *before_after)


def _asked(messages: Sequence[Said]) -> str | None:
    """The last question, without the summary of what was left out below it."""
    questions = [each.text for each in messages if each.label == "question"]
    return questions[-1].partition("\n\n")[0] if questions else None


def _listed(messages: Sequence[Said]) -> str:
    return "\n".join(f"{each.label}: {each.text}" for each in messages)


def common_start(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many of their first items are equal."""
    length = min(len(one), len(other))
    return next((i for i in range(length) if one[i] != other[i]), length)
