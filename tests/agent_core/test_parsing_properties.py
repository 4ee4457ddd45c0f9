"""What holds for every reply: properties, not cases."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_core.messages import (
    Actions,
    FinalAnswer,
    FormatError,
    ParsedReply,
    Protocol,
    ToolCall,
)
from agent_core.parsing import ReplyScanner, hint_for, loads_tolerant, parse_native, parse_reply
from agent_core.parsing.hints import _EN, _ZH
from agent_core.parsing.json_document import JsonDamage

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


def essence(parsed: ParsedReply) -> Any:
    """The decision, without message texts that quote offsets."""
    decision = parsed.decision
    if isinstance(decision, FormatError):
        return decision.code
    return json.loads(json.dumps(asdict(decision)))


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


@quick
@given(soups, FINISH, st.sampled_from([None, "react-json", "react-labels", "native"]))
@example("\ud83d", None, None)
@example('Action: add\nAction Input: {"a": NaN}', None, None)
@example('Action: add\nAction Input: {"a": "\ud83d"}', "stop", "native")
def test_any_text_gives_a_result_that_is_json_in_utf8(
    text: str, finish: str | None, protocol: Any
) -> None:
    """Nothing raises, and nothing that is returned breaks an exporter."""
    parsed = parse_reply(text, tools=TOOLS, finish_reason=finish, protocol=protocol)
    json.dumps(asdict(parsed), ensure_ascii=False, allow_nan=False).encode("utf-8")
    if isinstance(parsed.decision, Actions):
        assert all(action.name in TOOLS for action in parsed.decision.actions)


@quick
@given(st.text(st.characters(), max_size=60), FINISH)
def test_noise_never_raises(text: str, finish: str | None) -> None:
    """Any string at all, half surrogates included."""
    parse_reply(text, tools=TOOLS, finish_reason=finish)


@quick
@given(st.sampled_from(RENDERINGS), tools, arguments, FINISH)
def test_a_clean_call_round_trips_in_every_notation(
    style: str, name: str, args: dict[str, Any], finish: str | None
) -> None:
    """Name and arguments come back byte for byte, in both languages and all notations."""
    parsed = parse_reply(render(style, name, args), tools=TOOLS, finish_reason=finish)
    if finish == "length" and style not in {"fenced", "hermes", "deepseek", "deepseek_v31"}:
        assert call_of(parsed) in {None, (name, json.dumps(args, sort_keys=True))}
    elif finish != "length":
        assert call_of(parsed) == (name, json.dumps(args, sort_keys=True))


@quick
@given(st.sampled_from(RENDERINGS), tools, arguments, st.sampled_from([None, "length"]), st.data())
def test_no_prefix_runs_a_call_that_the_whole_does_not_hold(
    style: str, name: str, args: dict[str, Any], finish: str | None, data: st.DataObject
) -> None:
    """A reply cut anywhere runs its own call or none."""
    text = render(style, name, args)
    cut = data.draw(st.integers(0, len(text)))
    parsed = parse_reply(text[:cut], tools=TOOLS, finish_reason=finish)
    assert call_of(parsed) in {None, (name, json.dumps(args, sort_keys=True))}


@quick
@given(soups, st.sampled_from([None, "length"]), st.data())
def test_prefixes_of_any_text_run_nothing_new(
    text: str, finish: str | None, data: st.DataObject
) -> None:
    """What a prefix runs, the whole runs too, or it takes back the whole text as thinking.

    A call followed by prose is refused, although the call alone would run: it may be an example.
    """
    cut = data.draw(st.integers(0, len(text)))
    early = call_of(parse_reply(text[:cut], tools=TOOLS, finish_reason=finish))
    whole = parse_reply(text, tools=TOOLS, finish_reason=None)
    if early is None or "</think>" in text or "</" in text[cut - 10 :]:
        return
    if isinstance(whole.decision, FormatError) and whole.decision.code in {
        "no_decision", "unsafe", "unclosed_thinking",
    }:  # fmt: skip
        return
    assert call_of(whole) == early


@quick
@given(st.sampled_from(RENDERINGS), tools, arguments, st.sampled_from(["", " ", "\n", "\nx", "}"]))
def test_the_short_way_of_clean_replies_is_no_other_way(
    style: str, name: str, args: dict[str, Any], tail: str
) -> None:
    """Clean replies are read on a short way; an unheard-of finish reason takes the long one."""
    text = render(style, name, args, "because of rain") + tail
    short = parse_reply(text, tools=TOOLS, finish_reason=None)
    assert short == parse_reply(text, tools=TOOLS, finish_reason="content_filter")
    damaged = text.replace('"', "'")
    short = parse_reply(damaged, tools=TOOLS, finish_reason=None)
    assert short == parse_reply(damaged, tools=TOOLS, finish_reason="content_filter")


@quick
@given(
    st.sampled_from(["", "Thought: look\n", "思考：因为下雨\n"]),
    st.sampled_from([
        "Final Answer: @", "最终答案：@", 'Action: {"name": "add", "parameters": {"a": "@"}}',
    ]),
    st.text("Final Answer:\n{}\"'<`*.,，（)]&\u200b观察 not4", max_size=20),
)  # fmt: skip
def test_the_short_way_of_answers_and_objects_is_no_other_way(
    thought: str, shape: str, said: str
) -> None:
    """What stands in an answer or an object is read as on the long way, whatever it is."""
    text = thought + shape.replace("@", said)
    short = parse_reply(text, tools=TOOLS, finish_reason=None)
    assert short == parse_reply(text, tools=TOOLS, finish_reason="content_filter")


@quick
@given(soups, st.data())
def test_any_split_into_chunks_gives_the_whole(text: str, data: st.DataObject) -> None:
    """Chunks make no difference, and what was complete stays decided."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    finish = data.draw(FINISH)
    scanner = ReplyScanner(tools=TOOLS)
    settled: Any = None
    start = 0
    for cut in [*cuts, len(text)]:
        scanner.feed(text[start:cut])
        start = cut
        if scanner.complete and settled is None:
            settled = essence(scanner.finish(None))
    whole = parse_reply(text, tools=TOOLS, finish_reason=finish)
    assert essence(scanner.finish(finish)) == essence(whole)
    assert settled is None or settled == essence(whole) or "\ufffd" in json.dumps(settled)


