"""Values that fit a JSON Schema, and the words and tools that examples are made of.

Every choice is drawn from the `random.Random` that is passed in: Python's own for bulk runs,
Hypothesis's (`st.randoms`) where an example is to shrink. The first of several choices is the
simplest, so that shrinking ends there.
"""

from __future__ import annotations

from random import Random
from typing import Any

from agent_core.messages import JsonObject, JsonValue, Language

_WORDS: dict[Language, tuple[str, ...]] = {
    "en": ("harbour", "north pier", "Orla", "two crates of salt", "Tern Bay", "low water at nine",
           "winch", "the blue ferry", "Mirek", "fog after dusk"),
    "zh": ("青屿", "北码头", "两箱盐", "明早九点退潮", "渡轮停航", "小林", "雾气很大，慢行",
           "蓝色的船", "绞盘", "入夜起风"),
}  # fmt: skip

_HARD = (
    "O'Dell's", 'say "ahoy" twice', "C:\\new\\table", "one\ntwo", "a\tb", "", " padded ", "007",
    "1,500", "null", "true", "{curly} [square] (round)", "a/{b1,b2", "https://quay.example/a//b",
    "/* kept */ // kept", "，：“全角”；", "｛全角｝［］", "🚢‍⚓ 船", "e\u0301 is not é",
    "a\u2028b\u00a0c",
    "\\u0041", "</tool_call>", "<think>no</think>", "```sh\nls\n```", "[TOOL_CALLS]", "x\u200by",
    "Action: stop", "Final Answer: none", "最终答案：无", "\nObservation: dry\n", "\n观察：晴\n",
    "a\r\nb", "<|im_end|>", "\\", '"', "'", "don't; can't, won't", "key: value, other = 2", "%s {}",
)  # fmt: skip

_NUMBERS: tuple[JsonValue, ...] = (0, 1, 7, -3, 42, 1024, 2**53 + 1, -(10**15))
_FRACTIONS: tuple[JsonValue, ...] = (0.5, -1.5, 12.25, 1e-07, 6.02e23, -0.125)


def words(rng: Random, language: Language) -> str:
    """A few plain words."""
    return rng.choice(_WORDS[language])


def text_value(rng: Random, language: Language, *, plain: bool = False) -> str:
    """A string for an argument; `plain` keeps to letters, digits and blanks."""
    if plain or rng.randrange(3):
        text = words(rng, language)
        return text.replace("，", " ") if plain else text
    if rng.randrange(4):
        return rng.choice(_HARD)
    return words(rng, language) + rng.choice(_HARD)


def value_for(
    rng: Random, schema: JsonValue, *, language: Language = "en", plain: bool = False
) -> JsonValue:
    """A value that fits the schema.

    Understands types, `enum`, `const`, `anyOf` and `oneOf`, `properties` and `required`,
    `items`, bounds of numbers, lengths, and local references. `pattern`, `format` and `not` are
    not looked at.
    """
    return _Maker(rng, schema, language, plain=plain).value(schema, _DEPTH)


_DEPTH = 3  # levels below which optional parts are left out


