"""A final answer as data: read where it fits, asked for where not, never invented."""

from __future__ import annotations

import json
import threading
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from agent_core.agent import Agent
from agent_core.errors import BadRequest, ConfigError
from agent_core.limits import Limits, StopReason
from agent_core.messages import FinalAnswer, FormatError, Reply, RunResult, ToolCall, Usage
from agent_core.models import ScriptedModel
from agent_core.streaming import AnswerPiece
from agent_core.structured import AnswerSchema, Data

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
PARIS = {"city": "Paris", "degrees": 11}
PROSE = "Final Answer: It is 11 degrees in Paris."


class Weather(BaseModel):
    """A pydantic answer."""

    city: str
    degrees: float = Field(ge=-90)
    sky: Literal["clear", "cloudy"] = "clear"

    @field_validator("city")
    @classmethod
    def _known(cls, value: str) -> str:
        if value == "Atlantis":
            raise ValueError("no such city")
        return value


def run(*replies: Any, schema: Any = SCHEMA, **options: Any) -> tuple[RunResult, ScriptedModel]:
    """A run with a schema."""
    model = ScriptedModel(replies)
    return Agent(model, answer_schema=schema, **options).run("Weather in Paris?"), model


def stopped(text: str) -> Reply:
    """A reply that is known to be whole."""
    return Reply(text, finish_reason="stop")


def test_prose_is_asked_for_as_data() -> None:
    """One more call, with the format and without tools; both forms are in the result."""
    result, model = run(PROSE, json.dumps(PARIS))
    assert result.stop_reason is StopReason.FINAL_ANSWER
    assert (result.answer, result.data) == ("It is 11 degrees in Paris.", PARIS)
    assert [each.format for each in model.requests] == [None, SCHEMA]
    assert (model.requests[1].tools, model.requests[1].stop) == ((), ())
    roles = [each.role for each in result.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert [step.index for step in result.steps] == [1, 2]
    before = model.requests[0].messages
    assert model.requests[1].messages[: len(before)] == before  # append-only


def test_native_calls_come_first_and_the_format_after() -> None:
    """No request has both tools and a format."""

    def get(city: str) -> int:
        """Degrees."""
        return 11

    model = ScriptedModel([
        Reply("", (ToolCall("a", "get", {"city": "Paris"}),)),
        "11 in Paris",
        json.dumps(PARIS),
    ])
    result = Agent(model, [get], protocol="native", answer_schema=SCHEMA).run("q")
    assert result.data == PARIS
    assert [(bool(each.tools), bool(each.format)) for each in model.requests] == [
        (True, False),
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(PARIS),
        f"```json\n{json.dumps(PARIS)}\n```",
        f"Here it is: {json.dumps(PARIS)}",
        "{'city': 'Paris', 'degrees': 11,}",
        '{"city": "Paris", "degrees": "11"}',
    ],
)
def test_an_answer_that_fits_needs_no_second_call(answer: str) -> None:
    """Fences, prose before it, single quotes and numbers as text are mended as elsewhere."""
    result, model = run(f"Final Answer: {answer}")
    assert result.data == PARIS
    assert len(model.requests) == 1


def test_a_wrong_answer_is_asked_for_once_more_with_the_errors() -> None:
    """The second request names path, expected and got."""
    result, model = run(PROSE, '{"city": "Paris"}', json.dumps(PARIS))
    assert result.data == PARIS
    assert "degrees" in model.requests[2].messages[-1].content
    decision = result.steps[1].parsed.decision
    assert isinstance(decision, FormatError)
    assert decision.code == "bad_answer"


@pytest.mark.parametrize(
    "bad", ['{"city": 3.5}', "no JSON at all", "", "[]", '{"city": "Paris", "degrees": 1e999}']
)
def test_what_never_fits_ends_the_run(bad: str) -> None:
    """After the retry the run ends typed, with nothing invented."""
    result, model = run(PROSE, bad, bad)
    assert result.stop_reason is StopReason.FORMAT_ERRORS
    assert (result.answer, result.data) == (None, None)
    assert len(model.requests) == 3
    assert any("11 degrees" in each.content for each in result.messages)


