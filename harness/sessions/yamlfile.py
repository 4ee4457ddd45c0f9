"""YAML as this project reads and writes it: safe to load, pleasant to read.

Loading builds plain data only. A few tags that stock vcrpy writes are understood; any other
tag is refused. Dumping keeps Chinese as Chinese, and text with line breaks as a block.
"""

from __future__ import annotations

from typing import Any

import yaml

from harness.sessions.errors import SessionFormatError

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # PyYAML built without libyaml: the same, slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

_MAX_NODES = 2_000_000  # a small file whose aliases multiply would exhaust memory later
_MAX_NUMBER = 400  # characters; base-60 numbers (`1:59:59`) take quadratic time, then overflow
_WIDTH = 100
_BREAKS_YAML_CHANGES = ("\x85", "\u2028", "\u2029", "\ufeff")


class _Loader(_SafeLoader):
    """A safe loader that knows the plain-data tags of stock vcrpy, and wants each key once."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            self._refuse_repeated_keys(node)
        return mapping

    def _refuse_repeated_keys(self, node: yaml.MappingNode) -> None:
        """Of two blocks that a merge left, none may win; keys of `<<` are there to be replaced."""
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not node.start_mark.index <= key_node.start_mark.index < node.end_mark.index:
                continue  # it came with `<<`
            key, line = self.construct_object(key_node, deep=True), key_node.start_mark.line + 1
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
        SessionFormatError: no YAML, an unknown tag, a key that is there twice, or aliases that
            multiply beyond measure.
    """
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:
        raise SessionFormatError(f"expected a YAML file of plain data: {error}") from error
    if "&" in text:  # without an anchor there is no alias
        _check_size(data)
    return data


def dump_yaml(data: Any) -> str:
    """Write plain data as YAML, keys in their order."""
    return yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=_WIDTH)


def _check_size(data: Any) -> None:
    """Count what a document unfolds to, looking at every shared part once."""
    too_many = _MAX_NODES + 1
    sizes: dict[int, int] = {}
    stack = [data] if _is_part(data) else []
    while stack:
        node = stack[-1]
        inside = node.values() if isinstance(node, dict) else node
        if id(node) not in sizes:
            sizes[id(node)] = too_many  # until it is counted: what holds itself has no end
            stack += [each for each in inside if _is_part(each) and id(each) not in sizes]
            continue
        stack.pop()
        if sizes[id(node)] == too_many:
            sizes[id(node)] = min(too_many, 1 + sum(sizes.get(id(each), 1) for each in inside))
    if sizes.get(id(data)) == too_many:
        raise SessionFormatError(
            f"the file unfolds to more than {_MAX_NODES:,} values: its aliases multiply"
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
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _dump_list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.SequenceNode:
    numbers = bool(items) and all(isinstance(each, int | float) for each in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)


_TAG = "tag:yaml.org,2002:"
_PYTHON = f"{_TAG}python/"
_Loader.add_constructor(f"{_TAG}int", _number(_Loader.construct_yaml_int))
_Loader.add_constructor(f"{_TAG}float", _number(_Loader.construct_yaml_float))
_Loader.add_constructor(_PYTHON + "str", _text)
_Loader.add_constructor(_PYTHON + "unicode", _text)
_Loader.add_constructor(_PYTHON + "tuple", _tuple)
_Loader.add_constructor(_PYTHON + "object/new:_io.BytesIO", _file_body)
_Loader.add_constructor(_PYTHON + "object/apply:builtins.iter", _iterator_body)
_Dumper.add_representer(str, _dump_text)
_Dumper.add_representer(list, _dump_list)
