"""How a run ends without an answer, and what the loop does about repetition."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.errors import ServerError
from agent_core.limits import Limits, StopReason
from agent_core.messages import FinalAnswer, FormatError, Message, Reply, ToolCall, Usage
from agent_core.models import ScriptedModel
from agent_core.tools import FunctionDefinition, define
from tests.agent_core.loop_support import ANSWER, SEARCH, run, search


class TestEndings:
    """Every other way in which a run ends, with the partial trace."""

    def test_max_steps(self) -> None:
        """The model is asked as often as allowed, and no more."""
        model = ScriptedModel([SEARCH % each for each in "abcdef"])
        result = Agent(model, [search], limits=Limits(max_steps=4)).run("q")
        assert result.stop_reason is StopReason.MAX_STEPS
        assert len(model.requests) == len(result.steps) == 4

    def test_time_limit(self) -> None:
        """Time that a tool takes counts."""
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))

        def slow() -> str:
            """Take a minute."""
            clock.advance(60)
            return "ok"

        result = run(
            'Action: {"name": "slow", "parameters": {}}',
            ANSWER,
            tools=[slow],
            clock=clock,
            limits=Limits(time_limit=30),
        )
        assert result.stop_reason is StopReason.TIME_LIMIT
        assert len(result.steps) == 1

    def test_token_limit(self) -> None:
        """Prompt and completion tokens are summed over the run."""
        replies = [Reply(SEARCH % each, usage=Usage(90, 10)) for each in "abc"]
        result = run(*replies, limits=Limits(token_limit=200))
        assert result.stop_reason is StopReason.TOKEN_LIMIT
        assert len(result.steps) == 2

    def test_format_errors_in_a_row(self) -> None:
        """Three replies that cannot be used end the run; each got a hint but the last."""
        model = ScriptedModel(["Thought: hm\nAction: {", "Action: nothing", "Action: {"])
        result = Agent(model, [search]).run("q")
        assert result.stop_reason is StopReason.FORMAT_ERRORS
        decisions = [step.parsed.decision for step in result.steps]
        assert all(isinstance(each, FormatError) for each in decisions)
        hints = [each.hint for each in decisions if isinstance(each, FormatError)]
        assert model.requests[1].messages[-1] == Message("user", hints[0])

    def test_an_action_resets_the_count_of_format_errors(self) -> None:
        """Only errors in a row end a run."""
        bad = "Action: {"
        result = run(bad, bad, SEARCH % "a", bad, bad, ANSWER)
        assert result.stop_reason is StopReason.FINAL_ANSWER

    def test_a_long_reply_without_use_is_not_kept_whole(self) -> None:
        """Babble fills the window only once."""
        model = ScriptedModel(["babble " * 5_000, ANSWER])
        Agent(model, [search]).run("q")
        assert len(model.requests[1].messages[-2].content) <= 2_000

    def test_prose_is_asked_again_in_a_text_protocol(self) -> None:
        """An answer without its label is not taken for the answer."""
        model = ScriptedModel(["It is forty-two.", ANSWER])
        result = Agent(model, [search]).run("q")
        assert result.answer == "forty-two"
        assert result.steps[0].parsed.decision == FinalAnswer("It is forty-two.", labelled=False)
        assert "Final Answer:" in model.requests[1].messages[-1].content

    def test_empty_replies_count_apart(self) -> None:
        """Three empty replies in a row end the run with their own reason."""
        assert run("", "  \n", "").stop_reason is StopReason.EMPTY_REPLIES
        assert run("", "Action: {", "", ANSWER).stop_reason is StopReason.FINAL_ANSWER
        assert run("", "", SEARCH % "a", "", "", ANSWER).stop_reason is StopReason.FINAL_ANSWER

    def test_model_error_keeps_what_there_is(self) -> None:
        """The error is in the result, not raised."""
        error = ServerError("the server is down", status=503)
        result = run(SEARCH % "a", error)
        assert result.stop_reason is StopReason.MODEL_ERROR
        assert result.error is error
        assert len(result.steps) == 1

    def test_cancel_before_and_during(self) -> None:
        """A set event ends the run; a tool that sets it is the last one to run."""
        cancel = threading.Event()
        cancel.set()
        model = ScriptedModel([ANSWER])
        result = Agent(model, [search]).run("q", cancel=cancel)
        assert result.stop_reason is StopReason.CANCELLED
        assert model.requests == []

        later = threading.Event()

        def stop() -> str:
            """Cancel the run."""
            later.set()
            return "stopping"

        model = ScriptedModel(['Action: {"name": "stop", "parameters": {}}', ANSWER])
        result = Agent(model, [stop]).run("q", cancel=later)
        assert result.stop_reason is StopReason.CANCELLED
        assert len(model.requests) == 1

    def test_ctrl_c_carries_the_partial_result(self) -> None:
        """The interrupt goes on, with the steps so far and a history that is well-formed."""

        def interrupted(messages: Any) -> Any:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            run(SEARCH % "a", interrupted)
        partial = caught.value.partial_result  # type: ignore[attr-defined]
        assert partial.stop_reason is StopReason.CANCELLED
        assert len(partial.steps) == 1


class TestRepetition:
    """The same action again and again."""

    def test_third_is_refused_and_fifth_ends_the_run(self) -> None:
        """Key order does not make an action another one."""
        calls: list[str] = []

        def find(query: str, page: int = 1) -> str:
            """Find a page."""
            calls.append(query)
            return "page"

        one = 'Action: {"name": "find", "parameters": {"query": "a", "page": 1}}'
        other = 'Action: {"name": "find", "parameters": {"page": 1, "query": "a"}}'
        result = run(one, other, one, other, one, one, tools=[find])
        assert result.stop_reason is StopReason.REPEATED_ACTION
        assert len(calls) == 2
        assert len(result.steps) == 5
        refused = result.steps[2].observations[0]
        assert refused.error is not None
        assert refused.error.kind == "repeated"

    @pytest.mark.parametrize(
        "spellings",
        [
            ('{"n": 5}', '{"n": "5"}', '{"n": 5.0}'),
            ('{"n": 5}', '{"n": 5, "unit": "m"}', '{"unit": "m", "n": "５"}'),
            ('{"n": 5, "flags": [true]}', '{"n": 5, "flags": ["true"]}', '{"n": 5, "flags": true}'),
        ],
        ids=["numbers", "defaults", "nested"],
    )
    def test_the_same_call_spelled_otherwise_is_a_repetition(
        self, spellings: tuple[str, ...]
    ) -> None:
        """What counts is what the tool is called with, after coercion and with defaults."""
        calls: list[Any] = []

        def measure(n: int, unit: str = "m", flags: list[bool] | None = None) -> str:
            """Measure."""
            calls.append((n, unit, flags))
            return "done"

        actions = [f'Action: {{"name": "measure", "parameters": {each}}}' for each in spellings]
        result = run(*actions, ANSWER, tools=[measure])
        assert [step.observations[0].ok for step in result.steps[:3]] == [True, True, False]
        assert len(set(map(str, calls))) == 1
        assert len(calls) == 2

    def test_values_that_are_not_the_same_are_no_repetition(self) -> None:
        """A text "5" is not the text "05", and true is not 1; a refused call stands for itself."""

        def find(key: str, limit: int = 1) -> str:
            """Find."""
            return key

        spellings = ('{"key": "5"}', '{"key": "05"}', '{"key": "5", "limit": 2}',
                     '{"key": "5", "limit": true}')  # fmt: skip
        actions = [f'Action: {{"name": "find", "parameters": {each}}}' for each in spellings]
        result = run(*actions, ANSWER, tools=[find])
        kinds = [step.observations[0].error for step in result.steps[:4]]
        assert kinds[:3] == [None] * 3
        assert kinds[3] is not None
        assert kinds[3].kind == "invalid_arguments"

    def test_one_reply_with_many_identical_calls_is_no_loop_yet(self) -> None:
        """Two run and the rest is refused; only who does it again although told is stopped."""
        calls: list[str] = []

        def find(query: str) -> str:
            """Find a page."""
            calls.append(query)
            return "page"

        batch = Reply("", tuple(ToolCall(f"c{n}", "find", {"query": "a"}) for n in range(7)))
        result = run(batch, "done", tools=[find], protocol="native")
        assert (result.answer, calls) == ("done", ["a", "a"])
        assert [seen.ok for seen in result.steps[0].observations] == [True] * 2 + [False] * 5
        result = run(batch, batch, "done", tools=[find], protocol="native")
        assert result.stop_reason is StopReason.REPEATED_ACTION
        assert len(calls) == 4

    def test_alternation_is_caught(self) -> None:
        """A-B-A-B: from the third pair on nothing runs."""
        result = run(*[SEARCH % each for each in "abababab"], ANSWER)
        ran = [step.observations[0].ok for step in result.steps[:6]]
        assert ran == [True] * 4 + [False] * 2

    def test_a_repeatable_tool_may_poll(self) -> None:
        """A tool that says so is exempt."""
        poll: FunctionDefinition = define(search, repeatable=True)
        result = run(*[SEARCH % "a"] * 7, ANSWER, tools=[poll])
        assert result.stop_reason is StopReason.FINAL_ANSWER

    def test_the_guard_can_be_off(self) -> None:
        """`refuse_repeat=None` lets everything through."""
        result = run(*[SEARCH % "a"] * 7, ANSWER, limits=Limits(refuse_repeat=None))
        assert result.stop_reason is StopReason.FINAL_ANSWER