def test_a_cut_reply_is_not_completed() -> None:
    """Closers are added only where the server says that the reply is whole."""
    cut = '{"city": "Paris", "degrees": 11'
    refused, _ = run(PROSE, Reply(cut, finish_reason="length"), stopped(json.dumps(PARIS)))
    assert isinstance(refused.steps[1].parsed.decision, FormatError)
    schema = AnswerSchema(SCHEMA)
    assert isinstance(
        schema.read('{"city": "Paris", "degrees": [1', "en", ended=False), FormatError
    )


def test_part_of_what_does_not_fit_is_not_the_answer() -> None:
    """An object inside a refused one is never taken for the answer."""
    loose = AnswerSchema({"type": "object", "properties": {"a": {"type": "integer"}}})
    refused = loose.read('{"a": {"a": 1}}', "en", ended=True)
    assert isinstance(refused, FormatError)


def test_pydantic_model_gives_schema_validators_and_defaults() -> None:
    """Its own validators count, and data is plain JSON."""
    result, model = run(
        PROSE, '{"city": "Atlantis", "degrees": 4}', json.dumps(PARIS), schema=Weather
    )
    assert result.data == {"city": "Paris", "degrees": 11.0, "sky": "clear"}
    assert "no such city" in model.requests[2].messages[-1].content
    assert model.requests[1].format["title"] == "Weather"


def test_scalars_and_lists_can_be_answers() -> None:
    """A schema need not be of an object; a number at the beginning of prose is not data."""
    number = AnswerSchema({"type": "number"})
    assert number.read("42", "en", ended=False) == Data(42)
    assert isinstance(number.read("42 degrees", "en", ended=False), FormatError)
    result, _ = run("Final Answer: [1, 2]", schema={"type": "array", "items": {"type": "integer"}})
    assert result.data == [1, 2]


def test_limits_and_cancellation_hold() -> None:
    """The request for data is a step like any other, and its tokens count."""
    result, _ = run(PROSE, json.dumps(PARIS), limits=Limits(max_steps=1))
    assert result.stop_reason is StopReason.MAX_STEPS
    result, _ = run(
        Reply(PROSE, usage=Usage(60, 1)), json.dumps(PARIS), limits=Limits(token_limit=50)
    )
    assert result.stop_reason is StopReason.TOKEN_LIMIT
    cancel = threading.Event()

    def stop(_messages: Any) -> str:
        cancel.set()
        return PROSE

    model = ScriptedModel([stop, json.dumps(PARIS)])
    agent = Agent(model, answer_schema=SCHEMA)
    assert agent.run("q", cancel=cancel).stop_reason is StopReason.CANCELLED
    assert len(model.requests) == 1


def test_usage_of_both_calls_counts() -> None:
    """The result's usage is the sum of its steps."""
    result, _ = run(Reply(PROSE, usage=Usage(10, 1)), Reply(json.dumps(PARIS), usage=Usage(20, 2)))
    assert result.usage == Usage(30, 3)


def test_chinese_runs_are_asked_in_chinese() -> None:
    """Request and complaint are in the run's language, and Chinese stays readable."""
    schema = {"type": "object", "properties": {"城市": {"type": "string"}}, "required": ["城市"]}
    result, model = run("最终答案：巴黎", "{}", '{"城市": "巴黎"}', schema=schema, language="zh")
    assert result.data == {"城市": "巴黎"}
    assert "写成 JSON" in model.requests[1].messages[-1].content
    assert "城市" in model.requests[1].messages[-1].content
    assert "不符合要求" in model.requests[2].messages[-1].content


def test_without_a_schema_nothing_is_different() -> None:
    """The result has no data, and no request asks for a format."""
    result, model = run(PROSE, schema=None)
    assert result.data is None
    assert model.requests[0].format is None


def test_only_the_answer_is_streamed() -> None:
    """The data is in the result, not on the screen."""
    model = ScriptedModel([PROSE, json.dumps(PARIS)])
    events = list(Agent(model, answer_schema=SCHEMA).stream("q"))
    text = "".join(each.text for each in events if isinstance(each, AnswerPiece))
    assert text == "It is 11 degrees in Paris."
    assert isinstance(events[-1], RunResult)
    assert events[-1].data == PARIS


