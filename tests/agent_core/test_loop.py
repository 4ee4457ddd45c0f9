"""How a run goes and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.clock import ManualClock
from agent_core.errors import ConfigError, ModelError, RetrievalError, ServerError
from agent_core.events import Ended, Started, ToolStarted, watching
from agent_core.limits import Limits, StopReason
from agent_core.memory import WindowMemory
from agent_core.messages import (
    Action,
    FinalAnswer,
    FormatError,
    Hit,
    Language,
    Message,
    Protocol,
    Reply,
    RunResult,
    ToolCall,
    Usage,
)
from agent_core.models import ScriptedModel
from agent_core.prompts import TEXTS, worked_turns
from agent_core.tools import FunctionCallExecutor, FunctionDefinition, define

SEARCH = (
    "Thought: look it up because I do not know.\n"
    'Action: {"name": "search", "parameters": {"query": "%s"}}'
)
ANSWER = "Thought: enough.\nFinal Answer: forty-two"


def search(query: str) -> str:
    """Search the archive.

    Args:
        query: what to look for
    """
    return f"found {query}"


def run(*replies: Any, **options: Any) -> RunResult:
    """Run an agent with one tool on scripted replies."""
    options.setdefault("tools", [search])
    tools = options.pop("tools")
    question = options.pop("question", "What is it?")
    return Agent(ScriptedModel(replies), tools, **options).run(question)


class TestAnswers:
    """A run that ends well."""

    def test_action_then_answer(self) -> None:
        """The observation of the first step is in the prompt of the second."""
        model = ScriptedModel([SEARCH % "it", ANSWER])
        result = Agent(model, [search]).run("What is it?")
        assert result.stop_reason is StopReason.FINAL_ANSWER
        assert result.answer == "forty-two"
        assert [step.index for step in result.steps] == [1, 2]
        assert result.steps[0].parsed.reason is not None
        last = model.requests[1].messages[-1]
        assert last == Message("user", "Observation: found it")

    @pytest.mark.parametrize(
        ("protocol", "language", "action", "answer"),
        [
            ("react-json", "en", SEARCH % "a", "Final Answer: done"),
            (
                "react-labels",
                "en",
                'Thought: t\nAction: search\nAction Input: {"query": "a"}',
                "Final Answer: done",
            ),
            (
                "react-json",
                "zh",
                '思考：查一下\n行动：{"name": "search", "parameters": {"query": "a"}}',
                "最终答案：done",
            ),
            (
                "react-labels",
                "zh",
                '思考：查一下\n行动：search\n行动输入：{"query": "a"}',
                "最终答案：done",
            ),
            (
                "native",
                "en",
                Reply("", (ToolCall("c1", "search", {"query": "a"}),)),
                "done",
            ),
        ],
        ids=["json-en", "labels-en", "json-zh", "labels-zh", "native"],
    )
    def test_every_protocol_and_language(
        self, protocol: Any, language: Any, action: Any, answer: str
    ) -> None:
        """The same task goes through in each of them."""
        result = run(action, answer, protocol=protocol, language=language)
        assert (result.answer, result.stop_reason) == ("done", "final_answer")
        assert result.steps[0].observations[0].text == "found a"

    def test_usage_adds_up(self) -> None:
        """Totals are the sum of the steps."""
        replies = [
            Reply(SEARCH % "a", usage=Usage(100, 10)),
            Reply(ANSWER, usage=Usage(150, 5)),
        ]
        assert run(*replies).usage == Usage(250, 15)

    def test_missing_usage_is_estimated_and_marked(self) -> None:
        """A server without counts does not make a token limit void."""
        result = run(SEARCH % "a", ANSWER)
        assert result.usage.estimated
        assert result.usage.total > 0
        assert "usage_estimated" in [note.kind for note in result.steps[0].notes]

    def test_counts_that_the_server_gives_are_kept(self) -> None:
        """Only what is missing is estimated."""
        result = run(
            Reply(SEARCH % "a", usage=Usage(100, None)), Reply(ANSWER, usage=Usage(None, 7))
        )
        first, second = (step.reply.usage for step in result.steps)
        assert (first.prompt_tokens, second.completion_tokens) == (100, 7)
        assert (first.completion_tokens or 0) > 0
        assert (second.prompt_tokens or 0) > 0
        assert first.estimated
        assert second.estimated

    def test_history_goes_on(self) -> None:
        """A second question sees the first, under one system prompt."""
        model = ScriptedModel([ANSWER, ANSWER])
        agent = Agent(model, [search])
        first = agent.run("one?")
        agent.run("two?", first.messages)
        roles = [each.role for each in model.requests[1].messages]
        assert roles == ["system", "user", "assistant", "user"]

    def test_native_examples_are_turns_ahead_of_the_first_question_only(self) -> None:
        """They are messages, go ahead once, and stay where they are in a second turn."""
        turns = worked_turns("x?", [(Action("search", {"query": "x"}), "an x")], "It is an x.")
        model = ScriptedModel(["one", "two"])
        agent = Agent(model, [search], protocol="native", examples=["Be brief.", *turns])
        first = agent.run("one?")
        agent.run("two?", first.messages)
        shown = [each.content for each in model.requests[1].messages]
        assert "Be brief." in shown[0]
        assert shown[1:] == ["x?", "", "an x", "It is an x.", "one?", "one", "two?"]
        call, answer = model.requests[0].messages[2:4]
        assert call.tool_calls[0].id == answer.tool_call_id
        assert "It is an x." not in shown[0]

    @pytest.mark.parametrize("language", ["en", "zh"])
    def test_an_empty_native_reply_is_answered_without_labels(self, language: Language) -> None:
        """A model with native calls knows of no Thought: it is reminded of the question."""
        model = ScriptedModel(["", "four"])
        Agent(model, [search], protocol="native", language=language).run("2 + 2 是几?")
        hint = model.requests[1].messages[-1].content
        assert "2 + 2 是几?" in hint
        assert "Thought" not in hint
        assert "思考" not in hint

    @pytest.mark.parametrize("protocol", ["react-json", "react-labels"])
    def test_an_agent_without_tools_is_not_shown_how_to_act(self, protocol: Protocol) -> None:
        """The prompt holds the form of an answer and of nothing else."""
        for language, texts in TEXTS.items():
            prompt = Agent(ScriptedModel(()), protocol=protocol, language=language).system_prompt
            assert f"{texts.final_answer}{texts.colon}" in prompt
            assert texts.action not in prompt

    def test_an_answer_that_was_cut_says_so(self) -> None:
        """It is an answer, but a reader must know that there is no end to it."""
        result = run(Reply("Final Answer: The three rea", finish_reason="length"))
        assert result.answer == "The three rea"
        assert "output_cut" in [note.kind for note in result.steps[0].notes]
        result = run(Reply("Final Answer: The three reasons.", finish_reason="stop"))
        assert "output_cut" not in [note.kind for note in result.steps[0].notes]

    def test_nothing_after_an_action_is_kept(self) -> None:
        """What the model invents after its action reaches neither tools nor history."""
        invented = SEARCH % "it" + "\nObservation: nothing\nFinal Answer: wrong"
        model = ScriptedModel([invented, ANSWER])
        result = Agent(model, [search]).run("What is it?")
        assert result.answer == "forty-two"
        assert not any("wrong" in each.content for each in model.requests[1].messages)
        assert result.steps[0].parsed.ignored

    def test_reading_stops_when_the_action_is_complete(self) -> None:
        """A stream that runs on is cut, and the step says so."""
        result = run(Reply(SEARCH % "it" + "\nObservation: nothing\nThought: and so on"), ANSWER)
        assert result.steps[0].reply.cut_by_client
        assert "cut_by_client" in [note.kind for note in result.steps[0].notes]


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


class TestNative:
    """Native tool calls."""

    def test_every_call_id_is_answered_in_order(self) -> None:
        """A failing call does not leave its neighbours without an answer."""
        calls = (
            ToolCall("x", "search", {"query": "a"}),
            ToolCall("y", "search", {"query": 7.5, "extra": []}),
            ToolCall(None, "search", {"query": "c"}),
        )
        model = ScriptedModel([Reply("", calls), "done"])
        result = Agent(model, [search], protocol="native").run("q")
        assert result.answer == "done"
        said, *answers = model.requests[1].messages[2:]
        assert [call.id for call in said.tool_calls] == [each.tool_call_id for each in answers]
        assert [each.role for each in answers] == ["tool"] * 3
        assert len({call.id for call in said.tool_calls}) == 3

    def test_parallel_calls_are_watched_like_others(self) -> None:
        """Whoever watches the caller's context hears of each call, in whatever thread it runs."""
        heard: list[str] = []

        class Ears:
            def started(self, event: Started) -> None:
                if isinstance(event, ToolStarted):
                    heard.append(event.action.arguments["query"])

            def ended(self, token: object, event: Ended) -> None:
                pass

        calls = tuple(ToolCall(each, "search", {"query": each}) for each in "abc")
        with watching(Ears()):
            run(Reply("", calls), "done", protocol="native")
        assert sorted(heard) == ["a", "b", "c"]

    def test_prose_is_the_answer(self) -> None:
        """Without labels to keep to, plain words are the answer."""
        assert run("It is forty-two.", protocol="native").answer == "It is forty-two."

    def test_tools_are_sent_and_stop_strings_are_not(self) -> None:
        """The text protocols do the reverse."""
        native, text = ScriptedModel(["done"]), ScriptedModel([ANSWER])
        Agent(native, [search], protocol="native").run("q")
        Agent(text, [search]).run("q")
        assert [bool(m.requests[0].tools) for m in (native, text)] == [True, False]
        assert [bool(m.requests[0].stop) for m in (native, text)] == [False, True]


