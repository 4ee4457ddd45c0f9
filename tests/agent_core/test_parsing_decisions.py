"""What a reply is taken for: native calls, cut calls, hints, reasons, the end of reading."""

from __future__ import annotations

from typing import Any

import pytest

from agent_core.messages import Actions, FinalAnswer, FormatError, Protocol, ToolCall
from agent_core.parsing import ReplyScanner, hint_for, parse_native, parse_reply
from agent_core.parsing.hints import _EN, _ZH
from tests.agent_core.parsing_support import TOOLS, call_of, render


@pytest.mark.parametrize("calls", [
    [ToolCall("a", "add", {"a": 1}), ToolCall("b", "get_weather", {"city": "x"})],
    [ToolCall("a", "add", '{"a": 1}'), ToolCall("b", "get_weather", '"{\\"city\\": \\"x\\"}"')],
    [ToolCall("a", "add", "{'a': 1,}"), ToolCall("b", "get_weather", '{city: "x"}')],
])  # fmt: skip
def test_native_calls_are_read_in_order(calls: list[ToolCall]) -> None:
    """Objects, JSON text, text encoded twice and damaged text all become arguments."""
    parsed = parse_native(calls, tools=TOOLS, finish_reason="stop")
    assert isinstance(parsed.decision, Actions)
    assert [(a.id, a.name, a.arguments) for a in parsed.decision.actions] == [
        ("a", "add", {"a": 1}), ("b", "get_weather", {"city": "x"}),
    ]  # fmt: skip


@pytest.mark.parametrize(("call", "finish", "code"), [
    (ToolCall("a", "drop", {}), "stop", "unknown_tool"),
    (ToolCall("a", "", {}), "stop", "bad_name"),
    (ToolCall("a", "add", {"a": 1}), "length", "truncated"),
    (ToolCall("a", "add", [1]), "stop", "bad_arguments"),
    (ToolCall("a", "add", '{"a": 1'), "length", "truncated"),
    (ToolCall("a", "add", '{"a": "x'), "stop", "truncated"),
    (ToolCall("a", "add", {"a": float("nan")}), "stop", "unsafe"),
    (ToolCall("a", "add", {"a": "\ud83d"}), "stop", "unsafe"),
    (ToolCall("a", "add", {"properties": {"a": {"type": "number"}}}), "stop", "bad_arguments"),
])  # fmt: skip
def test_a_native_call_that_cannot_be_used_is_a_typed_error(
    call: ToolCall, finish: str, code: str
) -> None:
    """One bad call refuses the reply; the hint is in the run's language."""
    parsed = parse_native([call], tools=TOOLS, finish_reason=finish, language="zh")
    assert isinstance(parsed.decision, FormatError)
    assert parsed.decision.code == code
    assert "请" in parsed.decision.hint


@pytest.mark.parametrize("finish", [None, "length"])
def test_native_arguments_without_their_closers_run_only_in_a_whole_reply(
    finish: str | None,
) -> None:
    """Closers are added where the server said that the reply is whole, and nowhere else."""
    call = ToolCall("1", "add", '{"a": "x"')
    cut = parse_native([call], tools=["add"], finish_reason=finish)
    assert isinstance(cut.decision, FormatError)
    assert cut.decision.code == "truncated"
    for whole in ("stop", "tool_calls"):
        assert call_of(parse_native([call], tools=["add"], finish_reason=whole)) is not None


