"""How a run goes: answers, native calls, and what no run begins with."""

from __future__ import annotations

from typing import Any

import pytest

from agent_core.agent import Agent
from agent_core.errors import ConfigError, ModelError, ServerError
from agent_core.events import Ended, Started, ToolStarted, watching
from agent_core.limits import Limits, StopReason
from agent_core.memory import WindowMemory
from agent_core.messages import Action, Language, Message, Protocol, Reply, ToolCall, Usage
from agent_core.models import ScriptedModel
from agent_core.prompts import TEXTS, worked_turns
from tests.agent_core.loop_support import ANSWER, SEARCH, run, search


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
