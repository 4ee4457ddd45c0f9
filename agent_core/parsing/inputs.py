"""The input of a named tool: an object, words, nothing; under its label or right after the name."""

from __future__ import annotations

import re

from agent_core.messages import JsonObject
from agent_core.parsing.arguments import NOTHING, arguments_of, plain_arguments
from agent_core.parsing.calls import Call, nested_call
from agent_core.parsing.doubt import is_doubtful
from agent_core.parsing.ending import Ending, clean_answer, next_cut
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.json_strings import starts_key
from agent_core.parsing.labels import Label, label_at, seems_labelled
from agent_core.parsing.notations import CallReader, Found, goes_on, skip_space
from agent_core.parsing.outcome import Refusal, RepairLog, snippet
from agent_core.parsing.toolset import TOKEN, Toolset

_KEY_VALUE = re.compile(r"\s*+[\"'“]?[^\W\d]\w*+[\"'”]?\s*+[:：=]")
_BRACE = re.compile(r"[{｛]")
_QUOTED = {"``", "''", "“”", "‘’", "「」"}
_GOES_ON = re.compile(r"[ \t]*+(?:[,，+&|][ \t]*+)?[\"“\w]")
_STRAY_FENCE = re.compile(r"\n```\Z")  # closes the fence round a whole reply
_WORDS_BEFORE = 300  # characters that may introduce an object