@pytest.mark.parametrize("wrong", ["json", {"type": "no such type"}, int])
def test_a_wrong_schema_is_refused_at_once(wrong: Any) -> None:
    """It is refused when the agent is made; nothing has run."""
    with pytest.raises(ConfigError):
        Agent(ScriptedModel([]), answer_schema=wrong)


def test_replace_keeps_and_changes_the_schema() -> None:
    """A copy of the agent has the schema, or another, or none."""
    agent = Agent(ScriptedModel([PROSE]), answer_schema=SCHEMA)
    assert agent.replace(name="b").answer_schema is agent.answer_schema
    assert agent.replace(answer_schema=None).answer_schema is None


def test_a_server_without_formats_is_asked_without() -> None:
    """What refuses a schema as format still gives its answer, read as tolerantly as any."""
    refusal = BadRequest("response_format is not supported", status=400)
    result, model = run(PROSE, refusal, f"```json\n{json.dumps(PARIS)}\n```")
    assert (result.data, result.stop_reason) == (PARIS, StopReason.FINAL_ANSWER)
    assert [each.format for each in model.requests] == [None, SCHEMA, None]
    assert model.requests[1].messages == model.requests[2].messages
    assert len(result.steps) == 2


def test_a_server_that_refuses_more_than_the_format_ends_the_run() -> None:
    """The request is sent once more, not for ever."""
    refusal = BadRequest("no", status=400)
    result, model = run(PROSE, refusal, refusal)
    assert (result.stop_reason, result.error) == (StopReason.MODEL_ERROR, refusal)
    assert len(model.requests) == 3


def test_a_cancellation_that_cuts_the_last_reply_is_one() -> None:
    """Half of the JSON is no wrong answer when somebody stopped the run."""
    cancel = threading.Event()

    def stopped_meanwhile(_messages: Any) -> str:
        cancel.set()
        return json.dumps(PARIS)

    model = ScriptedModel([PROSE, "no", stopped_meanwhile])
    result = Agent(model, answer_schema=SCHEMA).run("Weather in Paris?", cancel=cancel)
    assert (result.stop_reason, result.data) == (StopReason.CANCELLED, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 1} or {"n": 2}',
        'For example: {"n": 1}',
        '例如：{"n": 1}',
        'first\n```json\n{"n": 1}\n```\nthen\n```json\n{"n": 2}\n```',
    ],
)
def test_a_choice_or_an_example_is_no_answer(text: str) -> None:
    """The model is asked which it means."""
    found = AnswerSchema({"type": "object", "required": ["n"]}).read(text, "en", ended=True)
    assert isinstance(found, FormatError)
    assert found.code == "ambiguous"
    assert "one JSON value" in found.message


def test_the_same_answer_twice_is_one() -> None:
    """Once in a fence and once in prose, say."""
    text = 'It is {"n": 1}.\n```json\n{"n": 1}\n```'
    found = AnswerSchema({"type": "object", "required": ["n"]}).read(text, "en", ended=True)
    assert isinstance(found, Data)
    assert found.value == {"n": 1}


@pytest.mark.parametrize("reply", ['{"city": "Paris", "degrees": 11}', "```json\n%s\n```"])
def test_a_reply_that_is_only_the_data_is_the_answer(reply: str) -> None:
    """Small models answer just so; without a label it counts if it fits and nothing is beside it."""
    text = reply.replace("%s", json.dumps(PARIS))
    result, model = run(stopped(text))
    assert (result.stop_reason, result.data) == (StopReason.FINAL_ANSWER, PARIS)
    assert len(model.requests) == 1
    assert result.steps[-1].parsed.decision == FinalAnswer(text)


@pytest.mark.parametrize(
    "reply",
    [
        stopped('{"city": "Paris"}'),
        stopped('{"city": "Paris", "degrees": 11} or {"city": "Rome", "degrees": 12}'),
        stopped('For example: {"city": "Paris", "degrees": 11}'),
        Reply('{"city": "Paris", "degrees": 11}', finish_reason="length"),
    ],
)
def test_data_that_does_not_fit_or_stands_in_prose_is_no_answer(reply: Reply) -> None:
    """Then the model is asked again for an answer under its label."""
    result, model = run(reply, PROSE, json.dumps(PARIS))
    assert (result.stop_reason, result.data) == (StopReason.FINAL_ANSWER, PARIS)
    assert len(model.requests) == 3
