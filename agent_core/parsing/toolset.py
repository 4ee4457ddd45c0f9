"""The registered tools as the parser sees them: names, and schemas where they are known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent_core.messages import JsonObject
from agent_core.parsing.doubt import is_doubtful
from agent_core.parsing.outcome import Refusal, snippet

_INVISIBLE = re.compile(r"[\u200b-\u200f\u2060-\u2064\ufeff\u202a-\u202e\u2066-\u2069\u00ad]")
_NAME_LIMIT = 200  # longer texts are no names
_WRAPPING = "`\"'“”‘’＂*「」【】《》[]<> \t\r\u00a0\u3000"
_TRAILING = ".。:：,，;；!！"
_NAMESPACE = re.compile(r"(?:functions?|tools?|default_api|api)[.:/]")
_NUMBERED = re.compile(
    r"(?:[0-9]{1,2}[.)、][ \t]*+|[@/]|(?:tool|name|工具)[ \t]*+[:：][ \t]*+)", re.IGNORECASE
)
_DESCRIBED = re.compile(
    r"([^\s()（）]++)(?:(?:\s++\(|\s*+（)([^()（）]*+)[)）][.。]?|[ \t]++(?:#|//|-|–|—)[ \t](.*+))"
)
_VALUE = re.compile(r"[\d{}\[\]=:：<>\"“「/|]")
_PHRASES = (
    re.compile(
        r"(?:(?:use|using|call|calling|invoke|run)[ \t]++)?(?:the[ \t]++)?([^\s]++)"
        r"(?:[ \t]++(?:tool|function))?",
        re.IGNORECASE,
    ),
    re.compile(r"(?:使用|调用|調用)?\s*+([^\s工函]++)\s*+(?:工具|函数|函數)?"),
    re.compile(r"(?:使用|调用|調用)\s*+(.+?)(?:工具|函数|函數)?"),
)
TOKEN = re.compile(r"[`\"'*“‘「【\[<]*+(?P<name>[^\W\d][\w.-]*+)[`\"'*”’」】\]>]*+")
"""A name as it may stand in a line, with the marks round it."""

_FINAL = re.compile(
    r"(?:final[\s_-]*(?:answer|response|reply)|finish|最[终終后後](?:的)?(?:答案|回答|答复|回复|答覆|回覆))",
    re.IGNORECASE,
)

Tools = Iterable[Any]
"""Names, or a mapping of names to JSON Schemas, or definitions with a name and parameters."""


def visible(text: str) -> str:
    """`text` without characters that cannot be seen."""
    return _INVISIBLE.sub("", text)


class Toolset:
    """Looks tools up by exact name. A name is peeled of decoration, never guessed."""

    def __init__(self, schemas: Mapping[str, JsonObject | None]) -> None:
        self._schemas = schemas

    @classmethod
    def of(cls, tools: Tools) -> Toolset:
        """Make one from any of the forms that `parse_reply` takes."""
        if isinstance(tools, Toolset):
            return tools
        if isinstance(tools, Mapping):
            return cls({str(name): _schema(value) for name, value in tools.items()})
        schemas: dict[str, JsonObject | None] = {}
        for tool in tools:
            if isinstance(tool, Mapping):
                function = tool.get("function")
                definition = function if isinstance(function, Mapping) else tool
                schemas[str(definition.get("name"))] = _schema(definition)
            else:
                schemas[str(tool)] = None
        return cls(schemas)

    def __contains__(self, name: object) -> bool:
        return name in self._schemas

    def __iter__(self) -> Iterator[str]:
        return iter(self._schemas)

    def schema(self, name: str) -> JsonObject | None:
        """The schema of the arguments, or None where only the name is known."""
        return self._schemas.get(name)

    def plain_parameter(self, name: str) -> str | None:
        """The parameter that plain text fills: the only required one, if it is a string."""
        schema = self._schemas.get(name) or {}
        required = schema.get("required")
        if not isinstance(required, list) or len(required) != 1:
            return None
        declared = self._properties(name).get(required[0])
        is_string = isinstance(declared, Mapping) and declared.get("type") == "string"
        return str(required[0]) if is_string else None

    def required(self, name: str) -> tuple[str, ...]:
        """The parameters that the tool cannot do without, as far as its schema is known."""
        required = (self._schemas.get(name) or {}).get("required")
        return tuple(map(str, required)) if isinstance(required, list) else ()

    def declares(self, name: str, parameter: str) -> bool:
        """Whether the tool's schema is known and has this parameter."""
        return parameter in self._properties(name)

    def keyed(self, name: str, text: str) -> bool:
        """Whether a parameter stands in `text` as a key does: it is a damaged object."""
        for key in self._properties(name):
            for quoted in (f'"{key}"', f"“{key}”"):
                if text.partition(quoted)[2].lstrip()[:1] in tuple(":：="):
                    return True
        return False

    def _properties(self, name: str) -> Mapping[str, Any]:
        properties = (self._schemas.get(name) or {}).get("properties")
        return properties if isinstance(properties, Mapping) else {}

    def find(self, written: str) -> str | None:
        """The registered tool that `written` names exactly, decoration taken off, or None."""
        name = visible(written).strip()
        if name in self._schemas:
            return name
        name = name.replace("\\_", "_")  # escaped for Markdown
        name = name[:_NAME_LIMIT].strip(_WRAPPING)
        for _ in range(4):
            if name in self._schemas:
                return name
            before = name
            name = name.rstrip(_TRAILING).strip(_WRAPPING)
            name = name.removesuffix("()").removesuffix("（）")
            name = _NUMBERED.sub("", name, count=1) if _NUMBERED.match(name) else name
            name = _NAMESPACE.sub("", name, count=1) if _NAMESPACE.match(name) else name
            if name == before:
                break
        described = _DESCRIBED.fullmatch(name)
        if described is not None:
            remark = described[2] or described[3] or ""
            return self.find(described[1]) if self.is_harmless(remark) else None
        for pattern in _PHRASES:
            phrase = pattern.fullmatch(name)
            inner = phrase[1].strip(_WRAPPING) if phrase else ""
            if inner in self._schemas:
                return inner
        return None

    def is_harmless(self, remark: str) -> bool:
        """Whether a remark after a tool's name only describes it.

        One that holds a value, a negation, an alternative or another tool says more than that.
        """
        words = {word.strip(".,;!?()") for word in remark.split()}
        said = is_doubtful(remark) or _VALUE.search(remark) is not None
        return not said and not words & self._schemas.keys()

    def described(self, written: str) -> bool:
        """Whether a remark stands after the name."""
        return _DESCRIBED.fullmatch(visible(written).strip(_WRAPPING)) is not None

    def require(self, written: object) -> str:
        """Like `find`, but an unknown or unusable name is refused."""
        if not isinstance(written, str) or not written.strip():
            raise Refusal("bad_name", f"expected the name of a tool, got {written!r:.80}")
        name = self.find(written)
        if name is None:
            raise Refusal("unknown_tool", f"no tool is called {snippet(written.strip())!r}")
        return name

    def is_final(self, written: object) -> bool:
        """Whether a model wrote "Final Answer" where a tool's name belongs."""
        if not isinstance(written, str) or written in self._schemas:
            return False
        word, _, translation = written.strip().rstrip(")）").replace("（", "(").partition("(")
        return all(
            _FINAL.fullmatch(each.strip(_WRAPPING + _TRAILING))
            for each in (word, translation or word)
        )


def _schema(value: object) -> JsonObject | None:
    if not isinstance(value, Mapping):
        return None
    parameters = value.get("parameters")
    if isinstance(parameters, Mapping) and "properties" not in value:
        return dict(parameters)
    return dict(value)
