"""The arguments of a call: an object, JSON text of one, plain text, or nothing at all."""

from __future__ import annotations

import re

from agent_core.messages import JsonObject, JsonValue
from agent_core.parsing.json_reader import JsonReader
from agent_core.parsing.json_strings import never
from agent_core.parsing.outcome import Refusal, RepairLog, snippet
from agent_core.parsing.toolset import Toolset

_SCHEMA_KEYS = frozenset({
    "type", "properties", "required", "additionalProperties", "description", "title", "$schema",
})  # fmt: skip
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
NOTHING = frozenset({"", "none", "null", "n/a", "na", "{}", "无", "空", "没有", "無"})
_PLACEHOLDER = re.compile(
    r"[<＜][^<>＜＞\n]+[>＞]|\$\{[^{}\n]+\}|[?？]{2,}|\(?(?:tbd"
    r"|(?:to be|not yet) (?:determined|known|confirmed)|pending(?: \w+)?|cancell?ed|skipped"
    r"|待定|待确认|待批准|已?取消)\)?[.。]?",
    re.IGNORECASE,
)
_STRUCTURE = re.compile(r"\s*+\"?[{\[｛［]")


def arguments_of(
    name: str, raw: JsonValue, tools: Toolset, log: RepairLog, at: int, *, ended: bool = True
) -> JsonObject:
    """The arguments in `raw`, which a model may have encoded twice or left out.

    Text that is `ended` is known to be whole, as in a string that was closed.
    """
    if raw is None:
        log.add("no_arguments", at, "null", "{}")
        return {}
    if isinstance(raw, str):
        raw = _decoded(name, raw, tools, log, at, ended=ended)
    if not isinstance(raw, dict):
        raise Refusal(
            "bad_arguments",
            f"expected an object with the arguments of {name}, got {snippet(repr(raw))}",
            tool=name,
        )
    return _out_of_schema(name, raw, tools, log, at)


def _decoded(
    name: str, raw: str, tools: Toolset, log: RepairLog, at: int, *, ended: bool
) -> JsonValue:
    text = raw.strip()
    if text.lower() in NOTHING:
        log.add("no_arguments", at, raw, "{}")
        return {}
    if text[0] in "{｛":
        value, end = JsonReader(text, log, ended=ended, gap=never).read(0)
        if text[end:].strip():
            raise Refusal(
                "bad_arguments", f"text after the arguments of {name}: {snippet(text[end:])!r}",
                tool=name,
            )  # fmt: skip
        log.add("double_encoded", at, raw, text)
        return value
    return plain_arguments(name, raw, tools, log, at)


def plain_arguments(name: str, text: str, tools: Toolset, log: RepairLog, at: int) -> JsonObject:
    """Plain text as the only argument, where the schema leaves no doubt which one it is."""
    parameter = tools.plain_parameter(name)
    words = text.strip()
    cut = words[:1] == '"' and words.count('"') % 2
    unsaid = cut or words == parameter or _PLACEHOLDER.fullmatch(words)
    if parameter is None or unsaid or _STRUCTURE.match(text) or tools.keyed(name, text):
        raise Refusal(
            "bad_arguments",
            f"expected an object with the arguments of {name}, got {snippet(text)!r}",
            tool=name,
        )
    log.add("plain_input", at, text, parameter)
    return {parameter: text}


def _out_of_schema(
    name: str, raw: JsonObject, tools: Toolset, log: RepairLog, at: int
) -> JsonObject:
    """The values inside an echoed schema; a schema that holds none is refused."""
    properties = raw.get("properties")
    if not isinstance(properties, dict) or not raw.keys() <= _SCHEMA_KEYS:
        return raw
    if tools.declares(name, "properties"):
        return raw
    if not properties or any(_is_schema(value) for value in properties.values()):
        raise Refusal(
            "bad_arguments", f"the schema of {name} stands where its values belong", tool=name
        )
    log.add("schema_echo", at, "properties", "")
    return properties


def _is_schema(value: JsonValue) -> bool:
    return isinstance(value, dict) and (
        (isinstance(value.get("type"), str) and value["type"] in _TYPES) or "enum" in value
    )
