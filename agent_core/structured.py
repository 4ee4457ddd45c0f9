"""A final answer as data: asked for by a schema, read tolerantly, validated."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ValidationError

from agent_core.errors import BadRequest, ConfigError
from agent_core.events import ParseEnded, ParseStarted, StepEnded, StepStarted, scope
from agent_core.limits import StopReason
from agent_core.messages import (
    Coercion,
    FinalAnswer,
    FormatError,
    JsonObject,
    JsonValue,
    Language,
    Message,
    ParsedReply,
    Repair,
    Reply,
    RunResult,
    Step,
    StepNote,
)
from agent_core.parsing import JsonDamage, TolerantJson, loads_tolerant
from agent_core.parsing.doubt import announces_quotation
from agent_core.prompts import TEXTS
from agent_core.tools.coercion import coerce
from agent_core.tools.validation import SchemaValidator
from agent_core.tools.wording import explain

if TYPE_CHECKING:
    from agent_core.loop import Run

Schema: TypeAlias = JsonObject | type[BaseModel]

_OPENING = re.compile(r"[{\[]")
_MAX_STARTS = 8  # places in a text at which JSON is looked for
_REQUESTS = 2  # the second one names what was wrong with the first
ASK: dict[Language, str] = {
    "en": "Now write that answer as JSON and nothing else. It must fit this JSON Schema:\n{schema}",
    "zh": "现在把上面的回答写成 JSON，不要写别的内容。它必须符合这个 JSON Schema：\n{schema}",
}
"""What is said before the schema where an answer is asked for as data."""

_AGAIN: dict[Language, str] = {
    "en": "That does not fit: {problems}\nWrite the corrected JSON, and nothing else.",
    "zh": "不符合要求：{problems}\n请只写改正后的 JSON。",
}
_AMBIGUOUS: dict[Language, str] = {
    "en": "expected one JSON value, the answer itself: no example and no choice",
    "zh": "只应有一个 JSON 值，即答案本身：不要写示例，也不要写几个供选择",
}


@dataclass(frozen=True, slots=True)
class Data:
    """JSON that fits, and what was mended to make it so."""

    value: JsonValue
    repairs: tuple[Repair, ...] = ()


class AnswerSchema:
    """What a final answer has to look like.

    Args:
        schema: a JSON Schema 2020-12, or a pydantic model.

    Raises:
        ConfigError: it is neither.
    """

    def __init__(self, schema: Schema) -> None:
        self._model: type[BaseModel] | None = None
        if isinstance(schema, type) and issubclass(schema, BaseModel):
            self._model = schema
            schema = schema.model_json_schema()
        if not isinstance(schema, dict):
            raise ConfigError(
                f"answer_schema must be a JSON Schema or a pydantic model, got {schema!r}"
            )
        self.schema: JsonObject = schema
        self._validator = SchemaValidator(schema)

    def request(self, language: Language) -> str:
        """The message that asks for the answer as data."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return ASK[language].format(schema=schema)

    def read(self, text: str, language: Language, *, ended: bool) -> Data | FormatError:
        """The data in a text: the one JSON in it that fits, or what is wrong with the first.

        What is announced as an example does not count.

        Args:
            ended: the text is known to be whole, so closers missing at its end may be added.
        """
        problem: FormatError | None = None
        fits: Data | None = None
        position = 0
        for _ in range(_MAX_STARTS):
            try:
                read = loads_tolerant(text[position:], ended=ended)
                scalar = not isinstance(read.value, dict | list)
                if scalar and text[position + read.end :].strip(" \t\r\n`"):
                    raise JsonDamage("bad_json", "expected JSON, got prose")
                found = self._checked(read, language)
                if announces_quotation(text, position):
                    found = FormatError("ambiguous", _AMBIGUOUS[language], "")
                if isinstance(found, Data):
                    if fits is not None and fits.value != found.value:
                        return FormatError("ambiguous", _AMBIGUOUS[language], "")
                    fits = found
                else:
                    problem = found
                position += read.end
            except JsonDamage as damage:
                problem = problem or FormatError("bad_json", str(damage), "")
                position += 1
            opening = _OPENING.search(text, position)
            if opening is None:
                break
            position = opening.start()
        found_or_not = fits or problem
        assert found_or_not is not None
        return found_or_not

    def recognised(self, parsed: ParsedReply, language: Language) -> ParsedReply:
        """A reply that is one JSON value that fits, and nothing else, as the answer that it is."""
        decision = parsed.decision
        if not isinstance(decision, FinalAnswer) or decision.labelled:
            return parsed
        try:
            read = loads_tolerant(decision.text, ended=False)
        except JsonDamage:
            return parsed
        alone = not decision.text[read.end :].strip(" \t\r\n`")
        whole = alone and isinstance(read.value, dict | list)
        if not whole or not isinstance(self._checked(read, language), Data):
            return parsed
        return replace(parsed, decision=replace(decision, labelled=True))

    def _checked(self, read: TolerantJson, language: Language) -> Data | FormatError:
        value, changes = coerce(self._validator, read.value)
        errors = self._validator.errors(value, language)
        if errors:
            return FormatError("bad_answer", explain(errors, language), "")
        if self._model is not None:
            try:
                value = self._model.model_validate(value).model_dump(mode="json")
            except ValidationError as error:
                return FormatError("bad_answer", _problems(error), "")
        return Data(value, (*read.repairs, *map(_as_repair, changes)))


