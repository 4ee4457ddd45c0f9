"""Clean calls in every notation, and soups of the pieces that replies are made of."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from agent_core.messages import Actions, ParsedReply

TOOLS = ("get_weather", "add", "delete_file", "list_files", "查询天气")

FINISH = st.sampled_from([None, "stop", "length"])

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.text(
    st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\"'\\{}[]:,，：“”`<>/#"),
    max_size=30,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False, width=32) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip

arguments = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True).filter(
        lambda key: key not in {"name", "properties", "arguments", "parameters"}
    ),
    values,
    max_size=4,
)

tools = st.sampled_from(TOOLS)

PIECES = (
    "Thought: x\n", "思考：查\n", "Action: get_weather\n", "动作：add\n", "Action Input: ", "动作输入：",
    '{"city": "x"}', '{"a": 1', "{'a': True,}", '"', "'", "\\", "```json\n", "```\n", "<think>",
    "</think>", "<tool_call>", "</tool_call>", "[TOOL_CALLS]", "\n", "Observation: ok\n", "观察：好\n",
    "Final Answer: yes\n", "最终答案：好\n", "> ", "    ", "<|python_tag|>", "<|im_end|>", "add(a=1)",
    '{"name": "add", "arguments": {"a": 1}}', "None", "“", "”", "｛", "｝", "：", "，", "\u200b",
    "\ufeff", "\r", "\u2028", "\ud83d", "NaN", "1e999", "//", "/*", "*/", "#", "**", "【动作】",
    "User: hi\n", "<example>\n", "</example>\n", "Action: None\n", "Action: Final Answer\n",
)  # fmt: skip

soups = st.lists(st.sampled_from(PIECES) | st.text(max_size=6), max_size=14).map("".join)


def call_of(parsed: ParsedReply) -> tuple[str, str] | None:
    """Name and canonical arguments of the call that would run."""
    if not isinstance(parsed.decision, Actions):
        return None
    action = parsed.decision.actions[0]
    return action.name, json.dumps(action.arguments, sort_keys=True)


RENDERINGS = (
    "labels_en", "labels_zh", "json_en", "json_zh", "inline", "call", "bare", "fenced", "hermes",
    "llama3", "mistral", "mistral_name", "deepseek", "deepseek_v31", "langchain",
)  # fmt: skip


def render(style: str, name: str, args: dict[str, Any], thought: str = "look") -> str:
    """A clean call in one notation."""
    text = json.dumps(args, ensure_ascii=False)
    call = json.dumps({"name": name, "arguments": args}, ensure_ascii=False)
    parameters = json.dumps({"name": name, "parameters": args}, ensure_ascii=False)
    deepseek = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
    end = "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    return {
        "labels_en": f"Thought: {thought}\nAction: {name}\nAction Input: {text}",
        "labels_zh": f"思考：{thought}\n动作：{name}\n动作输入：{text}",
        "json_en": f"Thought: {thought}\nAction: {parameters}",
        "json_zh": f"思考：{thought}\n行动：{parameters}",
        "inline": f"Action: {name} {text}",
        "call": f"Action: {name}({text})",
        "bare": call,
        "fenced": f"```json\n{call}\n```",
        "hermes": f"<tool_call>\n{call}\n</tool_call>",
        "llama3": f"<|python_tag|>{parameters}<|eom_id|>",
        "mistral": f"[TOOL_CALLS] [{call}]",
        "mistral_name": f"[TOOL_CALLS]{name}[ARGS]{text}",
        "deepseek": f"{deepseek}function<｜tool▁sep｜>{name}\n```json\n{text}\n```{end}",
        "deepseek_v31": f"{deepseek}{name}<｜tool▁sep｜>{text}{end}",
        "langchain": f"Action:\n```json\n{json.dumps({'action': name, 'action_input': args})}\n```",
    }[style]
