"""The protocol and the language that a request is written in, and its texts without them.

A change of either rewrites every prompt. Brought to one spelling, two requests show what else
changed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields
from typing import NamedTuple

from agent_core.messages import JsonObject, JsonValue, Language, Protocol
from agent_core.prompts import TEXTS, Texts
from agent_core.structured import ASK
from harness.sessions.exchange import canonical_json, json_body

_EN = TEXTS["en"]
_SENTENCES = ("how", "how_labels", "rules", "intro_native", "intro", "toolless", "tools")
_LABELS = {
    f"{getattr(texts, each.name)}{texts.colon}": f"{getattr(_EN, each.name)}{_EN.colon}"
    for texts in TEXTS.values()
    for each in fields(Texts)
    if each.name in {"thought", "action", "action_input", "observation", "final_answer", "question"}
}
_LABEL = re.compile(rf"^(?:{'|'.join(map(re.escape, _LABELS))})", re.MULTILINE)
_ACTION = re.compile(r"^Action: (\{.*\})$", re.MULTILINE)
_INPUT = re.compile(r"^Action Input: (\{.*\})$", re.MULTILINE)
_THOUGHT = re.compile(r"\AThought: .*?^(?=Action: |Final Answer: )", re.MULTILINE | re.DOTALL)
_HINTS = tuple(
    hint.partition("{")[0]
    for texts in TEXTS.values()
    for hint in (texts.unlabelled, texts.empty, texts.empty_native)
)
_CHINESE = r"[\u4e00-\u9fff]"
_LATIN = r"[A-Za-z]"


class Style(NamedTuple):
    """How an agent of this project speaks to the model."""

    protocol: Protocol
    language: Language


def style_of(system: str) -> Style | None:
    """The style that a system prompt asks for; None when it is not one of ours."""
    for language, texts in TEXTS.items():
        if texts.intro_native in system:
            return Style("native", language)
        if texts.how in system or texts.toolless in system:  # without tools, both are one
            return Style("react-json", language)
        if texts.how_labels in system:
            return Style("react-labels", language)
    return None


def plain_system(text: str, style: Style) -> str:
    """A system prompt without the sentences of its style, the labels in one spelling."""
    texts = TEXTS[style.language]
    for name in _SENTENCES:
        line = re.escape(getattr(texts, name))
        text = re.sub(rf"^{line}$", "", text, count=1, flags=re.MULTILINE)
    text = re.sub(rf"^{texts.example}$", _EN.example, text, flags=re.MULTILINE)
    for need in ("required", "optional", "default"):  # of a parameter
        theirs, ours = getattr(texts, need), getattr(_EN, need)
        text = re.sub(rf"^(    .*?, ){theirs}(?=[,) ])", rf"\1{ours}", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", _plain_labels(text)).strip()


def plain_message(message: JsonObject) -> JsonObject:
    """A message as every style would have it: who spoke, and the call, result or answer."""
    role, content = message.get("role"), str(message.get("content") or "")
    if role == "tool":
        return {"role": "user", "content": f"Observation: {content}"}
    if role != "assistant":
        return {"role": role, "content": _plain_labels(content)}
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        content = "\n".join(map(_plain_call, calls))
    content = _THOUGHT.sub("", _plain_labels(content))
    return {"role": role, "content": content.removeprefix("Final Answer: ")}


def is_question(text: str, before: JsonObject | None) -> bool:
    """Whether a user's message asks something new: it is the first, or follows an answer.

    Other messages of a user tell the model what was wrong with its reply.
    """
    if before is None:
        return True
    said = _plain_labels(str(before.get("content") or ""))
    answered = "Final Answer: " in said or not _LABEL.search(said)
    is_answer = before.get("role") == "assistant" and not before.get("tool_calls") and answered
    return is_answer and not text.startswith(_HINTS)


def asked_schema(text: str) -> JsonObject | None:
    """The JSON Schema that a message asks an answer to fit; None when it asks for none."""
    for ask in ASK.values():
        words = ask.partition("{schema}")[0]
        if text.startswith(words):
            schema = json_body(text.removeprefix(words).encode(errors="replace"))
            return schema if isinstance(schema, dict) else None
    return None


def other_script(before: str, after: str) -> bool:
    """Whether what differs is Chinese on one side and not on the other."""
    old, new = Counter(before), Counter(after)
    return _mostly_chinese(old - new) != _mostly_chinese(new - old)


def _mostly_chinese(characters: Counter[str]) -> bool:
    text = "".join(characters.elements())
    chinese, latin = (len(re.findall(each, text)) for each in (_CHINESE, _LATIN))
    return 4 * chinese > latin  # a word is 4 letters or so


def _plain_labels(text: str) -> str:
    text = _LABEL.sub(lambda found: _LABELS[found[0]], text)
    text = _ACTION.sub(lambda found: _split_call(found[1]) or found[0], text)
    return _INPUT.sub(lambda found: f"Action Input: {_canonical(found[1])}", text)


def _split_call(text: str) -> str | None:
    call = json_body(text.encode(errors="replace"))
    if not isinstance(call, dict) or not isinstance(call.get("parameters"), dict):
        return None
    return f"Action: {call.get('name')}\nAction Input: {canonical_json(call['parameters'])}"


def _plain_call(call: JsonValue) -> str:
    function = call.get("function") if isinstance(call, dict) else None
    function = function if isinstance(function, dict) else {}
    arguments = _canonical(function.get("arguments"))
    return f"Action: {function.get('name')}\nAction Input: {arguments}"


def _canonical(value: JsonValue) -> str:
    """Arguments in one spelling, whether they are an object or the text of one."""
    read = json_body(value.encode(errors="replace")) if isinstance(value, str) else value
    return str(value) if read is None else canonical_json(read)
