"""What holds of every reply, whatever a model writes (found by Hypothesis)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agent_core.messages import Actions, FinalAnswer, FormatError, ParsedReply
from agent_core.parsing import ReplyScanner, loads_tolerant, parse_reply
from agent_core.parsing.json_document import JsonDamage
from tests.agent_core.parsing_support import (
    FINISH,
    RENDERINGS,
    TOOLS,
    arguments,
    call_of,
    quick,
    render,
    soups,
    tools,
)


def essence(parsed: ParsedReply) -> Any:
    """The decision, without message texts that quote offsets."""
    decision = parsed.decision
    if isinstance(decision, FormatError):
        return decision.code
    return json.loads(json.dumps(asdict(decision)))


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
