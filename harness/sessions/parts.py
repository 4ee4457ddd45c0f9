"""A request in parts: address, model, options, tools, system prompt, and what was said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent_core.messages import JsonObject, JsonValue
from agent_core.prompts import TEXTS
from harness.sessions.exchange import (
    Request,
    canonical_json,
    canonical_url,
    json_body,
    without_empty_defaults,
)
from harness.sessions.format import ToolDefinition
from harness.sessions.styles import is_question

_NOT_OPTIONS = frozenset({"model", "messages", "tools", "options"})
_TEXTS = ("prompt", "input")  # of a completion, of an embedding
_OBSERVATION_LABELS = tuple(texts.observation for texts in TEXTS.values())


@dataclass(frozen=True, slots=True)
class Said:
    """A message; `label` says what it is, `text` holds calls and ids too."""

    role: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Parts:
    """A request taken apart; `body` is set when it asks no model anything.

    `spoken` are the messages as they were sent, without the system prompt.
    """

    url: str
    model: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[ToolDefinition, ...] = ()
    system: str = ""
    spoken: tuple[JsonObject, ...] = ()
    body: str | None = None

    @property
    def messages(self) -> tuple[Said, ...]:
        """Everything that was said, but for the system prompt."""
        return tuple(_said(self.spoken))


def parts_of(request: Request) -> Parts:
    """Take a request apart."""
    url = f"{request.method} {canonical_url(request.url)}"
    value = without_empty_defaults(json_body(request.body))
    value = _as_chat(value)
    messages = value.get("messages") if isinstance(value, dict) else None
    if not isinstance(messages, list):
        text = request.body.decode(errors="replace") if value is None else canonical_json(value)
        return Parts(url, body=text)
    nested = value.get("options")
    options = {key: each for key, each in value.items() if key not in _NOT_OPTIONS}
    options |= nested if isinstance(nested, dict) else {}
    said = [each if isinstance(each, dict) else {"content": each} for each in messages]
    system = [str(each.get("content")) for each in said if each.get("role") == "system"]
    return Parts(
        url=url,
        model=str(value.get("model")),
        options={key: canonical_json(each) for key, each in options.items()},
        tools=tuple(_tools(value.get("tools"))),
        system="\n".join(system),
        spoken=tuple(each for each in said if each.get("role") != "system"),
    )


def _as_chat(value: JsonValue) -> JsonValue:
    """A request for a completion or an embedding with its texts where a chat has them."""
    if not isinstance(value, dict) or "messages" in value or "model" not in value:
        return value
    text = next((key for key in _TEXTS if key in value), None)
    if text is None:
        return value
    rest = {k: each for k, each in value.items() if k not in {text, "system", "images"}}
    system = [{"role": "system", "content": value["system"]}] if "system" in value else []
    said = {"role": text, "content": value[text], "images": value.get("images")}
    return {**rest, "messages": [*system, said]}


def _said(spoken: Iterable[JsonObject]) -> Iterator[Said]:
    before: JsonObject | None = None
    for each in spoken:
        role, content = str(each.get("role")), each.get("content")
        text = content if isinstance(content, str) else canonical_json(content)
        rest = {k: v for k, v in each.items() if k not in {"role", "content"} and v}
        if rest:
            text += f"\n{canonical_json(rest)}"
        label = role if role in _TEXTS else f"{role} message"
        if role == "tool" or (role == "user" and text.startswith(_OBSERVATION_LABELS)):
            label = "observation"
        elif role == "user" and is_question(text, before):
            label = "question"
        before = each
        yield Said(role, label, text)


def _tools(tools: JsonValue) -> Iterator[ToolDefinition]:
    for each in tools if isinstance(tools, list) else ():
        function = each.get("function") if isinstance(each, dict) else None
        if isinstance(function, dict):
            parameters = function.get("parameters")
            yield ToolDefinition(
                name=str(function.get("name")),
                description=str(function.get("description") or ""),
                parameters=parameters if isinstance(parameters, dict) else {},
            )