@quick
@given(
    st.sampled_from(RENDERINGS), tools, arguments,
    st.sampled_from(["Observation: ", "观察：", "观察结果：", "\nObservation:\n"]), soups, FINISH,
)  # fmt: skip
def test_text_after_an_observation_changes_nothing(
    style: str, name: str, args: dict[str, Any], label: str, tail: str, finish: str | None
) -> None:
    """The first action runs, whatever is invented after it."""
    tail = tail.replace("\ud83d", "")
    parsed = parse_reply(
        f"{render(style, name, args)}\n{label}{tail}", tools=TOOLS, finish_reason=finish
    )
    assert call_of(parsed) == (name, json.dumps(args, sort_keys=True))
    assert parsed.ignored


@quick
@given(st.sampled_from(RENDERINGS), st.sampled_from(RENDERINGS), tools)
def test_a_call_inside_an_argument_stays_a_string(outer: str, inner: str, name: str) -> None:
    """A reply that carries a reply as a value runs the outer call only."""
    args = {"text": render(inner, "delete_file", {"path": "/srv"})}
    parsed = parse_reply(render(outer, name, args), tools=TOOLS)
    assert call_of(parsed) == (name, json.dumps(args, sort_keys=True))


@quick
@given(st.sampled_from(RENDERINGS), FINISH, st.booleans())
def test_a_call_inside_thinking_never_runs(style: str, finish: str | None, closed: bool) -> None:
    """Neither in a closed block nor in one that is never closed."""
    call = render(style, "delete_file", {"path": "/srv"})
    tail = "</think>\nFinal Answer: kept" if closed else ""
    parsed = parse_reply(f"<think>\n{call}\n{tail}", tools=TOOLS, finish_reason=finish)
    if closed:
        assert parsed.decision == FinalAnswer("kept")
    else:
        assert isinstance(parsed.decision, FormatError)
        assert parsed.decision.code == "unclosed_thinking"


@quick
@given(st.sampled_from(RENDERINGS), FINISH)
def test_a_call_in_a_fence_between_prose_never_runs(style: str, finish: str | None) -> None:
    """An example in a fence is not a call."""
    call = render(style, "delete_file", {"path": "/srv"}).replace("```json", "").replace("```", "")
    text = f"You could write:\n```\n{call}\n```\nShall I?"
    parsed = parse_reply(text, tools=TOOLS, finish_reason=finish)
    assert not isinstance(parsed.decision, Actions)


@quick
@given(arguments)
def test_strict_json_is_read_without_a_repair(args: dict[str, Any]) -> None:
    """The tolerant reader and `json.loads` agree on what is JSON."""
    text = json.dumps(args)
    read = loads_tolerant(text)
    if ":\\" not in text:
        assert read.repairs == ()
    assert read.value == args


@quick
@given(arguments)
def test_python_reprs_are_read_back(args: dict[str, Any]) -> None:
    """A dict as Python prints it is mended to the same value, or refused; never to another."""
    try:
        value = loads_tolerant(repr(args)).value
    except JsonDamage:
        return
    assert value == args


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
             "I see <tool_response>ok</tool_response>"]
)  # fmt: skip
@pytest.mark.parametrize("call", ["{}", "<tool_call>{}</tool_call>"])
def test_no_call_runs_after_an_observation_in_prose(
    protocol: Protocol | None, seen: str, call: str
) -> None:
    """Where prose is the answer, an observation in it is still made up."""
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
