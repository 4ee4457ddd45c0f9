"""Calls as chat templates write them: tags of Hermes, Llama, Mistral, DeepSeek, LFM2; bare calls.

Each function reads one call at a known place. Where a call may stand at all is decided in
`decide`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product

from agent_core.parsing.arguments import arguments_of
from agent_core.parsing.calls import Answer, Call, call_in
from agent_core.parsing.json_reader import JsonReader
from agent_core.parsing.labels import announces
from agent_core.parsing.outcome import Refusal, RepairLog
from agent_core.parsing.python_calls import read_arguments
from agent_core.parsing.toolset import Toolset

_DEEPSEEK = tuple(
    f"<{bar}tool{gap}{word}{gap}begin{bar}>"
    for bar, gap, word in product("｜|", "▁_ ", ("calls", "call"))
)
TAGS: dict[str, str] = {
    "<tool_call>": "hermes",
    "<tool_calls>": "hermes",
    "<function_call>": "hermes",
    "<functioncall>": "hermes",
    "<|tool_call|>": "hermes",
    "<function=": "llama3",
    "<|python_tag|>": "llama3",
    "[TOOL_CALLS]": "mistral",
    "<|tool_call_start|>": "pythonic",
    "<tool_code>": "pythonic",
    "<toolcall>": "hermes",
    "<TOOL_CALL>": "hermes",
    "<tool_call >": "hermes",
    "&lt;tool_call&gt;": "hermes",
    "＜tool_call＞": "hermes",
    "[TOOL_CALL]": "mistral",
    **dict.fromkeys(_DEEPSEEK, "deepseek"),
    **dict.fromkeys(
        (f"function<{bar}tool{gap}sep{bar}>" for bar in "｜|" for gap in "▁_ "), "deepseek"
    ),
}
"""Opening tags and the notation they begin."""

_SPACE = re.compile(r"[\s\ufeff\u200b-\u200f\u2060]*+")
_FENCE = re.compile(r"(?:`{3,}+|~{3,}+|'{3}|\"{3})[ \t]*+[\w+-]*+[ \t]*+\n?")
_JSON_WORD = re.compile(r"(?:json|JSON)(?=\s*+[{\[｛])")
_OPENING = re.compile(
    r"<(?:tool_calls?|function_?call)>|<[|｜]tool[▁_ ]calls?[▁_ ]begin[|｜]>|\[TOOL_CALLS\]"
)
_SEPARATOR = re.compile(r"<[|｜]tool[▁_ ]sep[|｜]>")
_CLOSING = re.compile(
    r"</?(?:tool_calls?|tool_code|function_?call|function|tools?|tool_response|s|response)>"
    r"|<[|｜][^|｜<>\s]{1,40}+[|｜]>|\[/?(?:TOOL_CALLS|TOOL_RESULTS|INST)\]"
    r"|<(?:end_of_turn|start_of_turn|eos|eot|bos)>"
)
_IN_CODE_SPAN = re.compile(r"[{\[｛]|\"[{｛]")
_ENCODED = re.compile(r"\"\s*+[{｛]")
_MAX_CALLS = 1_000
_NAME = re.compile(r"[^\W\d][\w.-]*+")
_MISTRAL_ARGUMENTS = re.compile(r"(?>\[CALL_ID\][\w-]*+)?+\[ARGS\]")


@dataclass(frozen=True, slots=True)
class Found:
    """A call or answer and where it ends. `None` as content: what stands there is data."""

    content: Call | Answer | None
    end: int
    notation: str


def tag_at(text: str, pos: int) -> int:
    """The end of the closing or special tag at `pos`, or `pos` where there is none."""
    found = _CLOSING.match(text, pos) if text[pos : pos + 1] in ("<", "[") else None
    return found.end() if found else pos


def opens_call(text: str, pos: int) -> bool:
    """Whether one of the opening tags stands at `pos`."""
    return any(text.startswith(tag, pos) for tag in TAGS)


def goes_on(text: str, pos: int) -> bool:
    """Whether the reply visibly goes on after JSON at `pos`: a fence, a tag or a label."""
    char = text[pos]
    if char == "`":
        return text.startswith("```", pos)
    if char in "<[":
        return tag_at(text, pos) > pos
    return announces(text, pos)


def skip_space(text: str, pos: int) -> int:
    """The next visible character."""
    found = _SPACE.match(text, pos)
    return found.end() if found else pos


class CallReader:
    """Reads calls from one reply."""

    def __init__(self, text: str, tools: Toolset, log: RepairLog, *, ended: bool) -> None:
        self._text = text
        self._tools = tools
        self._log = log
        self._ended = ended
        self.json = JsonReader(text, log, ended=ended, gap=goes_on)

    def past_fence(self, pos: int) -> int:
        """Past blanks, an opening fence and a lone `json`."""
        text = self._text
        pos = skip_space(text, pos)
        fence = _FENCE.match(text, pos)
        if fence is not None:
            self._log.add("fence", pos, fence.group().strip(), "")
            pos = skip_space(text, fence.end())
        elif text.startswith("`", pos) and _IN_CODE_SPAN.match(text, pos + 1):
            self._log.add("fence", pos, "`", "")
            pos += 1
        word = _JSON_WORD.match(text, pos)
        return skip_space(text, word.end()) if word else pos

    def tagged(self, tag: str, pos: int) -> Found:
        """The call after the opening tag that begins at `pos`. Raises `Refusal`."""
        text, notation = self._text, TAGS[tag]
        pos += len(tag)
        if tag == "<function=":
            return self._llama_function(pos)
        while opening := _OPENING.match(text, skip_space(text, pos)):
            pos = opening.end()
        found = self._deepseek(pos) if notation == "deepseek" else self.bare(pos, notation)
        if found is None or found.content is None:
            pos = skip_space(text, pos)
            if pos >= len(text):
                raise Refusal("truncated", f"the reply ends after {tag}")
            if notation == "llama3" and found is None:
                raise Refusal("unsafe", "code after the python tag is not run")
            raise Refusal("bad_json", f"no call after {tag}: {text[pos : pos + 40]!r}")
        return found

    def bare(self, pos: int, notation: str = "json") -> Found | None:
        """The call at `pos` in JSON or in Python's notation; None where none begins."""
        text = self._text
        pos = self.past_fence(pos)
        char = text[pos : pos + 1]
        if char in ("[", "［"):
            inner = skip_space(text, pos + 1)
            if _NAME.match(text, inner):
                return self._python_list(inner, "pythonic")
        if char and char in "{[｛［":
            value, end = self.json.read(pos)
            return Found(call_in(value, self._tools, self._log, pos), end, notation)
        return self._named(pos, notation)

    def _named(self, pos: int, notation: str) -> Found | None:
        """`name(…)`, `name {…}` or `name[ARGS]{…}`."""
        text = self._text
        word = _NAME.match(text, pos)
        if word is None:
            return None
        after = word.end()
        marker = _MISTRAL_ARGUMENTS.match(text, after)
        at = skip_space(text, marker.end()) if marker else skip_space(text, after)
        encoded = notation != "json" and self._is_encoded(at)
        if text[at : at + 1] in ("{", "｛") or encoded:
            name = self._tools.require(word.group())
            return self._with_arguments(name, at, notation)
        if text[after : after + 1] in ("(", "（"):
            return self.call(word.group(), after, "pythonic")
        return None

    def _is_encoded(self, pos: int) -> bool:
        """Whether a JSON string that holds an object stands at `pos`."""
        return _ENCODED.match(self._text, pos) is not None

    def _with_arguments(self, name: str, pos: int, notation: str) -> Found:
        """The call of `name` whose arguments are the JSON at `pos`."""
        value, end = self.json.read(pos)
        arguments = arguments_of(name, value, self._tools, self._log, pos)
        return Found(Call(name, arguments), end, notation)

    def call(self, written: str, pos: int, notation: str) -> Found:
        """The call whose opening bracket is at `pos`."""
        name = self._tools.find(written.removesuffix(".call"))
        arguments, end = read_arguments(
            self._text, pos + 1, written, tools=self._tools, log=self._log, gap=goes_on
        )
        name = name or self._tools.require(written)
        arguments = arguments_of(name, arguments, self._tools, self._log, pos)
        return Found(Call(name, arguments), end, notation)

    def _python_list(self, pos: int, notation: str) -> Found | None:
        """`[f(a=1), g()]`: all are read, so that a list cut short is known to be cut."""
        text = self._text
        first: Call | None = None
        more = -1
        while True:
            if first is not None and pos < len(text) and text[pos] in "]］":  # after a comma
                pos += 1
                break
            if first is not None and pos >= len(text):
                raise Refusal("truncated", "the list of calls is not closed")
            word = _NAME.match(text, pos)
            if word is None or text[word.end() : word.end() + 1] not in ("(", "（"):
                return None
            found = self.call(word.group(), word.end(), notation)
            if isinstance(found.content, Call):
                first = first or found.content
                more += 1
            if more > _MAX_CALLS:
                raise Refusal("too_large", f"more than {_MAX_CALLS} calls in one list")
            pos = skip_space(text, found.end)
            if pos >= len(text):
                if not self._ended:
                    raise Refusal("truncated", "the list of calls is not closed")
                break
            if text[pos] in "]］":
                pos += 1
                break
            if goes_on(text, pos):
                break
            if text[pos] not in ",，;":
                raise Refusal("bad_json", f"expected ',' or ']', got {text[pos : pos + 20]!r}")
            pos = skip_space(text, pos + 1)
        if first is None:
            return None
        return Found(Call(first.name, first.arguments, more), pos, notation)

    def _llama_function(self, pos: int) -> Found:
        end = self._text.find(">", pos, pos + 100)
        if end < 0:
            raise Refusal("truncated", "the tag <function=…> is not closed")
        name = self._tools.require(self._text[pos:end])
        at = self.past_fence(end + 1)
        if self._text[at : at + 1] not in ("{", "｛"):
            raise Refusal("bad_json", f"expected the arguments of {name} as JSON", tool=name)
        return self._with_arguments(name, at, "llama3")

    def _deepseek(self, pos: int) -> Found | None:
        """`function<sep>name` and a fence with the arguments, or `name<sep>{…}`."""
        text = self._text
        pos = skip_space(text, pos)
        word = _NAME.match(text, pos)
        if word is None:
            return self.bare(pos, "deepseek")
        written, after = word.group(), word.end()
        separator = _SEPARATOR.match(text, skip_space(text, after))
        if separator is not None:
            after = separator.end()
        elif text[after : after + 1] in ("(", "（"):
            return self.bare(pos, "deepseek")
        if separator is not None and written == "function":
            word = _NAME.match(text, skip_space(text, after))
            if word is None:
                near = text[after : after + 20]
                raise Refusal("bad_name", f"expected the name of a tool, got {near!r}")
            written, after = word.group(), word.end()
        name = self._tools.require(written)
        at = self.past_fence(after)
        if at >= len(text):
            raise Refusal("truncated", f"the reply ends before the arguments of {name}")
        if text[at] not in "{｛" and not self._is_encoded(at):
            raise Refusal("bad_json", f"expected the arguments of {name} as JSON", tool=name)
        return self._with_arguments(name, at, "deepseek")
