"""What an action label announces: a name and its input, a call, or the final answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_core.messages import JsonObject
from agent_core.parsing.calls import (
    NOTHING,
    Answer,
    Call,
    answer_text,
    arguments_of,
    nested_call,
    plain_arguments,
)
from agent_core.parsing.ending import clean_answer, next_cut
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.json_strings import starts_key
from agent_core.parsing.labels import Label, label_at
from agent_core.parsing.notations import TAGS, CallReader, Found, goes_on, skip_space
from agent_core.parsing.outcome import Refusal, RepairLog, snippet
from agent_core.parsing.python_calls import read_arguments
from agent_core.parsing.toolset import Toolset

_TOKEN = re.compile(r"[`\"'*“‘「【\[<]*+(?P<name>[^\W\d][\w.-]*+)[`\"'*”’」】\]>]*+")
_WORDS = re.compile(r"\S+\s+\S")
_NO_ACTION = frozenset({
    "none",
    "n/a",
    "na",
    "no action",
    "no tool",
    "null",
    "无",
    "無",
    "不需要",
    "没有",
})
_KEY_VALUE = re.compile(r"\s*+[\"'“]?[^\W\d]\w*+[\"'”]?\s*+[:：=]")
_NAME_LIMIT = 300


@dataclass(frozen=True, slots=True)
class NoAction:
    """The model wrote that it takes no action; the decision is still to come."""

    end: int


class ActionReader:
    """Reads what stands after one action label."""

    def __init__(
        self, text: str, tools: Toolset, log: RepairLog, calls: CallReader, *, ended: bool
    ) -> None:
        self._text = text
        self._tools = tools
        self._log = log
        self._calls = calls
        self._ended = ended

    def read(self, label: Label) -> Found | NoAction | None:
        """The call, the answer, or None where a weak label turns out to be prose."""
        text = self._text
        pos = skip_space(text, label.end)
        if pos >= len(text):
            if not label.strong:
                return None
            raise Refusal("truncated", "the reply ends after the action label")
        if "\n" in text[label.end : pos] and goes_on(text, pos) and text[pos] not in "`<[":
            if not label.strong:
                return None
            raise Refusal("bad_name", "no tool is named after the action label")
        tag = next((tag for tag in TAGS if text.startswith(tag, pos)), None)
        if tag is not None:
            return self._calls.tagged(tag, pos)
        found = self._json(pos, label)
        return found if found is not None else self._named(pos, label)

    def _json(self, pos: int, label: Label) -> Found | None:
        """A call in JSON or a pythonic list, in a fence or not."""
        text = self._text
        start = self._calls.past_fence(pos)
        bracketed = text[start : start + 1] in ("[", "［")
        if text[start : start + 1] not in ("{", "｛") and not bracketed and start == pos:
            return None
        if bracketed and re.match(r"\[\s*[\w.-]+\s*\]", text[start : start + 100]):
            return None  # a name in brackets
        if text[start : start + 1] in ("{", "｛") or bracketed:
            found = self._calls.bare(start)
            if found is None or found.content is None:
                if not label.strong:
                    return None
                raise Refusal("bad_name", "the JSON after the action label names no tool")
            if isinstance(found.content, Call) and found.content.arguments is None:
                return self._input_of(found.content.name, found.end, found.notation)
            return found
        return self._calls.bare(start) if text[pos] == "`" and start > pos + 1 else None

    # A name, with its input on the same line or under the next label.

    def _named(self, pos: int, label: Label) -> Found | NoAction | None:
        text = self._text
        eol = text.find("\n", pos)
        eol = len(text) if eol < 0 else eol
        line = text[pos : min(eol, pos + _NAME_LIMIT)].split("</", 1)[0].strip()
        if label.bold:
            line = line.removesuffix(label.bold).rstrip()
        if line.strip("*`.。 ").lower() in _NO_ACTION and not self._tools.find(line):
            return NoAction(eol)
        final = self._final(pos, eol, line)
        if final is not None:
            return final
        inline = self._inline(pos, eol)
        if inline is not None:
            return inline
        name = self._tools.find(line)
        if name is None:
            return self._unnamed(eol, line, label)
        if name != line:
            self._log.add("name", pos, line, name)
        if not label.strong and not self._has_input(eol):
            return None
        return self._input_of(name, eol, "labels")

    def _has_input(self, pos: int) -> bool:
        """Whether the line under `pos` begins with the label of an input."""
        first = skip_space(self._text, pos)
        label = label_at(self._text, self._text.rfind("\n", pos, first) + 1 or first)
        return label is not None and label.kind == "input"

    def _unnamed(self, eol: int, line: str, label: Label) -> Found | None:
        """No tool of that name: the prompt's own words before a call, prose, or a refusal."""
        if _WORDS.match(line) and eol < len(self._text):
            mark = self._log.mark()
            start = skip_space(self._text, eol)
            if self._text[start : start + 1] in ("{", "`"):
                found = self._calls.bare(start)
                if found is not None and isinstance(found.content, Call):
                    self._log.add("prompt_echo", label.end, line, "")
                    return found
                self._log.rollback(mark)
        if not label.strong:
            return None
        raise Refusal("unknown_tool", f"no tool is called {snippet(line)!r}")

    def _inline(self, pos: int, eol: int) -> Found | None:
        """`name(…)`, `name {…}` or `name[…]` on the line of the label."""
        text = self._text
        token = _TOKEN.match(text, pos)
        if token is None or token.end() >= len(text):
            return None
        written, after = token["name"], token.end()
        name = self._tools.find(written)
        char = text[after]
        if char in "(（":
            if text[skip_space(text, after + 1) :][:1] in (")", "）"):
                return None if name is None else self._empty_brackets(name, after)
            return self._called_or_described(written, after, eol)
        at = min(skip_space(text, after), eol)
        if at < eol and text[at] in ",，:：" and name is not None:
            at = min(skip_space(text, at + 1), eol)
        label = label_at(text, at) if at > after and name is not None else None
        if name is not None and label is not None and label.kind == "input" and label.separated:
            return self.input(name, label.end, "labels")
        if at < eol and text[at] in "{｛":
            name = self._tools.require(written)
            value, end = self._calls.json.read(at)
            return Found(Call(name, self._arguments(name, value, at)), end, "inline")
        if char in "[［" and name is not None:
            return self._in_square_brackets(name, after)
        if at < eol and text[at] in "(（" and name is not None:
            return self._maybe_described(name, at)
        return None

    def _empty_brackets(self, name: str, pos: int) -> Found:
        end = skip_space(self._text, pos + 1) + 1
        self._log.add("name", pos, "()", "")
        return self._input_of(name, end, "labels")

    def _called_or_described(self, written: str, pos: int, eol: int) -> Found | None:
        """`name(…)`: a call, unless it can only be a description and an input follows."""
        mark = self._log.mark()
        try:
            return self._calls.call(written, pos, "pythonic")
        except Refusal:
            if self._tools.find(written) is None or not self._has_input(eol):
                raise
        self._log.rollback(mark)
        name = self._tools.require(written)
        self._log.add("name", pos, self._text[pos:eol], "")
        return self._input_of(name, eol, "labels")

    def _in_square_brackets(self, name: str, pos: int) -> Found:
        end = self._text.find("]", pos)
        if end < 0:
            raise Refusal("truncated", f"the input of {name} is not closed")
        start = skip_space(self._text, pos + 1)
        if self._text[start : start + 1] == "{":
            value, end = self._calls.json.read(start)
            return Found(Call(name, self._arguments(name, value, start)), end, "inline")
        inside = self._text[pos + 1 : end].strip().strip("\"'")
        return Found(Call(name, plain_arguments(name, inside, self._tools, self._log, pos)), end + 1, "inline")  # fmt: skip

    def _maybe_described(self, name: str, pos: int) -> Found | None:
        """Brackets after a blank hold arguments, or a description of the tool."""
        mark = self._log.mark()
        try:
            value, end = read_arguments(self._text, pos + 1, name, self._tools, self._log, goes_on)
        except Refusal:
            self._log.rollback(mark)
            return None
        return Found(Call(name, self._arguments(name, value, pos)), end, "pythonic")

    # The input of a named tool.

    def _input_of(self, name: str, pos: int, notation: str) -> Found:
        """The arguments that follow the name which ends at `pos`."""
        text = self._text
        start = skip_space(text, pos)
        if text[start : start + 1] in ("{", "｛") or text.startswith("```", start):
            return self.input(name, pos, notation)
        cut = next_cut(text, max(pos - 1, 0), inputs=True) if start < len(text) else None
        if cut is None or cut.kind is None:
            if self._ended and start >= len(text):
                self._log.add("no_arguments", pos, "", "{}")
                return Found(Call(name, {}), pos, notation)
            raise Refusal(
                "truncated" if not self._ended else "bad_arguments",
                f"the reply ends before the arguments of {name}", tool=name,
            )  # fmt: skip
        if cut.kind == "action":
            raise Refusal(
                "ambiguous", f"{name} has no input, and another action follows", tool=name
            )
        if cut.kind == "input":
            label = label_at(text, cut.pos)
            return self.input(name, label.end if label else cut.pos, notation)
        if text[start : cut.pos].strip():
            raise Refusal(
                "bad_arguments",
                f"expected the arguments of {name}, got {snippet(text[start : cut.pos])!r}",
                tool=name,
            )
        self._log.add("no_arguments", pos, "", "{}")
        return Found(Call(name, {}), start, notation)

    def input(self, name: str, pos: int, notation: str) -> Found:
        """The arguments after the input label whose value begins at `pos`."""
        text = self._text
        start = self._calls.past_fence(pos)
        if start >= len(text) or (goes_on(text, start) and text[start] != "["):
            return self._no_input(name, pos, start, notation)
        char = text[start]
        token = _TOKEN.match(text, start)
        if char in "{｛":
            value, end = self._calls.json.read(start)
            return Found(Call(name, self._arguments(name, value, start)), end, notation)
        if token and token["name"] == name and text[token.end() : token.end() + 1] in ("(", "（"):
            return self._calls.call(name, token.end(), notation)
        if char == '"':
            strict = read_strict(text, start)
            if strict is not None:
                value = arguments_of(name, strict[0], self._tools, self._log, start)
                return Found(Call(name, value), strict[1], notation)
        return self._plain(name, start, notation)

    def _no_input(self, name: str, pos: int, start: int, notation: str) -> Found:
        if start >= len(self._text) and not self._ended:
            raise Refusal("truncated", f"the reply ends before the arguments of {name}")
        self._log.add("no_arguments", pos, "", "{}")
        return Found(Call(name, {}), start, notation)

    def _plain(self, name: str, start: int, notation: str) -> Found:
        """Words instead of an object."""
        text = self._text
        eol = text.find("\n", start)
        line = text[start : eol if eol >= 0 else len(text)].strip()
        if line.strip("`.。").lower() in NOTHING and (eol >= 0 or self._ended):
            self._log.add("no_arguments", start, line, "{}")
            return Found(Call(name, {}), start + len(line), notation)
        cut = next_cut(text, start)
        found = self._object_in_prose(name, start, cut.pos, notation)
        if found is not None:
            return found
        if cut.kind is None and not self._ended:
            raise Refusal("truncated", f"the reply may end inside the input of {name}")
        words = clean_answer(text[start : cut.pos])
        key = _KEY_VALUE.match(words)
        if key is not None and self._names_parameter(name, key.group()):
            raise Refusal("bad_arguments", f"expected JSON, got {snippet(words)!r}", tool=name)
        return Found(Call(name, plain_arguments(name, words, self._tools, self._log, start)), cut.pos, notation)  # fmt: skip

    def _object_in_prose(self, name: str, start: int, end: int, notation: str) -> Found | None:
        """The first object after words such as "here is the input:"."""
        text = self._text
        at = text.find("{", start, end)
        if at < 0 or at - start > _NAME_LIMIT or any(mark in text[start:at] for mark in "\"'`[("):
            return None
        if not starts_key(text, skip_space(text, at + 1)):
            return None
        value, after = self._calls.json.read(at)
        if self._tools.plain_parameter(name) and not all(
            self._tools.declares(name, key) for key in value
        ):
            return None
        self._log.add("prose", start, text[start:at], "")
        return Found(Call(name, self._arguments(name, value, at)), after, notation)

    def _names_parameter(self, name: str, written: str) -> bool:
        return self._tools.declares(name, written.strip(" \t\n\"'“”:：="))

    def _arguments(self, name: str, value: JsonObject, at: int) -> JsonObject:
        inner = nested_call(name, value)
        if inner is not None and not self._tools.declares(name, "name"):
            self._log.add("nested_call", at, "arguments", "")
            value = inner
        return arguments_of(name, value, self._tools, self._log, at)

    # Final Answer where a tool belongs.

    def _final(self, pos: int, eol: int, line: str) -> Found | None:
        text = self._text
        if self._tools.is_final(line):
            start = skip_space(text, eol)
            label = label_at(text, text.rfind("\n", pos, start) + 1) if start < len(text) else None
            if label is not None and label.kind == "input":
                start = label.end
            elif label is not None and label.strong and label.separated:
                start = label.end if label.kind == "final" else start
                if label.kind != "final":
                    raise Refusal("no_decision", "the final answer is empty")
            return self._answer(start)
        token = re.match(r"[^\n:：\[\](（{]{3,20}+", text[pos:eol][:30])
        if token is None or not self._tools.is_final(token.group().strip()):
            return None
        at = pos + token.end()
        if text[at] in "[(（":
            closer = text.rfind("]" if text[at] == "[" else ")", at, eol)
            end = closer if closer > at else eol
            return self._quoted_answer(text[at + 1 : end], end + 1)
        return self._answer(at + 1 if text[at] in ":：" else at)

    def _answer(self, start: int) -> Found:
        cut = next_cut(self._text, start)
        return self._quoted_answer(self._text[start : cut.pos], cut.pos)

    def _quoted_answer(self, raw: str, end: int) -> Found:
        words = clean_answer(raw)
        strict = read_strict(words, 0) if words[:1] in ("{", '"') else None
        if strict is not None and strict[1] == len(words):
            value = strict[0]
            single = isinstance(value, str) or (isinstance(value, dict) and len(value) == 1)
            words = answer_text(value) if single else words
        if not words:
            raise Refusal("no_decision", "the final answer is empty")
        return Found(Answer(words), end, "labels")
