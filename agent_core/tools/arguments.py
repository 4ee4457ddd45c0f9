"""Arguments on their way from what the model wrote to what the tool is called with."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent_core.limits import fingerprint
from agent_core.messages import Action, Coercion, JsonValue, Language
from agent_core.tools.coercion import coerce
from agent_core.tools.defaults import fill_defaults
from agent_core.tools.definition import FunctionDefinition
from agent_core.tools.schema import Path, json_path
from agent_core.tools.wording import ArgumentError, Wording

_FLOAT_BITS = 1024  # an integer of more is beyond every float


@dataclass(frozen=True, slots=True)
class Prepared:
    """Arguments after coercion, with defaults filled in. With `errors` the tool must not run."""

    value: JsonValue
    coercions: tuple[Coercion, ...] = ()
    errors: tuple[ArgumentError, ...] = ()


def prepare(definition: FunctionDefinition, given: JsonValue, language: Language) -> Prepared:
    """Coerce, fill in defaults, validate. What was given is not modified."""
    settled = _settled(definition, given, language)
    if settled.errors:
        return settled
    errors = definition.validator.errors(settled.value, language)
    errors = errors or _too_large(definition, settled.value, language)
    return replace(settled, errors=errors)


def _settled(definition: FunctionDefinition, given: JsonValue, language: Language) -> Prepared:
    """The same without validation, but for what nothing can bear."""
    coercions: tuple[Coercion, ...] = ()
    if given is None or (isinstance(given, str) and given.strip() in {"", "null"}):
        coercions, given = (Coercion("$", given, {}),), {}
    validator = definition.validator
    unsafe = validator.unsafe(given, language)
    if unsafe:
        return Prepared(given, coercions, unsafe)
    value, changes = coerce(validator, given)
    return Prepared(fill_defaults(validator, value), (*coercions, *changes))


def _too_large(
    definition: FunctionDefinition, value: JsonValue, language: Language
) -> tuple[ArgumentError, ...]:
    """Integers that a schema takes for a number, but no float can hold."""
    stack: list[tuple[Path, JsonValue]] = [((), value)]
    large: dict[Path, int] = {}
    while stack:
        path, each = stack.pop()
        if isinstance(each, dict):
            stack += (((*path, key), child) for key, child in each.items())
        elif isinstance(each, list):
            stack += (((*path, n), child) for n, child in enumerate(each))
        elif isinstance(each, int) and each.bit_length() > _FLOAT_BITS:
            large[path] = each
    if not large or not isinstance(value, dict):
        return ()
    from pydantic import ValidationError  # noqa: PLC0415 - 100 ms, and this is rare

    try:
        definition.convert(value)
    except ValidationError as error:
        words = Wording(definition.parameters, language)
        refused = [tuple(each["loc"]) for each in error.errors(include_url=False)]
        return tuple(
            ArgumentError(
                json_path(path), words.word("float"), words.word("digits", len(str(abs(each))))
            )
            for path, each in large.items()
            if path in refused
        )
    return ()


def identify(action: Action, definition: FunctionDefinition | None) -> str:
    """Identify an action by what its tool is called with; an empty text for what has no identity.

    Where a number is declared, `"5"` and `5` are the same call, and so are a call with and one
    without what is the default anyway.
    """
    settled = None if definition is None else _settled(definition, action.arguments, "en")
    return key_of(action, settled)


def key_of(action: Action, prepared: Prepared | None) -> str:
    """The same for arguments that are prepared already."""
    arguments = action.arguments
    if prepared is not None and isinstance(prepared.value, dict):
        arguments = prepared.value
    try:
        return fingerprint(action.name, arguments)
    except (ValueError, RecursionError):  # circular or bottomless; validation refuses it
        return ""
