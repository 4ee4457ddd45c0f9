"""The examples in docstrings do what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "agent_core.agent",
        "agent_core.catalogue",
        "agent_core.longterm",
        "agent_core.models.router",
        "agent_core.resume",
    ],
)
def test_examples_run(module: str) -> None:
    """Every example gives what stands under it."""
    failed, tried = doctest.testmod(import_module(module))
    assert tried > 0
    assert failed == 0
