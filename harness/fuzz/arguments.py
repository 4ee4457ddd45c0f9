"""Fuzz the border between a model's arguments and a tool: coercion and validation.

A target is `(schema, arguments) -> {"arguments": {...}}` for what the tool would be called with,
or `{"error": text}`. It must not change what it is given.
"""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any

from agent_core.messages import Action, JsonObject, JsonValue
from agent_core.tools import FunctionCallExecutor, FunctionDefinition
from harness.fuzz.examples import same
from harness.fuzz.functions import load_function
from harness.fuzz.pool import Checked, Finding
from harness.fuzz.values import value_for

KINDS = ("valid", "as text", "hopeless", "missing", "extra", "any")
COLUMNS = ("seen", "unchanged", "coerced", "refused", "wrong", "crash")

_HOPELESS: tuple[tuple[JsonObject, JsonValue], ...] = (
    ({"type": "boolean"}, "maybe"), ({"type": "boolean"}, 2), ({"type": "integer"}, "3.14"),
    ({"type": "integer"}, True), ({"type": "integer"}, None), ({"type": "number"}, "1,500"),
    ({"type": "number"}, False), ({"type": "integer"}, 3.5), ({"type": "integer"}, "twelve"),
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2"), ({"type": "object"}, "{'a': 1"),
    ({"enum": ["sail", "row"]}, "swim"), ({"type": "string", "minLength": 3}, "ab"),
    ({"type": "number"}, "NaN"), ({"type": "null"}, 0), ({"type": "number"}, "1e999"),
)  # fmt: skip
"""Values that can only be guessed at."""


class _Inline:
    """Runs a tool where it stands; there is nothing to wait for."""

    def run(self, tool: FunctionDefinition, arguments: JsonObject, **_: Any) -> JsonValue:
        return tool.function(**arguments)


def ours(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    """The executor of `agent_core`."""
    definition = FunctionDefinition("tool", "", schema, function=lambda **_: None)
    seen = FunctionCallExecutor([definition], runner=_Inline()).execute(Action("tool", arguments))
    if seen.error is not None:
        return {"error": seen.text}
    return {"arguments": seen.arguments}


class ArgumentCampaign:
    """Schemas with arguments whose right reading is known."""

    def __init__(self, spec: str, seed: int) -> None:
        self.target, self.seed = load_function(spec, 2), seed

    def make(self, index: int) -> tuple[str, JsonObject, JsonObject, JsonObject | None]:
        """Kind, schema, arguments, and what they mean if anything."""
        rng = Random(f"{self.seed}/{index}")  # noqa: S311 - reproducible, not secret
        kind = KINDS[index % len(KINDS)]
        schema = object_schema(rng)
        meant = value_for(rng, schema, language=rng.choice(("en", "zh")))
        given = deepcopy(meant)
        if kind == "as text":
            for key in [each for each in given if rng.randrange(2)]:
                given[key] = _as_text(given[key])
        elif kind == "hopeless":
            part, value = rng.choice(_HOPELESS)
            schema["properties"]["limit"] = part
            schema["required"] = [*schema["required"], "limit"]
            given["limit"], meant = value, None
        elif kind == "missing":
            schema["properties"]["must"] = {"type": "string"}
            schema["required"] = [*schema["required"], "must"]
            meant = None
        elif kind == "extra":
            schema["additionalProperties"] = False
            given["unheard_of"] = 1
        elif kind == "any":
            given = {key: _anything(rng, 3) for key in schema["properties"]}
            meant = None
        return kind, schema, given, meant

    def check(self, index: int) -> Checked:
        kind, schema, given, meant = self.make(index)
        before = deepcopy(given)
        try:
            got = self.target(schema, given)
            column, fault, detail = self._judge(kind, schema, before, meant, got)
            if not fault and not same(given, before):
                column, fault, detail = "wrong", "input_changed", "the arguments were changed"
        except Exception as error:
            got, column, fault = None, "crash", "crash"
            detail = f"{type(error).__name__}: {str(error)[:200]}"
        counts = Counter({(kind, "seen"): 1, (kind, column): 1})
        if not fault:
            return Checked(counts)
        return Checked(counts, (self._finding(fault, index, got, detail),))

    def _judge(
        self, kind: str, schema: JsonObject, given: JsonObject, meant: JsonObject | None, got: Any
    ) -> tuple[str, str, str]:
        """Column, fault ("" for none), detail."""
        if not isinstance(got, dict) or not got.keys() & {"arguments", "error"}:
            return "wrong", "bad_outcome", f"got {got!r}"
        if "error" in got:
            right = kind != "valid"
            return ("refused", "", "") if right else ("wrong", "valid_refused", got["error"][:200])
        result = got["arguments"]
        fault, detail = self._wrong_with(result, schema)
        known = {key: each for key, each in result.items() if key in given and key != "unheard_of"}
        if not fault and kind in {"hopeless", "missing"}:
            fault, detail = "guessed", "a value that can only be guessed was accepted"
        elif not fault and meant is not None and not _means(known, meant, given):
            fault = "changed" if kind == "valid" else "misread"
        if fault:
            return "wrong", fault, detail
        return "unchanged" if same(known, given) else "coerced", "", ""

    def _wrong_with(self, result: JsonObject, schema: JsonObject) -> tuple[str, str]:
        """What no result may be, whatever was given."""
        if not _validator(json.dumps(schema)).is_valid(result):
            return "invalid_passed", "the result does not fit the schema"
        again = self.target(schema, deepcopy(result))
        if not same(again.get("arguments"), result):
            return "not_idempotent", f"a second time: {again!r}"
        return "", ""

    def killed(self, index: int, how: str) -> Checked:
        kind = KINDS[index % len(KINDS)]
        counts = Counter({(kind, "seen"): 1, (kind, "crash"): 1})
        return Checked(counts, (self._finding("killed", index, None, how),))

    def _finding(self, fault: str, index: int, got: Any, detail: str) -> Finding:
        kind, schema, given, _ = self.make(index)
        case = {"input": {"schema": schema, "arguments": given}, "got": got}
        return Finding(fault, kind, index, case, detail)

    def shrink(self, finding: Finding) -> Finding:
        """What was given is short already."""
        return finding


def _means(result: JsonObject, meant: JsonObject, given: JsonObject) -> bool:
    """Whether every value is what was meant; text that stayed text is what was given."""
    return result.keys() == meant.keys() and all(
        same(each, meant[key]) or (isinstance(each, str) and same(each, given[key]))
        for key, each in result.items()
    )


def _as_text(value: JsonValue) -> JsonValue:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _anything(rng: Random, depth: int) -> JsonValue:
    choice = rng.randrange(8) if depth else 0
    if choice == 6:
        return [_anything(rng, depth - 1) for _ in range(rng.randrange(3))]
    if choice == 7:
        return {rng.choice("abc"): _anything(rng, depth - 1) for _ in range(rng.randrange(3))}
    return rng.choice((
        None, True, False, 0, 1, -7, 2**70, 0.5, 1.0, 1e300, "", "12", "true", "null", "１２",
        "[1]", "x", "\ud83d", "没有",
    ))  # fmt: skip


def object_schema(rng: Random, depth: int = 2) -> JsonObject:
    """A schema of an object."""
    names = ("city", "数量", "n", "when", "tags", "options", "flag")
    properties = {name: _schema(rng, depth) for name in rng.sample(names, rng.randint(0, 4))}
    required = [each for each in properties if rng.randrange(2)]
    return {"type": "object", "properties": properties, "required": required}


def _schema(rng: Random, depth: int) -> JsonObject:
    choice = rng.randrange(10 if depth else 7)
    if choice == 7:
        return {"type": "array", "items": _schema(rng, depth - 1), "maxItems": 3}
    if choice == 8:
        return object_schema(rng, depth - 1)
    if choice == 9:
        return {"anyOf": [_schema(rng, depth - 1), {"type": "null"}]}
    plain: tuple[JsonObject, ...] = (
        {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"},
        {"enum": ["sail", "row", 3]}, {"type": ["string", "null"]},
        {"type": "integer", "minimum": 1, "maximum": 9},
    )  # fmt: skip
    return dict(plain[choice])


@cache
def _validator(schema: str) -> Any:
    """An independent judge of validity, by the text of the schema."""
    import jsonschema_rs  # noqa: PLC0415 - 40 ms that only this needs

    return jsonschema_rs.Draft202012Validator(json.loads(schema))
