"""What is wrong with arguments, in words that tell a model what to write instead."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_core.messages import JsonObject, JsonValue, Language
from agent_core.scrub import names_secret, scrub
from agent_core.tools.schema import MAX_DEPTH, Node, Path, find, follow, json_path, types_of

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

_SHOWN_CHARS = 60  # of a refused value
_SHOWN_ERRORS = 20
_SHOWN_OPTIONS = 30

# keyword -> (en, zh); `{}` is the keyword's value in the schema
_EXPECTED = {
    "minimum": ("a number of at least {}", "不小于 {} 的数"),
    "maximum": ("a number of at most {}", "不大于 {} 的数"),
    "exclusiveMinimum": ("a number greater than {}", "大于 {} 的数"),
    "exclusiveMaximum": ("a number less than {}", "小于 {} 的数"),
    "multipleOf": ("a multiple of {}", "{} 的倍数"),
    "minLength": ("at least {} characters", "至少 {} 个字符"),
    "maxLength": ("at most {} characters", "至多 {} 个字符"),
    "pattern": ("text that matches {}", "符合 {} 的文本"),
    "format": ("a valid {}", "有效的 {}"),
    "minItems": ("at least {} items", "至少 {} 项"),
    "maxItems": ("at most {} items", "至多 {} 项"),
    "uniqueItems": ("items that differ from each other", "互不相同的项"),
    "minProperties": ("at least {} keys", "至少 {} 个键"),
    "maxProperties": ("at most {} keys", "至多 {} 个键"),
    "not": ("something that does not match {}", "不符合 {} 的值"),
    "falseSchema": ("nothing here", "此处不应有值"),
}
# format -> what it looks like: a small model repeats a date in words until it is shown one
_FORMATS = {
    "date": "2026-12-24",
    "time": "18:30:00",
    "date-time": "2026-12-24T18:30:00",
    "duration": "PT1H30M",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "uri": "https://example.org/page",
    "email": "name@example.org",
}
_WORDS: dict[str, tuple[str, str]] = {
    "or": (" or ", " 或 "),
    "like": (" such as {}", "，例如 {}"),
    "missing": ("nothing", "未提供"),
    "one of": ("one of {}", "{} 之一"),
    "only": ("only {}", "仅限 {}"),
    "only one": ("only one of {}", "仅 {} 其中之一"),
    "no keys": ("no keys at all", "没有任何键"),
    "unknown": ("an unknown key", "未知的键"),
    "any": ("any value", "任意值"),
    "rule": ("a value that satisfies '{}'", "满足 '{}' 的值"),
    "depth": (f"at most {MAX_DEPTH} levels", f"至多 {MAX_DEPTH} 层"),
    "deeper": ("deeper nesting", "更深的嵌套"),
    "float": ("a number between -1.8e308 and 1.8e308", "-1.8e308 与 1.8e308 之间的数"),
    "digits": ("integer ({} digits)", "integer（{} 位）"),
    "json": ("a JSON value", "JSON 值"),
    "line": ("- {path}: expected {expected}, got {got}", "- {path}：应为 {expected}，实际 {got}"),
    "more": ("- and {} more", "- 另有 {} 处"),
}


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """One thing wrong with the arguments; `expected` and `got` are in the asked language."""

    path: str
    expected: str
    got: str


def explain(errors: Sequence[ArgumentError], language: Language) -> str:
    """One line for each error, for the model."""
    line, more = (_WORDS[key][language == "zh"] for key in ("line", "more"))
    lines = [
        line.format(path=each.path, expected=each.expected, got=each.got)
        for each in errors[:_SHOWN_ERRORS]
    ]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(more.format(len(errors) - _SHOWN_ERRORS))
    return "\n".join(lines)


class Wording:
    """Puts what the validator found into words of one language."""

    def __init__(self, root: JsonObject, language: Language) -> None:
        self.root = root
        self.zh = language == "zh"

    def word(self, key: str, *values: object) -> str:
        return _WORDS[key][self.zh].format(*values)

    def tell(self, error: ValidationError) -> Iterator[ArgumentError]:
        path: Path = tuple(error.instance_path)
        keyword = error.kind.name
        detail: dict[str, Any] = error.kind.as_dict()
        if keyword == "required":
            missing = (*path, detail["property"])
            yield self._error(missing, self._describe_property(error), self.word("missing"))
        elif keyword in {"additionalProperties", "unevaluatedProperties"}:
            for name in detail["unexpected"]:
                unknown = (*path, _shortened(name))
                yield self._error(unknown, self._allowed(error), self.word("unknown"))
        elif keyword in {"anyOf", "oneOf"}:
            yield from self._tell_union(error, detail["context"])
        else:
            got = self.got(error.instance, path)
            yield self._error(path, self._expected(keyword, detail, error), got)

    def _error(self, path: Path, expected: str, got: str) -> ArgumentError:
        return ArgumentError(json_path(path), expected, got)

    def _tell_union(
        self, error: ValidationError, context: list[list[ValidationError]]
    ) -> Iterator[ArgumentError]:
        """Where branches fail only further down, the errors of the nearest say more than types."""
        path: Path = tuple(error.instance_path)
        kinds = {"type", "enum", "const"}

        def refused_itself(each: ValidationError) -> bool:
            return tuple(each.instance_path) == path and each.kind.name in kinds

        near = [branch for branch in context if branch and not any(map(refused_itself, branch))]
        told = [[one for each in branch for one in self.tell(each)] for branch in near]
        fewest = min(map(len, told), default=0)
        told = [branch for branch in told if len(branch) == fewest]
        if told:
            yield from (self._common(told) if len(told) > 1 else ()) or told[0]
            return
        node = self._node(list(error.schema_path[:-1]))
        fitting = [n for n, branch in enumerate(context) if not branch]
        expected = self._alone(node, fitting) if len(fitting) > 1 else self.describe(node)
        yield self._error(path, expected, self.got(error.instance, path))

    def _alone(self, node: Node | None, fitting: list[int]) -> str:
        """What a value may be only one of: the branches by the keys they require, or by type."""
        branches = [node.child("oneOf", n) for n in fitting] if node else []
        keys = [
            each.schema.get("required", ()) if isinstance(each.schema, dict) else ()
            for each in branches
        ]
        texts = [
            " + ".join(some) or self.describe(each)
            for some, each in zip(keys, branches, strict=True)
        ]
        return self.word("only one", ", ".join(texts))

    def _common(self, branches: list[list[ArgumentError]]) -> list[ArgumentError]:
        """What every branch refuses at the same place, such as the word that tells them apart."""
        tables = [{each.path: each for each in branch} for branch in branches]
        return [
            ArgumentError(path, self.word("or").join(dict.fromkeys(expected)), first.got)
            for path, first in tables[0].items()
            if (expected := [each[path].expected for each in tables if path in each])
            and len(expected) == len(tables)
        ]

    def _expected(self, keyword: str, detail: JsonObject, error: ValidationError) -> str:
        if keyword in {"type", "enum", "const"}:
            return self.describe(self._node(list(error.schema_path[:-1])))
        value = next(iter(detail.values()), "")
        if keyword in _EXPECTED:
            shown = value if isinstance(value, str) else _json(value)
            expected = _EXPECTED[keyword][self.zh].format(shown)
            if keyword == "format" and shown in _FORMATS:
                expected += self.word("like", _FORMATS[shown])
            return expected
        return self.word("rule", keyword)

    def _node(self, steps: list[str | int]) -> Node | None:
        pointer = "/".join(str(s).replace("~", "~0").replace("/", "~1") for s in ["#", *steps])
        return find(self.root, pointer.replace("%", "%25"))

    def _describe_property(self, error: ValidationError) -> str:
        name = error.kind.as_dict()["property"]
        steps = list(error.schema_path[:-1])
        while True:
            parent = self._node(steps)
            if parent is not None and name in parent.schema.get("properties", {}):
                return self.describe(parent.child("properties", name))
            if steps[-1:] in (["then"], ["else"]):
                steps = steps[:-1]
            elif len(steps) > 1 and steps[-2] in {"anyOf", "oneOf", "allOf"}:
                steps = steps[:-2]  # the branch may name what the schema around it describes
            else:
                return self.word("any")

    def _allowed(self, error: ValidationError) -> str:
        parent = self._node(list(error.schema_path[:-1]))
        names = list(parent.schema.get("properties", {})) if parent else []
        shown = ", ".join(names[:_SHOWN_OPTIONS])
        return self.word("only", shown) if shown else self.word("no keys")

    def describe(self, node: Node | None, depth: int = 0) -> str:
        """Name what a part of the schema accepts, shortly: `integer or array of string`."""
        node = follow(self.root, node) if node else None
        schema = node.schema if node else True
        if node is None or not isinstance(schema, dict) or depth > 2:
            return self.word("any")
        if "const" in schema:
            return _json(schema["const"])
        if "enum" in schema:
            options = ", ".join(_json(each) for each in schema["enum"][:_SHOWN_OPTIONS])
            return self.word("one of", options)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                branches = range(len(schema[union]))
                texts = [self.describe(node.child(union, n), depth + 1) for n in branches]
                return self.word("or").join(dict.fromkeys(texts))
        names = [self._describe_type(node, name, depth) for name in types_of(schema)]
        return self.word("or").join(names) or self.word("any")

    def _describe_type(self, node: Node, name: str, depth: int) -> str:
        if name == "array" and isinstance(node.schema.get("items"), dict):
            return f"array of {self.describe(node.child('items'), depth + 1)}"
        if name == "string" and "format" in node.schema:
            return f"string ({node.schema['format']})"
        return name

    def got(self, value: JsonValue, path: Path) -> str:
        """Say what came. A value is shown when it is short and no name above it is a secret's."""
        if value is None:
            return "null"
        if isinstance(value, list):
            return f"array ({len(value)})"
        if isinstance(value, dict):
            return f"object ({len(value)})"
        kind = {bool: "boolean", int: "integer", float: "number"}.get(type(value), "string")
        if any(isinstance(step, str) and names_secret(step) for step in path):
            return kind
        return f"{kind} {_json(_shortened(value) if isinstance(value, str) else value)}"


def _shortened(text: str) -> str:
    """A text that the model wrote, as an error shows it."""
    text = scrub(text[: 4 * _SHOWN_CHARS])
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False)