def answer_as_data(run: Run, schema: AnswerSchema, answer: str) -> RunResult:
    """End a run that has its answer: read it as data, else ask for it, twice at most.

    Each request is a step of its own, without tools: a server that has to keep to a format
    cannot call any.
    """
    language = run.agent.language
    found = schema.read(answer, language, ended=False)
    message = schema.request(language)
    for _ in range(_REQUESTS):
        if isinstance(found, Data):
            break
        reason = run.take_step()
        if reason is not None:
            return run.result(reason)
        found = _ask(run, schema, message)
        if isinstance(found, FormatError):
            message = _AGAIN[language].format(problems=found.message)
    if isinstance(found, FormatError):
        cancelled = run.cancel.is_set()  # it may have cut the reply
        return run.result(StopReason.CANCELLED if cancelled else StopReason.FORMAT_ERRORS)
    return run.result(StopReason.FINAL_ANSWER, answer=answer, data=found.value)


def _ask(run: Run, schema: AnswerSchema, message: str) -> Data | FormatError:
    """One request for the data, recorded as a step."""
    began = run.agent.clock.monotonic()
    index = len(run.steps) + 1
    with scope(StepStarted(index)) as step_scope:
        asked = [*run.messages, Message("user", message)]
        reply, notes = _reply(run, schema, asked)
        run.usage += reply.usage
        with scope(ParseStarted(reply, run.agent.protocol)) as parse:
            ended = reply.finish_reason == "stop"
            found = schema.read(reply.text, run.agent.language, ended=ended)
            parsed = _parsed(found, reply.text)
            parse.end(ParseEnded(parsed))
        said = reply.text.strip() or TEXTS[run.agent.language].no_reply
        run.messages += [asked[-1], Message("assistant", said)]
        seconds = run.agent.clock.monotonic() - began
        step = Step(index, reply, parsed, seconds=seconds, notes=tuple(notes))
        run.steps.append(step)
        step_scope.end(StepEnded(step))
    return found


def _reply(
    run: Run, schema: AnswerSchema, asked: Sequence[Message]
) -> tuple[Reply, list[StepNote]]:
    """Ask with the schema as the format, and without where the server takes none."""

    def ask(format: JsonValue) -> tuple[Reply, list[StepNote]]:
        return run.asking.ask(
            asked, run.task, format=format, on_text=lambda _piece: run.cancel.is_set()
        )

    try:
        return ask(schema.schema)
    except BadRequest:  # what else may be wrong with the request is refused again
        return ask(None)


def _parsed(found: Data | FormatError, text: str) -> ParsedReply:
    """The reading of a structured reply, as a step keeps it."""
    if isinstance(found, FormatError):
        return ParsedReply(None, None, found)
    return ParsedReply(None, None, FinalAnswer(text), found.repairs)


def _as_repair(change: Coercion) -> Repair:
    before, after = (json.dumps(each, ensure_ascii=False) for each in (change.before, change.after))
    return Repair("coercion", change.path, before, after)


def _problems(error: ValidationError) -> str:
    """What pydantic refuses, without the values: they go to the model again anyway."""
    return "; ".join(
        f"{'.'.join(map(str, each['loc'])) or '$'}: {each['msg']}"
        for each in error.errors(include_url=False, include_input=False)
    )
