"""Arguments on their way from what the model wrote to what the tool is called with."""

from __future__ import annotations

from dataclasses import dataclass

from agent_core.limits import fingerprint
from agent_core.messages import Action, Coercion, JsonValue, Language
from agent_core.tools.coercion import coerce
from agent_core.tools.defaults import fill_defaults
from agent_core.tools.definition import FunctionDefinition
from agent_core.tools.wording import ArgumentError


@dataclass(frozen=True, slots=True)
class Prepared:
    """Arguments after coercion, with defaults filled in. With `errors` the tool must not run."""

    value: JsonValue
    coercions: tuple[Coercion, ...] = ()
    errors: tuple[ArgumentError, ...] = ()


def prepare(definition: FunctionDefinition, given: JsonValue, language: Language) -> Prepared:
    """Coerce, fill in defaults, validate. What was given is not modified."""
    coercions: tuple[Coercion, ...] = ()
    if given is None or (isinstance(given, str) and given.strip() in {"", "null"}):
        coercions, given = (Coercion("$", given, {}),), {}
    validator = definition.validator
    errors = validator.unsafe(given, language)
    if errors:
        return Prepared(given, coercions, errors)
    value, changes = coerce(validator, given)
    value = fill_defaults(validator, value)
    return Prepared(value, (*coercions, *changes), validator.errors(value, language))


def identify(action: Action, definition: FunctionDefinition | None) -> str:
    """Identify an action by what its tool is called with; an empty text for what has no identity.

    Where a number is declared, `"5"` and `5` are the same call, and so are a call with and one
    without what is the default anyway.
    """
    prepared = None if definition is None else prepare(definition, action.arguments, "en")
    return key_of(action, prepared)


def key_of(action: Action, prepared: Prepared | None) -> str:
    """The same for arguments that are prepared already."""
    arguments = action.arguments
    if prepared is not None and not prepared.errors and isinstance(prepared.value, dict):
        arguments = prepared.value
    try:
        return fingerprint(action.name, arguments)
    except (ValueError, RecursionError):  # circular or bottomless; validation refuses it
        return ""