@pytest.mark.parametrize("protocol", [None, "native", "react-json"])
@pytest.mark.parametrize(
    "seen", ["Observation: ok", "观察：好", "<tool_response>ok</tool_response>",
             "I see <tool_response>ok</tool_response>", "User: add it", "用户：加上", "Final Answer: 1",
             "最终答案：1"]
)  # fmt: skip
@pytest.mark.parametrize(
    "call",
    ["{}", "<tool_call>{}</tool_call>", "Action: {}", 'Action: add\nAction Input: {"a": 1}',
     '行动：add\n行动输入：{"a": 1}', "Thought: so\nAction: {}"],
)  # fmt: skip
def test_no_call_runs_after_an_observation_a_turn_or_the_answer_in_prose(
    protocol: Protocol | None, seen: str, call: str
) -> None:
    """Where prose is the answer, what another would say in it is still made up."""
    call = call.replace("{}", '{"name": "add", "arguments": {"a": 1}}')
    parsed = parse_reply(
        f"I asked.\n{seen}\n{call}", tools=["add"], protocol=protocol, finish_reason="stop"
    )
    assert call_of(parsed) is None


def test_a_call_without_its_required_input_is_a_typed_error() -> None:
    """The hint says what is missing; a tool that needs nothing runs."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = {"sky": schema, "tide": {"type": "object", "properties": {}}}
    for label, empty in (("Action", ""), ("动作", "\n动作输入：无"), ("Action", "\nAction Input:")):
        missing = parse_reply(f"{label}: sky{empty}", tools=tools, finish_reason="stop").decision
        assert isinstance(missing, FormatError)
        assert missing.code == "bad_arguments"
        assert "city" in missing.hint
        assert call_of(parse_reply(f"{label}: tide{empty}", tools=tools, finish_reason="stop"))


def test_native_text_without_calls_is_the_answer() -> None:
    """Prose is the answer; a reply that is wholly one call is that call."""
    prose = parse_native([], "It is sunny.", tools=TOOLS, finish_reason="stop")
    assert prose.decision == FinalAnswer("It is sunny.", labelled=False)
    call = parse_native([], render("fenced", "add", {"a": 1}), tools=TOOLS, finish_reason="stop")
    assert call_of(call) == ("add", '{"a": 1}')


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("protocol", ["react-json", "react-labels", "native", None])
@pytest.mark.parametrize("code", sorted(_EN))
def test_every_hint_is_short_and_shows_what_to_write(
    language: Any, protocol: Any, code: Any
) -> None:
    """A small model gets the shape to copy, in the run's language and protocol."""
    hint = hint_for(code, language=language, protocol=protocol, tools=TOOLS)
    assert len(hint) < 400
    assert "{" not in hint.replace('{"', "").replace('{"name"', "")
    if protocol == "react-json":
        assert ("行动：" if language == "zh" else "Action: ") in hint
    if protocol == "react-labels":
        assert ("行动输入：" if language == "zh" else "Action Input: ") in hint
    if code == "unknown_tool":
        assert "get_weather, add, delete_file" in hint
    assert set(_EN) == set(_ZH)


def test_plain_text_fills_the_only_required_string() -> None:
    """Words as the input are accepted where the schema leaves no doubt."""
    schema = {
        "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"],
    }  # fmt: skip
    text = "Action: search\nAction Input: ferry times"
    parsed = parse_reply(text, tools={"search": schema}, finish_reason="stop")
    assert call_of(parsed) == ("search", '{"query": "ferry times"}')
    assert [repair.kind for repair in parsed.repairs] == ["plain_input"]
    cut = parse_reply(text, tools={"search": schema}, finish_reason="length")
    assert isinstance(cut.decision, FormatError)


def test_a_reason_is_taken_out_of_the_thought() -> None:
    """The reason follows "because" or 因为, in one sentence."""
    english = parse_reply("Thought: I look, because it may rain. Then I go.\nAction: list_files {}",
                          tools=TOOLS)  # fmt: skip
    assert english.reason == "it may rain"
    chinese = parse_reply("思考：先查天气，因为可能下雨。\n动作：list_files {}", tools=TOOLS)
    assert chinese.reason == "可能下雨"


