"""Read a function: its signature becomes a JSON Schema, its docstring the descriptions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    get_args,
    get_origin,
    get_type_hints,
)

from agent_core.errors import ConfigError
from agent_core.messages import JsonObject
from agent_core.tools.tidying import tidied

if TYPE_CHECKING:
    from pydantic import BaseModel

_REFUSED = {
    inspect.Parameter.VAR_POSITIONAL: "collects positional arguments, and a JSON object has none",
    inspect.Parameter.VAR_KEYWORD: "takes any name, so that nothing could be checked",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only, and arguments are passed by name",
}


_FIXED = {str, int, float, bool, type(None), type}  # of a default that nobody can change
_Made = tuple[JsonObject, Callable[[JsonObject], dict[str, Any]]]  # a schema and its `convert`


class Described(NamedTuple):
    """What a function says about itself. `convert` turns JSON into the types it declares."""

    name: str
    description: str
    parameters: JsonObject
    convert: Callable[[JsonObject], dict[str, Any]]


def describe_function(function: Callable[..., Any]) -> Described:
    """Read signature and docstring.

    Raises:
        ConfigError: it has no signature, or one that no JSON object can fill.
    """
    inner: Any = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__name__", type(inner).__name__)
    # an object that can be called says what it does in its class, or in its __call__
    sources = [inner] if inspect.isroutine(inner) else [type(inner), type(inner).__call__]
    text = next(filter(None, map(inspect.getdoc, sources)), "")
    description, descriptions = _read_docstring(text)
    parameters = tuple(_parameters(function, name, descriptions))
    schema, convert = _schema_and_convert(name, parameters)
    return Described(name, description, deepcopy(schema), convert)


@functools.lru_cache(maxsize=256)
def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and what is said of each parameter (Google, NumPy, reST, Epydoc)."""
    if not text:
        return "", {}
    from docstring_parser import parse  # noqa: PLC0415 - 40 ms that only tools need

    parsed = parse(text)
    described = {
        each.arg_name: " ".join(each.description.split())
        for each in parsed.params
        if each.description and each.args[0] == "param"
    }
    return (parsed.description or "").strip(), described


class _Parameter(NamedTuple):
    """What counts of a parameter: equal ones make equal fields."""

    number: int
    name: str
    annotation: Any
    default: Any
    description: str | None


def _parameters(
    function: Callable[..., Any], name: str, descriptions: Mapping[str, str]
) -> Iterator[_Parameter]:
    """The parameters that the model is to fill, in their order, with their types resolved."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"cannot read the signature of {name!r}: {error}") from error
    bound = function.keywords if isinstance(function, functools.partial) else {}
    for number, each in enumerate(signature.parameters.values()):
        if each.kind in _REFUSED:
            raise ConfigError(
                f"parameter {each.name!r} of {name!r} {_REFUSED[each.kind]}; "
                "name each parameter, or give FunctionDefinition a JSON Schema"
            )
        if each.name not in bound:  # what partial has bound is not for the model to choose
            annotation = _annotation(function, each)
            yield _Parameter(
                number, each.name, annotation, each.default, descriptions.get(each.name)
            )


def _schema_and_convert(name: str, parameters: tuple[_Parameter, ...]) -> _Made:
    """What pydantic makes of them; once, because agents are built again and again."""
    try:
        if all(type(each.default) in _FIXED for each in parameters):
            return _make(name, parameters, repr(parameters))
    except TypeError:  # a type that has no hash
        pass
    return _make.__wrapped__(name, parameters, "")


@functools.lru_cache(maxsize=256)
def _make(name: str, parameters: tuple[_Parameter, ...], _spelling: str) -> _Made:
    """The spelling tells apart what is equal but not the same, as `int | str`, `str | int`."""
    model = _arguments_model(name, parameters)

    def convert(arguments: JsonObject) -> dict[str, Any]:
        values = model.model_validate(arguments)
        fields = type(values).model_fields
        return {
            str(fields[key].alias): getattr(values, key)
            for key in fields
            if key in values.model_fields_set
        }

    return _schema(model, name), convert


def _arguments_model(name: str, parameters: Sequence[_Parameter]) -> type[BaseModel]:
    """A pydantic model with one field for each parameter, in their order."""
    from pydantic import ConfigDict, create_model  # noqa: PLC0415
    from pydantic.errors import PydanticUserError  # noqa: PLC0415

    fields: dict[str, Any] = {f"p{each.number}": _field(each) for each in parameters}
    try:
        return create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    except (PydanticUserError, TypeError, NameError) as error:
        reason = str(error).partition("\n")[0]  # what follows is a link
        raise ConfigError(f"cannot make a schema of {name!r}: {reason}") from error


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The declared type; one that is written as text is looked up where the function is."""
    if not isinstance(parameter.annotation, str):
        return parameter.annotation
    inner: Any = inspect.unwrap(getattr(function, "func", function))
    if not inspect.isroutine(inner):
        inner = type(inner).__call__
    holder = SimpleNamespace(__annotations__={"type": parameter.annotation})
    try:
        scope = getattr(inner, "__globals__", {})
        return get_type_hints(holder, scope, include_extras=True)["type"]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise ConfigError(
            f"cannot resolve the type of parameter {parameter.name!r}: {error}; "
            "types have to stand at the top level of the function's module"
        ) from error


def _field(parameter: _Parameter) -> tuple[Any, Any]:
    """Annotation and settings of one field; the alias lets a parameter have any name."""
    from pydantic import Field  # noqa: PLC0415
    from pydantic.fields import FieldInfo  # noqa: PLC0415

    empty = inspect.Parameter.empty
    annotation = Any if parameter.annotation is empty else parameter.annotation
    default = parameter.default
    if isinstance(default, FieldInfo):  # `n: int = Field(5, ge=1)`
        annotation, default = Annotated[annotation, default], empty
    said = _annotated_description(annotation)
    settings: dict[str, Any] = {"alias": parameter.name}
    if parameter.description or isinstance(said, str):
        settings["description"] = said or parameter.description
    if default is not empty:
        settings["default"] = default
    return annotation, Field(**settings)


def _annotated_description(annotation: Any) -> str | None:
    """The words in `Annotated[int, "how many"]` or `Annotated[int, Field(description=…)]`."""
    if get_origin(annotation) is not Annotated:
        return None
    for extra in get_args(annotation)[1:]:
        words = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(words, str):
            return words
    return None


def _schema(model: type[BaseModel], name: str) -> JsonObject:
    """The model's JSON Schema without pydantic's titles, stable and in order."""
    from pydantic.errors import PydanticInvalidForJsonSchema  # noqa: PLC0415
    from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415

    class Quiet(GenerateJsonSchema):
        """Leaves out a default that is no JSON, without a warning: Python fills it in."""

        def emit_warning(self, kind: str, detail: str) -> None:
            pass

    try:
        schema = model.model_json_schema(by_alias=True, schema_generator=Quiet)
    except PydanticInvalidForJsonSchema as error:
        reason = str(error).partition("\n")[0]  # what follows is a link
        raise ConfigError(
            f"cannot make a schema of the parameters of {name!r}: {reason}"
        ) from error
    return tidied(schema)
