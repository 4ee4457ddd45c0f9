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
_WIDTH = 100
_BREAKS_YAML_CHANGES = ("\x85", "\u2028", "\u2029", "\ufeff")


class _Loader(_SafeLoader):
    """A safe loader that also knows the plain-data tags of stock vcrpy."""


class _Dumper(yaml.SafeDumper):
    """The pure Python emitter: libyaml would escape emoji, and blocks with them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def load_yaml(text: str) -> Any:
    """Read one YAML (or JSON) document as plain data.

    Raises:
        SessionFormatError: no YAML, an unknown tag, or aliases that multiply beyond measure.
    """
    try:
        data = yaml.load(text, _Loader)  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SessionFormatError(f"expected a YAML file of plain data: {error}") from error
    _check_size(data)
    return data


def dump_yaml(data: Any) -> str:
    """Write plain data as YAML, keys in their order."""
    return yaml.dump(data, Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=_WIDTH)


def _check_size(data: Any) -> None:
    left, stack = _MAX_NODES, [data]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)
        left -= 1
        if left < 0 or len(stack) > _MAX_NODES:
            raise SessionFormatError(
                f"the file unfolds to more than {_MAX_NODES:,} values: its aliases multiply"
            )


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


_PYTHON = "tag:yaml.org,2002:python/"
_Loader.add_constructor(_PYTHON + "str", _text)
_Loader.add_constructor(_PYTHON + "unicode", _text)
_Loader.add_constructor(_PYTHON + "tuple", _tuple)
_Loader.add_constructor(_PYTHON + "object/new:_io.BytesIO", _file_body)
_Loader.add_constructor(_PYTHON + "object/apply:builtins.iter", _iterator_body)
_Dumper.add_representer(str, _dump_text)
_Dumper.add_representer(list, _dump_list)