class Live:
    """A model that does something while it answers, and keeps how it was asked."""

    name = "live"
    provider = "test"
    context_window: int | None = None

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.reply = Reply("", (ToolCall("c", "search", {"query": "a"}),))
        self.stopped: list[bool] = []
        self.timeouts: list[float | None] = []

    def chat(self, messages: Sequence[Message], **asked: Any) -> Reply:
        """Say a part, let something happen, say the rest."""
        self.timeouts.append(asked["timeout"])
        self.stopped.append(asked["on_text"]("Thought: let me "))
        self.meanwhile()
        self.stopped.append(asked["on_text"]("see. "))
        return self.reply


class TestMeanwhile:
    """What happens while the model answers or a tool runs."""

    @pytest.mark.parametrize("protocol", ["react-json", "native"])
    def test_a_cancelled_reply_is_not_read_on_and_decides_nothing(self, protocol: Any) -> None:
        """Reading stops, and the tool that the reply asks for does not run."""
        cancel = threading.Event()
        model = Live(cancel.set)
        ran: list[str] = []

        def search(query: str) -> None:
            """Search."""
            ran.append(query)

        agent = Agent(model, [search], protocol=protocol)
        result = agent.run("q", cancel=cancel)
        assert model.stopped == [False, True]
        assert result.stop_reason is StopReason.CANCELLED
        assert (len(result.steps), ran) == (1, [])

    @pytest.mark.parametrize("protocol", ["react-json", "native"])
    def test_half_an_answer_is_none(self, protocol: Any) -> None:
        """What stands where the cancellation cut a reply is not taken for its answer."""
        cancel = threading.Event()
        model = Live(cancel.set)
        model.reply = Reply("Final Answer: forty-", cut_by_client=True)
        result = Agent(model, [search], protocol=protocol).run("q", cancel=cancel)
        assert (result.stop_reason, result.answer) == (StopReason.CANCELLED, None)
        assert result.steps[0].reply.text == "Final Answer: forty-"

    def test_the_model_gets_the_time_that_is_left(self) -> None:
        """Not all of it again at each step; without a limit there is none."""
        clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        model = Live(lambda: clock.advance(10))
        agent = Agent(model, [search], clock=clock, limits=Limits(time_limit=25))
        assert agent.run("q").stop_reason is StopReason.TIME_LIMIT
        assert model.timeouts == [25, 15, 5]
        free = Live(lambda: None)
        Agent(free, [search], limits=Limits(max_steps=1)).run("q")
        assert free.timeouts == [None]

    def test_ctrl_c_in_a_tool_leaves_a_step_and_a_history(self) -> None:
        """The action that was interrupted is answered, as not run to its end."""

        class Interrupted(FunctionCallExecutor):
            def execute(self, action: Any, **how: Any) -> Any:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            Agent(ScriptedModel([SEARCH % "a"]), executor=Interrupted([search])).run("q")
        partial: RunResult = caught.value.partial_result  # type: ignore[attr-defined]
        (step,) = partial.steps
        (observation,) = step.observations
        assert observation.error is not None
        assert observation.error.kind == "cancelled"
        assert [each.role for each in partial.messages] == ["system", "user", "assistant", "user"]
        assert partial.messages[-1].content.startswith("Observation: ")

    def test_a_failing_search_ends_the_run_typed(self) -> None:
        """A retriever that is down is an ending, not an exception."""

        class Down:
            name = "down"

            def retrieve(self, query: str, top_k: int = 3) -> Sequence[Hit]:
                raise RetrievalError("the index is away")

        model = ScriptedModel([ANSWER])
        result = Agent(model, [search], retriever=Down()).run("q")
        assert result.stop_reason is StopReason.MODEL_ERROR
        assert isinstance(result.error, RetrievalError)
        assert model.requests == []


