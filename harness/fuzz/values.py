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
    "/* kept */ // kept", "，：“全角”；", "｛全角｝［］", "🚢‍⚓ 船", "e\u0301 is not é", "a\u2028b\u00a0c",
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
    rng: Random,
    schema: JsonValue,
    *,
    language: Language = "en",
    plain: bool = False,
    depth: int = 3,
) -> JsonValue:
    """A value that fits the schema.

    Understands types, `enum`, `const`, `anyOf`/`oneOf` (the first that is drawn), `properties`,
    `required`, `items`, numeric bounds, lengths and local references; `pattern`, `format` and
    `not` are not satisfied on purpose.
    """
    return _value(rng, schema, schema, language, plain, depth)


def _value(
    rng: Random, schema: Any, root: Any, language: Language, plain: bool, depth: int
) -> JsonValue:
    if not isinstance(schema, dict):
        return None if schema is False else text_value(rng, language, plain=plain)
    if "$ref" in schema:
        schema = _follow(root, schema["$ref"])
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = schema[key] if depth > 0 else schema[key][-1:]
            return _value(rng, rng.choice(options), root, language, plain, depth)
    kinds = schema.get("type", "object" if "properties" in schema else "string")
    kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "object":
        return _object(rng, schema, root, language, plain, depth)
    if kind == "array":
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", least + 3)
        count = rng.randint(least, most) if depth > 0 else least
        items = schema.get("items", {"type": "string"})
        return [_value(rng, items, root, language, plain, depth - 1) for _ in range(count)]
    if kind == "string":
        return _sized(text_value(rng, language, plain=plain), schema)
    if kind in {"integer", "number"}:
        return _number(rng, schema, whole=kind == "integer", plain=plain)
    return rng.choice((True, False)) if kind == "boolean" else None


def _object(
    rng: Random, schema: JsonObject, root: Any, language: Language, plain: bool, depth: int
) -> JsonObject:
    required = schema.get("required", ())
    return {
        key: _value(rng, each, root, language, plain, depth - 1)
        for key, each in schema.get("properties", {}).items()
        if key in required or (depth > 0 and rng.randrange(2))
    }


def _follow(root: Any, reference: str) -> Any:
    node = root
    for part in reference.removeprefix("#").split("/")[1:]:
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return node


def _sized(text: str, schema: JsonObject) -> str:
    text += "x" * (schema.get("minLength", 0) - len(text))
    return text[: schema["maxLength"]] if "maxLength" in schema else text


def _number(rng: Random, schema: JsonObject, *, whole: bool, plain: bool) -> JsonValue:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None or high is not None:
        low = int(low if low is not None else high - 100)
        value: JsonValue = rng.randint(low, int(high) if high is not None else low + 100)
        return value
    if plain:
        return rng.randrange(1, 100)
    if whole or rng.randrange(2):
        return rng.choice(_NUMBERS)
    return rng.choice(_FRACTIONS)


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