class _Maker:
    """Makes the value of one schema."""

    def __init__(self, rng: Random, root: Any, language: Language, *, plain: bool) -> None:
        self.rng, self.root, self.language, self.plain = rng, root, language, plain

    def value(self, schema: Any, depth: int) -> JsonValue:
        if not isinstance(schema, dict):
            schema = {"type": "string"}
        while "$ref" in schema:
            schema = self._follow(schema["$ref"])
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                options = schema[key] if depth > 0 else schema[key][-1:]
                return self.value(self.rng.choice(options), depth)
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        kind = self.rng.choice(kinds) if isinstance(kinds, list) else kinds
        make = getattr(self, f"_{kind}", None)
        return make(schema, depth) if make else None

    def _follow(self, reference: str) -> Any:
        node = self.root
        for part in reference.removeprefix("#").split("/")[1:]:
            node = node[part.replace("~1", "/").replace("~0", "~")]
        return node

    def _object(self, schema: JsonObject, depth: int) -> JsonObject:
        required = schema.get("required", ())
        return {
            key: self.value(each, depth - 1)
            for key, each in schema.get("properties", {}).items()
            if key in required or (depth > 0 and self.rng.randrange(2))
        }

    def _array(self, schema: JsonObject, depth: int) -> list[JsonValue]:
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", least + 3) if depth > 0 else least
        items = schema.get("items", {"type": "string"})
        return [self.value(items, depth - 1) for _ in range(self.rng.randint(least, most))]

    def _string(self, schema: JsonObject, _: int) -> str:
        text = text_value(self.rng, self.language, plain=self.plain)
        shortest: int = schema.get("minLength", 0)
        longest: int | None = schema.get("maxLength")
        text += "x" * (shortest - len(text))
        return text[:longest]

    def _integer(self, schema: JsonObject, _: int) -> JsonValue:
        if "minimum" in schema or "maximum" in schema:
            low = int(schema.get("minimum", schema.get("maximum", 0) - 100))
            return self.rng.randint(low, int(schema.get("maximum", low + 100)))
        return self.rng.randrange(1, 100) if self.plain else self.rng.choice(_NUMBERS)

    def _number(self, schema: JsonObject, depth: int) -> JsonValue:
        bounded = "minimum" in schema or "maximum" in schema
        if self.plain or bounded or self.rng.randrange(2):
            return self._integer(schema, depth)
        return self.rng.choice(_FRACTIONS)

    def _boolean(self, _: JsonObject, __: int) -> bool:
        return self.rng.choice((True, False))


def _schema(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT: JsonObject = {"type": "string"}
_COUNT: JsonObject = {"type": "integer"}
_AMOUNT: JsonObject = {"type": "number"}
_FLAG: JsonObject = {"type": "boolean"}

TOOLS: dict[Language, dict[str, JsonObject]] = {
    "en": {
        "read_tide": _schema({"harbour": _TEXT, "days": _COUNT}, "harbour"),
        "find_ferry": _schema({"query": _TEXT}, "query"),
        "find_ferry_times": _schema({"line": _TEXT, "max_stops": _COUNT}, "line"),
        "send_note": _schema({"to": _TEXT, "body": _TEXT, "urgent": _FLAG}, "to", "body"),
        "add2": _schema({"a": _AMOUNT, "b": _AMOUNT}, "a", "b"),
        "add": _schema({"a": _AMOUNT, "b": _AMOUNT}),
        "list_crates": _schema({}),
        "erase_log": _schema({"path": _TEXT, "only_if_old": _FLAG}, "path"),
        "plot-route": _schema({
            "name": _TEXT,
            "stops": {"type": "array", "items": _schema({"x": _AMOUNT, "y": _AMOUNT}, "x", "y")},
            "mode": {"enum": ["sail", "row"]},
        }, "name", "stops"),
        "book_berth": _schema({
            "ship": _TEXT,
            "length": _AMOUNT,
            "options": _schema({"power": _FLAG, "note": {"type": ["string", "null"]}}),
        }, "ship", "length"),
    },
    "zh": {
        "查询潮汐": _schema({"港口": _TEXT, "天数": _COUNT}, "港口"),
        "find_ferry": _schema({"query": _TEXT}, "query"),
        "发送消息": _schema({"收件人": _TEXT, "正文": _TEXT, "加急": _FLAG}, "收件人", "正文"),
        "计算2": _schema({"a": _AMOUNT, "b": _AMOUNT}, "a", "b"),
        "计算": _schema({"a": _AMOUNT, "b": _AMOUNT}),
        "列出箱子": _schema({}),
        "read_tide": _schema({"harbour": _TEXT, "days": _COUNT}, "harbour"),
        "删除日志": _schema({"路径": _TEXT, "仅旧": _FLAG}, "路径"),
        "book_berth": _schema({
            "ship": _TEXT,
            "length": _AMOUNT,
            "options": _schema({"电源": _FLAG, "note": {"type": ["string", "null"]}}),
        }, "ship", "length"),
    },
}  # fmt: skip
"""The tools of examples that are not given any: one without parameters, names that begin
other names, names that end in a digit, nested arguments."""