class InputReader:
    """Reads the arguments of a tool whose name is known."""

    def __init__(
        self, text: str, tools: Toolset, log: RepairLog, calls: CallReader, *, ended: bool
    ) -> None:
        self._text = text
        self._tools = tools
        self._log = log
        self._calls = calls
        self._ended = ended

    def after_name(self, name: str, pos: int, notation: str) -> Found:
        """The arguments that follow the name which ends at `pos`."""
        text = self._text
        start = skip_space(text, pos)
        if text[start : start + 1] in ("{", "｛") or text.startswith("```", start):
            return self.under_label(name, pos, notation)
        under = label_at(text, text.rfind("\n", pos, start) + 1 or start)
        if under is not None and under.kind == "input" and under.strong:
            return self.after_label(name, under, notation)  # with a colon or without
        cut = next_cut(text, max(pos - 1, 0), inputs=True) if start < len(text) else None
        if cut is None or cut.kind is None:
            if self._ended and start >= len(text):
                return self._without(name, pos, "", pos, notation)
            raise Refusal(
                "truncated" if not self._ended else "bad_arguments",
                f"the reply ends before the arguments of {name}", tool=name,
            )  # fmt: skip
        if cut.kind == "action":
            raise Refusal(
                "ambiguous", f"{name} has no input, and another action follows", tool=name
            )
        if cut.kind == "input" and (label := label_at(text, cut.pos)) is not None:
            return self.after_label(name, label, notation)
        if text[start : cut.pos].strip():
            raise Refusal(
                "bad_arguments",
                f"expected the arguments of {name}, got {snippet(text[start : cut.pos])!r}",
                tool=name,
            )
        below = self._below(name, cut.pos, cut.kind)
        if below is not None:
            self._log.add("order", below.start, text[cut.pos : below.start], "")
            return self.after_label(name, below, notation)
        return self._without(name, pos, "", start, notation)

    def _without(self, name: str, pos: int, written: str, end: int, notation: str) -> Found:
        """The call of a tool that needs no input, with none."""
        if required := self._tools.required(name):
            raise Refusal("bad_arguments", f"{name} needs {', '.join(required)}", tool=name)
        self._log.add("no_arguments", pos, written, "{}")
        return Found(Call(name, {}), end, notation)

    def _below(self, name: str, pos: int, kind: str | None) -> Label | None:
        """The label of an input below the thought that begins at `pos`."""
        cut = Ending(pos, kind)
        while cut.kind == "thought":
            cut = next_cut(self._text, cut.pos, inputs=True)
        if cut.kind is None and not self._ended:
            raise Refusal("truncated", f"the reply ends before the arguments of {name}", tool=name)
        return label_at(self._text, cut.pos) if cut.kind == "input" else None

    def after_label(self, name: str, label: Label, notation: str) -> Found:
        """The arguments after the label of an input, unless it says that they are none."""
        if is_doubtful(self._text[label.start : label.end]):
            raise Refusal("no_decision", "a remark at the label of the input says that it is none")
        return self.under_label(name, label.end, notation)

    def under_label(self, name: str, pos: int, notation: str) -> Found:
        """The arguments after the input label whose value begins at `pos`."""
        text = self._text
        start = self._calls.past_fence(pos)
        if start >= len(text) or (goes_on(text, start) and text[start] != "["):
            return self._no_input(name, pos, start, notation)
        char = text[start]
        token = TOKEN.match(text, start)
        if char in "{｛":
            value, end = self._calls.json.read(start)
            return Found(Call(name, self.arguments(name, value, start)), end, notation)
        if token and token["name"] == name and text[token.end() : token.end() + 1] in ("(", "（"):
            return self._calls.call(name, token.end(), notation)
        if char == '"':
            strict = read_strict(text, start)
            if strict == ("", len(text)) and not self._ended:
                raise Refusal("truncated", "two quotes may be the first of three", tool=name)
            if strict is not None:
                if isinstance(strict[0], str) and _GOES_ON.match(text, strict[1]):
                    raise Refusal("ambiguous", "words follow the quoted input", tool=name)
                value = arguments_of(name, strict[0], self._tools, self._log, start)
                return Found(Call(name, value), strict[1], notation)
        return self._plain(name, start, notation)

    def _no_input(self, name: str, pos: int, start: int, notation: str) -> Found:
        if start >= len(self._text) and not self._ended:
            raise Refusal("truncated", f"the reply ends before the arguments of {name}")
        label = label_at(self._text, self._text.rfind("\n", pos, start) + 1 or start)
        if label is not None and self._below(name, label.start, label.kind) is not None:
            raise Refusal("ambiguous", f"two inputs for {name}, the first one empty", tool=name)
        return self._without(name, pos, "", start, notation)

    def _plain(self, name: str, start: int, notation: str) -> Found:
        """Words instead of an object."""
        text = self._text
        eol = text.find("\n", start)
        line = text[start : eol if eol >= 0 else len(text)].strip()
        if line.strip("`.。").lower() in NOTHING and (eol >= 0 or self._ended):
            return self._without(name, start, line, start + len(line), notation)
        cut = next_cut(text, start)
        found = self._object_in_prose(name, start, cut.pos, notation)
        if found is not None:
            return found
        if cut.kind is None and not self._ended:
            raise Refusal("truncated", f"the reply may end inside the input of {name}")
        words = clean_answer(text[start : cut.pos])
        words = _STRAY_FENCE.sub("", words) if words.count("\n```") == 1 else words
        marks = {words[:1], words[-1:]}
        if len(words) > 2 and words[0] + words[-1] in _QUOTED and not marks & set(words[1:-1]):
            words = words[1:-1]
        key = _KEY_VALUE.match(words)
        if key is not None and self._names_parameter(name, key.group()):
            raise Refusal("bad_arguments", f"expected JSON, got {snippet(words)!r}", tool=name)
        if any(map(seems_labelled, words.split("\n")[1:])):
            raise Refusal("ambiguous", f"what seems a label in the input of {name}", tool=name)
        arguments = plain_arguments(name, words, self._tools, self._log, start)
        return Found(Call(name, arguments), cut.pos, notation)

    def _object_in_prose(self, name: str, start: int, end: int, notation: str) -> Found | None:
        """The first object, or JSON text of one, after words such as "here is the input:"."""
        text = self._text
        brace = _BRACE.search(text, start, min(end, start + _WORDS_BEFORE))
        if brace is None:
            return None
        at = brace.start()
        encoded = text[at - 1 : at] == '"' and read_strict(text, at - 1) is not None
        first = at - encoded
        if any(mark in text[start:first] for mark in "\"'`[("):
            return None
        if not encoded and not self._is_object(name, at):
            return None
        if is_doubtful(text[start:first]):
            raise Refusal(
                "bad_arguments", f"{text[start:first].strip()!r} stands before the object"
            )
        value, after = self._calls.json.read(first)
        given = arguments_of(name, value, self._tools, self._log, first) if encoded else value
        if self._tools.plain_parameter(name) and not any(
            self._tools.declares(name, key) for key in given
        ):
            return None  # the object belongs to the text
        self._log.add("prose", start, text[start:first], "")
        return Found(Call(name, self.arguments(name, given, first)), after, notation)

    def _is_object(self, name: str, pos: int) -> bool:
        """Whether the brace at `pos` opens an object rather than a remark."""
        text = self._text
        inside = skip_space(text, pos + 1)
        if text[inside : inside + 1] == "{":  # doubled braces
            inside = skip_space(text, inside + 1)
        if text[inside : inside + 1] == "}":
            return not self._tools.required(name)
        return starts_key(text, inside)

    def _names_parameter(self, name: str, written: str) -> bool:
        return self._tools.declares(name, written.strip(" \t\n\"'“”:：="))

    def arguments(self, name: str, value: JsonObject, at: int) -> JsonObject:
        inner = nested_call(name, value, self._tools)
        if inner is not None:
            self._log.add("nested_call", at, "arguments", "")
            value = inner
        return arguments_of(name, value, self._tools, self._log, at)
