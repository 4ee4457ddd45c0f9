"""What the executor says to the model, in both languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from agent_core.messages import Language


@dataclass(frozen=True, slots=True)
class ExecutorTexts:
    """Short, and each says what to do next. Fields named like a failure kind tell of it."""

    available: str
    did_you_mean: str
    none: str
    unknown_tool: str
    invalid_arguments: str
    not_approved: str
    timeout: str
    cancelled: str
    exception: str
    tool_error: str
    no_output: str
    cut: str


TEXTS: Mapping[Language, ExecutorTexts] = MappingProxyType({
    "en": ExecutorTexts(
        available="Available tools: {names}.",
        did_you_mean=" Did you mean {name!r}?",
        none="none",
        unknown_tool="Error: there is no tool {name!r}. {message}",
        invalid_arguments=(
            "Error: the arguments of {name} are not valid; it was not run. "
            "Correct them and call it again.\n{message}"
        ),
        not_approved="Error: {name} was not run, because the call was not approved. {message}",
        timeout="Error: {name} did not return in time and was given up.",
        cancelled="Error: {name} was given up, because the run was cancelled.",
        exception="Error: {name} failed with {type}: {message}",
        tool_error="Error: {message}",
        no_output="(no output)",
        cut=" … [truncated: head and tail of {total} characters] … ",
    ),
    "zh": ExecutorTexts(
        available="可用工具：{names}。",
        did_you_mean="是否想用 {name!r}？",
        none="无",
        unknown_tool="错误：没有名为 {name!r} 的工具。{message}",
        invalid_arguments="错误：{name} 的参数无效，未执行。请改正后重新调用。\n{message}",
        not_approved="错误：{name} 的调用未获批准，未执行。{message}",
        timeout="错误：{name} 没有按时返回，已放弃。",
        cancelled="错误：运行被取消，已放弃 {name}。",
        exception="错误：{name} 执行失败，{type}：{message}",
        tool_error="错误：{message}",
        no_output="（无输出）",
        cut=" …… 【已截断：共 {total} 个字符，仅保留首尾】 …… ",
    ),
})
