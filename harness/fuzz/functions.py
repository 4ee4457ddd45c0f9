"""Find the plain functions that the smaller campaigns ask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from harness.fuzz.targets import TargetError


def load_function(spec: str, parameters: int) -> Callable[..., Any]:
    """The function that `package.module:name` names; it must take so many arguments.

    Raises:
        TargetError: there is no such function.
    """
    module, _, name = spec.partition(":")
    try:
        found = getattr(import_module(module), name)
        inspect.signature(found).bind(*range(parameters))
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise TargetError(
            f"expected package.module:function with {parameters} arguments, got {spec!r}: {error}"
        ) from error
    assert callable(found)
    return found  # type: ignore[no-any-return]
