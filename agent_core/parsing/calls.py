"""From a JSON value to a call: which key holds the name, which the arguments, what wraps them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from agent_core.messages import JsonObject, JsonValue
from agent_core.parsing.arguments import arguments_of
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.toolset import Toolset

NAME_KEYS = (
    "name", "tool", "tool_name", "function", "function_name", "action", "action_name",
    "recipient_name",
    "工具", "工具名", "工具名称", "行动", "动作", "函数", "名称",
)  # fmt: skip
"""Keys under which the name of a tool stands in a call."""

_ARGUMENT_KEYS = (
    "arguments", "parameters", "args", "params", "input", "tool_input", "action_input",
    "tool_arguments", "tool_args", "kwargs", "参数", "输入", "行动输入", "动作输入", "工具输入",
)  # fmt: skip
_ARGUMENTS = frozenset(_ARGUMENT_KEYS)
_WRAPPERS = (
    "tool_call", "tool_calls", "function_call", "function", "action", "actions", "call", "calls",
    "tool", "tools", "tool_uses",
)  # fmt: skip
_RECORD = ("result", "output", "observation", "response", "error", "status", "结果", "观察")
_MEANT = frozenset({"tool_call", "tool_calls", "function_call"})
_BESIDE = frozenset({
    "id", "type", "index", "call_id", "tool_call_id", "thought", "thoughts", "thinking", "reason",
    "reasoning", "explanation", "comment", "思考", "理由", "原因",
})  # fmt: skip
_ANSWER_KEYS = (
    "answer", "final_answer", "response", "text", "content", "output", "result", "答案", "回答",
)  # fmt: skip
_MAX_WRAPPERS = 4


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a registered tool. `arguments` is None where the model gave none at all."""

    name: str
    arguments: JsonObject | None
    more: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer that was written like a call."""

    text: str


def call_in(value: JsonValue, tools: Toolset, log: RepairLog, at: int) -> Call | Answer | None:
    """The call that `value` is, or None where it is data.

    Raises `Refusal` for what is meant as a call and cannot be run.
    """
    found = _unwrapped(value, tools, log, at)
    if found is None and isinstance(value, dict) and not _MEANT.isdisjoint(value):
        raise Refusal("bad_name", "no call of a tool stands where one is announced")
    return found


def _unwrapped(value: JsonValue, tools: Toolset, log: RepairLog, at: int) -> Call | Answer | None:
    more = 0
    for _ in range(_MAX_WRAPPERS):
        if isinstance(value, list):
            if not value or not isinstance(value[0], dict):
                return None
            more = len(value) - 1
            value = value[0]
        if not isinstance(value, dict):
            return None
        wrapper = next((k for k in _WRAPPERS if isinstance(value.get(k), (dict, list))), None)
        named = "name" in value or not _ARGUMENTS.isdisjoint(value)
        if wrapper is None or (wrapper in NAME_KEYS and named):
            break
        if "name" in value:
            raise Refusal("ambiguous", f"a call, and another one in {wrapper!r}")
        log.add("wrapper", at, wrapper, "")
        value = value[wrapper]
    if not isinstance(value, dict):
        return None
    return _from_object(value, tools, log, at, more)


def _from_object(
    value: JsonObject, tools: Toolset, log: RepairLog, at: int, more: int
) -> Call | Answer | None:
    value = _plain_keys(value)
    name_keys = [key for key in NAME_KEYS if key in value]
    argument_keys = [key for key in _ARGUMENT_KEYS if key in value]
    if not name_keys:
        return _keyed_by_name(value, tools, log, at, more)
    name = _only(value, name_keys, "names")
    _refuse_record(value, name, tools)
    if not argument_keys:
        return _flat(value, name, name_keys, tools=tools, log=log, at=at, more=more)
    if not isinstance(name, str):
        raise Refusal("bad_name", f"expected the name of a tool, got {name!r:.80}")
    if len(argument_keys) > 1:
        log.add("duplicate_arguments", at, argument_keys[1], argument_keys[0])
    raw = _only(value, argument_keys, "arguments")
    if tools.is_final(name):
        return Answer(answer_text(raw))
    known = tools.require(name)
    if known != name:
        log.add("name", at, name, known)
    return Call(known, arguments_of(known, raw, tools, log, at), more)


def _refuse_record(value: JsonObject, name: JsonValue, tools: Toolset) -> None:
    """Refuse what tells of a call that was made: its result stands beside it, or its role."""
    record = next((key for key in _RECORD if key in value), None)
    if value.get("role") in {"tool", "function", "user", "system"}:
        record = "role"
    known = tools.find(name) if isinstance(name, str) else None
    if record and known and not tools.declares(known, record):
        raise Refusal("no_decision", f"{record!r} makes it the record of a call, not a call")


def _plain_keys(value: JsonObject) -> JsonObject:
    """The object with `Name` and `Arguments` in lower case, where that hides nothing."""
    lower = {key.lower(): item for key, item in value.items()}
    known = any(key in lower for key in NAME_KEYS) and not any(k in value for k in NAME_KEYS)
    return lower if known and len(lower) == len(value) else value


def _only(value: JsonObject, keys: list[str], what: str) -> JsonValue:
    """The value of `keys`, which have to agree."""
    first = value[keys[0]]
    for key in keys[1:]:
        if value[key] != first or repr(value[key]) != repr(first):
            raise Refusal(
                "ambiguous", f"two different {what}: {keys[0]!r} and {key!r} do not agree"
            )
    return first


def _keyed_by_name(
    value: JsonObject, tools: Toolset, log: RepairLog, at: int, more: int
) -> Call | Answer | None:
    keys = [key for key in value if key not in _BESIDE]
    if len(keys) > 1 and all(key in tools for key in keys):
        raise Refusal("ambiguous", f"several tools in one object: {keys!r:.80}")
    if len(keys) != 1:
        return None
    key = keys[0]
    if tools.is_final(key):
        return Answer(answer_text(value[key]))
    if key not in tools:
        inner = value[key]
        if isinstance(inner, dict) and inner.get("name") in tools and len(inner) > 1:
            raise Refusal("bad_name", f"a call stands inside {key!r}, where it may be an example")
        return None
    log.add("wrapper", at, key, "name")
    return Call(key, arguments_of(key, value[key], tools, log, at), more)


def _flat(
    value: JsonObject,
    name: JsonValue,
    name_keys: list[str],
    *,
    tools: Toolset,
    log: RepairLog,
    at: int,
    more: int,
) -> Call | Answer | None:
    """A name without arguments, or with the arguments beside it."""
    known = tools.find(name) if isinstance(name, str) else None
    if known is None:
        if tools.is_final(name):
            rest = {k: v for k, v in value.items() if k not in name_keys and k not in _BESIDE}
            return Answer(answer_text(rest)) if rest else None
        return None
    rest = {k: v for k, v in value.items() if k not in name_keys and k not in _BESIDE}
    if not rest:
        return Call(known, None, more)
    schema = tools.schema(known)
    declared = schema is not None and all(tools.declares(known, key) for key in rest)
    plain = schema is None and not any(isinstance(item, dict) for item in rest.values())
    if "description" in rest or not (declared or plain):
        raise Refusal(
            "bad_arguments",
            f"expected the arguments of {known} in one object, got {list(rest)!r:.80}",
            tool=known,
        )
    log.add("flat", at, ", ".join(rest), "arguments")
    return Call(known, arguments_of(known, rest, tools, log, at), more)


def answer_text(raw: JsonValue) -> str:
    """The answer in the arguments of a call of "Final Answer"."""
    if isinstance(raw, dict) and len(raw) == 1:
        key, value = next(iter(raw.items()))
        if isinstance(value, str) or key in _ANSWER_KEYS:
            raw = value
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)


def may_hold_call(arguments: JsonObject) -> bool:
    """Whether `nested_call` has to look: there is a call's key for arguments and little else."""
    return 0 < len(arguments) < 3 and not _ARGUMENTS.isdisjoint(arguments)


def nested_call(name: str, arguments: JsonObject, tools: Toolset) -> JsonObject | None:
    """The arguments inside a whole call that was given as the input of the same tool.

    Raises `Refusal` where the call is one of another tool.
    """
    if any(tools.declares(name, key) for key in arguments):
        return None
    inner = next((arguments[key] for key in _ARGUMENT_KEYS if key in arguments), None)
    named = [arguments[key] for key in NAME_KEYS if key in arguments]
    if not isinstance(inner, dict) or len(arguments) != len(named) + 1 or len(named) > 1:
        return None
    if not named:
        return inner if tools.schema(name) is not None else None
    if named == [name]:
        return inner
    if isinstance(named[0], str) and tools.find(named[0]) is not None:
        raise Refusal("ambiguous", f"the call of {name} holds one of {named[0]!r}", tool=name)
    return None