class TestWrongUse:
    """Mistakes of the programmer are errors at once."""

    @pytest.mark.parametrize(
        "options", [{"protocol": "xml"}, {"language": "fr"}], ids=["protocol", "language"]
    )
    def test_unknown_choices(self, options: Any) -> None:
        """The message says what there is."""
        with pytest.raises(ConfigError, match="got"):
            Agent(ScriptedModel([]), [search], **options)

    @pytest.mark.parametrize("limit", [0, -1, float("nan"), "6", None, True, 2.5])
    def test_limits_must_be_positive_numbers(self, limit: Any) -> None:
        """Nothing is as confusing as a limit of zero, or one that is text."""
        with pytest.raises(ConfigError, match=r"Limits\.max_steps .* got"):
            Limits(max_steps=limit)
        with pytest.raises(ConfigError, match="time_limit"):
            Limits(time_limit=float("nan"))
        assert Limits(time_limit=None).time_limit is None
        assert Limits(time_limit=2.5).time_limit == 2.5

    @pytest.mark.parametrize(
        "gears",
        [{"model": "qwen"}, {"model": None}, {"model": ScriptedModel}, {"retriever": [1]},
         {"memory": "x"}, {"memory": WindowMemory}, {"longterm": 1}, {"parser": dict},
         {"executor": {}}, {"clock": 5}, {"tools": search}, {"tools": 5}, {"tools": "search"},
         {"tools": {"search": search}}, {"limits": {"max_steps": 3}}, {"catalogue": [search]},
         {"top_k": "a"}, {"top_k": 0}],
        ids=lambda gears: next(iter(gears)),
    )  # fmt: skip
    def test_a_gear_that_does_not_fit_is_told_before_anything_runs(self, gears: Any) -> None:
        """By its name, and with what it has to be."""
        (name,) = gears
        with pytest.raises(ConfigError, match=rf"^{name} must .*, got "):
            Agent(**{"model": ScriptedModel([]), **gears})

    @pytest.mark.parametrize(
        ("question", "history"), [(5, ()), (None, ()), ("q", ["x"]), ("q", "x"), ("q", run(ANSWER))]
    )
    def test_what_is_no_question_is_told(self, question: Any, history: Any) -> None:
        """Nothing is asked of the model."""
        model = ScriptedModel([ANSWER])
        with pytest.raises(ConfigError, match="must"):
            Agent(model).run(question, history)
        assert model.requests == []

    def test_a_text_is_no_list_of_replies(self) -> None:
        """Its letters would be the replies."""
        with pytest.raises(ConfigError, match="list of them, got one text: 'Final Answer: 5'"):
            ScriptedModel("Final Answer: 5")

    def test_model_errors_only_are_caught(self) -> None:
        """A bug in a model class is raised, not hidden in a result."""

        def broken(messages: Any) -> Any:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            run(broken)
        assert issubclass(ServerError, ModelError)
