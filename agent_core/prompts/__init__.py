"""System prompts and the messages of the loop, built from the registered tools.

Text and order are stable: the same tools give the same prompt, byte for byte, so that a
server's prompt cache and a recorded session hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from agent_core.messages import Action, JsonObject, Language, Message, Protocol, ToolCall
from agent_core.prompts.texts import TEXTS, Texts
from agent_core.tools.definition import FunctionDefinition

__all__ = [
    "STOP_STRINGS",
    "TEXTS",
    "Texts",
    "action_message",
    "answer_message",
    "observation_text",
    "system_prompt",
    "tool_lines",
    "worked_example",
    "worked_turns",
]

STOP_STRINGS = ("\nObservation:", "\n观察")


def system_prompt(
    tools: Mapping[str, FunctionDefinition],
    *,
    protocol: Protocol,
    language: Language,
    examples: Sequence[str] = (),
    extra: str = "",
) -> str:
    """Build the system prompt.

    Args:
        examples: worked examples in the run's protocol and language, shown as they are.
        extra: the user's own instructions, put after ours.
    """
    texts = TEXTS[language]
    parts: list[str]
    if protocol == "native":  # the server's template describes the tools
        parts = [texts.intro_native]
    elif tools:
        how = texts.how if protocol == "react-json" else texts.how_labels
        lines = _tool_list(tools.values(), texts)
        parts = [texts.intro, "\n".join([texts.tools, *lines]), how, texts.rules]
    else:  # a small model that is shown how to act, acts
        parts = [texts.toolless]
    parts += [f"{texts.example}\n{each}" for each in examples]
    if extra:
        parts.append(extra)
    return "\n\n".join(parts)


def _tool_list(tools: Iterable[FunctionDefinition], texts: Texts) -> list[str]:
    """Tools one after another, those of a category together under its name."""
    groups: dict[str, list[str]] = {}
    for each in tools:
        groups.setdefault(each.category or "", []).append(tool_lines(each, texts))
    without = groups.pop("", [])
    return [*without, *(line for name, own in groups.items() for line in (f"{name}:", *own))]


def tool_lines(tool: FunctionDefinition, texts: Texts) -> str:
    """Describe a tool: one line for it, one for each parameter.

    Parameters stand as a list rather than as a JSON Schema, because small models echo a
    schema as if it were arguments.
    """
    lines = [f"- {tool.name}: {tool.description}"]
    properties = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or []
    for name, schema in properties.items():
        need = texts.required if name in required else texts.optional
        line = f"    {name} ({_type_of(schema)}, {need}"
        if "default" in schema:
            line += f", {texts.default} {json.dumps(schema['default'], ensure_ascii=False)}"
        line += ")"
        if schema.get("description"):
            line += f": {schema['description']}"
        lines.append(line)
    return "\n".join(lines)


def _type_of(schema: JsonObject) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, str) and kind not in {"object", "array"}:
        return kind
    shape = {key: value for key, value in schema.items() if key not in {"description", "default"}}
    return json.dumps(shape, ensure_ascii=False)


def action_message(
    actions: Sequence[Action], thought: str | None, *, protocol: Protocol, language: Language
) -> Message:
    """Say what the model asked for, as it should have said it.

    A reply that was repaired, or that ran on past its action, goes into the history in clean
    form: the model imitates its own earlier turns, and nothing it invented is kept.
    """
    if protocol == "native":
        calls = tuple(ToolCall(each.id, each.name, each.arguments) for each in actions)
        return Message("assistant", thought or "", tool_calls=calls)
    texts = TEXTS[language]
    lines = [f"{texts.thought}{texts.colon}{thought}"] if thought else []
    for each in actions:
        lines += _action_lines(each, protocol, texts)
    return Message("assistant", "\n".join(lines))


def _action_lines(action: Action, protocol: Protocol, texts: Texts) -> list[str]:
    if protocol == "react-json":
        call = {"name": action.name, "parameters": action.arguments}
        return [f"{texts.action}{texts.colon}{json.dumps(call, ensure_ascii=False)}"]
    return [
        f"{texts.action}{texts.colon}{action.name}",
        f"{texts.action_input}{texts.colon}{json.dumps(action.arguments, ensure_ascii=False)}",
    ]


def answer_message(
    text: str, thought: str | None, *, protocol: Protocol, language: Language
) -> Message:
    """Say the answer in clean form."""
    texts = TEXTS[language]
    if protocol == "native":
        return Message("assistant", text)
    lines = [f"{texts.thought}{texts.colon}{thought}"] if thought else []
    return Message("assistant", "\n".join([*lines, f"{texts.final_answer}{texts.colon}{text}"]))


def observation_text(texts_of: Sequence[str], language: Language) -> str:
    """Put results behind the observation label of a text protocol."""
    texts = TEXTS[language]
    return "\n".join(f"{texts.observation}{texts.colon}{each}" for each in texts_of)


def worked_example(
    question: str,
    steps: Sequence[tuple[str, Action, str]],
    answer: tuple[str, str],
    *,
    protocol: Protocol,
    language: Language,
) -> str:
    """Write a worked example: the question, (thought, action, observation) rounds, the answer."""
    texts = TEXTS[language]
    lines = [f"{texts.question}{texts.colon}{question}"]
    for thought, action, observation in steps:
        said = action_message([action], thought, protocol=protocol, language=language)
        lines += [said.content, observation_text([observation], language)]
    last = answer_message(answer[1], answer[0], protocol=protocol, language=language)
    return "\n".join([*lines, last.content])


def worked_turns(
    question: str, steps: Sequence[tuple[Action, str]], answer: str
) -> tuple[Message, ...]:
    """Write a worked example for native calls: an earlier turn of (action, observation) rounds."""
    turns = [Message("user", question)]
    for number, (action, observation) in enumerate(steps, start=1):
        call = ToolCall(f"example_{number}", action.name, action.arguments)
        turns.append(Message("assistant", "", tool_calls=(call,)))
        turns.append(Message("tool", observation, tool_call_id=call.id, name=call.name))
    return (*turns, Message("assistant", answer))
