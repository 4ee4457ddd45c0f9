"""YAML as this project reads and writes it: safe to load, pleasant to read.

Loading builds plain data only. A few tags that stock vcrpy writes are understood; any other
tag is refused. A time is the text that stands there: what dumps YAML anew leaves the quotes of
`recorded_at` away. Dumping keeps Chinese as Chinese, and text with line breaks as a block.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from harness.sessions.errors import SessionFormatError
from harness.sessions.yamlevents import MAX_DEPTH, Meanings, read_events

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML built without libyaml: the same, slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

_MAX_NODES = 2_000_000  # a small file whose aliases multiply would exhaust memory later
_MAX_NUMBER = 400  # characters; base-60 numbers (`1:59:59`) take quadratic time, then overflow
_WIDTH = 100
_WRONG = (yaml.YAMLError, ValueError, ArithmeticError, RecursionError)
_UNFIT = (LookupError, TypeError, AttributeError)  # as PyYAML itself fails at `!!bool maybe`
_TAG = "tag:yaml.org,2002:"
_PYTHON = f"{_TAG}python/"
_MERGE = f"{_TAG}merge"
_BREAKS_YAML_CHANGES = ("\x85", "\u2028", "\u2029", "\ufeff")


class _Loader(_SafeLoader):
    """A safe loader that knows the plain-data tags of stock vcrpy, and wants each key once."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._flat: set[int] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Of two blocks that a merge left, none may win; keys of `<<` are there to be replaced."""
        own = [key for key, _ in node.value if key.tag != _MERGE]
        super().flatten_mapping(node)
        if id(node) not in self._flat:  # later its keys are also those that came with `<<`
            self._flat.add(id(node))
            self._refuse_repeated(own)

    def _refuse_repeated(self, keys: list[yaml.Node]) -> None:
        lines: dict[Any, int] = {}
        for node in keys:
            key, line = self.construct_object(node, deep=True), node.start_mark.line + 1
            if not isinstance(key, Hashable):
                continue  # no key at all: the error that follows says so
            if key in lines:
                raise ValueError(
                    f"line {line}: the key {key!r:.80} stands in line {lines[key]} too; keep one"
                )
            lines[key] = line


class _Dumper(yaml.SafeDumper):
    """The pure Python emitter: libyaml would escape emoji, and blocks with them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def load_yaml(text: str) -> Any:
    """Read one YAML (or JSON) document as plain data.

    Raises:
        SessionFormatError: no YAML, an unknown tag, a key that is there twice, aliases that
            multiply beyond measure, or more than `MAX_DEPTH` levels.
    """
    try:
        data, shared = read_events(_Loader(text), _MEANINGS)
    except (*_WRONG, *_UNFIT):  # the safe loader reads it, or says what is wrong and where
        data, shared = _loaded(text), True
    if shared:
        _check_extent(data)
    return data


def _loaded(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a subclass of the safe loader
    except _WRONG as error:
        raise SessionFormatError(f"expected a YAML file of plain data: {error}") from error
    except _UNFIT as error:
        raise SessionFormatError(
            f"expected a YAML file of plain data: a value does not fit its tag ({error!r:.80})"
        ) from error


def dump_yaml(data: Any) -> str:
    """Write plain data as YAML, keys in their order."""
    return yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=_WIDTH)


def _check_extent(data: Any) -> None:
    """Count what a document unfolds to and how deep, looking at every shared part once."""
    endless = (_MAX_NODES + 1, 0)
    extents: dict[int, tuple[int, int]] = {}
    stack = [data] if _is_part(data) else []
    while stack:
        node = stack[-1]
        inside = node.values() if isinstance(node, dict) else node
        if id(node) not in extents:
            extents[id(node)] = endless  # until it is counted: what holds itself has no end
            stack += [each for each in inside if _is_part(each) and id(each) not in extents]
            continue
        stack.pop()
        if extents[id(node)] == endless:
            parts = [extents.get(id(each), (1, 0)) for each in inside]
            nodes = min(_MAX_NODES, sum(count for count, _ in parts)) + 1
            extents[id(node)] = nodes, 1 + max((depth for _, depth in parts), default=0)
    nodes, depth = extents.get(id(data), (1, 0))
    if nodes > _MAX_NODES:
        raise SessionFormatError(
            f"the file unfolds to more than {_MAX_NODES:,} values: its aliases multiply"
        )
    if depth > MAX_DEPTH:
        raise SessionFormatError(
            f"expected at most {MAX_DEPTH} lists and mappings inside each other, got {depth}"
        )


def _is_part(value: Any) -> bool:
    return isinstance(value, dict | list | tuple | set)


def _number(construct: Any) -> Any:
    def constructed(loader: Any, node: yaml.ScalarNode) -> Any:
        if len(node.value) > _MAX_NUMBER:
            raise ValueError(f"a number of {len(node.value):,} characters")
        return construct(loader, node)

    return constructed


def _text(loader: Any, node: yaml.ScalarNode) -> Any:
    return loader.construct_scalar(node)


def _tuple(loader: Any, node: yaml.SequenceNode) -> Any:
    return tuple(loader.construct_sequence(node, deep=True))


def _file_body(loader: Any, node: yaml.MappingNode) -> Any:
    state = loader.construct_mapping(node, deep=True).get("state") or (b"",)
    return state[0]


def _iterator_body(loader: Any, node: yaml.MappingNode) -> Any:
    items = (loader.construct_mapping(node, deep=True).get("args") or [[]])[0]
    return b"".join(each.encode() if isinstance(each, str) else each for each in items)


def _dump_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text or len(text) > _WIDTH else None
    if any(each in text for each in _BREAKS_YAML_CHANGES):
        style = '"'
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


def _dump_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    numbers = bool(items) and all(isinstance(each, int | float) for each in items)
    return dumper.represent_sequence(f"{_TAG}seq", items, flow_style=numbers)


_Loader.add_constructor(f"{_TAG}int", _number(_Loader.construct_yaml_int))
_Loader.add_constructor(f"{_TAG}float", _number(_Loader.construct_yaml_float))
_Loader.add_constructor(f"{_TAG}timestamp", _text)
_Loader.add_constructor(_PYTHON + "str", _text)
_Loader.add_constructor(_PYTHON + "unicode", _text)
_Loader.add_constructor(_PYTHON + "tuple", _tuple)
_Loader.add_constructor(_PYTHON + "object/new:_io.BytesIO", _file_body)
_Loader.add_constructor(_PYTHON + "object/apply:builtins.iter", _iterator_body)
_Dumper.add_representer(str, _dump_text)
_Dumper.add_representer(list, _dump_list)
_MEANINGS = Meanings(_Loader(""))
