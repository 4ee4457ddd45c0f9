"""Plain data straight from the events of a YAML loader.

A safe loader makes a tree of nodes and then the data of it, and the tree takes most of the time.
Nearly every file needs none: lists and mappings hold text, and here and there a number. What is
rarer (a merge key, a mapping with a tag, a key that is there twice, a list that holds itself) is
left to the safe loader, whose rules also decide what a scalar stands for.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

MAX_DEPTH: Final = 200  # lists and mappings inside each other
_SHORT = 40  # characters
_MANY = 4096

_STARTS = frozenset({yaml.SequenceStartEvent, yaml.MappingStartEvent})
_ENDS = frozenset({yaml.SequenceEndEvent, yaml.MappingEndEvent})


class NotPlain(ValueError):
    """The document holds what only a safe loader reads, or refuses."""


class Meanings(dict[str, Any]):
    """What scalars without quotes stand for: `no`, `1_000`, `2026-11-30`, most often themselves.

    Names of keys and small numbers come again, also in the next file: they are resolved once.
    """

    def __init__(self, loader: Any) -> None:
        """Take the rules from a safe loader."""
        self._loader = loader

    def __missing__(self, text: str) -> Any:
        value = self._resolved(text)
        if len(text) <= _SHORT:
            if len(self) >= _MANY:
                self.clear()
            self[text] = value
        return value

    def _resolved(self, text: str) -> Any:
        for tag, rule in self._loader.yaml_implicit_resolvers.get(text[:1], ()):
            if rule.match(text):
                construct = self._loader.yaml_constructors[tag]
                return construct(self._loader, yaml.ScalarNode(tag, text))
        return text


def read_events(loader: Any, meanings: Meanings) -> tuple[Any, bool]:
    """Read the one document that a fresh safe loader was given.

    Returns:
        The data, and whether parts of it may be there more than once, by aliases.

    Raises:
        NotPlain: a safe loader has to read it; so it has to after any other error.
    """
    anchors: dict[str, Any] = {}
    items: list[Any] = []  # of the innermost list; of a mapping its keys and values in turn
    outer: list[tuple[list[Any], str | None]] = []  # what holds it, and its own anchor
    while (kind := type(event := loader.get_event())) is not yaml.StreamEndEvent:
        if kind is yaml.ScalarEvent:
            value, anchor = event.value, event.anchor
            if event.tag is not None:
                value = loader.construct_document(yaml.ScalarNode(event.tag, value))
            elif event.implicit[0]:
                value = meanings[value]
        elif kind in _STARTS:
            if event.tag is not None or len(outer) == MAX_DEPTH:
                raise NotPlain
            outer.append((items, event.anchor))
            items = []
            continue
        elif kind in _ENDS:
            value = items if kind is yaml.SequenceEndEvent else _mapping(items)
            items, anchor = outer.pop()
        elif kind is yaml.AliasEvent:
            value, anchor = anchors[event.anchor], None
        else:
            continue  # the stream or a document begins or ends
        if anchor is not None:
            if anchor in anchors:
                raise NotPlain
            anchors[anchor] = value
        items.append(value)
    if len(items) > 1:
        raise NotPlain
    return items[0] if items else None, bool(anchors)


def _mapping(items: list[Any]) -> dict[Any, Any]:
    each = iter(items)
    mapping = dict(zip(each, each, strict=True))
    if 2 * len(mapping) != len(items):
        raise NotPlain
    return mapping
