"""A reply in the making: what is meant, how it is written, and its truth.

An operator changes a draft; `Draft.example` writes it down. What is meant never changes
silently: an operator that loses the meaning says so in the truth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from agent_core.messages import JsonObject, Language
from harness.fuzz.examples import (
    REFUSED,
    Example,
    FinishReason,
    Outcome,
    Tools,
    Trap,
    action,
    final,
)
from harness.fuzz.jsontext import JsonStyle, Raw, write_json
from harness.fuzz.values import value_for

REACT = frozenset({"react-json", "react-labels", "react-fence"})
UNLABELLED = frozenset({"json", "json-fence"})
OBJECT = REACT - {"react-labels"} | UNLABELLED | {"hermes", "llama3", "mistral"}
"""Notations whose body is one JSON object with the name and the arguments."""
ARGUMENTS = frozenset({"react-labels", "mistral-name", "deepseek", "native"})
"""Notations whose body is the arguments alone."""
JSON = OBJECT | ARGUMENTS
NOTATIONS = JSON | {"pythonic"}

PROTOCOLS = {
    "react-json": "react-json",
    "react-fence": "react-json",
    "react-labels": "react-labels",
}
"""What a parser may be told about a notation; of the others, `native`."""

LABELS = ("thought", "action", "input", "observation", "answer")
FAMILIES: dict[Language, tuple[tuple[str, ...], ...]] = {
    "en": (("Thought", "Action", "Action Input", "Observation", "Final Answer"),),
    "zh": (
        ("思考", "行动", "行动输入", "观察", "最终答案"),
        ("思考", "动作", "动作输入", "观察结果", "最终回答"),
    ),
}


class Frame(NamedTuple):
    """What stands before and after the body."""

    head: str
    tail: str = ""


@dataclass(slots=True)
class Draft:
    """A reply in the making.

    Attributes:
        name, arguments: the call that is meant; `answer`: the answer that is meant. One of the
            two is None.
        words, marks: each label's word, and what is written before and after it.
        name_written, written: name and arguments as they will be written.
        members: for `OBJECT` notations, the members of the object that holds the call, made
            from the name and the text of the arguments.
        wrap: what is done to the text of the body.
        frame: how head and tail are made; by the notation unless set.
        before, after: text around the whole; `body_before`, `body_after` around the body.
        edits: changes to the finished text, in order; each gets the body's place.
    """

    rng: Random
    language: Language
    notation: str
    tools: Tools
    words: dict[str, str]
    thought: str
    name: str = ""
    arguments: JsonObject | None = None
    answer: str | None = None
    marks: dict[str, tuple[str, str]] = field(default_factory=dict)
    style: JsonStyle = field(default_factory=JsonStyle)
    name_written: Any = ""
    written: Any = None
    args_key: str = "arguments"
    name_key: str = "name"
    members: Callable[[Any, Raw], Any] | None = None
    wrap: Callable[[str], str] | None = None
    frame: Callable[[Draft], Frame] | None = None
    before: str = ""
    after: str = ""
    body_before: str = ""
    body_after: str = ""
    edits: list[Callable[[str, int, int], str]] = field(default_factory=list)
    finish_reason: FinishReason = None
    refused: bool = False
    optional: bool = False
    at_end: bool = False
    fault: str = "wrong_call"
    also: list[Outcome] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)
    prefix_calls: list[Outcome] | None = field(default_factory=list)
    open_ended: bool = True
    uncounted: bool = False

    # --- what operators say about the truth

    def may_refuse(self) -> None:
        """Recovering is better, refusing is right too."""
        self.optional = True

    def beyond(self) -> None:
        """The taxonomy does not name this variant: recovering it is right, but not counted."""
        self.optional = self.uncounted = True

    def must_refuse(self, fault: str = "wrong_call", *also: Outcome) -> None:
        """Only an error is right, or one of `also`; a call shows `fault`."""
        self.refused = True
        self.fault = fault
        self.also.extend(also)

    def needs_end(self) -> None:
        """Recoverable only if the reply is known to be whole: `stop`, or text that follows."""
        self.at_end = True

    @property
    def outcome(self) -> Outcome:
        """What is meant."""
        return final(self.answer) if self.arguments is None else action(self.name, self.arguments)  # type: ignore[arg-type]

    # --- pieces for operators

    def label(self, key: str) -> str:
        """A label as it is written."""
        before, after = self.marks.get(key, ("", self.colon))
        return before + self.words[key] + after

    @property
    def colon(self) -> str:
        """The colon of the language, with its blank."""
        return ": " if self.language == "en" else "："

    def key_of(self, kind: str) -> str:
        """A key of the arguments whose schema asks for `kind` and nothing more."""
        assert self.arguments is not None
        schema = self.tools[self.name]
        return next(key for key in free_keys(schema, kind) if key in self.arguments)

    def put(self, key: str, value: Any, text: str) -> None:
        """Mean `value` for an argument, and write `text` for it."""
        assert self.arguments is not None
        self.arguments[key] = value
        self.written[key] = Raw(text)

    def decoy(self, fault: str) -> tuple[str, JsonObject]:
        """Another tool with arguments of its own: a call that must never run."""
        names = [each for each in self.tools if each not in {self.name, self.name_written}]
        name = self.rng.choice(names)
        arguments = value_for(self.rng, self.tools[name], language=self.language, plain=True)
        self.traps.append(Trap(fault, {"kind": "action", "name": name}))
        return name, arguments

    def clean(self, name: str, arguments: JsonObject, notation: str | None = None) -> Draft:
        """A clean call without a thought, in the draft's notation or another one."""
        words = dict(zip(LABELS, FAMILIES[self.language][0], strict=True))
        other = Draft(self.rng, self.language, notation or self.notation, self.tools, words, "")
        other.name = other.name_written = name
        other.arguments = other.written = arguments
        return other

    def text(self) -> str:
        """The reply as it stands."""
        return self.render()[0]

    # --- writing

    def body(self) -> str:
        """The JSON (or Python, or answer) that carries the meaning."""
        if self.arguments is None:
            text = self.answer or ""
        elif self.notation == "pythonic":
            text = python_call(self.name, self.arguments)
        else:
            text = self._json_body()
        return self.wrap(text) if self.wrap else text

    def _json_body(self) -> str:
        text = write_json(self.written, self.style)
        if self.notation in ARGUMENTS:
            return text
        members = self.members or (lambda name, raw: {self.name_key: name, self.args_key: raw})
        return write_json(members(self.name_written, Raw(text)), replace(self.style, comment=""))

    def render(self) -> tuple[str, int, int]:
        """The text, and where the body begins and ends in it."""
        frame = (self.frame or _frame)(self)
        thought = ""
        if self.thought and self.notation in REACT:
            thought = f"{self.label('thought')}{self.thought}\n"
        elif self.thought and self.notation in {"hermes", "pythonic"} and self.answer is None:
            thought = f"{self.thought}\n" if self.notation == "hermes" else ""
        head = self.before + thought + frame.head + self.body_before
        body = self.body()
        text = head + body + self.body_after + frame.tail + self.after
        return text, len(head), len(head) + len(body)

    def example(self, labels: tuple[str, ...], protocol: str | None) -> Example:
        """Write it down, with its truth."""
        text, start, end = self.render()
        for edit in self.edits:
            text = edit(text, start, end)
        native = None
        if self.notation == "native":
            native, text = {"name": self.name_written, "arguments": text}, ""
        cut = self.finish_reason == "length"
        loose = self.at_end and self.finish_reason != "stop" and not self.after
        accept = [*self.also] if self.refused else [self.outcome, *self.also]
        if self.refused:
            accept.insert(0, REFUSED)
        elif self.optional or cut or loose:
            accept.append(REFUSED)
        return Example(
            text=text,
            tools=self.tools,
            language=self.language,
            notation=self.notation,
            protocol=protocol,
            finish_reason=self.finish_reason,
            native=native,
            accept=tuple(accept),
            traps=tuple(self.traps),
            fault=self.fault,
            recoverable=not (self.refused or cut or loose or self.uncounted),
            prefix_calls=None if self.prefix_calls is None else tuple(self.prefix_calls),
            open_ended=self.open_ended and native is None,
            labels=labels,
        )