def test_a_call_cut_by_length_runs_only_when_text_follows() -> None:
    """At the very end nothing proves that the call was meant to end there."""
    call = render("labels_en", "add", {"a": 1})
    at_end = parse_reply(call, tools=TOOLS, finish_reason="length")
    assert isinstance(at_end.decision, FormatError)
    assert at_end.decision.code == "truncated"
    goes_on = parse_reply(
        f"{call}\nObservation: 2\nThought: so", tools=TOOLS, finish_reason="length"
    )
    assert call_of(goes_on) == ("add", '{"a": 1}')


@pytest.mark.parametrize(
    "text",
    [
        'Action: add\nAction Input: {"a" "x"}',
        'Action: {"name": "add", "parameters": {"a": "x, ...}}',
    ],
)
def test_a_reply_that_was_whole_is_not_told_that_it_was_cut(text: str) -> None:
    """JSON that lacks a quote ends inside a string; to write less would mend nothing."""
    hints = []
    for finish in ("length", None, "stop"):
        decision = parse_reply(text, tools=TOOLS, finish_reason=finish).decision
        assert isinstance(decision, FormatError)
        hints.append(decision.hint)
    assert hints[0] == hints[1]
    assert "cut off" in hints[0]
    assert "cut off" not in hints[2]
    assert "double quotes" in hints[2]
    call = ToolCall("a", "add", '{"a": "x, ...}')
    native = parse_native([call], tools=TOOLS, finish_reason="tool_calls", language="en").decision
    assert isinstance(native, FormatError)
    assert "double quotes" in native.hint


@pytest.mark.parametrize(("indent", "quoted"), [(0, False), (3, False), (4, True), (9, True)])
def test_a_label_four_columns_further_in_is_quoted(indent: int, quoted: bool) -> None:
    """As in Markdown: an answer may show a log; nearer to the margin an observation ends it."""
    text = f"Final Answer: the log says\n{' ' * indent}Observation: 5\nand more"
    decision = parse_reply(text, tools=TOOLS, finish_reason="stop").decision
    assert isinstance(decision, FinalAnswer)
    assert decision.text.endswith("and more") == quoted
    assert ("Observation" in decision.text) == quoted


@pytest.mark.parametrize("length", range(4, len("Observation")))
def test_half_a_stop_string_is_no_part_of_an_answer(length: int) -> None:
    """A server that stops inside the label may have let its first letters through."""
    text = f"Final Answer: 5\n{'Observation'[:length]}"
    decision = parse_reply(text, tools=TOOLS, finish_reason="stop").decision
    assert isinstance(decision, FinalAnswer)
    assert decision.text == "5"


def test_a_scanner_says_when_reading_may_stop() -> None:
    """Complete at the label after a closed action, and not before."""
    scanner = ReplyScanner(tools=TOOLS)
    for piece in ("Action: add\nAction ", 'Input: {"a"', ": 1}", "\nObserva"):
        scanner.feed(piece)
        assert not scanner.complete
    scanner.feed("tion: ")
    assert scanner.complete
    assert call_of(scanner.finish(None)) == ("add", '{"a": 1}')


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 5_000])
def test_a_long_reply_is_complete_soon_after_the_label(size: int) -> None:
    """However the chunks fall, reading can stop within a few chunks of the label's colon."""
    text = (
        "Thought: a long thought, because of x.\n" * 20
        + render("labels_en", "add", {"a": 1, "b": "y" * 500})
        + "\nObservation: "
    )
    scanner = ReplyScanner(tools=TOOLS)
    whole = text + "an invented result that runs on and on. " * 50
    for start in range(0, len(whole), size):
        scanner.feed(whole[start : start + size])
        if scanner.complete:
            break
    assert scanner.complete
    assert start < len(text) + size


def test_a_reply_over_the_size_limit_is_refused() -> None:
    """The limit is a parameter, and the refusal is typed."""
    parsed = parse_reply("x" * 11, tools=TOOLS, max_chars=10)
    assert isinstance(parsed.decision, FormatError)
    assert parsed.decision.code == "too_large"
