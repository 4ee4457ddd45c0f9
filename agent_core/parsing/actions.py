"""What an action label announces: a name and its input, a call, or the final answer."""

from __future__ import annotations

import re

from agent_core.parsing.answers import AnswerReader, NoAction, names_nothing
from agent_core.parsing.arguments import plain_arguments
from agent_core.parsing.calls import Call
from agent_core.parsing.inputs import InputReader
from agent_core.parsing.json_strict import read_strict
from agent_core.parsing.labels import Label, announces, label_at, seems_labelled
from agent_core.parsing.notations import TAGS, CallReader, Found, goes_on, skip_space
from agent_core.parsing.outcome import Refusal, RepairLog, snippet
from agent_core.parsing.python_calls import read_arguments
from agent_core.parsing.toolset import TOKEN, Toolset

_WORDS = re.compile(r"\S+\s+\S")
_NAME_LIMIT = 300
_SECOND = re.compile(  # another object right after the input
    r"(?P<before>[\s`.,;。，；/|]*+(?P<or>(?>or|and|else|或者?|还是|以及|和)\s*+)?+)"
    r"[{｛]\s*+[\"'“]?(?P<key>\w++)",
    re.IGNORECASE,
)


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
        self._answers = AnswerReader(text, tools)
        self.inputs = InputReader(text, tools, log, calls, ended=ended)

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
        found = self._json(pos, label) or self._named(pos, label)
        if isinstance(found, Found) and isinstance(found.content, Call):
            self._refuse_second(found.content, found.end)
            self._refuse_conflict(found.content, found.end)
        return found

    def begins(self, line: str) -> bool:
        """Whether `line` is what an action label without a colon can announce."""
        if line[:1] in ("{", "｛", "[", "`") or names_nothing(line) or self._tools.is_final(line):
            return True
        token = TOKEN.match(line)
        if self._tools.find(line) is not None or token is None:
            return token is not None
        after = line[token.end() :].lstrip()[:1]
        return self._tools.find(token["name"]) is not None and after in tuple("{｛([（［")

    def _refuse_second(self, call: Call, end: int) -> None:
        """Refuse an input that says two things: `{…} or {…}`, or another input below a call."""
        text = self._text
        second = _SECOND.match(text, end)
        if second is None:
            return
        key = second["key"]
        shared = key in (call.arguments or {}) or self._tools.declares(call.name, key)
        if second["or"] or shared:
            strict = read_strict(text, second.end("before"))
            if strict is None or strict[0] != call.arguments:
                raise Refusal("ambiguous", f"two inputs for {call.name}", tool=call.name)

    def _refuse_conflict(self, call: Call, end: int) -> None:
        """Refuse a call with arguments over the label of an input with others."""
        if self._has_input(end):
            below = self.inputs.after_name(call.name, end, "labels").content
            if isinstance(below, Call) and below.arguments not in ({}, call.arguments):
                raise Refusal("ambiguous", f"two inputs for {call.name}", tool=call.name)

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
                return self.inputs.after_name(found.content.name, found.end, found.notation)
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
        if names_nothing(line) and not self._tools.find(line):
            return NoAction(eol)
        final = self._answers.read(pos, eol, line)
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
        if not label.strong and not self._has_input(eol) and not self._ends_step(eol):
            return None
        if self._tools.described(line) and not self._has_input(eol):
            raise Refusal("bad_arguments", f"a remark but no input follows {name}", tool=name)
        return self.inputs.after_name(name, eol, "labels")

    def _has_input(self, pos: int) -> bool:
        """Whether the line under `pos` begins with the label of an input."""
        first = skip_space(self._text, pos)
        label = label_at(self._text, self._text.rfind("\n", pos, first) + 1 or first)
        return label is not None and label.kind == "input"

    def _ends_step(self, pos: int) -> bool:
        """Whether nothing or another label stands under `pos`, so that the step ends there."""
        text, first = self._text, skip_space(self._text, pos)
        line = text.rfind("\n", pos, first) + 1 or first
        return first >= len(text) or announces(text, first) or seems_labelled(text, line)

    def _unnamed(self, eol: int, line: str, label: Label) -> Found | None:
        """No tool of that name: the prompt's own words before a call, prose, or a refusal."""
        token = TOKEN.match(line)
        named = token is not None and self._tools.find(token["name"]) is not None
        if _WORDS.match(line) and eol < len(self._text) and not named:
            mark = self._log.mark()
            start = skip_space(self._text, eol)
            if self._text[start : start + 1] in ("{", "`"):
                found = self._calls.bare(start)
                if found is not None and isinstance(found.content, Call):
                    self._log.add("prompt_echo", label.end, line, "")
                    return found
                self._log.rollback(mark)
        if not label.strong:
            cut = not self._ended and eol >= len(self._text) and bool(line)
            if cut and any(name.startswith(line) for name in self._tools):
                raise Refusal("truncated", f"the reply may end inside the name {snippet(line)!r}")
            return None
        if token is not None and named:
            raise Refusal(
                "bad_arguments",
                f"expected nothing but the tool's name, got {snippet(line)!r}",
                tool=self._tools.find(token["name"]),
            )
        raise Refusal("unknown_tool", f"no tool is called {snippet(line)!r}")

    def _inline(self, pos: int, eol: int) -> Found | None:
        """`name(…)`, `name {…}` or `name[…]` on the line of the label."""
        text = self._text
        token = TOKEN.match(text, pos)
        if token is None or token.end() >= len(text):
            return None
        written, after = token["name"], token.end()
        name = self._tools.find(written)
        char = text[after]
        if char in "(（":
            inside = skip_space(text, after + 1)
            if text[inside : inside + 1] in (")", "）"):
                return None if name is None else self._empty_brackets(name, after)
            return self._called_or_described(written, after, eol)
        if char in "[［" and name is not None:
            return self._in_square_brackets(name, after)
        return self._after_blank(written, after, eol)

    def _after_blank(self, written: str, after: int, eol: int) -> Found | None:
        """An input label, an object or brackets behind the name that ends at `after`."""
        text = self._text
        name = self._tools.find(written)
        at = min(skip_space(text, after), eol)
        if at < eol and text[at] in ",，:：" and name is not None:
            at = min(skip_space(text, at + 1), eol)
        label = label_at(text, at) if at > after and name is not None else None
        if name is not None and label is not None and label.kind == "input" and label.separated:
            return self.inputs.after_label(name, label, "labels")
        if at < eol and text[at] in "{｛":
            name = self._tools.require(written)
            value, end = self._calls.json.read(at)
            return Found(Call(name, self.inputs.arguments(name, value, at)), end, "inline")
        if at < eol and text[at] in "(（" and name is not None:
            return self._maybe_described(name, at)
        return None

    def _empty_brackets(self, name: str, pos: int) -> Found:
        end = skip_space(self._text, pos + 1) + 1
        self._log.add("name", pos, "()", "")
        return self.inputs.after_name(name, end, "labels")

    def _called_or_described(self, written: str, pos: int, eol: int) -> Found | None:
        """`name(…)`: a call, unless it can only be a description and an input follows."""
        mark = self._log.mark()
        try:
            return self._calls.call(written, pos, "pythonic")
        except Refusal:
            remark = self._text[pos + 1 : eol].strip().rstrip(")）.。")
            harmless = self._tools.is_harmless(remark)
            if self._tools.find(written) is None or not harmless or not self._has_input(eol):
                raise
        self._log.rollback(mark)
        name = self._tools.require(written)
        self._log.add("name", pos, self._text[pos:eol], "")
        return self.inputs.after_name(name, eol, "labels")

    def _in_square_brackets(self, name: str, pos: int) -> Found:
        end = self._text.find("]", pos)
        if end < 0:
            raise Refusal("truncated", f"the input of {name} is not closed")
        start = skip_space(self._text, pos + 1)
        if self._text[start : start + 1] == "{":
            value, end = self._calls.json.read(start)
            return Found(Call(name, self.inputs.arguments(name, value, start)), end, "inline")
        inside = self._text[pos + 1 : end].strip().strip("\"'")
        if "," in inside or "，" in inside:
            raise Refusal("bad_arguments", f"the arguments of {name} have no names", tool=name)
        arguments = plain_arguments(name, inside, self._tools, self._log, pos)
        return Found(Call(name, arguments), end + 1, "inline")

    def _maybe_described(self, name: str, pos: int) -> Found | None:
        """Brackets after a blank hold arguments, or a description of the tool."""
        mark = self._log.mark()
        try:
            value, end = read_arguments(
                self._text, pos + 1, name, tools=self._tools, log=self._log, gap=goes_on
            )
        except Refusal:
            self._log.rollback(mark)
            return None
        return Found(Call(name, self.inputs.arguments(name, value, pos)), end, "pythonic")