def free_keys(schema: JsonObject, kind: str) -> list[str]:
    """Properties that ask for a type and nothing more."""
    kinds = {"number", "integer"} if kind == "number" else {kind}
    return [
        key
        for key, each in schema.get("properties", {}).items()
        if isinstance(each, dict)
        and each.get("type") in kinds
        and not each.keys() - {"type", "title", "description", "default"}
    ]


def lone_text(schema: JsonObject) -> str | None:
    """The one required parameter, if it is a free string."""
    required = schema.get("required", [])
    return (
        required[0] if len(required) == 1 and required[0] in free_keys(schema, "string") else None
    )


def python_call(name: str, arguments: JsonObject) -> str:
    """The call in Python."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def _frame(draft: Draft) -> Frame:
    """Head and tail by notation."""
    notation, name = draft.notation, draft.name_written
    if draft.arguments is None:
        return Frame(draft.label("answer") if notation in REACT else "")
    if notation == "react-labels":
        return Frame(f"{draft.label('action')}{name}\n{draft.label('input')}")
    return {
        "react-json": Frame(draft.label("action")),
        "react-fence": Frame(f"{draft.label('action').rstrip()}\n```json\n", "\n```"),
        "hermes": Frame("<tool_call>\n", "\n</tool_call>"),
        "llama3": Frame("<|python_tag|>"),
        "mistral": Frame("[TOOL_CALLS] [", "]"),
        "mistral-name": Frame(f"[TOOL_CALLS]{name}"),
        "deepseek": Frame(
            f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{name}<｜tool▁sep｜>",
            "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        ),
        "pythonic": Frame("[", "]"),
        "json-fence": Frame("```json\n", "\n```"),
    }.get(notation, Frame(""))


def as_string(text: str) -> str:
    """The text as a JSON string."""
    return json.dumps(text, ensure_ascii=False)
