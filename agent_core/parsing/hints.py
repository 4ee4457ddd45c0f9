"""What the model reads after a reply that could not be used: short, and the exact shape to write.

Small models copy what they see, so each hint shows the form in the protocol of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from agent_core.messages import FormatErrorCode, Language, Protocol

_MAX_TOOLS = 20  # names listed in a hint


class _Shapes(NamedTuple):
    action: str
    labels: str
    answer: str


_SHAPES: dict[Language, _Shapes] = {
    "en": _Shapes(
        'Action: {"name": "TOOL", "parameters": {"NAME": "VALUE"}}',
        'Action: TOOL\nAction Input: {"NAME": "VALUE"}',
        "Final Answer: your answer",
    ),
    "zh": _Shapes(
        '行动：{"name": "工具名", "parameters": {"参数名": "值"}}',
        '行动：工具名\n行动输入：{"参数名": "值"}',
        "最终答案：你的回答",
    ),
}

# {action} is the shape of an action, {answer} that of an answer, {tools} the registered names.
_EN: dict[FormatErrorCode, str] = {
    "empty": "Your reply was empty. Write:\n{action}\nor:\n{answer}",
    "no_decision": "Write an action or an answer, each label at the start of its own line:\n"
                   "{action}\nor:\n{answer}",
    "truncated": "Your reply was cut off, so nothing was run. Write a short thought, then:\n"
                 "{action}",
    "bad_json": "The JSON of the action is broken. Use double quotes, close every bracket, "
                "escape quotes inside a value as \\\". Write:\n{action}",
    "bad_arguments": "The arguments must be one JSON object with real values{parameters}. "
                     "Write:\n{action}",
    "bad_name": "Name one tool: {tools}. Write:\n{action}",
    "unknown_tool": "There is no such tool. The tools are: {tools}. "
                    "Write:\n{action}\nor:\n{answer}",
    "ambiguous": "The action can be read in two ways. Give each name and value once, and double "
                 "every backslash. Write:\n{action}",
    "unsafe": "Arguments must be plain JSON values: no code, no NaN, no Infinity. Write:\n{action}",
    "unclosed_thinking": "Your thinking was never closed, so nothing was run. Think less, "
                         "close it with </think>, then write:\n{action}\nor:\n{answer}",
    "invented_observation": "Do not write Observation yourself; the result is given to you. "
                            "Write:\n{action}\nor:\n{answer}",
    "too_large": "Your reply is too large or too deeply nested. Write a smaller one:\n{action}",
}  # fmt: skip
_ZH: dict[FormatErrorCode, str] = {
    "empty": "你的回复是空的。请写：\n{action}\n或者：\n{answer}",
    "no_decision": "请写一个行动或一个回答，每个标签都放在行首：\n{action}\n或者：\n{answer}",
    "truncated": "你的回复被截断，没有执行。请把思考写短，然后写：\n{action}",
    "bad_json": "行动里的 JSON 有错误。请用双引号，括号要成对，"
                "值里面的引号写成 \\\"。请写：\n{action}",
    "bad_arguments": "参数必须是一个 JSON 对象，写真实的值{parameters}。请写：\n{action}",
    "bad_name": "请写一个工具名：{tools}。请写：\n{action}",
    "unknown_tool": "没有这个工具。可用的工具：{tools}。请写：\n{action}\n或者：\n{answer}",
    "ambiguous": "这个行动可以有两种理解。每个名称和值只写一次，反斜杠要写两个。请写：\n{action}",
    "unsafe": "参数只能是普通的 JSON 值，不能是代码、NaN 或 Infinity。请写：\n{action}",
    "unclosed_thinking": "你的思考没有结束，没有执行。请少想一些，用 </think> 结束思考，然后写："
                         "\n{action}\n或者：\n{answer}",
    "invented_observation": "不要自己写“观察”，结果会给你。请写：\n{action}\n或者：\n{answer}",
    "too_large": "你的回复太长，或者嵌套太深。请写得小一些：\n{action}",
}  # fmt: skip
_TEXTS: dict[Language, dict[FormatErrorCode, str]] = {"en": _EN, "zh": _ZH}
_NATIVE_ACTION: dict[Language, str] = {
    "en": "a call of a tool with its arguments as JSON",
    "zh": "一个工具调用，参数写成 JSON",
}
_NATIVE_ANSWER: dict[Language, str] = {"en": "your answer in plain words", "zh": "你的回答"}
_NONE: dict[Language, str] = {"en": "(none)", "zh": "（没有）"}
_PARAMETERS: dict[Language, str] = {"en": " for {names}", "zh": "：{names}"}


def hint_for(
    code: FormatErrorCode,
    *,
    language: Language,
    protocol: Protocol | None,
    tools: Iterable[str],
    tool: str | None = None,
    parameters: Iterable[str] = (),
) -> str:
    """The hint for one kind of error.

    Args:
        code: what went wrong.
        language: of the run.
        protocol: whose shape to show; None shows the JSON action.
        tools: registered names, for the errors that list them.
        tool: the tool the call was meant for, if known; it stands in the shape.
        parameters: that tool's parameters, if known.
    """
    shapes = _SHAPES[language]
    action = shapes.labels if protocol == "react-labels" else shapes.action
    if protocol == "native":
        action = _NATIVE_ACTION[language]
    elif tool is not None:
        action = action.replace("TOOL", tool).replace("工具名", tool)
    names = ", ".join(list(tools)[:_MAX_TOOLS]) or _NONE[language]
    wanted = ", ".join(parameters)
    return (
        _TEXTS[language][code]
        .replace("{action}", action)
        .replace("{answer}", _NATIVE_ANSWER[language] if protocol == "native" else shapes.answer)
        .replace("{tools}", names)
        .replace("{parameters}", _PARAMETERS[language].format(names=wanted) if wanted else "")
    )
